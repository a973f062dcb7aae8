"""A group whose members are polled one after another, and the records that they have read."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce

__all__ = ["OPTIONS", "Listener", "Readers", "filled"]

OPTIONS: dict[str, Any] = {
    "group_id": "readers",
    "auto_offset_reset": "earliest",
    "heartbeat_interval_ms": 500,
    "session_timeout_ms": 6_000,
}


class Listener:
    """Records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, frozenset[TopicPartition]]] = []

    def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
        self.calls.append(("assigned", frozenset(partitions)))

    def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
        self.calls.append(("revoked", frozenset(partitions)))

    def on_partitions_lost(self, partitions: set[TopicPartition]) -> None:
        self.calls.append(("lost", frozenset(partitions)))


class Readers:
    """The members of one group, polled one after another, and the records that they have read."""

    def __init__(self, simulation: Simulation, tps: list[TopicPartition]) -> None:
        self.simulation = simulation
        self.partitions = tps
        self.members: list[KafkaConsumer] = []
        self.read: Counter[tuple[TopicPartition, int]] = Counter()

    def join(self, listener: Listener | None = None, **options: Any) -> KafkaConsumer:
        options = {**OPTIONS, **options}
        if options.get("group_protocol") == "consumer":
            del options["session_timeout_ms"], options["heartbeat_interval_ms"]
        member = self.simulation.consumer(**options)
        member.subscribe([self.partitions[0].topic], listener=listener)
        self.members.append(member)
        return member

    def leave(self, member: KafkaConsumer) -> None:
        self.members.remove(member)
        member.close()

    def poll(self, rounds: int = 1, timeout_ms: int = 200) -> None:
        for _ in range(rounds):
            for member in self.members:
                for tp, records in member.poll(timeout_ms).items():
                    assert tp in member.assignment()
                    self.read.update((tp, record.offset) for record in records)

    def settled(self) -> bool:
        held = Counter(tp for member in self.members for tp in member.assignment())
        return held == Counter(self.partitions)

    def settle(self, within_ms: int = 120_000) -> None:
        until_ms = self.simulation.clock.now_ms() + within_ms
        self.poll(10)  # heartbeats report changes of the group
        while not (self.settled() and self.all_read()):
            assert self.simulation.clock.now_ms() < until_ms, "the group does not settle"
            self.poll()

    def all_read(self) -> bool:
        ends = {tp: self.simulation.cluster.at(tp).log.end_offset for tp in self.partitions}
        return all((tp, n) in self.read for tp, end in ends.items() for n in range(end))


def filled(simulation: Simulation, partitions: int = 4, count: int = 20) -> list[TopicPartition]:
    tps = create_topic(simulation, "orders", partitions)
    for tp in tps:
        produce(simulation, tp, count)
    return tps
