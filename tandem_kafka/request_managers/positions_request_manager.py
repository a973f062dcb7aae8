"""Finds a position for every assigned partition: its committed offset, or by reset policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from tandem_kafka.errors import KafkaError, NoOffsetForPartitionError
from tandem_kafka.events.application import UpdatePositions
from tandem_kafka.events.completable import Completion
from tandem_kafka.logs import client_logger
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.request_managers.base import PollResult, RequestManager
from tandem_kafka.request_managers.context import ManagerContext, due_for_retry
from tandem_kafka.request_managers.offsets_request_manager import (
    EARLIEST,
    LATEST,
    OffsetsRequestManager,
)
from tandem_kafka.state.partition import (
    AssignedPartition,
    CommittedPosition,
    FetchState,
    Position,
)
from tandem_kafka.types import (
    NO_TOPIC_ID,
    UNKNOWN_EPOCH,
    OffsetAndTimestamp,
    TopicPartition,
    epoch_of,
    may_be_same_topic,
    names_of,
)

if TYPE_CHECKING:
    from tandem_kafka.request_managers.committed_offsets_request_manager import (
        Committed,
        CommittedOffsetsRequestManager,
    )

log = client_logger(__name__)


class PositionsRequestManager(RequestManager):
    """Starts lookups in other managers and applies their results; sends no requests itself.

    It works after a poll() or position() until every partition has a position, so that a loop of
    poll(0) makes progress. `assign()` alone starts no lookup.
    """

    def __init__(
        self,
        context: ManagerContext,
        list_offsets: OffsetsRequestManager,
        committed: CommittedOffsetsRequestManager | None,
    ) -> None:
        self._context = context
        self._list_offsets = list_offsets
        self._committed = committed
        self._lookup_needed = False
        self._waiting: list[UpdatePositions] = []
        #: Partitions with a running lookup of their committed offsets.
        self._committed_lookups: set[AssignedPartition] = set()
        #: Why partitions have no position yet, for the errors of calls that wait for one.
        self._errors: dict[TopicPartition, Exception] = {}
        #: Timestamps of the running resets.
        self._resetting: dict[AssignedPartition, int] = {}

    # --- calls ---------------------------------------------------------------------------------

    def start_lookups(self) -> None:
        """Look up missing positions from now on."""
        self._lookup_needed = True

    def wait_for(self, event: UpdatePositions) -> None:
        """Complete the event once its partition has a position."""
        event.lookups.append(self._errors)
        self._waiting.append(event)
        self._lookup_needed = True

    def seek(
        self, tp: TopicPartition, offset: int, leader_epoch: int, topic_id: UUID = NO_TOPIC_ID
    ) -> None:
        """Continue at the user's offset.

        An offset of a deleted topic changes nothing once the position is of another one. Before,
        it is in doubt as the position was.
        """
        state, now = self._context.subscription.get(tp), self._topic_id(tp)
        fields = {"topic": tp.topic, "partition": tp.partition, "offset": offset}
        doubtful = not may_be_same_topic(topic_id, now)
        if doubtful and state.topic_id != topic_id:
            log.debug("%s: offset %d is of a deleted topic", names_of([tp]), offset, fields=fields)
            return
        log.debug("%s: seek to offset %d", names_of([tp]), offset, fields=fields)
        self._set_position(state, Position(offset, leader_epoch), topic_id)
        if doubtful:
            self._context.subscription.version += 1  # let `RecreatedTopics` check it

    def reset(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        """Drop positions; they are looked up by `timestamp` when they are needed."""
        for tp in partitions:
            state = self._context.subscription.get(tp)
            state.await_reset(timestamp)
            state.end_pause()

    def apply_reset_policy(self, states: Iterable[AssignedPartition]) -> list[AssignedPartition]:
        """Reset positions by `auto_offset_reset`; return the partitions that it does not reset."""
        policy = self._context.config.offset_reset
        without_policy = []
        for state in states:
            if policy.kind == "none":
                without_policy.append(state)
            elif policy.kind == "by_duration":
                state.await_reset(max(0, self._context.clock.wall_ms() - policy.duration_ms))
            else:
                state.await_reset(EARLIEST if policy.kind == "earliest" else LATEST)
        return without_policy

    # --- lookups -------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> PollResult:
        """Start missing lookups; one that has failed waits for its pause."""
        self._forget_resets()
        wait_ms = FOREVER_MS
        if self._lookup_needed:
            states = list(self._context.subscription.without_position())
            self._lookup_needed = bool(states)
            if not states:
                self._errors.clear()
            due, wait_ms = due_for_retry(states, now_ms)
            self._look_up_committed(due)
            self._look_up_resets(due)
        if self._waiting:
            self._waiting = [event for event in self._waiting if not self._is_settled(event)]
        return PollResult(wait_ms=wait_ms)

    def close(self, now_ms: int) -> PollResult:
        """Continue, because a listener that runs during close may call position()."""
        return self.poll(now_ms)

    def _is_settled(self, event: UpdatePositions) -> bool:
        state = self._context.subscription.assigned.get(event.partition)
        if state is None or state.has_valid_position:
            event.future.complete(None)
        return event.future.done

    # --- committed offsets ---------------------------------------------------------------------

    def _look_up_committed(self, states: Iterable[AssignedPartition]) -> None:
        fresh = [
            state
            for state in states
            if state.state is FetchState.INITIALIZING
            and not (state.pending_revocation or state.dropped)
            and state not in self._committed_lookups
        ]
        if not fresh:
            return
        if self._committed is None:
            self._no_committed_offset(fresh)
            return
        self._committed_lookups.update(fresh)
        future: Completion[Committed] = Completion()
        asked = {state: self._topic_id(state.tp) for state in fresh}
        future.then(lambda done: self._committed_ended(asked, done))
        partitions = frozenset(state.tp for state in fresh)
        self._committed.look_up(
            partitions, future, self._errors, lambda found: self._committed_found(asked, found)
        )

    def _waiting_for_committed(self, asked: Iterable[AssignedPartition]) -> list[AssignedPartition]:
        """Return those that wait: a seek or a new assignment since then takes precedence."""
        return [s for s in asked if s.state is FetchState.INITIALIZING and self._assigned(s)]

    def _committed_ended(
        self, asked: Mapping[AssignedPartition, UUID], future: Completion[Committed]
    ) -> None:
        self._committed_lookups.difference_update(asked)
        waiting = self._waiting_for_committed(asked)
        if future.error is not None and waiting:
            self._retry_later(waiting)
            self._fail_lookups(future.error, waiting)

    def _committed_found(self, asked: Mapping[AssignedPartition, UUID], found: Committed) -> None:
        done = [state for state in asked if state.tp in found]
        self._committed_lookups.difference_update(done)
        without = []
        for state in self._waiting_for_committed(done):
            if self._topic_changed(state, asked[state]):
                continue
            committed = found[state.tp]
            if committed is None:
                without.append(state)
            else:
                log.debug(
                    "%s starts at its committed offset %d", names_of([state.tp]), committed.offset
                )
                self._set_position(state, CommittedPosition(committed.offset, epoch_of(committed)))
        self._no_committed_offset(without)

    def _no_committed_offset(self, states: list[AssignedPartition]) -> None:
        without_policy = self.apply_reset_policy(states)
        if without_policy:
            self._retry_later(without_policy)
            names = sorted(state.tp for state in without_policy)
            self._fail_lookups(
                NoOffsetForPartitionError(
                    f"no committed offset for {names}, and auto_offset_reset='none': call seek(), "
                    "commit an offset, or set auto_offset_reset"
                ),
                without_policy,
            )

    # --- resets --------------------------------------------------------------------------------

    def _forget_resets(self) -> None:
        """Forget resets that a seek or new assignment ended: a later, equal reset is a new one."""
        if self._resetting:
            under_way = self._resetting.items()
            self._resetting = {s: when for s, when in under_way if self._is_awaiting(s, when)}

    def _look_up_resets(self, states: Iterable[AssignedPartition]) -> None:
        timestamps = {}
        for state in states:
            timestamp = state.reset_timestamp
            if state.state is not FetchState.AWAIT_RESET or timestamp is None:
                continue
            if self._resetting.get(state) != timestamp:
                timestamps[state.tp] = timestamp
                self._resetting[state] = timestamp
        self._start_resets(timestamps)

    def _start_resets(self, timestamps: dict[TopicPartition, int]) -> None:
        if not timestamps:
            return
        states = {tp: self._context.subscription.assigned[tp] for tp in timestamps}
        topic_ids = {tp: self._topic_id(tp) for tp in timestamps}

        def alive() -> bool:
            return any(self._is_awaiting(states[tp], timestamps[tp]) for tp in timestamps)

        def take(tp: TopicPartition, offset: OffsetAndTimestamp | None) -> None:
            self._resetting.pop(states[tp], None)
            if not self._topic_changed(states[tp], topic_ids[tp]):
                self._reset_found(states[tp], timestamps[tp], offset)

        def fail(error: BaseException) -> None:
            for state in states.values():
                self._resetting.pop(state, None)
            waiting = [s for tp, s in states.items() if self._is_awaiting(s, timestamps[tp])]
            if waiting:
                self._retry_later(waiting)
                self._fail_lookups(error, waiting)

        self._list_offsets.look_up(timestamps, take, fail, alive, self._errors)

    def _is_awaiting(self, state: AssignedPartition, timestamp: int) -> bool:
        return (
            state.state is FetchState.AWAIT_RESET
            and state.reset_timestamp == timestamp
            and self._assigned(state)
        )

    def _reset_found(
        self, state: AssignedPartition, timestamp: int, found: OffsetAndTimestamp | None
    ) -> None:
        if not self._is_awaiting(state, timestamp):
            return
        left = state.out_of_range_at
        if found is None:
            # No record is recent enough, so start with the next one.
            state.await_reset(LATEST)
            state.out_of_range_at = left
            self._lookup_needed = True
            return
        topic, partition = state.tp
        log.info(
            "%s-%d starts at offset %d",
            topic,
            partition,
            found.offset,
            fields={"topic": topic, "partition": partition, "offset": found.offset},
        )
        if left is not None and left.offset < found.offset:
            log.warning(
                "retention removed records of %s-%d before they were read: reading continues at "
                "offset %d instead of %d, and skips %d offsets",
                topic,
                partition,
                found.offset,
                left.offset,
                found.offset - left.offset,
                fields={"topic": topic, "partition": partition, "offset": left.offset},
            )
        # The offset comes from the leader, so it needs no validation.
        self._set_position(state, Position(found.offset, UNKNOWN_EPOCH))

    # --- positions -----------------------------------------------------------------------------

    def _assigned(self, state: AssignedPartition) -> bool:
        return self._context.subscription.assigned.get(state.tp) is state

    def _topic_id(self, tp: TopicPartition) -> UUID:
        return self._context.metadata.snapshot.topic_id(tp.topic)

    def _topic_changed(self, state: AssignedPartition, asked: UUID) -> bool:
        """Tell whether the topic was recreated since the request; then repeat the lookup."""
        now = self._topic_id(state.tp)
        changed = not may_be_same_topic(asked, now)
        self._lookup_needed |= changed
        return changed

    def _set_position(
        self, state: AssignedPartition, position: Position, topic_id: UUID = NO_TOPIC_ID
    ) -> None:
        """Set a position; validate it if its leader epoch and that of the leader are known.

        With the id of its topic, it is validated as well if that is not the present one.
        """
        info = self._context.metadata.snapshot.partition(state.tp)
        state.leader_id = info.leader_id if info is not None else -1
        state.leader_epoch = info.leader_epoch if info is not None else UNKNOWN_EPOCH
        now = self._topic_id(state.tp)
        state.topic_id = now if topic_id == NO_TOPIC_ID else topic_id
        validate = UNKNOWN_EPOCH not in (position.leader_epoch, state.leader_epoch)
        validate |= NO_TOPIC_ID != now != state.topic_id
        state.set_position(position, validate=validate)

    def _retry_later(self, states: Iterable[AssignedPartition]) -> None:
        for state in states:
            self._context.retry_later(state)

    def _fail_lookups(self, error: BaseException, states: Iterable[AssignedPartition]) -> None:
        """Fail the calls that wait for a position, else raise the error in the next poll().

        It does not once all of these partitions have a position, or are not assigned any more.
        """
        self._lookup_needed = False  # until a position is needed again
        self._context.polls.event_needed = True
        waiting, self._waiting = self._waiting, []
        waiting = [event for event in waiting if not event.future.done]
        for event in waiting:
            event.future.fail(error)
        if not waiting and isinstance(error, KafkaError):
            self._context.raise_in_poll(error, [(state, state.position) for state in states])
