"""Commits of a member reach the coordinator in the order in which they were made."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import produce
from tests.simulation.readers import Listener, Readers, filled
from tests.tier import sample

CONSUMER = {"group_protocol": "consumer"}


class Committing(Readers):
    """A group whose members commit asynchronously after every record."""

    def __init__(self, simulation: Simulation, tps: list[TopicPartition]) -> None:
        super().__init__(simulation, tps)
        self.succeeded: dict[tuple[str, TopicPartition], list[int]] = defaultdict(list)

    def join(self, listener: Listener | None = None, **options: Any) -> KafkaConsumer:
        return super().join(listener, enable_auto_commit=False, max_poll_records=1, **options)

    def poll(self, rounds: int = 1, timeout_ms: int = 0) -> None:
        for _ in range(rounds):
            for member in self.members:
                for tp, records in member.poll(timeout_ms).items():
                    self.read.update((tp, record.offset) for record in records)
                member.commit_async(callback=self._note)
            self.simulation.sleep(self.simulation.random.randrange(15))

    def _note(self, offsets: Any, error: Exception | None) -> None:
        if error is None:
            for tp, offset in offsets.items():
                self.succeeded["member", tp].append(offset.offset)


@pytest.mark.parametrize(
    ("protocol", "seed"), [*sample([({}, seed) for seed in range(4)], 1), (CONSUMER, 0)]
)
def test_no_commit_overtakes_an_older_one(protocol: Any, seed: int) -> None:
    with Simulation(f"order {seed}", brokers=2, trace_lines=None) as simulation:
        simulation.network.conditions.latency_ms = (1, 100)
        readers = Committing(simulation, filled(simulation, partitions=3))
        options = dict(protocol)
        if not protocol:
            options["partition_assignment_strategy"] = [CooperativeStickyAssignor]
        stays = readers.join(**options)
        readers.poll(60)
        for _ in range(4):
            guest = readers.join(**options)
            for _ in range(15):
                for tp in readers.partitions:
                    produce(simulation, tp, 1)
                readers.poll(10)
            readers.leave(guest)
            readers.poll(30)
        identity = stays.group_metadata().member_id
        newest: dict[TopicPartition, int] = {}
        for tp, (offset, _, _), member_id in simulation.cluster.commit_log:
            if member_id == identity:
                assert offset >= newest.get(tp, 0), f"{tp}: {offset} after {newest[tp]}"
                newest[tp] = offset
        assert newest
