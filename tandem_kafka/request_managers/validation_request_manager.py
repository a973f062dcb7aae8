"""Detects whether the log was truncated below a position (KIP-320).

When a partition's leader or leader epoch changes, the consumer asks the new leader where the epoch
of the last read record ends in its log. An end before the position means that an unclean leader
election lost records. The position then moves back, or `LogTruncationError` is raised if
`auto_offset_reset` is "none". An end before what was fetched in advance lets that be fetched again.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Any

from tandem_kafka.errors import (
    LogTruncationError,
    UnsupportedVersionError,
)
from tandem_kafka.logs import client_logger
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.request import ClientResponse, ToNode, UnsentRequest
from tandem_kafka.request_managers.base import IDLE, PollResult, RequestManager, RequestState
from tandem_kafka.request_managers.context import ManagerContext, due_for_retry
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.request_managers.positions_request_manager import PositionsRequestManager
from tandem_kafka.request_managers.reactions import LIST_OFFSETS, Reaction, reaction_to
from tandem_kafka.request_managers.recreated import RecreatedTopics
from tandem_kafka.state.partition import AssignedPartition, FetchState, Position
from tandem_kafka.types import (
    UNKNOWN_EPOCH,
    UNKNOWN_OFFSET,
    Node,
    OffsetAndMetadata,
    TopicPartition,
    epoch_of,
)
from tandem_kafka.wire.messages import OffsetForLeaderEpochRequest
from tandem_kafka.wire.topic_partitions import by_topic, error_of, requested_entries

log = client_logger(__name__)

CONSUMER_REPLICA = -1
#: Before version 3, this request needs cluster permissions.
FIRST_VERSION = 3


#: The positions in doubt that a request validates.
Requested = Mapping[TopicPartition, tuple[AssignedPartition, Position]]


class ValidationRequestManager(RequestManager):
    """Watches leaders, and validates positions after a change of leader."""

    def __init__(
        self,
        context: ManagerContext,
        metadata: MetadataRefresher,
        positions: PositionsRequestManager,
    ) -> None:
        self._context = context
        self._metadata = metadata
        self._positions = positions
        self._seen_versions = (-1, -1)
        #: By leader, so that an unresponsive one does not delay others.
        self._states: dict[int, RequestState] = {}
        self._unsupported = False
        #: Truncated partitions without a reset policy; validated again after the next poll().
        self._reported: set[AssignedPartition] = set()
        #: The truncated positions that were logged.
        self._logged: dict[AssignedPartition, Position] = {}
        self._recreated = RecreatedTopics(context, metadata, positions)

    def application_polled(self) -> None:
        """Validate reported partitions again, so that poll() repeats their errors."""
        self._reported.clear()

    def poll(self, now_ms: int) -> PollResult:
        """Detect changed leaders, then validate the positions in doubt."""
        self._follow_metadata()
        without_position = self._context.subscription.without_position()
        if not without_position:
            return IDLE
        in_doubt = [
            state
            for state in without_position
            if state.state is FetchState.AWAIT_VALIDATION
            and state not in self._reported
            and not self._recreated.doubts(state)
        ]
        due, wait_ms = due_for_retry(in_doubt, now_ms)
        if not due:
            return PollResult(wait_ms=wait_ms)
        if self._unsupported:
            for state in due:
                state.validated()
            return IDLE
        unsent, others_ms = self._send_requests(due, now_ms)
        return PollResult(unsent, min(wait_ms, others_ms))

    def _follow_metadata(self) -> None:
        subscription, snapshot = self._context.subscription, self._context.metadata.snapshot
        seen = (snapshot.version, subscription.version)
        if seen != self._seen_versions:
            self._seen_versions = seen
            self._recreated.check()
            self._follow_leaders()

    def _follow_leaders(self) -> None:
        subscription, snapshot = self._context.subscription, self._context.metadata.snapshot
        for state in subscription.assigned.values():
            info = snapshot.partition(state.tp)
            position = state.position
            if info is None or position is None:
                continue
            if (state.leader_id, state.leader_epoch) == (info.leader_id, info.leader_epoch):
                continue
            state.leader_id, state.leader_epoch = info.leader_id, info.leader_epoch
            state.preferred_replica = None
            state.leader_moved(self._context.clock.now_ms())
            if UNKNOWN_EPOCH not in (position.leader_epoch, info.leader_epoch):
                state.await_validation()

    # --- the request ---------------------------------------------------------------------------

    def _send_requests(self, in_doubt: list[AssignedPartition], now_ms: int) -> PollResult:
        snapshot = self._context.metadata.snapshot
        by_leader: dict[Node | None, list[AssignedPartition]] = defaultdict(list)
        for state in in_doubt:
            by_leader[snapshot.leader(state.tp)].append(state)
        unsent = []
        wait_ms = FOREVER_MS
        for leader, states in by_leader.items():
            request_state = self._state_of(leader)
            if request_state.can_send(now_ms):
                if leader is not None:
                    unsent.append(self._request(leader, states, request_state))
                    continue
                self._metadata.request_update()
                request_state.failed(now_ms)
            wait_ms = min(wait_ms, request_state.wait_ms(now_ms))
        return PollResult(tuple(unsent), wait_ms)

    def _state_of(self, leader: Node | None) -> RequestState:
        node_id = -1 if leader is None else leader.node_id
        if node_id not in self._states:
            self._states[node_id] = self._context.request_state()
        return self._states[node_id]

    def _request(
        self, leader: Node, states: list[AssignedPartition], request_state: RequestState
    ) -> UnsentRequest:
        requested = {s.tp: (s, s.position) for s in states if s.position is not None}
        topic_entry = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        entries = by_topic(
            requested,
            lambda tp, each: topic_entry.OffsetForLeaderPartition(
                partition=tp.partition,
                current_leader_epoch=each[0].leader_epoch,
                leader_epoch=each[1].leader_epoch,
            ),
        )
        message = OffsetForLeaderEpochRequest(
            replica_id=CONSUMER_REPLICA,
            topics=[topic_entry(topic=name, partitions=ps) for name, ps in entries.items()],
            min_version=FIRST_VERSION,
        )
        return self._context.request(
            message,
            ToNode(leader),
            on_response=partial(self._handle_response, requested),
            on_error=partial(self._handle_error, requested),
            state=request_state,
        )

    # --- the response --------------------------------------------------------------------------

    def _handle_response(self, requested: Requested, response: ClientResponse) -> None:
        truncated: dict[TopicPartition, OffsetAndMetadata | None] = {}
        errors: list[Exception] = []
        entries = requested_entries(response.message.topics, requested)
        for tp, (state, position) in requested.items():
            if not self._is_pending(state, position):
                continue
            if error := error_of({tp: entries[tp]} if tp in entries else {}, [tp]):
                errors.append(error)
            else:
                self._validated(state, position, entries[tp], truncated)
        if truncated:
            error = LogTruncationError(truncated)
            self._context.raise_in_poll(error, [requested[tp] for tp in truncated])
        for further in errors[1:]:
            self._handle_error(requested, further)
        if errors:
            raise errors[0]

    def _handle_error(self, requested: Requested, error: Exception) -> None:
        if isinstance(error, UnsupportedVersionError):
            self._unsupported = True  # an old broker: accept new leaders without validation
        elif reaction_to(LIST_OFFSETS, error) is Reaction.FAIL:
            self._context.raise_in_poll(error, requested.values())
        else:
            self._metadata.request_update()

    def _is_pending(self, state: AssignedPartition, position: Position) -> bool:
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
            if entry.end_offset >= state.read_ahead:
                state.validated()
                return
            if entry.end_offset >= position.offset:
                self._await_drop(state)
                return
            diverged = OffsetAndMetadata(entry.end_offset, "", entry.leader_epoch)
        self._truncated(state, position, diverged, truncated)

    def _await_drop(self, state: AssignedPartition) -> None:
        """Let the application drop what was fetched in advance, which the log may have lost.

        Where it has a later epoch than the position, it may also be intact. It is fetched again.

        Invariant: not dropped here. The position becomes the new base, and the application may be
        moving it. The next poll() has it dropped before it collects records; until then nothing is
        fetched, and then the position is validated again.
        """
        state.await_drop()
        subscription = self._context.subscription
        subscription.awaiting_drop = frozenset({*subscription.to_fetch_again(), state.tp})
        self._context.polls.request_attention()

    def _truncated(
        self,
        state: AssignedPartition,
        position: Position,
        diverged: OffsetAndMetadata | None,
        truncated: dict[TopicPartition, OffsetAndMetadata | None],
    ) -> None:
        tp, again = state.tp, self._logged.get(state) is position
        known = {s: at for s, at in self._logged.items() if self._context.subscription.has(s)}
        self._logged = {**known, state: position}
        reports = self._context.config.offset_reset.kind == "none"
        self._context.retry_later(state, at_once_first=not reports)
        log.log(
            logging.DEBUG if again else logging.WARNING,
            "the log of %s-%d was truncated below the position %d after a leader election; %s",
            tp.topic,
            tp.partition,
            position.offset,
            "its end is unknown" if diverged is None else f"it ends at {diverged.offset}",
            fields={"topic": tp.topic, "partition": tp.partition, "offset": position.offset},
        )
        if reports:
            self._reported.add(state)
            truncated[tp] = diverged
        elif diverged is None:
            self._positions.apply_reset_policy([state])
            self._positions.start_lookups()
        else:
            state.set_position(Position(diverged.offset, epoch_of(diverged)))
