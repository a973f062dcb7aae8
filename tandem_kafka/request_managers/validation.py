"""Finds out whether the log was truncated under a position (KIP-320).

When a partition's leader or leader epoch changes, the new leader is asked where the epoch of the
last record read ends in its log. An end before the position means that records were lost by an
unclean election: the position goes back, or `LogTruncationError` is raised where no reset policy
allows that.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tandem_kafka.errors import LogTruncationError, UnsupportedVersionError, for_code
from tandem_kafka.events.completable import Completion
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.request import ClientResponse, ToNode, UnsentRequest
from tandem_kafka.request_managers.base import IDLE, PollResult
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.request_managers.position_manager import PositionsManager
from tandem_kafka.request_managers.reactions import LIST_OFFSETS, Reaction, reaction_to
from tandem_kafka.shared.partition import AssignedPartition, FetchState, Position
from tandem_kafka.types import (
    UNKNOWN_EPOCH,
    UNKNOWN_OFFSET,
    Node,
    OffsetAndMetadata,
    TopicPartition,
)
from tandem_kafka.wire.messages import OffsetForLeaderEpochRequest

__all__ = ["ValidationManager"]

log = logging.getLogger(__name__)

CONSUMER_REPLICA = -1
#: Before version 3 a consumer needed cluster permissions to ask.
FIRST_VERSION = 3


class ValidationManager:
    """Watches leaders, and validates positions that a change of leader put in doubt."""

    def __init__(
        self, context: ManagerContext, metadata: MetadataRefresher, positions: PositionsManager
    ) -> None:
        self._context = context
        self._metadata = metadata
        self._positions = positions
        self._state = context.request_state()
        self._seen = (-1, -1)
        self._in_flight = 0
        #: An answer of this round was an error: its pause holds until the next round.
        self._failing = False
        self._unsupported = False
        #: Truncated, and no policy says where to go: asked again when the user polls again.
        self._stranded: set[AssignedPartition] = set()

    def want(self) -> None:
        """The user polls: raise again what is still in doubt."""
        self._stranded.clear()

    def poll(self, now_ms: int) -> PollResult:
        """Look for changed leaders, then ask about the positions in doubt."""
        self._follow_leaders()
        without_position = self._context.subscription.without_position()
        if not without_position:
            return IDLE
        doubtful = [
            state
            for state in without_position
            if state.state is FetchState.AWAIT_VALIDATION and state not in self._stranded
        ]
        if not doubtful or self._in_flight:
            return IDLE
        if self._unsupported:
            for state in doubtful:
                state.validated()
            return IDLE
        if not self._state.can_send(now_ms):
            return PollResult(wait_ms=self._state.wait_ms(now_ms))
        return self._ask(doubtful, now_ms)

    def close(self, now_ms: int) -> PollResult:  # noqa: ARG002 - the managers' interface
        """Nothing to say at the end."""
        return IDLE

    def _follow_leaders(self) -> None:
        subscription, snapshot = self._context.subscription, self._context.metadata.snapshot
        seen = (snapshot.version, subscription.version)
        if seen == self._seen:
            return
        self._seen = seen
        for state in subscription.assigned.values():
            info = snapshot.partition(state.tp)
            position = state.position
            if info is None or position is None:
                continue
            if (state.leader_id, state.leader_epoch) == (info.leader_id, info.leader_epoch):
                continue
            state.leader_id, state.leader_epoch = info.leader_id, info.leader_epoch
            state.preferred_replica = None
            if UNKNOWN_EPOCH not in (position.leader_epoch, info.leader_epoch):
                state.await_validation()

    # --- the request ---------------------------------------------------------------------------

    def _ask(self, doubtful: list[AssignedPartition], now_ms: int) -> PollResult:
        snapshot = self._context.metadata.snapshot
        by_leader: dict[Node, list[AssignedPartition]] = defaultdict(list)
        for state in doubtful:
            leader = snapshot.leader(state.tp)
            if leader is not None:
                by_leader[leader].append(state)
        if not by_leader:
            self._metadata.request_update()
            self._state.failed(now_ms)
            return PollResult(wait_ms=self._state.wait_ms(now_ms))
        unsent = tuple(self._request(leader, states) for leader, states in by_leader.items())
        self._in_flight = len(unsent)
        self._failing = False
        return PollResult(unsent, FOREVER_MS)

    def _request(self, leader: Node, states: list[AssignedPartition]) -> UnsentRequest:
        topic_entry = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        by_topic = defaultdict(list)
        asked: dict[TopicPartition, tuple[AssignedPartition, Position]] = {}
        for state in states:
            position = state.position
            if position is None:
                continue
            asked[state.tp] = (state, position)
            by_topic[state.tp.topic].append(
                topic_entry.OffsetForLeaderPartition(
                    partition=state.tp.partition,
                    current_leader_epoch=state.leader_epoch,
                    leader_epoch=position.leader_epoch,
                )
            )
        message = OffsetForLeaderEpochRequest(
            replica_id=CONSUMER_REPLICA,
            topics=[topic_entry(topic=name, partitions=ps) for name, ps in by_topic.items()],
            min_version=FIRST_VERSION,
        )
        request = self._context.request(message, ToNode(leader))
        request.future.then(lambda future: self._answered(asked, future))
        return request

    # --- the answer ----------------------------------------------------------------------------

    def _answered(
        self,
        asked: dict[TopicPartition, tuple[AssignedPartition, Position]],
        future: Completion[ClientResponse],
    ) -> None:
        self._in_flight -= 1
        if isinstance(future.error, UnsupportedVersionError):
            self._unsupported = True  # an old broker: adopt its leaders as they come
            return
        if future.error is not None:
            self._react(future.error)
            return
        truncated: dict[TopicPartition, OffsetAndMetadata | None] = {}
        for tp, entry in _entries(future.result().message):
            state, position = asked.get(tp, (None, None))
            if state is None or position is None or not self._still_asks(state, position):
                continue
            if entry.error_code:
                self._react(for_code(entry.error_code)(f"{tp.topic}-{tp.partition}"))
            else:
                self._validated(state, position, entry, truncated)
        if not self._in_flight and not self._failing:
            self._state.succeeded()
        if truncated:
            error = LogTruncationError(truncated)
            self._context.raise_in_poll(error, [asked[tp] for tp in truncated])

    def _still_asks(self, state: AssignedPartition, position: Position) -> bool:
        return (
            state.state is FetchState.AWAIT_VALIDATION
            and state.position is position
            and self._context.subscription.assigned.get(state.tp) is state
        )

    def _validated(
        self,
        state: AssignedPartition,
        position: Position,
        entry: Any,
        truncated: dict[TopicPartition, OffsetAndMetadata | None],
    ) -> None:
        diverged = None
        if UNKNOWN_OFFSET not in (entry.end_offset, entry.leader_epoch):
            if entry.end_offset >= position.offset:
                state.validated()
                return
            diverged = OffsetAndMetadata(entry.end_offset, "", entry.leader_epoch)
        self._truncated(state, position, diverged, truncated)

    def _truncated(
        self,
        state: AssignedPartition,
        position: Position,
        diverged: OffsetAndMetadata | None,
        truncated: dict[TopicPartition, OffsetAndMetadata | None],
    ) -> None:
        tp = state.tp
        log.warning(
            "%s-%d was truncated below our position %d: %s",
            tp.topic,
            tp.partition,
            position.offset,
            "where is not known" if diverged is None else f"it ends at {diverged.offset}",
        )
        if self._context.config.offset_reset.kind == "none":
            self._stranded.add(state)
            truncated[tp] = diverged
        elif diverged is None:
            self._positions.apply_reset_policy([state])
            self._positions.want()
        else:
            state.set_position(Position(diverged.offset, diverged.leader_epoch))

    def _react(self, error: BaseException) -> None:
        if not self._failing:
            self._failing = True
            self._state.failed(self._context.clock.now_ms())
        if reaction_to(LIST_OFFSETS, error) is Reaction.FAIL and isinstance(error, Exception):
            self._context.raise_in_poll(error)
        else:
            self._metadata.request_update()


def _entries(message: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for topic in message.topics:
        for entry in topic.partitions:
            yield TopicPartition(topic.topic, entry.partition), entry
