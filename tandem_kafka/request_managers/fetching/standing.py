"""Lets the native transport repeat the fetches of a slot, and takes over what it has done.

In a steady stream, each fetch follows from the response before it. Python decides, and the
transport repeats. For Python, all repetitions are one request, which stays in flight.

    state     event                                     next      what happens
    --------  ----------------------------------------  --------  --------------------------------
    none      Python sends a fetch, and the slot is     standing  Python passes targets and limits
              steady and settled (`allowed`)
    none      the same, but the bypass of the broker    none      the response is Python's, whose
              holds partitions                                    next fetch takes them back
    standing  a usual response (`Order::check` in       standing  offsets and watermarks move, data
              rust/src/standing/order.rs)                         is queued, the application wakes
                                                                  up, the next fetch is sent
    standing  any other response, also one for a        ended     Python gets the response as that
              partition that Python has moved                     to its request
    standing  a seek, a pause, the assignment or the    ended     the fetch in flight is Python's;
              metadata (`end_changed_orders`)                     data for an old base is stale
    standing  the slot changes: a partition is placed,  ended,    the same; if the fetch is parked,
              moves in or out, or must be checked       before    the partition takes the bypass
    standing  another slot of the broker moves a        ended     the same
              partition to the bypass
    standing  the connection is lost, or the consumer   ended     as for any request
              closes
    ended     Python has processed the response         none      the next fetch may stand again

Invariant: nothing happens between a change and the end of the order. The transport only works
inside `Transport.poll`, on this thread. A slot ends its order before its partitions change
(`FetchSlot`). Positions, assignment and metadata are not the slot's:
`FetchManager.end_changed_orders` compares their versions before each poll. A field thus has one
writer at a time: the order inside `poll`, Python outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from tandem_kafka.metrics import ConsumerMetrics, Traffic
from tandem_kafka.network.connection import logs_requests
from tandem_kafka.network.request import Purpose, SentRequest
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.fetching.response_handler import RequestedPartition
from tandem_kafka.request_managers.fetching.session import FetchTarget
from tandem_kafka.request_managers.fetching.sizing import FetchSizing
from tandem_kafka.request_managers.fetching.slot import FetchSlot
from tandem_kafka.runtime.native import native
from tandem_kafka.shared.partition import AssignedPartition

if TYPE_CHECKING:
    from tandem_kafka._native import StandingFetch


#: More partitions are sorted into busy and quiet ones after each response.
_MANY: Final = 50
#: After this time, one response is for Python, which knows the time and the memory in use.
_LASTS_MS: Final = 60_000
_NO_STOP: Final = 2**63 - 1


class StandingOrders:
    """Makes and ends the orders of all slots. Network thread only.

    Args:
        context: Its `bell` is None if no order can wake the application.
        sizing: The limits of a partition's fetch size.
        brought: Called with a slot whose order has ended, and its partitions that have new data.
    """

    def __init__(
        self,
        context: ManagerContext,
        sizing: FetchSizing,
        brought: Callable[[FetchSlot, Iterable[AssignedPartition]], None],
    ) -> None:
        self._context = context
        self._sizing = sizing
        self._brought = brought

    def allowed(self, slot: FetchSlot) -> bool:
        """Tell whether the next fetch of a slot may be repeated without Python.

        Tasks and green threads cannot wait for the bell, so their consumers have no orders.
        """
        return (
            self._context.bell is not None
            and native is not None
            and slot.settled
            and slot.steady
            and slot.purpose in {Purpose.FETCH_0, Purpose.FETCH_1}
            and slot.session.open
            and slot.session.epoch > 0
            and len(slot.partitions) < _MANY
            and not slot.to_check
            and not self._context.read_committed
            and not logs_requests()  # only Python can log them
            and not any(each.from_replica for each in slot.requested.values())
        )

    def make(
        self,
        slot: FetchSlot,
        sent: SentRequest,
        wait_ms: int,
        limit: int,
    ) -> StandingFetch | None:
        """Make the order for a slot, after its request was sent.

        Args:
            slot: The slot.
            sent: How the request was sent.
            wait_ms: How long the broker may park a fetch.
            limit: How many bytes one partition may hold.
        """
        config, bell = self._context.config, self._context.bell
        if native is None or bell is None:
            return None
        requested = list(slot.requested.values())
        order: StandingFetch = native.StandingFetch(
            queue=self._context.buffer.queue,
            bell=bell,
            version=sent.version,
            correlation_id=sent.correlation_id,
            client_id=config.client_id,
            max_wait_ms=wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            session_id=slot.session.id,
            session_epoch=slot.session.epoch,
            rack=config.client_rack,
            targets=[
                _target(each, slot.session.target(each.state.tp), limit - each.state.held_bytes)
                for each in requested
            ],
            smallest_bytes=self._sizing.first,
            largest_bytes=self._sizing.limit,
            room=config.fetch_buffer_max_bytes,
            lasts_ms=max(0, min(_LASTS_MS, sent.usable_ms)),
        )
        slot.reserve(0)  # the order has reserved it
        collect = partial(_collect, order, self._context.metrics, sent.traffic)
        self._context.metrics.sources.append(collect)
        slot.stand(partial(self._end, slot, order, requested, collect))
        return order

    def _end(
        self,
        slot: FetchSlot,
        order: StandingFetch,
        requested: list[RequestedPartition],
        collect: Callable[[], None],
    ) -> None:
        """End an order and take over what it has brought, from here on without it."""
        epoch, moves = order.end()
        self._context.metrics.sources.remove(collect)
        for index, _, max_bytes, resized in moves:
            if resized:
                requested[index].state.fetch_bytes = max_bytes
        repetitions = ((requested[index], offset, size) for index, offset, size, _ in moves)
        brought = slot.repeated(epoch, repetitions)
        for state in brought:
            self._context.metadata.confirm_leader(state.tp)
        self._brought(slot, brought)
        collect()  # last: nothing else depends on the measurements


def _target(
    requested: RequestedPartition, target: FetchTarget, credit: int
) -> tuple[object, object, str, bytes, int, int, int, int, int, int, object]:
    state = requested.state
    return (
        state,
        requested.base,
        state.tp.topic,
        target.topic_id.bytes,
        state.tp.partition,
        target.leader_epoch,
        target.offset,
        target.max_bytes,
        _NO_STOP if state.stop_at is None else state.stop_at,
        credit,
        state,
    )


def _collect(order: StandingFetch, metrics: ConsumerMetrics, traffic: Traffic) -> None:
    received, sent, latencies_ms, records, topics = order.take_counts()
    if not received[0]:
        return
    traffic.repeated(received, sent, latencies_ms)
    metrics.record_all("fetch-latency", latencies_ms)
    metrics.record_all("fetch-throttle-time", (received[0], 0, 0))
    metrics.record_all("fetch-size", records)
    for topic, sizes in topics:
        metrics.record_all("fetch-size", sizes, topic)
    metrics.happened("last-fetch-seconds-ago", order.progress()[1])
