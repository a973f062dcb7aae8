"""A group of asyncio consumers in simulated time, and the records that they have returned."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tandem_kafka import AsyncKafkaConsumer, ConsumerRecord, TopicPartition
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import value_of
from tests.simulation.readers import OPTIONS, filled

__all__ = ["AsyncGroup", "AwaitingListener", "options_for"]

#: Simulated time within which a group settles.
SETTLE_MS = 120_000


def options_for(protocol: str, **options: Any) -> dict[str, Any]:
    """Return the options of a member."""
    chosen = {**OPTIONS, "group_protocol": protocol, **options}
    if protocol == "consumer":
        del chosen["session_timeout_ms"], chosen["heartbeat_interval_ms"]
    return chosen


class AwaitingListener:
    """Its methods are coroutines that use the consumer.

    Attributes:
        owned: Partitions from assigned calls that no later call has taken away.
        calls: Every call.
        cancelled: How many calls ended with a cancellation.
    """

    def __init__(self, consumer: AsyncKafkaConsumer[Any, Any]) -> None:
        self._consumer = consumer
        self.owned: set[TopicPartition] = set()
        self.calls: list[tuple[str, frozenset[TopicPartition]]] = []
        self.cancelled = 0

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        assert not self.owned & assigned, f"{assigned} assigned twice"
        self.owned |= assigned
        self.calls.append(("assigned", frozenset(assigned)))
        await self._work(assigned)

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await self._take_away("revoked", revoked)

    async def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        await self._take_away("lost", lost)

    async def _take_away(self, what: str, partitions: set[TopicPartition]) -> None:
        assert partitions <= self.owned, f"{partitions} {what}, {self.owned} owned"
        self.owned -= partitions
        self.calls.append((what, frozenset(partitions)))
        await self._work(partitions)

    async def _work(self, partitions: Iterable[TopicPartition]) -> None:
        try:
            await asyncio.sleep(0.01)
            for tp in sorted(partitions):
                await self._consumer.committed(tp)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


class AsyncGroup:
    """The topic, the records that the members returned, and checks of both and of the commits."""

    def __init__(self, simulation: Simulation, protocol: str, count: int = 5) -> None:
        self.simulation = simulation
        self.partitions = filled(simulation, partitions=4, count=count)
        self.options = options_for(protocol)
        self.read: Counter[tuple[TopicPartition, int]] = Counter()
        self.members: list[AsyncKafkaConsumer[Any, Any]] = []
        self._commits_seen = 0

    def consumer(self, **options: Any) -> AsyncKafkaConsumer[Any, Any]:
        """Return a consumer that has not been started."""
        return self.simulation.async_consumer(**{**self.options, **options})

    def note(self, records: Iterable[ConsumerRecord[Any, Any]]) -> None:
        """Note returned records; each follows the one before it in its partition."""
        for record in records:
            tp = TopicPartition(record.topic, record.partition)
            assert record.value == value_of(tp, record.offset)
            assert record.offset == self.next(tp), f"{tp}: {record.offset}, {self.next(tp)} is due"
            self.read[tp, record.offset] += 1
        self.check_commits()

    def next(self, tp: TopicPartition) -> int:
        """Return the offset of the record to return next."""
        return sum(1 for of, _ in self.read if of == tp)

    def check_commits(self) -> None:
        """Check that nothing is committed that was not returned."""
        log = self.simulation.cluster.commit_log
        for tp, (offset, _, _), _ in log[self._commits_seen :]:
            assert offset <= self.next(tp), f"{tp}: {offset} committed, {self.next(tp)} returned"
        self._commits_seen = len(log)

    def check_all_committed(self) -> None:
        """Check that all returned records are committed."""
        self.check_commits()
        found = {tp: self.simulation.cluster.committed("readers", tp) for tp in self.partitions}
        assert found == {tp: self.next(tp) for tp in self.partitions}

    def all_read(self) -> bool:
        """Return whether all records were returned."""
        ends = {tp: self.simulation.cluster.at(tp).log.end_offset for tp in self.partitions}
        return all(self.next(tp) == end for tp, end in ends.items())

    def settled(self) -> bool:
        """Return whether each partition has one owner, and each member has partitions."""
        held = [member.assignment() for member in self.members]
        return all(held) and Counter(tp for tps in held for tp in tps) == Counter(self.partitions)
