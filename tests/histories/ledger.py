"""Ledgers: whether all that was written is read and committed, once and in order.

`Ledger` reads with one consumer and checks each record at once. `GroupLedger` has what the members
of a group report, for the checks of `anomalies`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.consumer.reading.records import ConsumerRecords
from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka_testing import Simulation
from tests.histories.anomalies import anomalies
from tests.histories.operations import (
    Assigned,
    Committed,
    Operation,
    Polled,
    Produced,
    Released,
    moment,
)
from tests.scenarios.numbered_records import value_of
from tests.waiting import until

__all__ = ["LATE_MS", "GroupLedger", "Ledger", "Reads", "SimulatedLedger", "reading"]

#: The application thread may notice late: up to two extra steps of the driver.
LATE_MS = 15


class Ledger:
    """Reads partitions from their beginning and checks each record.

    Args:
        consumer: It has these partitions.
        partitions: The partitions.
        value: The value of the record at an offset.

    Attributes:
        next: The next offset of each partition.
    """

    def __init__(
        self,
        consumer: KafkaConsumer,
        partitions: Iterable[TopicPartition],
        value: Callable[[TopicPartition, int], bytes] = value_of,
    ) -> None:
        self.consumer = consumer
        self.next = dict.fromkeys(partitions, 0)
        self._value = value

    def poll(self, timeout_ms: int = 100, max_records: int | None = None) -> ConsumerRecords:
        """Poll once; check the order and the values, and that no record is missing or doubled."""
        batch = self.consumer.poll(timeout_ms, max_records)
        assert max_records is None or batch.count <= max_records
        for tp, records in batch.items():
            for record in records:
                assert record.offset == self.next[tp], f"{tp}: expected {self.next[tp]}, {record}"
                assert record.value == self._value(tp, record.offset), f"the value of {record}"
                self.next[tp] = record.offset + 1
        return batch

    def read_to(self, end_of: Callable[[TopicPartition], int], **limit: Any) -> None:
        """Poll until every partition is read to this offset; `limit` is for `until`."""
        done = lambda: all(at >= end_of(tp) for tp, at in self.next.items())  # noqa: E731
        for _ in until(done, lambda: f"stuck at {self.next}", **limit):
            self.poll()

    def read_more(self, count: int = 20) -> None:
        """Poll until every partition went on by `count` records."""
        goal = {tp: at + count for tp, at in self.next.items()}
        self.read_to(goal.__getitem__)


class SimulatedLedger(Ledger):
    """In a simulation, it also checks each commit, and how long calls take."""

    def __init__(
        self, simulation: Simulation, consumer: KafkaConsumer, partitions: Iterable[TopicPartition]
    ) -> None:
        super().__init__(consumer, partitions)
        self.simulation = simulation
        self._commits_seen = len(simulation.cluster.commit_log)

    def poll(self, timeout_ms: int = 1_000, max_records: int | None = None) -> ConsumerRecords:
        """Poll once, and check its duration as well."""
        began_ms = self.simulation.clock.now_ms()
        batch = super().poll(timeout_ms, max_records)
        took_ms = self.simulation.clock.now_ms() - began_ms
        assert took_ms <= timeout_ms + LATE_MS, f"poll({timeout_ms}) took {took_ms} ms"
        self.check_commits()
        return batch

    def commit(self, timeout_ms: int) -> bool:
        """Commit; check that it is stored, or that it times out on time."""
        began_ms = self.simulation.clock.now_ms()
        wanted = {tp: offset for tp, offset in self.next.items() if offset}
        try:
            self.consumer.commit(timeout_ms=timeout_ms)
        except KafkaTimeoutError:
            took_ms = self.simulation.clock.now_ms() - began_ms
            assert timeout_ms <= took_ms <= timeout_ms + LATE_MS, f"{timeout_ms} took {took_ms}"
            return False
        finally:
            self.check_commits()
        group = self.consumer.group_metadata().group_id
        for tp, offset in wanted.items():
            stored = self.simulation.cluster.committed(group, tp)
            assert stored is not None, f"{tp}: nothing is committed"
            assert stored <= offset
        return True

    def check_commits(self) -> None:
        """Check that no commit is ahead of the records handed out."""
        log = self.simulation.cluster.commit_log
        for tp, (offset, _, _), _ in log[self._commits_seen :]:
            assert offset <= self.next[tp], f"{tp}: {offset} committed, {self.next[tp]} read"
        self._commits_seen = len(log)

    def read_all(self, within_ms: int = 300_000) -> None:
        """Read all records, and check that nothing follows."""
        cluster, clock = self.simulation.cluster, self.simulation.clock
        limit = {"timeout_s": within_ms / 1_000, "now_s": lambda: clock.now_ms() / 1_000}
        self.read_to(lambda tp: cluster.at(tp).log.end_offset, **limit)
        assert not self.poll(2_000)


def reading(simulation: Simulation, tp: TopicPartition, **options: Any) -> SimulatedLedger:
    """Return the ledger of a consumer that reads a partition from its start."""
    consumer = simulation.consumer(auto_offset_reset="earliest", **options)
    consumer.assign([tp])
    return SimulatedLedger(simulation, consumer, [tp])


class Reads(ABC):
    """When the members of a group have read the partitions of its topic.

    Attributes:
        partitions: The number of partitions.
    """

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions

    @abstractmethod
    def reads(self) -> Iterator[tuple[float, int, int]]:
        """Return the time, the partition and the offset of each record that was handed out."""

    def first_read_after(self, moment_s: float) -> dict[int, float]:
        """Return the time of the first read of each partition after a moment, if it was read."""
        first: dict[int, float] = {}
        for at_s, number, _ in self.reads():
            if at_s > moment_s:
                first[number] = min(at_s, first.get(number, at_s))
        return first

    def longest_silence(self, begin_s: float, end_s: float) -> float:
        """Return the longest time within these bounds in which a partition was not read."""
        times: dict[int, list[float]] = {n: [begin_s, end_s] for n in range(self.partitions)}
        for at_s, number, _ in self.reads():
            if begin_s < at_s < end_s:
                times[number].append(at_s)
        gaps = chain.from_iterable(pairwise(sorted(each)) for each in times.values())
        return max(after - before for before, after in gaps)


class GroupLedger(Reads):
    """The ledger of one group.

    Attributes:
        members: Its members, also the past ones. Each has a `name`, its `operations` so far, and
            the `doubtful` times at which it was paused or killed: it may own nothing from then on.
    """

    def __init__(self, partitions: int) -> None:
        super().__init__(partitions)
        self.members: list[Any] = []

    def history(self, committed: Mapping[int, int], sent: int = 0) -> list[Operation]:
        """Return all operations in their order.

        Args:
            committed: The commits of the group, as they are now.
            sent: How many records of each partition are known to be written.
        """
        now = time.monotonic()
        written = [
            Produced("stream", 0.0, 0.0, number, f"{number}-{offset}", "acknowledged", offset)
            for number in range(self.partitions)
            for offset in range(sent)
        ]
        done = sorted(chain.from_iterable(map(_operations, self.members)), key=moment)
        return [*written, *done, Committed("the group", now, now, tuple(committed.items()))]

    def check(self, committed: Mapping[int, int], sent: int = 0) -> None:
        """Check that the history has no anomaly."""
        found = anomalies(self.history(committed, sent))
        assert not found, f"{len(found)} anomalies, the first: {found[0]}"

    def reads(self) -> Iterator[tuple[float, int, int]]:
        """Return the time, the partition and the offset of each record that was handed out."""
        for member in self.members:
            for operation in tuple(member.operations):
                if isinstance(operation, Polled):
                    for number, offset, _ in operation.records:
                        yield operation.end, number, offset

    def repeated(self) -> int:
        """Return the number of records that were returned more than once."""
        reads = [(number, offset) for _, number, offset in self.reads()]
        return len(reads) - len(set(reads))


def _operations(member: Any) -> Sequence[Operation]:
    """Return the operations of a member, and which tenures are certain.

    A member that was paused or killed owned its partitions until an unknown time before.
    """
    found: list[Operation] = []
    begun: dict[int, float] = {}

    def doubtful(numbers: Iterable[int], until: float) -> set[int]:
        """End the tenures of these partitions; return those that may have been lost before."""
        begins = {number: begun.pop(number, until) for number in numbers}
        return {n for n, at in begins.items() if any(at < d < until for d in member.doubtful)}

    for operation in tuple(member.operations):
        match operation:
            case Assigned(at=at, partitions=numbers):
                begun.update(dict.fromkeys(numbers, at))
                found.append(operation)
            case Released(at=at, partitions=numbers, certain=certain):
                doubts = doubtful(numbers, at)
                sure = set(numbers) - doubts if certain else set[int]()
                found += [
                    replace(operation, partitions=tuple(sorted(some)), certain=some is sure)
                    for some in (set(numbers) - sure, sure)
                    if some
                ]
            case _:
                found.append(operation)
    last = max([*member.doubtful, *map(moment, found[-1:])], default=0.0)
    if lost := doubtful(list(begun), last + 1.0):
        found.append(Released(member.name, last, tuple(sorted(lost)), certain=False))
    return found
