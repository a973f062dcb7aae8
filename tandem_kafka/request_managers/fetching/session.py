"""Incremental fetch sessions (KIP-227), in which a broker remembers the fetched partitions.

The first request of a session is full: it names every partition, and the response has a session
id. Each later request only names changes. After any error, the next request is full again, which
is always correct.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from tandem_kafka.dataclass import dataclass
from tandem_kafka.types import TopicPartition

NO_SESSION = 0
FULL_EPOCH = 0
#: Ends a session; also the epoch of a request without a session.
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1

SESSION_ID_NOT_FOUND = 70

#: Names of former topics that are kept beside as many as there are partitions, so that they need
#: not be looked through for each request.
_NAMES_TO_SPARE = 16


@dataclass(frozen=True)
class FetchTarget:
    """The parameters of one partition in a fetch."""

    topic_id: UUID
    offset: int
    leader_epoch: int
    max_bytes: int


@dataclass(frozen=True)
class SessionRequest:
    """The part of a fetch request that depends on the session."""

    session_id: int
    epoch: int
    to_send: Mapping[TopicPartition, FetchTarget]
    forgotten: tuple[tuple[TopicPartition, UUID], ...]


class FetchSession:
    """The client's side of one session."""

    def __init__(self, *, incremental: bool) -> None:
        self._incremental = incremental
        self._id = NO_SESSION
        self._epoch = FULL_EPOCH if incremental else FINAL_EPOCH
        # Partitions to fetch; those of them not sent to the broker yet; those it must forget.
        self._partitions: dict[TopicPartition, FetchTarget] = {}
        self._unsent: dict[TopicPartition, FetchTarget] = {}
        self._forgotten: dict[tuple[TopicPartition, UUID], None] = {}
        self._names: dict[UUID, str] = {}

    @property
    def open(self) -> bool:
        """True if the broker has a session for this client."""
        return self._id != NO_SESSION

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name under which a topic id was requested."""
        return self._names.get(topic_id)

    def include(self, tp: TopicPartition, target: FetchTarget) -> None:
        """Fetch a partition at `target`, after the others, so that it cannot starve them."""
        known = self._partitions.get(tp)
        if known == target:
            return
        if known is not None:
            del self._partitions[tp]
            if known.topic_id != target.topic_id:
                self._forgotten[tp, known.topic_id] = None
        self._partitions[tp] = self._unsent[tp] = target
        # It may return before the request to forget it was sent.
        self._forgotten.pop((tp, target.topic_id), None)
        self._names[target.topic_id] = tp.topic

    def exclude(self, tp: TopicPartition) -> None:
        """Stop fetching a partition."""
        target = self._partitions.pop(tp)
        self._unsent.pop(tp, None)
        self._forgotten[tp, target.topic_id] = None

    def build(self) -> SessionRequest:
        """Return the session's part of the next request."""
        if len(self._names) > 2 * len(self._partitions) + _NAMES_TO_SPARE:
            included = {target.topic_id for target in self._partitions.values()}
            self._names = {key: name for key, name in self._names.items() if key in included}
        if self._epoch in (FULL_EPOCH, FINAL_EPOCH):
            request = SessionRequest(self._id, self._epoch, dict(self._partitions), ())
        else:
            forgotten = tuple(self._forgotten)
            request = SessionRequest(self._id, self._epoch, self._unsent, forgotten)
        self._unsent = {}
        self._forgotten = {}
        return request

    @property
    def id(self) -> int:
        """The id of the session; 0 without one."""
        return self._id

    @property
    def epoch(self) -> int:
        """The epoch of the next request, or of the one in flight."""
        return self._epoch

    def target(self, tp: TopicPartition) -> FetchTarget:
        """Return the parameters of an included partition."""
        return self._partitions[tp]

    def repeated(self, epoch: int, targets: Mapping[TopicPartition, FetchTarget]) -> None:
        """Take over what a standing fetch has requested, up to the request in flight."""
        self._epoch = epoch
        for tp, target in targets.items():
            del self._partitions[tp]
            self._partitions[tp] = target

    def handle_response(self, session_id: int, error_code: int) -> bool:
        """Process the session fields of a response; return False if the response has no data."""
        if error_code:
            if error_code == SESSION_ID_NOT_FOUND:
                self._id = NO_SESSION
            self.restart()
            return False
        if not self._incremental:
            return True
        if self._epoch == FULL_EPOCH:
            self._id = session_id
            # A broker without room for another session returns none: the next request is full too.
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
