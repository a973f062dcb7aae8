"""The partitions of a consumer, and what our consumer has returned but `poll()` not handed out."""

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
        last: The record handed out last, since the partition was assigned or sought.
        explicit: What `store_offsets()` has stored, or what was stored before a seek.
        committed: What was committed last, to commit nothing twice.
        paused: The application has paused it.
        muted: The application has left it out of its assignment, which the group knows nothing of.
        stopped: It has no position, and an error has told so.
        eof_at: Where the end was told last.
        seeks: How often it was sought.
        start: Where the application wants it to begin; see `values.OFFSET_...`.
        held: What is handed out after `resume()`.
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
    def silent(self) -> bool:
        """True while nothing of it may be handed out."""
        return self.paused or self.muted or self.stopped

    @property
    def position(self) -> OffsetAndMetadata | None:
        """The offset behind the record handed out last."""
        last = self.last
        return None if last is None else OffsetAndMetadata(last.offset + 1, "", last.leader_epoch)


class Run:
    """Records of one partition in the order of their offsets."""

    __slots__ = ("part", "records")

    def __init__(self, part: Part, records: Iterable[Any]) -> None:
        self.part = part
        self.records = iter(records)


class Assigned:
    """The partitions by name, and the runs of their records that wait to be handed out."""

    def __init__(self) -> None:
        self.parts: dict[TopicPartition, Part] = {}
        self._runs: deque[Run] = deque()
        #: The run that is being handed out; nobody but `next_run` sets it to another run.
        self.run: Run | None = None

    def __iter__(self) -> Iterator[Part]:
        return iter(list(self.parts.values()))

    def get(self, tp: TopicPartition) -> Part | None:
        """Return a partition, None if it is not assigned."""
        return self.parts.get(tp)

    def add(self, tp: TopicPartition, start: int = OFFSET_INVALID) -> Part:
        """Take a partition over, as new."""
        part = self.parts[tp] = Part(tp, start)
        return part

    def remove(self, tps: Iterable[TopicPartition]) -> None:
        """Give partitions up, with the records that wait."""
        for tp in tps:
            part = self.parts.pop(tp, None)
            if part is not None:
                self.drop(part)

    def append(self, part: Part, records: Iterable[Any]) -> None:
        """Let records wait."""
        run = Run(part, records)
        if part.silent:
            part.held.append(run)
        else:
            self._runs.append(run)

    def next_run(self) -> Run | None:
        """Go on to the next run, when one has come to its end."""
        try:
            self.run = self._runs.popleft()
        except IndexError:
            self.run = None
        return self.run

    @property
    def empty(self) -> bool:
        """True when nothing waits; what is being handed out may still have records."""
        return not self._runs

    def waiting(self) -> set[TopicPartition]:
        """Return partitions of which records may be waiting."""
        run = self.run
        return {each.part.tp for each in (*self._runs, *([] if run is None else [run]))}

    def drop(self, part: Part) -> None:
        """Throw away what waits of a partition."""
        for run in self._of(part):
            run.records = iter(())
        part.held.clear()

    def hold(self, part: Part) -> None:
        """Keep what waits of a partition for later."""
        for run in self._of(part):
            part.held.append(_moved(run))

    def release(self, part: Part) -> None:
        """Hand out what was kept, before anything that came later."""
        self._runs.extendleft(reversed(part.held))
        part.held.clear()

    def _of(self, part: Part) -> list[Run]:
        run = self.run
        current = [] if run is None else [run]
        return [each for each in (*current, *self._runs) if each.part is part]


def _moved(run: Run) -> Run:
    """Return a run with what is left of another, which has nothing from then on."""
    moved = Run(run.part, ())
    moved.records, run.records = run.records, moved.records
    return moved
