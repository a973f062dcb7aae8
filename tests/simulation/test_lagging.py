"""A lagging partition does not wait for parked fetches of partitions that have caught up."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka.assignors import RangePartitionAssignor
from tandem_kafka.runtime.native import native
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce
from tests.simulation.repeating import RepeatingSimulation
from tests.tier import seeds

LAGGING = TopicPartition("orders", 0)
RECORDS = 6_000
#: The longest round trip; the application thread may notice 5 ms late, twice.
ROUND_TRIP_MS = 10
NOTICED_MS = 10
#: The same holds whether or not the transport repeats fetches.
each_transport = pytest.mark.parametrize(
    "simulated", [Simulation] + [RepeatingSimulation] * (native is not None)
)


def reader(simulation: Simulation, caught_up: int, **options: Any) -> Any:
    """A consumer that has caught up with all partitions but one."""
    create_topic(simulation, "orders", caught_up + 1)
    for _ in range(RECORDS // 50):  # each a batch
        produce(simulation, LAGGING, 50)
    consumer = simulation.consumer(
        auto_offset_reset="earliest",
        fetch_buffer_max_bytes=40_000,
        max_partition_fetch_bytes=8_000,
        max_poll_records=100,
        **options,
    )
    partitions = [TopicPartition("orders", number) for number in range(caught_up + 1)]
    consumer.assign(partitions)
    consumer.pause(LAGGING)
    for tp in partitions:
        consumer.position(tp)
    simulation.sleep(3_000)
    consumer.poll(0)
    consumer.resume(LAGGING)
    return consumer


def longest_pause_ms(
    simulation: Simulation, consumer: Any, trickle: int, handler_ms: int = 0
) -> int:
    """Read the lagging partition, while others get a record now and then."""
    longest_ms, read = 0, 0
    read += len(consumer.poll(1_000)[LAGGING])  # this opens a connection
    while read < RECORDS:
        began_ms = simulation.clock.now_ms()
        batch = consumer.poll(1_000)
        if LAGGING in batch:
            longest_ms = max(longest_ms, simulation.clock.now_ms() - began_ms)
            read += len(batch[LAGGING])
            simulation.sleep(handler_ms)
        else:
            assert batch, "nothing for a second"
        if trickle and simulation.random.random() < 0.3:
            number = 1 + simulation.random.randrange(trickle)
            produce(simulation, TopicPartition("orders", number), 1)
    return longest_ms


def fetches(simulation: Simulation, consumer: Any, seconds: int) -> int:
    """Poll for so long; return how many fetches the broker has received meanwhile."""
    broker = simulation.cluster.brokers[1]
    before = broker.requests["FetchRequest"]
    for _ in range(seconds):
        consumer.poll(1_000)
    return broker.requests["FetchRequest"] - before


@each_transport
@pytest.mark.parametrize("seed", seeds(1, 4))
@pytest.mark.parametrize("trickle", [False, True])
@pytest.mark.parametrize("caught_up", [2, 7, 120])
@pytest.mark.parametrize("handler_ms", [0, 5, 20])
def test_a_lagging_partition_does_not_wait_for_an_empty_fetch(
    simulated: type[Simulation], handler_ms: int, caught_up: int, trickle: bool, seed: int
) -> None:
    name = f"{handler_ms} {caught_up} {trickle} {seed}"
    with simulated(name, trace_lines=400) as simulation:
        consumer = reader(simulation, caught_up)
        others = caught_up if trickle else 0
        pause_ms = longest_pause_ms(simulation, consumer, others, handler_ms)
        assert pause_ms <= ROUND_TRIP_MS + NOTICED_MS


@each_transport
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_partition_that_is_resumed_is_fetched_at_once(
    simulated: type[Simulation], seed: int
) -> None:
    with simulated(f"resumed {seed}", trace_lines=400) as simulation:
        consumer = reader(simulation, 7)
        began_ms = simulation.clock.now_ms()
        assert LAGGING in consumer.poll(1_000)
        assert simulation.clock.now_ms() - began_ms <= ROUND_TRIP_MS + NOTICED_MS + 15, (
            "a connection is made for it"
        )


@each_transport
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_partition_that_is_sought_is_fetched_at_once(
    simulated: type[Simulation], seed: int
) -> None:
    with simulated(f"sought {seed}", trace_lines=400) as simulation:
        consumer = reader(simulation, 7)
        longest_pause_ms(simulation, consumer, 0)
        simulation.sleep(2_000)
        for offset in (17, 300, 5_000):
            consumer.seek(LAGGING, offset)
            began_ms = simulation.clock.now_ms()
            assert consumer.poll(1_000)[LAGGING][0].offset == offset
            assert simulation.clock.now_ms() - began_ms <= ROUND_TRIP_MS + NOTICED_MS + 15
            simulation.sleep(2_000)


@each_transport
@pytest.mark.parametrize("caught_up", [2, 7, 120])
def test_a_consumer_that_has_caught_up_does_not_fetch_more_often(
    simulated: type[Simulation], caught_up: int
) -> None:
    with simulated(f"idle {caught_up}", trace_lines=400) as simulation:
        consumer = reader(simulation, caught_up)
        longest_pause_ms(simulation, consumer, caught_up)
        simulation.sleep(2_000)
        asked = fetches(simulation, consumer, seconds=30)
        assert asked <= 2 * 30 * 2 + 10, "two connections, twice a second"


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_read_committed_parks_at_an_open_transaction(seed: int) -> None:
    """Records of an open transaction cannot be fetched, so the fetch is parked."""
    with Simulation(f"open {seed}", trace_lines=400) as simulation:
        consumer = reader(simulation, 7, isolation_level="read_committed")
        transaction = simulation.cluster.transaction()
        transaction.produce(TopicPartition("orders", 3), b"not yet")
        assert longest_pause_ms(simulation, consumer, 0) <= ROUND_TRIP_MS + NOTICED_MS


@each_transport
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_paused_partition_is_not_fetched_from_before_its_seek(
    simulated: type[Simulation], seed: int
) -> None:
    with simulated(f"paused and sought {seed}", trace_lines=400) as simulation:
        consumer = reader(simulation, 3)
        longest_pause_ms(simulation, consumer, 0)
        simulation.sleep(2_000)
        consumer.pause(LAGGING)
        consumer.seek(LAGGING, 17)
        produce(simulation, LAGGING, 50)
        broker = simulation.cluster.brokers[1]
        before = broker.requests["FetchRequest"]
        for _ in range(10):
            assert not consumer.poll(1_000)
        asked = broker.requests["FetchRequest"] - before
        assert asked <= 2 * 10 * 2 + 10, "two connections, twice a second"
        consumer.resume(LAGGING)
        assert consumer.poll(1_000)[LAGGING][0].offset == 17


@each_transport
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_partition_that_is_assigned_again_is_at_its_end(
    simulated: type[Simulation], isolation: str
) -> None:
    """The session knows it already, and omits it until it has a record."""
    with simulated(f"again {isolation}", trace_lines=400) as simulation:
        create_topic(simulation, "orders", 4)
        produce(simulation, LAGGING, 50)
        consumer = simulation.consumer(
            "orders",
            group_id="billing",
            auto_offset_reset="earliest",
            isolation_level=isolation,
            partition_assignment_strategy=[RangePartitionAssignor],
        )
        while consumer.assignment() == set() or consumer.position(LAGGING) < 50:
            consumer.poll(1_000)
        for _ in range(10):
            consumer.poll(1_000)
        consumer.enforce_rebalance()
        for _ in range(5):
            consumer.poll(1_000)
        asked = fetches(simulation, consumer, seconds=10)
        assert asked <= 2 * 10 * 2 + 10, "two connections, twice a second"
        assert consumer.current_lag(LAGGING) == 0, "known, without a lookup"
