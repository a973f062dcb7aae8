"""Sends fetches: reads ahead of the application within a bound on memory.

Each broker is asked through two slots, each with a connection and a fetch session of its own,
over disjoint halves of its partitions: while the records of one answer are taken in, the broker
already prepares the other. A partition is in one slot only and has one fetch in flight.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tandem_kafka.errors import KafkaError
from tandem_kafka.events.completable import Completion
from tandem_kafka.metrics import Gauge
from tandem_kafka.records import decode_fetch_response
from tandem_kafka.request_managers.base import (
    FOREVER_MS,
    ClientResponse,
    PollResult,
    Purpose,
    RequestState,
    ToNode,
    UnsentRequest,
)
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.fetch_response import AskedPartition, FetchResponseHandler
from tandem_kafka.request_managers.fetch_session import FetchSession, FetchTarget, SessionRequest
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.request_managers.positions import PositionsManager
from tandem_kafka.shared.metadata import NO_TOPIC_ID
from tandem_kafka.shared.partition import AssignedPartition
from tandem_kafka.types import Node, TopicPartition
from tandem_kafka.wire.messages import FetchRequest

__all__ = ["FetchManager"]

log = logging.getLogger(__name__)

SLOTS = (Purpose.FETCH_0, Purpose.FETCH_1)
#: Topic ids stand for names from this version on (KIP-516).
FIRST_VERSION_WITH_IDS = 13
#: An empty answer is not asked for again sooner, also where `fetch_max_wait_ms` is 0.
EMPTY_PAUSE_MS = 10


class _Slot:
    """One of a broker's two fetches."""

    def __init__(self, node_id: int, purpose: Purpose, session: FetchSession, state: RequestState):
        self.node_id = node_id
        self.purpose = purpose
        self.session = session
        self.state = state
        #: In the order in which they are asked for; what brought data goes to the end.
        self.partitions: dict[AssignedPartition, None] = {}
        self.reserved_bytes = 0
        self.pause_until_ms = 0


