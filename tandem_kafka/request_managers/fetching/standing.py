"""Lets the native transport repeat the fetches of a slot, and takes over what it has done.

In a steady stream, each fetch follows from the response before it. Python decides, and the
transport repeats. For Python, all repetitions are one request, which stays in flight.

    state     event                                     next      what happens
    --------  ----------------------------------------  --------  --------------------------------
    none      Python sends a fetch, and the slot is     standing  Python passes targets and limits
              steady and settled (`allowed`)
    none      the same, but the bypass of the broker    none      the response is Python's, whose
              holds partitions                                    next fetch takes them back
    standing  a usual response (`Standing::check` in    standing  offsets and watermarks move, data
              rust/src/standing/state.rs)                         is queued, the application wakes
                                                                  up, the next fetch is sent
    standing  the same, but the buffer is full          held      the same, but the next fetch is
                                                                  not sent: nothing is in flight
    standing  any other response, also one for a        ended     Python gets the response as that
              partition that Python has moved, or that            to its request
              has its share of the buffer
    standing  a response after its time: a minute,      ended     the same; Python moves quiet
              the lease of a replica, a session                   partitions and expired replicas,
              of the connection, or a second with many            and sends the next fetch
              partitions
    held      the application has released enough       standing  the transport sends the fetch,
              (`Shared::enough_for` in queue.rs)                  which wakes no Python
    held      a minute or another time is over, or a    ended,    Python gets an empty response, at
              partition still has its share               over    once
    standing  a seek, a pause, the assignment or the    ended     the fetch in flight is Python's;
              metadata (`end_changed_fetches`)                    data for an old base is stale
    standing  the slot changes: a partition is placed,  ended,    the same; if the fetch is parked,
              moves in or out, or must be checked       before    the partition takes the bypass
    standing  another slot of the broker moves a        ended     the same
              partition to the bypass
    held      one of these three                        ended,    Python gets an empty response from
                                                          over    the next poll
    standing, the connection is lost, or the consumer   ended     as for any request
    held      closes
    ended     Python has processed the response         none      the next fetch may stand again
    ended,    the same                                  none      the next fetch names what the last
    over                                                          response has moved

For Python, also a fetch that is held is in flight. The empty response takes the place of the last
real one, whose data is queued already: the session continues with the epoch after that, no request
is overdue meanwhile (`RepeatedFetches.refresh`), and nothing of it is left.

Invariant: nothing happens between a change and the end of the standing fetch. The transport only
works inside `Transport.poll`, on this thread. A slot ends its standing fetch before its partitions
change (`FetchSlot`). Positions, assignment and metadata are not the slot's:
`FetchRequestManager.end_changed_fetches` compares their versions before each poll. A field thus has
one writer at a time: the standing fetch inside `poll`, Python outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tandem_kafka.metrics import ConsumerMetrics, Traffic
from tandem_kafka.network.connection import logs_requests
from tandem_kafka.network.request import Purpose, SentRequest
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.fetching.placement import MANY, QUIET_AFTER_MS
from tandem_kafka.request_managers.fetching.response_handler import RequestedPartition
from tandem_kafka.request_managers.fetching.session import FetchTarget
from tandem_kafka.request_managers.fetching.sizing import FetchSizing
from tandem_kafka.request_managers.fetching.slot import FetchSlot
from tandem_kafka.runtime.native import native
from tandem_kafka.state.partition import AssignedPartition, Position

if TYPE_CHECKING:
    from tandem_kafka._native import StandingFetch


#: A standing fetch of more partitions takes longer to make than it saves.
_MOST: Final = 1_000
#: After this time, one response is for Python, which knows the time and the memory in use.
_LASTS_MS: Final = 60_000
_NO_STOP: Final = 2**63 - 1


class GrantedTarget(NamedTuple):
    """A partition of a standing fetch, as the native extension reads it.

    Invariant: the fields have the order of `GrantedTarget` in rust/src/standing/bindings.rs.

    Attributes:
        state: The partition; what is fetched for it is put into the queue with it.
        base: The base of its position: data for another one is stale.
        topic: The topic of the partition.
        topic_id: The id of the topic.
        partition: The number of the partition.
        leader_epoch: The leader epoch in the request in flight.
        offset: The offset in the request in flight.
        max_bytes: The size in the request in flight.
        stop_at: The offset at which to stop.
        limit: How many bytes the partition may hold in the buffer.
        progress: How far the partition has been fetched.
    """

    state: AssignedPartition
    base: Position | None
    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int
    offset: int
    max_bytes: int
    stop_at: int
    limit: int
    progress: AssignedPartition


class StandingFetches:
    """Makes and ends the standing fetches of all slots. Network thread only.

    Args:
        context: Its `notifier` is None if no standing fetch can wake the application.
        sizing: The limits of a partition's fetch size.
        brought: Called with a slot whose fetch no longer stands, and its partitions with new data.
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

        Green threads, and tasks of some event loops, cannot wait for the notifier.
        """
        return (
            self._context.notifier is not None
            and native is not None
            and slot.settled
            and slot.steady
            and slot.purpose in {Purpose.FETCH_0, Purpose.FETCH_1}
            and slot.session.open
            and slot.session.epoch > 0
            and len(slot.partitions) <= _MOST
            and not slot.to_check
        )

    def make(
        self,
        slot: FetchSlot,
        sent: SentRequest,
        wait_ms: int,
        limit: int,
    ) -> StandingFetch | None:
        """Make the standing fetch for a slot, after its request was sent.

        Args:
            slot: The slot.
            sent: How the request was sent.
            wait_ms: How long the broker may park a fetch.
            limit: How many bytes one partition may hold.
        """
        config, notifier = self._context.config, self._context.notifier
        if native is None or notifier is None:
            return None
        requested = list(slot.requested.values())
        fetch: StandingFetch = native.StandingFetch(
            queue=self._context.buffer.queue,
            notifier=notifier,
            version=sent.version,
            correlation_id=sent.correlation_id,
            client_id=config.client_id,
            max_wait_ms=wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            read_committed=self._context.read_committed,
            session_id=slot.session.id,
            session_epoch=slot.session.epoch,
            rack=config.client_rack,
            targets=[
                _granted(each, slot.session.target(each.state.tp), limit) for each in requested
            ],
            smallest_bytes=self._sizing.first,
            largest_bytes=self._sizing.limit,
            room=config.fetch_buffer_max_bytes,
            lasts_ms=max(0, min(_lasts_ms(slot), sent.usable_ms, self._lease_ms(requested))),
            reports=logs_requests(),
        )
        slot.reserve(0)  # the standing fetch has reserved it
        collect = partial(_collect, fetch, self._context.metrics, sent.traffic)
        self._context.metrics.sources.append(collect)
        slot.stand(partial(self._end, slot, fetch, requested, collect))
        return fetch

    def _lease_ms(self, requested: Iterable[RequestedPartition]) -> int:
        """Return for how long no preferred replica expires."""
        replicas = (each.state.preferred_replica for each in requested)
        leases_ms = [replica.expires_ms for replica in replicas if replica is not None]
        return min(leases_ms) - self._context.clock.now_ms() if leases_ms else _LASTS_MS

    def _end(
        self,
        slot: FetchSlot,
        fetch: StandingFetch,
        requested: list[RequestedPartition],
        collect: Callable[[], None],
    ) -> None:
        """End a standing fetch and take over what it has brought, from here on without it."""
        epoch, moves = fetch.end()
        self._context.metrics.sources.remove(collect)
        for index, _, _, next_bytes in moves:
            if next_bytes is not None:
                requested[index].state.fetch_bytes = next_bytes
        repetitions = ((requested[index], offset, size) for index, offset, size, _ in moves)
        brought = slot.repeated(epoch, repetitions)
        for state in brought:
            self._context.metadata.confirm_leader(state.tp)
        self._brought(slot, brought)
        collect()  # last: nothing else depends on the measurements


def _lasts_ms(slot: FetchSlot) -> int:
    """Return how long a slot may fetch without Python, which moves its quiet partitions."""
    return _LASTS_MS if len(slot.partitions) < MANY else QUIET_AFTER_MS


def _granted(requested: RequestedPartition, target: FetchTarget, limit: int) -> GrantedTarget:
    state = requested.state
    return GrantedTarget(
        state=state,
        base=requested.base,
        topic=state.tp.topic,
        topic_id=target.topic_id.bytes,
        partition=state.tp.partition,
        leader_epoch=target.leader_epoch,
        offset=target.offset,
        max_bytes=target.max_bytes,
        stop_at=_NO_STOP if state.stop_at is None else state.stop_at,
        limit=limit,
        progress=state,
    )


def _collect(fetch: StandingFetch, metrics: ConsumerMetrics, traffic: Traffic) -> None:
    received, sent, latencies_ms, records, topics = fetch.take_counts()
    if not received[0]:
        return
    traffic.repeated(received, sent, latencies_ms)
    metrics.record_all("fetch-latency", latencies_ms)
    metrics.record_all("fetch-throttle-time", (received[0], 0, 0))
    metrics.record_all("fetch-size", records)
    for topic, sizes in topics:
        metrics.record_all("fetch-size", sizes, topic)
    metrics.happened("last-fetch-seconds-ago", fetch.progress()[1])
