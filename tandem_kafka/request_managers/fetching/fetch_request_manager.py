"""Sends fetches to read ahead of the application, within a limit on memory.

Each broker has several slots (`placement`), each with at most one fetch in flight. A partition is
in one slot only.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from tandem_kafka.errors import for_code
from tandem_kafka.logs import RecentLines, client_logger
from tandem_kafka.metrics import Gauge
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.node_state import LATE_MS
from tandem_kafka.network.request import ClientResponse, Purpose, SentRequest, ToNode, UnsentRequest
from tandem_kafka.records import decode_fetch_response
from tandem_kafka.request_managers.base import PollResult, RequestManager
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.fetching.placement import FetchPlacement
from tandem_kafka.request_managers.fetching.response_handler import (
    FetchResponseHandler,
    RequestedPartition,
)
from tandem_kafka.request_managers.fetching.session import FetchTarget, SessionRequest
from tandem_kafka.request_managers.fetching.slot import FetchSlot
from tandem_kafka.request_managers.fetching.standing import StandingFetches
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.request_managers.positions_request_manager import PositionsRequestManager
from tandem_kafka.state.partition import AssignedPartition
from tandem_kafka.state.subscription import SubscriptionState
from tandem_kafka.types import NO_TOPIC_ID, Node, TopicPartition
from tandem_kafka.wire.fetch_request import (
    FIRST_VERSION_WITH_IDS,
    HIGHEST_VERSION,
    ConsumerFetch,
    FetchedTopic,
    ForgottenTopic,
    WantedPartition,
)

if TYPE_CHECKING:
    from tandem_kafka._native import StandingFetch


log = client_logger(__name__)

#: The minimum time between empty fetches, even if `fetch_max_wait_ms` is 0.
EMPTY_PAUSE_MS = 10
#: How long a broker may park the fetch of quiet partitions, if this delays nothing else. For each
#: fetch, the broker must check every partition of the session.
QUIET_WAIT_MS = 5_000
#: How long a broker may park a fetch on the bypass. Invariant: it is soon free for the next one.
BYPASS_WAIT_MS = 10
#: If all have caught up: `fetch_max_wait_ms` / 50, at most 100 ms. They may have to wait that long
#: for another slot.
BYPASS_SHARE = 50
BYPASS_LONGEST_WAIT_MS = 100


class FetchRequestManager(RequestManager):
    """Decides what to fetch from which broker, and when there is room for it."""

    def __init__(
        self,
        context: ManagerContext,
        metadata: MetadataRefresher,
        positions: PositionsRequestManager,
    ) -> None:
        self._context = context
        self._metadata = metadata
        self._handler = FetchResponseHandler(context, metadata, positions)
        self._placement = FetchPlacement(context, metadata, self._follow)
        self._standing = StandingFetches(context, self._handler.sizing, self._take_over)
        #: The versions for which all standing fetches were made.
        self._order_versions: tuple[int, int, int] | None = None
        #: Partitions that may have read-ahead data in the buffer.
        self._holding: dict[AssignedPartition, None] = {}
        self._starved = False
        self._sent_count = 0
        #: When the failure of a session was logged last.
        self._lines = RecentLines()
        #: The versions for which nothing could be sent, valid until `_due_ms`; see `_unchanged`.
        self._seen_versions: tuple[int, int, int] | None = None
        self._due_ms = 0

    @property
    def added(self) -> int:
        """How many chunks are or were in the buffer."""
        return self._context.buffer.added

    # --- requests ------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> PollResult:
        """Send a fetch through every free slot that has partitions to fetch, if there is room."""
        self.end_changed_fetches()
        if self._unchanged(now_ms):
            return PollResult(wait_ms=self._due_ms - now_ms)
        result = self._fill_slots(now_ms)
        if not self._starved:
            self._seen_versions, self._due_ms = self._current_versions(), now_ms + result.wait_ms
        return result

    def end_changed_fetches(self) -> None:
        """End the standing fetches if anything has changed; call this before each wait.

        Invariant: a standing fetch that fails to end keeps no other one standing.

        Raises:
            Exception: The first error.
        """
        versions = self._current_versions()
        if versions == self._order_versions:
            return
        errors = []
        for slot in self._placement.slots.values():
            try:
                slot.end_standing_fetch()
            except Exception as error:  # noqa: BLE001 - the others must not stand any longer
                errors.append(error)
        self._order_versions = versions
        if errors:
            raise errors[0]

    def _take_over(self, slot: FetchSlot, brought: Iterable[AssignedPartition]) -> None:
        """Note what a standing fetch has brought, and what its fetch in flight may bring."""
        for state in brought:
            self._holding[state] = None
            slot.note(state)
        slot.brought(brought)
        slot.expect(self._context.config.fetch_max_bytes)

    def _fill_slots(self, now_ms: int) -> PollResult:
        self._placement.update(now_ms)
        buffer = self._context.buffer
        # Invariant: set before measuring, so that room made in the meantime wakes this thread
        # again.
        buffer.starved = True
        was_starved, self._starved = self._starved, False
        wait_ms = self._bypass_parked(now_ms)
        slots: Iterable[FetchSlot] = tuple(self._placement.slots.values())
        if was_starved:  # there may be room for one only: the longest waiting slot goes first
            slots = sorted(slots, key=lambda slot: slot.sent_count)
        unsent = []
        for slot in slots:
            if slot.state.in_flight or not (
                slot.partitions or self._placement.can_take_from_bypass(slot)
            ):
                continue
            pause_ms = max(slot.state.wait_ms(now_ms), slot.pause_until_ms - now_ms)
            if pause_ms > 0:
                wait_ms = min(wait_ms, pause_ms)
                continue
            if not self._has_room():
                self._starved = True
                continue
            self._placement.prepare_to_send(slot, now_ms)
            wait_ms = min(wait_ms, self._check_partitions(slot, now_ms))
            node = self._context.metadata.snapshot.nodes.get(slot.node_id)
            if slot.requested and node is not None:
                unsent.append(self._send(slot, node, now_ms))
        buffer.starved = self._starved
        return PollResult(tuple(unsent), wait_ms)

    def _current_versions(self) -> tuple[int, int, int]:
        subscription = self._context.subscription
        snapshot = self._context.metadata.snapshot
        return subscription.changes.count, subscription.version, snapshot.version

    def _unchanged(self, now_ms: int) -> bool:
        """Tell whether there is still nothing to send, because nothing has changed."""
        if self._seen_versions is None:
            return False
        due_ms = min(self._due_ms, self._placement.lease_ends_ms)
        if now_ms < due_ms and self._seen_versions == self._current_versions():
            return True
        self._seen_versions = None
        return False

    def close(self, now_ms: int) -> PollResult:  # noqa: ARG002 - the managers' interface
        """End the fetch sessions, to free their memory in the brokers."""
        nodes = self._context.metadata.snapshot.nodes
        for slot in self._placement.slots.values():
            slot.end_standing_fetch()
        unsent = [
            self._context.request(
                self._message(slot.session.close(), 0),
                # On the main connection: a parked fetch may block that of the slot.
                ToNode(nodes[slot.node_id]),
                on_response=lambda _: None,
                on_error=lambda _: None,
                decode=decode_fetch_response,
            )
            for slot in self._placement.slots.values()
            if slot.session.open and slot.node_id in nodes
        ]
        self._placement.slots.clear()
        self._seen_versions = None
        return PollResult(tuple(unsent))

    # --- what to fetch -------------------------------------------------------------------------

    def _has_room(self) -> bool:
        """Tell whether there is room for one more response."""
        limit = self._context.config.fetch_buffer_max_bytes
        buffer = self._context.buffer
        taken = buffer.held_bytes + buffer.queue.reserved_bytes
        return taken < limit or taken < limit + min(self._unavailable_bytes(), limit // 2)

    def _check_partitions(self, slot: FetchSlot, now_ms: int) -> int:
        """Include or exclude the partitions to check; return when to check again, in ms.

        A partition that only an event can make fetchable is checked again after that event. One
        that waits for time or for the application stays in `to_check`.
        """
        limit = self._partition_limit()
        wait_ms = FOREVER_MS
        for state in tuple(slot.to_check):
            pause_ms = self._pause_ms(slot, state, limit, now_ms)
            if pause_ms <= 0:
                slot.checked(state)
                self._include(slot, state)
            else:
                wait_ms = min(wait_ms, pause_ms)
                slot.exclude(state.tp)
        return wait_ms

    def _partition_limit(self) -> int:
        """Return how many bytes one partition may hold before its fetches pause."""
        config = self._context.config
        self._holding = {state: None for state in self._holding if state.held_bytes > 0}
        fair = config.fetch_buffer_max_bytes // max(1, len(self._holding))
        return max(config.max_partition_fetch_bytes, fair)

    def _bypass_parked(self, now_ms: int) -> int:
        """Move fetchable partitions away from parked fetches; return when to check again, in ms."""
        wait_ms = FOREVER_MS
        for slot in tuple(self._placement.slots.values()):
            if slot.state.in_flight and slot.parked and slot.to_check:
                wait_ms = min(wait_ms, self._bypass_slot(slot, now_ms))
        return wait_ms

    def _bypass_slot(self, slot: FetchSlot, now_ms: int) -> int:
        wait_ms = FOREVER_MS
        limit = self._partition_limit()
        failed_ms = self._placement.bypass_wait_ms(slot, now_ms)
        for state in tuple(slot.to_check):
            requested = slot.requested.get(state.tp)
            if requested is not None and self._handler.is_current(requested):
                continue  # the parked fetch includes it
            pause_ms = max(failed_ms, self._pause_ms(slot, state, limit, now_ms))
            if pause_ms <= 0:
                self._placement.bypass(slot, state)
                continue
            wait_ms = min(wait_ms, pause_ms)
            # Otherwise a partition that was sought and then paused would be fetched at its old
            # offset, and the broker would return unusable data immediately, again and again.
            slot.exclude(state.tp)
        return wait_ms

    def _pause_ms(self, slot: FetchSlot, state: AssignedPartition, limit: int, now_ms: int) -> int:
        """Return how long a partition cannot be fetched, in ms; 0 if it can be fetched now."""
        # Invariant: read first. The application may take an error right now, which notes no change.
        waits = state.waits_for_application
        if not state.fetchable:
            if waits:
                self._starved = True
            else:
                slot.checked(state)
        elif state.held_bytes >= limit:
            self._starved = True
        else:
            return max(0, state.retry_at_ms - now_ms)
        return FOREVER_MS

    def _include(self, slot: FetchSlot, state: AssignedPartition) -> None:
        if state.base is None:
            return
        snapshot = self._context.metadata.snapshot
        state.wait_for_drain = False  # it has drained, or it would not be fetchable
        from_replica = state.preferred_replica is not None
        max_bytes = self._handler.sizing.bytes_for(state)
        target = FetchTarget(
            snapshot.topic_id(state.tp.topic),
            state.read_ahead,
            snapshot.leader_epoch(state.tp),
            max_bytes,
        )
        slot.include(
            RequestedPartition(
                state,
                state.base,
                state.read_ahead,
                max_bytes,
                from_replica,
                self._context.read_committed,
            ),
            target,
        )

    def _unavailable_bytes(self) -> int:
        """Return the bytes that cannot be returned during a rebalance; they must not block others.

        Paused partitions do not count: `poll()` drops their data if others need the room.
        """
        return sum(
            state.held_bytes
            for state in self._holding
            if self._placement.has(state) and not (state.returnable or state.on_hold)
        )

    def _follow(self, assigned: Mapping[TopicPartition, AssignedPartition]) -> None:
        subscription = self._context.subscription
        self._context.metrics.follow_partitions(assigned, partial(partition_gauges, subscription))

    # --- the request ---------------------------------------------------------------------------

    def _send(self, slot: FetchSlot, node: Node, now_ms: int) -> UnsentRequest:
        self._sent_count += 1
        slot.sent_count = self._sent_count
        wait_ms = self._wait_ms(slot, behind=slot.expect(self._context.config.fetch_max_bytes))
        message = self._message(slot.next_request(), wait_ms)
        request = self._context.request(
            message,
            ToNode(node, slot.purpose),
            on_response=partial(self._handle_response, slot, now_ms),
            on_error=partial(self._handle_error, slot),
            state=slot.state,
            decode=decode_fetch_response,
            held_ms=wait_ms,
        )
        if self._may_stand(slot):
            request.make_standing_fetch = partial(self._stand, slot, wait_ms)
        return request

    def _stand(self, slot: FetchSlot, wait_ms: int, sent: SentRequest) -> StandingFetch | None:
        """Let the fetch of a slot stand, which has just been sent.

        While the bypass holds partitions, the next fetch of this slot is for Python, which takes
        them back.
        """
        changed = self._order_versions != self._current_versions()
        if changed or self._placement.can_take_from_bypass(slot) or not self._may_stand(slot):
            return None
        return self._standing.make(slot, sent, wait_ms, self._partition_limit())

    def _may_stand(self, slot: FetchSlot) -> bool:
        """Tell whether the next fetch may be repeated without Python, which hears what recovers."""
        return self._standing.allowed(slot) and not self._handler.fails(slot.requested)

    def _wait_ms(self, slot: FetchSlot, *, behind: bool) -> int:
        """Return how long a broker may park the request; a new record ends this immediately."""
        config = self._context.config
        if slot.purpose is Purpose.FETCH_BYPASS:
            share_ms = 0 if behind else config.fetch_max_wait_ms // BYPASS_SHARE
            longer_ms = max(BYPASS_WAIT_MS, min(share_ms, BYPASS_LONGEST_WAIT_MS))
            return min(config.fetch_max_wait_ms, longer_ms)
        longer = slot.purpose is Purpose.FETCH_QUIET and config.fetch_min_bytes <= 1
        limit_ms = min(QUIET_WAIT_MS, config.request_timeout_ms // 2)
        return max(config.fetch_max_wait_ms, limit_ms) if longer else config.fetch_max_wait_ms

    def _message(self, session: SessionRequest, wait_ms: int) -> ConsumerFetch:
        config = self._context.config
        wanted: dict[tuple[str, UUID], list[WantedPartition]] = defaultdict(list)
        for tp, target in session.to_send.items():
            wanted[tp.topic, target.topic_id].append(
                WantedPartition(tp.partition, target.leader_epoch, target.offset, target.max_bytes)
            )
        forgotten: dict[tuple[str, UUID], list[int]] = defaultdict(list)
        for tp, topic_id in session.forgotten:
            forgotten[tp.topic, topic_id].append(tp.partition)
        with_ids = all(topic_id != NO_TOPIC_ID for _, topic_id in (*wanted, *forgotten))
        return ConsumerFetch(
            max_wait_ms=wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=1 if self._context.read_committed else 0,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=[FetchedTopic(*topic, partitions) for topic, partitions in wanted.items()],
            forgotten_topics_data=[
                ForgottenTopic(*topic, numbers) for topic, numbers in forgotten.items()
            ],
            rack_id=config.client_rack,
            not_above=HIGHEST_VERSION if with_ids else FIRST_VERSION_WITH_IDS - 1,
        )

    # --- responses -----------------------------------------------------------------------------

    def _handle_response(
        self, slot: FetchSlot, sent_ms: int, reply: ClientResponse
    ) -> Exception | None:
        now_ms = self._context.clock.now_ms()
        self._seen_versions = None
        slot.arrived()
        response = reply.message
        self._measure(reply)
        if not slot.session.handle_response(response.session_id, response.error_code):
            slot.state.failed(now_ms)
            self._metadata.request_update()
            refused: Exception = for_code(response.error_code)("the fetch session")
            self._note_refusal(slot, refused, now_ms)
            return refused
        got_records, affected = self._handler.handle(
            response, slot.requested, slot.session, reply.latency_ms
        )
        for state in affected:
            self._holding[state] = None
            slot.note(state)
        self._placement.handle_response(slot, affected, now_ms)
        slot.steady = self._is_usual(reply)
        if not got_records and now_ms - sent_ms < EMPTY_PAUSE_MS:
            slot.pause_until_ms = now_ms + EMPTY_PAUSE_MS
        return None

    def _note_refusal(self, slot: FetchSlot, error: Exception, now_ms: int) -> None:
        self._note_failure(slot, error)
        if self._lines.take("a fetch session failed", now_ms):
            log.info(
                "a fetch session of broker %d failed with %s; sending a full request",
                slot.node_id,
                type(error).__name__,
                fields={"node_id": slot.node_id},
            )

    def _note_failure(self, slot: FetchSlot, error: Exception) -> None:
        for requested in slot.requested.values():
            if self._handler.is_current(requested):
                self._handler.failed(requested.state, error)

    def _is_usual(self, reply: ClientResponse) -> bool:
        """Tell whether a response was on time and had no error."""
        response = reply.message
        return (
            not response.throttle_time_ms
            and reply.latency_ms < self._context.config.fetch_max_wait_ms + LATE_MS
            and not any(fetched.error_code for fetched in response.partitions)
        )

    def _measure(self, reply: ClientResponse) -> None:
        metrics, response = self._context.metrics, reply.message
        metrics.record("fetch-latency", reply.latency_ms)
        metrics.record("fetch-throttle-time", response.throttle_time_ms)
        if response.partitions:  # a session omits partitions without new data
            sizes = sum(len(fetched.records) for fetched in response.partitions if fetched.records)
            metrics.record("fetch-size", sizes)

    def _handle_error(self, slot: FetchSlot, error: Exception) -> None:
        self._seen_versions = None
        slot.arrived()
        slot.session.restart()
        self._note_failure(slot, error)
        for requested in slot.requested.values():
            if requested.state.preferred_replica is not None:
                requested.state.preferred_replica = None
                self._context.subscription.version += 1
        log.debug(
            "fetch from broker %d failed: %s", slot.node_id, error, fields={"node_id": slot.node_id}
        )
        if getattr(error, "retriable", False):
            self._metadata.request_update()
        else:
            self._context.raise_in_poll(error)


def partition_gauges(subscription: SubscriptionState, tp: TopicPartition) -> dict[str, Gauge]:
    """Return the gauges of one partition; an unknown value is NaN."""

    def distance(from_: str, to: str) -> float:
        state = subscription.assigned.get(tp)
        position = state.position if state is not None else None
        edges = {
            "end": state.high_watermark if state is not None else -1,
            "start": state.log_start_offset if state is not None else -1,
            "position": position.offset if position is not None else -1,
        }
        known = edges[from_] >= 0 and edges[to] >= 0
        return float(edges[to] - edges[from_]) if known else math.nan

    def replica() -> float:
        state = subscription.assigned.get(tp)
        preferred = state.preferred_replica if state is not None else None
        return preferred.node_id if preferred is not None else -1

    return {
        "records-lag": lambda: distance("position", "end"),
        "records-lead": lambda: distance("start", "position"),
        "preferred-read-replica": replica,
    }
