"""The fetch sessions of a broker (KIP-227)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kafka import errors


@dataclass(slots=True)
class Wanted:
    """One partition of a session."""

    topic: str
    topic_id: Any
    partition: int
    offset: int
    epoch: int
    max_bytes: int


Key = tuple[str, int]


@dataclass(slots=True)
class _Session:
    epoch: int = 1
    partitions: dict[Key, Wanted] = field(default_factory=dict)


class FetchSessions:
    """Sessions by id."""

    def __init__(self) -> None:
        self._sessions: dict[int, _Session] = {}
        self._ids = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def clear(self) -> None:
        """Forget all sessions, as a restart does."""
        self._sessions.clear()

    def drop(self, session_id: int) -> None:
        """Forget a session, if it exists."""
        self._sessions.pop(session_id, None)

    def open(
        self, request: Any, named: dict[Key, Wanted]
    ) -> tuple[int, dict[Key, Wanted], type[Exception] | None]:
        """Return the id of the session and its partitions, or the error for the response."""
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in {0, -1}:
            self._sessions.pop(session_id, None)
            if epoch == -1:
                return 0, named, None
            self._ids += 1
            self._sessions[self._ids] = _Session(partitions=dict(named))
            return self._ids, dict(named), None
        session = self._sessions.get(session_id)
        if session is None:
            return 0, {}, errors.FetchSessionIdNotFoundError
        if epoch != session.epoch:
            return 0, {}, errors.InvalidFetchSessionEpochError
        session.epoch += 1
        session.partitions.update(named)
        for topic in request.forgotten_topics_data or ():
            for number in topic.partitions:
                gone = [
                    key
                    for key, wanted in session.partitions.items()
                    if wanted.partition == number
                    and (wanted.topic == topic.topic or wanted.topic_id == topic.topic_id)
                    and key not in named
                ]
                for key in gone:
                    del session.partitions[key]
        return session_id, dict(session.partitions), None
