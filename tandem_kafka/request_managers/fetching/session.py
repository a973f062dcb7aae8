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
        # What is wanted; what of it the broker has not been told; what it is to forget.
        self._partitions: dict[TopicPartition, FetchTarget] = {}
        self._unsent: dict[TopicPartition, FetchTarget] = {}
        self._forgotten: dict[tuple[TopicPartition, UUID], None] = {}
        self._names: dict[UUID, str] = {}

    @property
    def open(self) -> bool:
        """True when the broker keeps a session for us."""
        return self._id != NO_SESSION

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name under which a topic id was asked for."""
        return self._names.get(topic_id)

    def include(self, tp: TopicPartition, target: FetchTarget) -> None:
        """Fetch a partition from here on; asked for last, so that it cannot starve the others."""
        known = self._partitions.get(tp)
        if known == target:
            return
        if known is not None:
            del self._partitions[tp]
            if known.topic_id != target.topic_id:
                self._forgotten[tp, known.topic_id] = None
        self._partitions[tp] = self._unsent[tp] = target
        # It may come back before the broker was told to forget it.
        self._forgotten.pop((tp, target.topic_id), None)
        self._names[target.topic_id] = tp.topic

    def exclude(self, tp: TopicPartition) -> None:
        """Fetch a partition no longer."""
        target = self._partitions.pop(tp)
        self._unsent.pop(tp, None)
        self._forgotten[tp, target.topic_id] = None

    def build(self) -> SessionRequest:
        """Say what the next request must carry so that exactly what is wanted is fetched."""
        if self._epoch in (FULL_EPOCH, FINAL_EPOCH):
            request = SessionRequest(self._id, self._epoch, dict(self._partitions), ())
        else:
            forgotten = tuple(self._forgotten)
            request = SessionRequest(self._id, self._epoch, self._unsent, forgotten)
        self._unsent = {}
        self._forgotten = {}
        return request

    def handle_response(self, session_id: int, error_code: int) -> bool:
        """Take in a response's session fields; False if the response carries no data."""
        if error_code:
            log.info("fetch session %d: %s; starting over", self._id, for_code(error_code).__name__)
            if error_code == SESSION_ID_NOT_FOUND:
                self._id = NO_SESSION
            self.restart()
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

    def restart(self) -> None:
        """Start over with a full request, because the broker may not have seen the last one.

        If it carries the old session id, the broker closes that session and opens a new one.
        """
        if self._incremental:
            self._epoch = FULL_EPOCH

    def close(self) -> SessionRequest:
        """Return the request that ends the session."""
        request = SessionRequest(self._id, FINAL_EPOCH, {}, ())
        self._id = NO_SESSION
        self.restart()
        return request