class FetchManager:
    """Decides what to fetch from whom, and when there is room for it."""

    def __init__(
        self, context: ManagerContext, metadata: MetadataRefresher, positions: PositionsManager
    ) -> None:
        self._context = context
        self._metadata = metadata
        self._handler = FetchResponseHandler(context, metadata, positions)
        self._slots: dict[tuple[int, Purpose], _Slot] = {}
        self._seen = (-1, -1)
        self._lease_ends_ms = FOREVER_MS
        self._starved = False

    # --- the turn ------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> PollResult:
        """Send a fetch through every free slot that has something to ask and room for it."""
        self._group(now_ms)
        buffer = self._context.buffer
        # Set before anything is measured: room that is made meanwhile wakes this thread again.
        buffer.starved = True
        self._starved = False
        unsent = []
        wait_ms = FOREVER_MS
        for slot in self._slots.values():
            if slot.state.in_flight or not slot.partitions:
                continue
            pause_ms = max(slot.state.wait_ms(now_ms), slot.pause_until_ms - now_ms)
            if pause_ms > 0:
                wait_ms = min(wait_ms, pause_ms)
                continue
            states, pause_ms = self._wanted(slot, now_ms)
            wait_ms = min(wait_ms, pause_ms)
            node = self._context.metadata.snapshot.nodes.get(slot.node_id)
            if states and node is not None:
                unsent.append(self._send(slot, node, states, now_ms))
        buffer.starved = self._starved
        return PollResult(tuple(unsent), wait_ms)

    def close(self, now_ms: int) -> PollResult:  # noqa: ARG002 - the managers' interface
        """End the sessions, so that brokers need not remember them."""
        nodes = self._context.metadata.snapshot.nodes
        unsent = [
            self._context.request(
                self._message(slot.session.close()),
                # On the main connection: the slot's own may be waiting for a parked fetch.
                ToNode(nodes[slot.node_id]),
                decode=decode_fetch_response,
            )
            for slot in self._slots.values()
            if slot.session.open and slot.node_id in nodes
        ]
        self._slots.clear()
        return PollResult(tuple(unsent))

    # --- who is asked for what -----------------------------------------------------------------

    def _group(self, now_ms: int) -> None:
        """Put each partition into a slot of the broker it is read from."""
        subscription, snapshot = self._context.subscription, self._context.metadata.snapshot
        seen = (subscription.version, snapshot.version)
        if seen == self._seen and now_ms < self._lease_ends_ms:
            return
        self._seen = seen
        self._lease_ends_ms = FOREVER_MS * FOREVER_MS
        by_node: dict[int, list[AssignedPartition]] = defaultdict(list)
        for state in subscription.assigned.values():
            node_id = self._read_from(state, now_ms)
            if node_id in snapshot.nodes:
                by_node[node_id].append(state)
        self._context.metrics.follow_partitions(subscription.assigned, self._gauges)
        for slot in self._slots.values():
            slot.partitions = {}
        for node_id, states in by_node.items():
            self._fill_slots(node_id, states)
        gone = [
            key
            for key, slot in self._slots.items()
            if not slot.partitions and key[0] not in snapshot.nodes
        ]
        for key in gone:
            del self._slots[key]

    def _read_from(self, state: AssignedPartition, now_ms: int) -> int:
        replica = state.preferred_replica
        info = self._context.metadata.snapshot.partition(state.tp)
        if replica is not None:
            online = (
                replica.node_id in self._context.metadata.snapshot.nodes
                and info is not None
                and replica.node_id not in info.offline_replicas
            )
            if online and now_ms < replica.expires_ms:
                self._lease_ends_ms = min(self._lease_ends_ms, replica.expires_ms)
                return replica.node_id
            state.preferred_replica = None
            if not online:
                # The leader sends us there and gives us nothing before we know the way.
                self._metadata.request_update()
        return info.leader_id if info is not None else -1

    def _fill_slots(self, node_id: int, states: Iterable[AssignedPartition]) -> None:
        slots = [self._slot(node_id, purpose) for purpose in SLOTS]
        newcomers = []
        for state in states:
            if state.slot < 0:
                newcomers.append(state)
            else:
                slots[state.slot].partitions[state] = None
        for state in newcomers:
            state.slot = 0 if len(slots[0].partitions) <= len(slots[1].partitions) else 1
            slots[state.slot].partitions[state] = None

    def _slot(self, node_id: int, purpose: Purpose) -> _Slot:
        key = (node_id, purpose)
        if key not in self._slots:
            incremental = self._context.config.enable_incremental_fetch_sessions
            session = FetchSession(incremental=incremental)
            self._slots[key] = _Slot(node_id, purpose, session, self._context.request_state())
        return self._slots[key]

    def _wanted(self, slot: _Slot, now_ms: int) -> tuple[list[AssignedPartition], int]:
        """Return the partitions to ask for now, and how long until there may be more."""
        config, buffer = self._context.config, self._context.buffer
        limit = config.fetch_buffer_max_bytes
        reserved = sum(s.reserved_bytes for s in self._slots.values())
        taken = buffer.held_bytes + reserved
        if taken >= limit and taken >= limit + self._set_aside():
            self._starved = True
            return [], FOREVER_MS
        share = max(
            config.max_partition_fetch_bytes,
            limit // max(1, len(self._context.subscription.assigned)),
        )
        wanted, wait_ms = [], FOREVER_MS
        for state in slot.partitions:
            if not state.fetchable:
                self._starved |= state.waits_for_application
            elif state.held_bytes >= share:
                self._starved = True
            elif now_ms < state.retry_at_ms:
                wait_ms = min(wait_ms, state.retry_at_ms - now_ms)
            else:
                wanted.append(state)
        return wanted, wait_ms

    def _set_aside(self) -> int:
        """Return the bytes that nobody can take now: a paused partition must not stop others."""
        states = self._context.subscription.assigned.values()
        return sum(state.held_bytes for state in states if not state.returnable)

    def _gauges(self, tp: TopicPartition) -> dict[str, Gauge]:
        """Return what is measured of one partition; NaN where it is not known."""

        def distance(from_: str, to: str) -> float:
            state = self._context.subscription.assigned.get(tp)
            position = state.position if state is not None else None
            edges = {
                "end": state.high_watermark if state is not None else -1,
                "start": state.log_start_offset if state is not None else -1,
                "position": position.offset if position is not None else -1,
            }
            known = edges[from_] >= 0 and edges[to] >= 0
            return float(edges[to] - edges[from_]) if known else math.nan

        def replica() -> float:
            state = self._context.subscription.assigned.get(tp)
            preferred = state.preferred_replica if state is not None else None
            return preferred.node_id if preferred is not None else -1

        return {
            "records-lag": lambda: distance("position", "end"),
            "records-lead": lambda: distance("start", "position"),
            "preferred-read-replica": replica,
        }

    # --- the request ---------------------------------------------------------------------------

    def _send(
        self, slot: _Slot, node: Node, states: list[AssignedPartition], now_ms: int
    ) -> UnsentRequest:
        config, snapshot = self._context.config, self._context.metadata.snapshot
        asked: dict[TopicPartition, AskedPartition] = {}
        targets: dict[TopicPartition, FetchTarget] = {}
        for state in states:
            if state.base is None:
                continue
            if state.wait_for_drain:
                state.wait_for_drain = False  # drained: `fetchable` said so
            from_replica = state.preferred_replica is not None
            asked[state.tp] = AskedPartition(state, state.base, state.read_ahead, from_replica)
            targets[state.tp] = FetchTarget(
                snapshot.topic_id(state.tp.topic),
                state.read_ahead,
                snapshot.leader_epoch(state.tp),
                config.max_partition_fetch_bytes,
            )
            state.fetch_in_flight = True
        slot.state.sent()
        slot.reserved_bytes = min(
            config.fetch_max_bytes, len(asked) * config.max_partition_fetch_bytes
        )
        message = self._message(slot.session.build(targets))
        destination = ToNode(node, slot.purpose)
        request = self._context.request(
            message,
            destination,
            decode=decode_fetch_response,
            timeout_ms=config.request_timeout_ms,
        )
        request.future.then(lambda future: self._answered(slot, asked, future, now_ms))
        return request

    def _message(self, session: SessionRequest) -> FetchRequest:
        config = self._context.config
        topic_entry = FetchRequest.FetchTopic
        topics: dict[tuple[str, Any], list[Any]] = defaultdict(list)
        for tp, target in session.to_send.items():
            topics[tp.topic, target.topic_id].append(
                topic_entry.FetchPartition(
                    partition=tp.partition,
                    current_leader_epoch=target.leader_epoch,
                    fetch_offset=target.offset,
                    partition_max_bytes=target.max_bytes,
                )
            )
        forgotten: dict[tuple[str, Any], list[int]] = defaultdict(list)
        for tp, topic_id in session.forgotten:
            forgotten[tp.topic, topic_id].append(tp.partition)
        with_ids = all(i != NO_TOPIC_ID for _, i in (*topics, *forgotten))
        return FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=1 if self._context.read_committed else 0,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=[
                topic_entry(topic=name, topic_id=topic_id, partitions=partitions)
                for (name, topic_id), partitions in topics.items()
            ],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(topic=name, topic_id=topic_id, partitions=numbers)
                for (name, topic_id), numbers in forgotten.items()
            ],
            rack_id=config.client_rack,
            max_version=None if with_ids else FIRST_VERSION_WITH_IDS - 1,
        )

    # --- the answer ----------------------------------------------------------------------------

    def _answered(
        self,
        slot: _Slot,
        asked: dict[TopicPartition, AskedPartition],
        future: Completion[ClientResponse],
        sent_ms: int,
    ) -> None:
        now_ms = self._context.clock.now_ms()
        slot.reserved_bytes = 0
        for asking in asked.values():
            asking.state.fetch_in_flight = False
        if future.error is not None:
            self._failed(slot, asked, future.error, now_ms)
            return
        answer = future.result()
        response = answer.message
        self._measure(answer)
        if not slot.session.answered(response.session_id, response.error_code):
            slot.state.failed(now_ms)
            self._metadata.request_update()
            return
        slot.state.succeeded()
        if self._handler.take(response, asked, slot.session):
            self._rotate(slot, response)
        elif now_ms - sent_ms < EMPTY_PAUSE_MS:
            slot.pause_until_ms = now_ms + EMPTY_PAUSE_MS

    def _measure(self, answer: ClientResponse) -> None:
        metrics, response = self._context.metrics, answer.message
        metrics.record("fetch-latency", answer.latency_ms)
        metrics.record("fetch-throttle-time", response.throttle_time_ms)
        sizes = sum(len(fetched.records) for fetched in response.partitions if fetched.records)
        metrics.record("fetch-size", sizes)

    def _rotate(self, slot: _Slot, response: Any) -> None:
        """Ask last for what brought data, so that a busy partition cannot starve the others."""
        assigned = self._context.subscription.assigned
        for fetched in response.partitions:
            if fetched.records:
                name = fetched.topic or slot.session.topic_name(fetched.topic_id)
                state = assigned.get(TopicPartition(name, fetched.partition))
                if state in slot.partitions:
                    slot.partitions[state] = slot.partitions.pop(state)

    def _failed(
        self,
        slot: _Slot,
        asked: dict[TopicPartition, AskedPartition],
        error: BaseException,
        now_ms: int,
    ) -> None:
        slot.session.failed()
        slot.state.failed(now_ms)
        for asking in asked.values():
            if asking.state.preferred_replica is not None:
                asking.state.preferred_replica = None
                self._context.subscription.version += 1
        log.debug("fetch from broker %d failed: %s", slot.node_id, error)
        retriable = not isinstance(error, KafkaError) or error.retriable
        if isinstance(error, Exception) and not retriable:
            self._context.raise_in_poll(error)
        else:
            self._metadata.request_update()
