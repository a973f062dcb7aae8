"""The memory of paused partitions: limited, and dropped records are fetched again."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka_testing import Simulation
from tests.histories.ledger import SimulatedLedger
from tests.scenarios.numbered_records import create_topic, produce

LIMIT = 40_000
BOUNDED: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "fetch_buffer_max_bytes": LIMIT,
    "max_partition_fetch_bytes": LIMIT // 4,
    "fetch_max_bytes": LIMIT // 4,
}


def fill(simulation: Simulation, tps: list[TopicPartition], batches: int) -> None:
    """Use small batches: in Python, a batch stays decoded while poll() returns its records."""
    for tp in tps:
        for _ in range(batches):
            produce(simulation, tp, 30)


@pytest.mark.behaviour(156)
@pytest.mark.parametrize("seed", range(10))
def test_paused_partitions_share_the_bound_with_the_others(seed: int) -> None:
    """Each partition is paused as soon as it is read, with its read-ahead."""
    with Simulation(f"paused {seed}", brokers=2) as simulation:
        tps = create_topic(simulation, "orders", 30)
        fill(simulation, tps, 30)
        consumer = simulation.consumer(**BOUNDED)
        consumer.assign(tps)
        ledger = SimulatedLedger(simulation, consumer, tps)
        buffer = consumer._core.engine.buffer
        most, seen = 0, set()
        for _ in range(2_000):
            ledger.poll(100, 1)
            most = max(most, buffer.held_bytes)
            seen = {tp for tp in tps if ledger.next[tp]}
            consumer.pause(*seen)
            if len(seen) == len(tps):
                break
        assert len(seen) == len(tps), "those that are paused have left no room"
        assert most < 2 * LIMIT
        consumer.resume(*tps)
        ledger.read_all()


@pytest.mark.behaviour(156)
@pytest.mark.parametrize("seed", range(5))
def test_a_pause_of_everything_drops_nothing(seed: int) -> None:
    """A full buffer stays full during a slow handler: no other partition needs the room."""
    with Simulation(f"all paused {seed}") as simulation:
        tps = create_topic(simulation, "orders", 4)
        fill(simulation, tps, 100)
        consumer = simulation.consumer(**BOUNDED)
        consumer.assign(tps)
        ledger = SimulatedLedger(simulation, consumer, tps)
        buffer = consumer._core.engine.buffer
        while not buffer.is_full:
            ledger.poll(100, 1)
        consumer.pause(*tps)
        simulation.sleep(5_000)
        before = buffer.added, buffer.held_bytes
        for _ in range(10):
            assert not consumer.poll(100)
        assert (buffer.added, buffer.held_bytes) == before
        consumer.resume(*tps)
        ledger.read_all()
