"""A simulated share group, its members, and what brokers and members count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tandem_kafka import AsyncShareConsumer, ShareConsumer, TopicPartition
from tandem_kafka.request_managers.share.consume_request_manager import ShareConsumeRequestManager
from tandem_kafka.request_managers.share.session import ShareSession
from tandem_kafka.workers import AsyncShareWorkers, ShareWorkers
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce
from tests.scenarios.share_members import share_consumer

LOCK_MS = 15_000
TP = TopicPartition("orders", 0)
Start = Callable[..., ShareConsumer[Any, Any]]


@contextmanager
def sharing(
    seed: str, *, brokers: int = 2, partitions: int = 1, count: int = 3
) -> Iterator[tuple[Simulation, Start]]:
    """A share group without members, and records of each partition, which brokers lead in turn."""
    with Simulation(seed, brokers=brokers, trace_lines=2_000) as simulation:
        for tp in create_topic(simulation, "orders", partitions):
            simulation.cluster.move_leader(tp, tp.partition % brokers + 1)
            produce(simulation, tp, count)
        simulation.cluster.configure_group(
            "g", share_auto_offset_reset="earliest", share_record_lock_duration_ms=LOCK_MS
        )
        started: list[ShareConsumer[Any, Any]] = []

        def start(acknowledgement: str = "explicit", **options: Any) -> ShareConsumer[Any, Any]:
            options.setdefault("consumer_timeout_ms", 500)
            started.append(
                share_consumer(
                    simulation, "orders", acknowledgement=acknowledgement, group_id="g", **options
                )
            )
            return started[-1]

        try:
            yield simulation, start
        except BaseException:
            for consumer in started:
                consumer._core.closed = True
            raise
        for consumer in started:
            consumer.close()


async def started(simulation: Simulation) -> AsyncShareConsumer[Any, Any]:
    """Return a real share consumer of the running loop on the simulated network."""
    consumer: AsyncShareConsumer[Any, Any] = AsyncShareConsumer(
        "orders",
        acknowledgement="explicit",
        group_id="g",
        bootstrap_servers=simulation.cluster.bootstrap(),
    )
    consumer._run_in(*simulation._environment())
    await consumer.start()
    return consumer


def take(
    consumer: ShareConsumer[Any, Any],
    count: int,
    within_ms: int = 40_000,
    max_records: int | None = None,
) -> list[Any]:
    """Poll until there are so many records."""
    clock = consumer._core.clock
    deadline_ms, found = clock.now_ms() + within_ms, []
    while len(found) < count:
        assert clock.now_ms() < deadline_ms, f"{len(found)} of {count} records"
        found += [record for batch in consumer.poll(100, max_records).values() for record in batch]
    return found


def take_ahead(simulation: Simulation, consumer: ShareConsumer[Any, Any]) -> tuple[int, int]:
    """Iterate until records wait; returns the last offset, and how many offsets wait behind it."""
    records, offset = consumer._parts.records, -1
    while not records.waiting():
        offset = next(consumer).offset
        simulation.sleep(1)
    return offset, records.waiting()


def places(records: list[Any]) -> list[tuple[int, int]]:
    return sorted((record.offset, record.delivery_count) for record in records)


def counted(simulation: Simulation, api: Any) -> int:
    """Return how many requests of a kind the brokers have received."""
    brokers = simulation.cluster.brokers.values()
    return sum(broker.requests.get(api.__name__, 0) for broker in brokers)


def delete_group(simulation: Simulation) -> None:
    """Delete the share group; its members find out."""
    simulation.cluster.coordination.of("g").share.dissolve()


def session_of(consumer: ShareConsumer[Any, Any]) -> ShareSession:
    """Return the session with the first broker."""
    managers = consumer._core.engine.loop._managers
    manager = next(each for each in managers if isinstance(each, ShareConsumeRequestManager))
    return manager._sessions[1]


def metric(consumer: ShareConsumer[Any, Any], name: str) -> int:
    return int(consumer.metrics()["consumer-share-fetch-manager-metrics"][name])


def without_renewals(simulation: Simulation) -> None:
    simulation.cluster.configure_group("g", share_renew_acknowledge_enable=False)


def in_work(workers: ShareWorkers[Any, Any] | AsyncShareWorkers[Any, Any]) -> tuple[int, bool]:
    """Return how many handlers run, and whether a record waits for another attempt."""
    control = workers._control
    if control is None:
        return 0, False
    attempts = control._workload
    return len(attempts.running), attempts.next_retry_ms is not None
