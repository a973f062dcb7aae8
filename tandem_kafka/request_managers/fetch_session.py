"""Incremental fetch sessions (KIP-227): what a broker remembers of our fetches.

The first request of a session is full and names every partition; the broker answers with a
session id. From then on a request names only what changed. Anything that goes wrong falls back
to a full request, which is always right.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from tandem_kafka.errors import for_code
from tandem_kafka.types import TopicPartition

__all__ = ["FINAL_EPOCH", "FetchSession", "FetchTarget", "SessionRequest"]

log = logging.getLogger(__name__)

NO_SESSION = 0
FULL_EPOCH = 0
#: Ends a session; also what a request without one carries.
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1

SESSION_ID_NOT_FOUND = 70


@dataclass(frozen=True, slots=True)
class FetchTarget:
    """What is asked of one partition."""

    topic_id: UUID
    offset: int
    leader_epoch: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """The session's part of a fetch request."""

    session_id: int
    epoch: int
    to_send: Mapping[TopicPartition, FetchTarget]
    forgotten: tuple[tuple[TopicPartition, UUID], ...]


class FetchSession:
    """Our side of one session."""

    def __init__(self, *, incremental: bool) -> None:
        self._incremental = incremental
        self._id = NO_SESSION
        self._epoch = FULL_EPOCH if incremental else FINAL_EPOCH
        self._partitions: dict[TopicPartition, FetchTarget] = {}
        self._names: dict[UUID, str] = {}

    @property
    def open(self) -> bool:
        """True when the broker keeps a session for us."""
        return self._id != NO_SESSION

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name under which a topic id was asked for."""
        return self._names.get(topic_id)

    def build(self, wanted: Mapping[TopicPartition, FetchTarget]) -> SessionRequest:
        """Say what the next request must carry so that exactly `wanted` is fetched."""
        for tp, target in wanted.items():
            self._names[target.topic_id] = tp.topic
        if self._epoch in (FULL_EPOCH, FINAL_EPOCH):
            self._partitions = dict(wanted)
            return SessionRequest(self._id, self._epoch, wanted, ())
        known = self._partitions
        to_send = {tp: target for tp, target in wanted.items() if known.get(tp) != target}
        forgotten = tuple(
            (tp, target.topic_id)
            for tp, target in known.items()
            if tp not in wanted or wanted[tp].topic_id != target.topic_id
        )
        for tp, _ in forgotten:
            del known[tp]
        known.update(to_send)
        return SessionRequest(self._id, self._epoch, to_send, forgotten)

    def answered(self, session_id: int, error_code: int) -> bool:
        """Take in a response's session fields; False if the response carries no data."""
        if error_code:
            log.info("fetch session %d: %s; starting over", self._id, for_code(error_code).__name__)
            if error_code == SESSION_ID_NOT_FOUND:
                self._id = NO_SESSION
            self._restart()
            return False
        if not self._incremental:
            return True
        if self._epoch == FULL_EPOCH:
            self._id = session_id
            # A broker without room for one more session gives none: the next request is full too.
            self._epoch = FULL_EPOCH if session_id == NO_SESSION else 1
        else:
            self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1
        return True

    def failed(self) -> None:
        """A request got no answer: whether the broker saw it is not known."""
        self._restart()

    def close(self) -> SessionRequest:
        """Return the request that ends the session."""
        request = SessionRequest(self._id, FINAL_EPOCH, {}, ())
        self._id = NO_SESSION
        self._restart()
        return request

    def _restart(self) -> None:
        # With the old id in a full request the broker drops that session and opens a new one.
        self._partitions = {}
        self._names = {}
        if self._incremental:
            self._epoch = FULL_EPOCH
