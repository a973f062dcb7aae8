"""One partition during one assignment, and the tasks made of its records."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any

from tandem_kafka.types import (
    OffsetAndMetadata,
    OffsetOfTopic,
    PositionStart,
    TopicPartition,
)
from tandem_kafka.workers.offsets import NOTHING_DONE, PartitionOffsets


class Task:
    """A record to handle, possibly with the records of its lane that follow it.

    Attributes:
        part: The partition, during the assignment in which the record was handed out; for a share
            group, the run.
        record: The record.
        lane: What must be handled in order: a key, a partition, a value of the user's function.
            None if the record has no order.
        since_ms: When the record was handed out.
        more: Tasks whose records are handled in the same call.
        failures: How often the handler has failed.
        error: The last error of the handler, once the attempts are exhausted.
        refusals: How often the function for exhausted records has failed.
    """

    __slots__ = ("error", "failures", "lane", "more", "part", "record", "refusals", "since_ms")

    def __init__(self, part: Portion, record: Any, lane: Hashable | None, since_ms: int) -> None:
        self.part: Any = part  # of the kind that the owner of the task has made
        self.record = record
        self.lane = lane
        self.since_ms = since_ms
        self.more: list[Task] | None = None
        self.failures = self.refusals = 0
        self.error: Exception | None = None

    @property
    def size(self) -> int:
        """Number of records."""
        return 1 if self.more is None else 1 + len(self.more)

    @property
    def records(self) -> list[Any]:
        """All records, in order."""
        return [self.record, *(task.record for task in self.more or ())]


class Portion:
    """Records whose tasks end together: those of a partition, or of a run.

    Attributes:
        fenced: Whether the assignment or run has ended. Completions then change nothing.
        draining: Whether the assignment is about to end. If so, nothing is retried.
        running: Number of tasks that are with a worker.
        retries: How often a record was queued again after a failure.
    """

    __slots__ = ("draining", "fenced", "retries", "running")

    def __init__(self) -> None:
        self.draining = self.fenced = False
        self.running = self.retries = 0


class WorkedPartition(Portion):
    """The state of a partition, from its assignment to its revocation or loss.

    A later assignment of the same partition has another object. A task refers to the object
    of its assignment. The completion of an old task therefore changes nothing in the new one.

    Attributes:
        tp: The partition.
        offsets: What was handed out and what is done.
        start: Where the consumer said last that it continues, other than by reading. None before.
        committed: What was committed when the assignment began, with `marks`.
        marks: Which records were done.
        restored: Whether these have been read. Nothing is handed out before that and the start.
        lookup_ms: When these may be looked up again, after `failed_lookups` of the end of the log.
        reached: The position after the records in `backlog`, and its leader epoch.
        backlog: Records from poll() that are not handed out yet.
        resumes_at: The number of pending records at which the backlog is tried again.
    """

    __slots__ = (
        "backlog",
        "committed",
        "failed_lookups",
        "lookup_ms",
        "marks",
        "offsets",
        "reached",
        "restored",
        "resumes_at",
        "start",
        "tp",
    )

    def __init__(self, tp: TopicPartition, limit: int) -> None:
        super().__init__()
        self.tp = tp
        self.offsets: PartitionOffsets[Task] = PartitionOffsets(limit)
        self.start: PositionStart | None = None
        self.committed: OffsetAndMetadata | None = None
        self.marks = NOTHING_DONE
        self.restored = False
        self.lookup_ms = self.failed_lookups = 0
        self.backlog: deque[Any] = deque()
        self.reached: tuple[int, int] | None = None
        self.resumes_at = 0

    @property
    def begun(self) -> bool:
        """Whether records can be handed out: it is known where to begin, and what was done."""
        return self.restored and self.start is not None

    @property
    def holds_back(self) -> bool:
        """Whether there are, or may have been, records from poll() that are not handed out."""
        return bool(self.backlog) or not self.begun or self.draining

    @property
    def base(self) -> OffsetOfTopic | None:
        """The lowest offset that is not done; None before it is known where to begin."""
        start, base = self.start, self.offsets.base
        if start is None:
            return None
        if base is None:
            return OffsetOfTopic(start.offset, "", start.leader_epoch, start.topic_id)
        return OffsetOfTopic(base, "", self.offsets.epoch_before(base), start.topic_id)

    @property
    def undone(self) -> list[Any]:
        """The records from poll() that are not done, in order."""
        return [*(task.record for task in self.offsets.pending.values()), *self.backlog]

    @property
    def following(self) -> int | None:
        """The offset after the last record from poll(); None before the beginning."""
        return self.backlog[-1].offset + 1 if self.backlog else self.offsets.next_offset
