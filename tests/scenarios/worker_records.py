"""What workers may do with records: the invariants of the scenarios with workers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from tandem_kafka.types import TopicPartition
from tandem_kafka.workers.done_map import decode
from tandem_kafka_testing.simulation import Simulation
from tests.scenarios.history import History
from tests.scenarios.numbered_records import value_of
from tests.scenarios.violation import Violation

__all__ = ["Assignment", "WorkerRecords"]


class Assignment:
    """What one member did with one partition during one assignment.

    Attributes:
        marked: What was marked as done in the commit that the member has read.
    """

    def __init__(self) -> None:
        self.marked: set[int] = set()
        self._last: dict[Hashable, int] = {}

    def check_order(self, tp: TopicPartition, lane: Hashable | None, offset: int) -> None:
        """Check that the records of a lane are tried in order; a retry repeats the last one."""
        if lane is not None and offset < self._last.get(lane, -1):
            raise Violation(f"{tp}: {offset} of {lane} handled after {self._last[lane]}")
        self._last[lane] = offset


class WorkerRecords:
    """Knows which handlers have returned, and checks each call and each commit.

    Attributes:
        returned: Offsets of the records whose handler, or dead letter, has succeeded.
        calls: How often a handler has succeeded for each record.
    """

    def __init__(self, simulation: Simulation, history: History, limit: int) -> None:
        self._cluster = simulation.cluster
        self._history = history
        self._limit = limit
        self.calls: dict[tuple[TopicPartition, int], int] = {}
        self._checked_commits = 0
        self.violations: list[str] = []

    def handled(self, assignment: Assignment, record: Any, lane: Hashable | None) -> None:
        """Check a call of the handler, whether it succeeds or not."""
        tp = TopicPartition(record.topic, record.partition)
        if record.value != value_of(tp, record.offset):
            self._violated(f"{tp}: {record.value!r} at offset {record.offset}")
        if record.offset in assignment.marked:
            self._violated(f"{tp}: {record.offset} is marked as done and handled again")
        try:
            assignment.check_order(tp, lane, record.offset)
        except Violation as violation:
            self._violated(str(violation))

    def _violated(self, what: str) -> None:
        # An exception inside a handler would count as its failure.
        self.violations.append(what)

    def succeeded(self, record: Any) -> None:
        """Note that the handler or the dead letter has succeeded."""
        place = TopicPartition(record.topic, record.partition), record.offset
        self.calls[place] = self.calls.get(place, 0) + 1

    def check(self) -> None:
        """Check the commits since the last check: their epoch, and that they mark what is done."""
        if self.violations:
            raise Violation(self.violations[0])
        log = self._cluster.commit_log
        for tp, (offset, epoch, metadata), _ in log[self._checked_commits :]:
            self._history.check_epoch(tp, offset, epoch)
            if len(metadata) > self._limit:
                raise Violation(f"{tp}: {len(metadata)} bytes of metadata")
            for done in sorted(self.marked_by(tp, offset, metadata)):
                self._check_marked(tp, done)
        self._checked_commits = len(log)

    def _check_marked(self, tp: TopicPartition, offset: int) -> None:
        due = self._history.first_due(tp, offset) == offset
        if due and (tp, offset) not in self.calls:
            raise Violation(f"{tp}: {offset} is marked as done, and no handler has returned")

    def marked_by(self, tp: TopicPartition, offset: int, metadata: str) -> set[int]:
        """Return the offsets that a commit marks as done."""
        marked = set(range(offset))
        for start, end in decode(tp, offset, metadata).ranges:
            marked |= set(range(start, end))
        return marked

    def all_reached(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Return whether these offsets are behind the last record of each partition."""
        return all(offset >= self._last_due(tp) for tp, offset in offsets.items())

    def _last_due(self, tp: TopicPartition) -> int:
        """Return the offset after the last record that workers receive."""
        end: int = self._cluster.at(tp).log.end_offset
        while end and self._history.first_due(tp, end - 1) != end - 1:
            end -= 1
        return end

    def check_complete(self, partitions: list[TopicPartition]) -> None:
        """Check that a handler has returned for every record."""
        for tp in partitions:
            for offset in range(self._last_due(tp)):
                self._check_marked(tp, offset)
