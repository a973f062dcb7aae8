"""Detects topics that were deleted and recreated with the same name.

A position of the old topic is not valid in the new one. If the new topic has grown far enough, its
first records would be skipped, and a commit would make other members skip them too. The position is
therefore dropped, and the reset policy is applied as if it were out of range.

The policy may skip records, and a topic id may be corrupted in transit. Therefore a second metadata
response must have the same new id. Until then, the partition is not fetched.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from tandem_kafka.dataclass import dataclass
from tandem_kafka.errors import PositionOutOfRangeError
from tandem_kafka.logs import client_logger
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.request_managers.positions_request_manager import PositionsRequestManager
from tandem_kafka.state.fetch_buffer import CompletedFetch
from tandem_kafka.state.partition import AssignedPartition, FetchState, Position
from tandem_kafka.types import NO_TOPIC_ID, UNKNOWN_EPOCH

log = client_logger(__name__)


@dataclass(frozen=True)
class _Doubt:
    """A position that may belong to a deleted topic.

    Attributes:
        base: The base of the position.
        topic_id: The new topic id.
        responses: The number of metadata responses when the new id was first seen.
        valid_in: The leader epoch in which the position was valid before; None if it was in doubt.
        reported: Whether the user has been notified and must seek, because there is no reset
            policy.
    """

    base: Position
    topic_id: UUID
    responses: int
    valid_in: int | None
    reported: bool = False


class RecreatedTopics:
    """Compares the topic ids of positions with the metadata."""

    def __init__(
        self,
        context: ManagerContext,
        metadata: MetadataRefresher,
        positions: PositionsRequestManager,
    ) -> None:
        self._context = context
        self._metadata = metadata
        self._positions = positions
        self._doubts: dict[AssignedPartition, _Doubt] = {}
        self._cluster_id: str | None = None

    def doubts(self, state: AssignedPartition) -> bool:
        """Tell whether a position may belong to a deleted topic."""
        doubt = self._doubts.get(state)
        return doubt is not None and doubt.base is state.base

    def check(self) -> None:
        """Check every position; called when the metadata or the assignment has changed."""
        self._check_cluster()
        before, self._doubts = self._doubts, {}
        dropped = []
        for state in self._context.subscription.assigned.values():
            known = self._context.metadata.snapshot.topic_id(state.tp.topic)
            doubt = self._doubt(state, known, before.get(state))
            if doubt is None:
                continue
            self._doubts[state] = doubt
            again = known == doubt.topic_id and self._context.metadata.responses > doubt.responses
            if again and not doubt.reported:
                dropped.append(state)
        if dropped:
            self._drop(dropped)

    def _check_cluster(self) -> None:
        """Accept new topic ids after a rebootstrap to another cluster (KIP-899)."""
        known = self._context.metadata.snapshot.cluster_id
        if known is None or known == self._cluster_id:
            return
        if self._cluster_id is not None:
            for state in self._context.subscription.assigned.values():
                state.topic_id = NO_TOPIC_ID
        self._cluster_id = known

    def _doubt(self, state: AssignedPartition, known: UUID, before: _Doubt | None) -> _Doubt | None:
        """Return the doubt about a position, or None if it can be used."""
        base, position = state.base, state.position
        if base is None or position is None:
            return None
        same = before is not None and before.base is base
        if known == NO_TOPIC_ID:
            return before if same else None
        if state.topic_id in (NO_TOPIC_ID, known):
            if state.topic_id != known:
                state.topic_id = known
                self._context.subscription.changes.note(state)
            if before is not None and same and state.state is FetchState.AWAIT_VALIDATION:
                self._withdraw(before, state, position)
            return None
        if before is not None and same and before.topic_id == known:
            return before
        valid_in = state.leader_epoch if state.state is FetchState.FETCHING else None
        if before is not None and same:
            valid_in = before.valid_in
        state.await_validation()
        self._metadata.request_update()
        return _Doubt(base, known, self._context.metadata.responses, valid_in)

    def _withdraw(self, doubt: _Doubt, state: AssignedPartition, position: Position) -> None:
        """Use a position again; the response with another topic id was stale.

        Invariant: one that a leader must validate is still in doubt. Otherwise, what was fetched in
        advance is returned, though an election may have lost it.
        """
        asks = UNKNOWN_EPOCH not in (position.leader_epoch, state.leader_epoch)
        if not (asks and doubt.valid_in != state.leader_epoch):
            state.validated()  # a changed leader is detected next

    def _drop(self, states: list[AssignedPartition]) -> None:
        """Reset positions of deleted topics.

        Invariant: all of them are dropped before any topic id changes; see `Commits`.
        """
        for state in states:
            doubt = self._doubts.pop(state)
            tp = state.tp
            log.warning(
                "topic %s was deleted and recreated; the position of partition %d is dropped, "
                "and auto_offset_reset applies",
                tp.topic,
                tp.partition,
                fields={"topic": tp.topic, "partition": tp.partition},
            )
            position = state.position
            if self._positions.apply_reset_policy([state]) and position is not None:
                self._doubts[state] = replace(doubt, reported=True)
                error = PositionOutOfRangeError({tp: position.offset})
                self._context.buffer.add(
                    CompletedFetch(state, doubt.base, error=error, sticky=True)
                )
                state.validated()  # the buffered error prevents fetches until a seek
        for state in states:
            if state.base is None:
                state.topic_id = self._context.metadata.snapshot.topic_id(state.tp.topic)
        self._positions.start_lookups()
