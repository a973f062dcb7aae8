"""Finds out that a topic was deleted and another one was made of the same name.

A position of the old topic says nothing of the new one: read from there, its first records would
be left out where it has grown far enough, and committed, they would be left out by others too. So
the position is dropped, and the reset policy says where to begin, as for one that is out of range.

Nothing protects the id of a topic on its way, and the policy may skip records: a second answer has
to give the same id. In between nothing is fetched.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from uuid import UUID

from tandem_kafka.errors import OffsetOutOfRangeError
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.request_managers.position_manager import PositionsManager
from tandem_kafka.shared.fetch_buffer import FetchedChunk
from tandem_kafka.shared.metadata import NO_TOPIC_ID
from tandem_kafka.shared.partition import AssignedPartition, FetchState, Position

__all__ = ["RecreatedTopics"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Doubt:
    """A position that may be of another topic than the one of that name now.

    Attributes:
        responses: How many metadata responses there had been when the other id was first seen.
        reported: The user has been told, and has to seek: there is no reset policy.
    """

    base: Position
    topic_id: UUID
    responses: int
    reported: bool = False


class RecreatedTopics:
    """Compares the topics that positions are of with the metadata."""

    def __init__(
        self, context: ManagerContext, metadata: MetadataRefresher, positions: PositionsManager
    ) -> None:
        self._context = context
        self._metadata = metadata
        self._positions = positions
        self._doubts: dict[AssignedPartition, _Doubt] = {}
        self._cluster_id: str | None = None

    def doubts(self, state: AssignedPartition) -> bool:
        """Tell whether a position may be of a topic that there is no more."""
        doubt = self._doubts.get(state)
        return doubt is not None and doubt.base is state.base

    def check(self) -> None:
        """Look at every position; called when metadata or the assignment have changed."""
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
        """Another cluster (KIP-899) has other ids, and its topics stand in for these."""
        known = self._context.metadata.snapshot.cluster_id
        if known is None or known == self._cluster_id:
            return
        if self._cluster_id is not None:
            for state in self._context.subscription.assigned.values():
                state.topic_id = NO_TOPIC_ID
        self._cluster_id = known

    def _doubt(self, state: AssignedPartition, known: UUID, before: _Doubt | None) -> _Doubt | None:
        """Return why a position cannot be used now; None if it can."""
        base = state.base
        if base is None:
            return None
        same = before is not None and before.base is base
        if known == NO_TOPIC_ID:
            return before if same else None
        if state.topic_id in (NO_TOPIC_ID, known):
            state.topic_id = known
            if same and state.state is FetchState.AWAIT_VALIDATION:
                state.validated()  # a leader that has changed meanwhile is followed next
            return None
        if before is not None and same and before.topic_id == known:
            return before
        state.await_validation()
        self._metadata.request_update()
        return _Doubt(base, known, self._context.metadata.responses)

    def _drop(self, states: list[AssignedPartition]) -> None:
        """Begin anew; every position goes before the first topic id changes."""
        for state in states:
            doubt = self._doubts.pop(state)
            tp = state.tp
            log.warning("%s-%d is of a topic that was made anew", tp.topic, tp.partition)
            position = state.position
            if self._positions.apply_reset_policy([state]) and position is not None:
                self._doubts[state] = _Doubt(
                    doubt.base, doubt.topic_id, doubt.responses, reported=True
                )
                error = OffsetOutOfRangeError({tp: position.offset})
                self._context.buffer.add(FetchedChunk(state, doubt.base, error=error, sticky=True))
                state.validated()  # the error has its turn, and stops fetches until a seek
        for state in states:
            if state.base is None:
                state.topic_id = self._context.metadata.snapshot.topic_id(state.tp.topic)
        self._positions.start_lookups()
