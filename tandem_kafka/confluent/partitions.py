"""The partitions of a consumer, and their records that `poll()` has not returned yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from tandem_kafka.confluent.values import OFFSET_INVALID
from tandem_kafka.types import OffsetAndMetadata, TopicPartition

__all__ = ["Assigned", "Part", "Run"]


class Part:
    """One partition.

    Attributes:
        last: The last returned record since the partition was assigned or since a seek.
        explicit: The offset stored by `store_offsets()`, or the one stored before a seek.
        committed: The last committed offset, to commit nothing twice.
        paused: True if the application has paused the partition.
        muted: True if the application has omitted the partition from its assignment; the group
            still assigns it.
        stopped: True if the partition has no position; an error has reported it.
        eof_at: The end that was last reported.
        low: The first offset, if known.
        seeks: The number of seeks.
        start: Where the application wants to start; see `values.OFFSET_...`.
        held: The records to return after `resume()`.
    """

    __slots__ = (
        "committed",
        "eof_at",
        "explicit",
        "held",
        "last",
        "low",
        "muted",
        "paused",
        "seeks",
        "start",
        "stopped",
        "tp",
    )

    def __init__(self, tp: TopicPartition, start: int = OFFSET_INVALID) -> None:
        self.tp = tp
        self.start = start
        self.last: Any = None
        self.explicit: OffsetAndMetadata | None = None
        self.committed: OffsetAndMetadata | None = None
        self.paused = False
        self.muted = False
        self.stopped = False
        self.eof_at = OFFSET_INVALID
        self.low: int | None = None
        self.seeks = 0
        self.held: list[Run] = []

    @property
    def inactive(self) -> bool:
        """True while no record of the partition may be returned."""
        return self.paused or self.muted or self.stopped

    @property
    def position(self) -> OffsetAndMetadata | None:
        """The offset after the last returned record."""
        last = self.last
        return None if last is None else OffsetAndMetadata(last.offset + 1, "", last.leader_epoch)


class Run:
    """Consecutive records of one partition."""

    __slots__ = ("part", "records")

    def __init__(self, part: Part, records: Iterable[Any]) -> None:
        self.part = part
        self.records = iter(records)


class Assigned:
    """The assigned partitions, and the runs of their buffered records."""

    def __init__(self) -> None:
        self.parts: dict[TopicPartition, Part] = {}
        self._runs: deque[Run] = deque()
        #: The current run; only `next_run` selects another one.
        self.run: Run | None = None

    def __iter__(self) -> Iterator[Part]:
        return iter(list(self.parts.values()))

    def get(self, tp: TopicPartition) -> Part | None:
        """Return a partition, or None if it is not assigned."""
        return self.parts.get(tp)

    def add(self, tp: TopicPartition, start: int = OFFSET_INVALID) -> Part:
        """Add a partition with a new state."""
        part = self.parts[tp] = Part(tp, start)
        return part

    def remove(self, tps: Iterable[TopicPartition]) -> None:
        """Remove partitions and their buffered records."""
        for tp in tps:
            part = self.parts.pop(tp, None)
            if part is not None:
                self.drop(part)

    def append(self, part: Part, records: Iterable[Any]) -> None:
        """Buffer records."""
        run = Run(part, records)
        if part.inactive:
            part.held.append(run)
        else:
            self._runs.append(run)

    def next_run(self) -> Run | None:
        """Select the next run after the current one is exhausted."""
        try:
            self.run = self._runs.popleft()
        except IndexError:
            self.run = None
        return self.run

    @property
    def empty(self) -> bool:
        """True if no run is buffered; the current one may still have records."""
        return not self._runs

    def buffered(self) -> set[TopicPartition]:
        """Return the partitions that may have buffered records."""
        run = self.run
        return {each.part.tp for each in (*self._runs, *([] if run is None else [run]))}

    def drop(self, part: Part) -> None:
        """Discard the buffered records of a partition."""
        for run in self._of(part):
            run.records = iter(())
        part.held.clear()

    def hold(self, part: Part) -> None:
        """Set aside the buffered records of a partition."""
        for run in self._of(part):
            part.held.append(_moved(run))

    def release(self, part: Part) -> None:
        """Make the records set aside available again, before later ones."""
        self._runs.extendleft(reversed(part.held))
        part.held.clear()

    def _of(self, part: Part) -> list[Run]:
        run = self.run
        current = [] if run is None else [run]
        return [each for each in (*current, *self._runs) if each.part is part]


def _moved(run: Run) -> Run:
    """Move the remaining records of a run to a new one."""
    moved = Run(run.part, ())
    moved.records, run.records = run.records, moved.records
    return moved
