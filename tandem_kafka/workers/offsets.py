"""The offsets of one assigned partition: what was handed out, what is done, what to commit."""

from __future__ import annotations

import sys
from bisect import bisect_left
from typing import Final, Generic, TypeVar
from uuid import UUID

from tandem_kafka.types import (
    NO_TOPIC_ID,
    UNKNOWN_EPOCH,
    OffsetAndMetadata,
    OffsetOfTopic,
    PositionStart,
    TopicPartition,
)
from tandem_kafka.workers import done_map
from tandem_kafka.workers.done_map import DoneMap

T = TypeVar("T")

NOTHING_DONE: Final = DoneMap()


class Snapshot:
    """The state of a partition at one moment, from which a commit is made.

    Attributes:
        base: The lowest offset that is not done; everything before it is.
        changes: The count of changes at that moment.
    """

    __slots__ = ("_limit", "base", "changes", "done", "epoch_before_base", "topic_id")

    def __init__(
        self,
        base: int,
        done: DoneMap,
        epoch_before_base: int,
        topic_id: UUID,
        changes: int,
        limit: int,
    ) -> None:
        self.base = base
        self.done = done
        self.epoch_before_base = epoch_before_base
        self.topic_id = topic_id
        self.changes = changes
        self._limit = limit

    def to_commit(
        self, tp: TopicPartition, limit: int = sys.maxsize
    ) -> tuple[OffsetAndMetadata, int]:
        """Return the commit, and the number of done ranges for which it has no room.

        Args:
            tp: The partition.
            limit: The maximum length of the metadata, if it is below `metadata_limit_bytes`.
        """
        text, left_out = done_map.encode(tp, self.base, self.done, min(self._limit, limit))
        return OffsetOfTopic(self.base, text, self.epoch_before_base, self.topic_id), left_out


class PartitionOffsets(Generic[T]):
    """What was handed out of one partition during one assignment.

    Offsets are handed out in ascending order, beginning where the consumer says. Whatever lies
    between two of them counts as done: the consumer has passed it (compacted records, control
    records of transactions), or has been told to skip it (a seek, a reset).

    Attributes:
        topic_id: The topic that the offsets belong to.
        pending: Each offset that was handed out and is not done, ascending, with its task.
        changes: Counts the changes of what a commit would contain.
        committed_changes: This count at the last successful commit.
    """

    def __init__(self, limit: int) -> None:
        self.pending: dict[int, T] = {}
        self.topic_id = NO_TOPIC_ID
        self.changes = self.committed_changes = 0
        self._limit = limit
        #: The offset after the last one handed out or skipped, and the end of the last poll. What
        #: lies between has no records, so no commit marks it while a record before is not done.
        self._next: int | None = None
        self._reached = 0
        #: What an earlier assignment has done at and after `_next`.
        self._restored: list[tuple[int, int]] = []
        self._restored_epoch = UNKNOWN_EPOCH
        #: A lower bound of the base. To find the base itself, a dict passes over deleted entries.
        self._floor = 0
        #: First offset and leader epoch of each stretch of records; it begins before the base.
        self._epochs: list[tuple[int, int]] = []
        self._epoch: int | None = None

    # --- the committed state -------------------------------------------------------------------

    def begin(
        self,
        start: PositionStart,
        committed: OffsetAndMetadata | None = None,
        done: DoneMap = NOTHING_DONE,
    ) -> None:
        """Begin where the consumer does, with what is marked at the committed offset.

        Invariant: a start that is not committed is a change, also without any record. With
        "latest", what is produced while no member runs would be skipped otherwise.
        """
        at = start.offset
        self.topic_id = start.topic_id
        self._next = self._floor = at
        self._epochs = [(at - 1, start.leader_epoch)]
        self.changes = 1
        if committed is None or committed.offset > at:
            return
        self._restored = [(max(first, at), end) for first, end in done.ranges if end > at]
        self._restored_epoch = done.leader_epoch
        if committed.offset == at:
            self.committed_changes = 1

    @property
    def next_offset(self) -> int | None:
        """The offset after the last one handed out; None before the beginning."""
        return None if self._next is None else max(self._next, self._reached)

    @property
    def base(self) -> int | None:
        """The lowest offset handed out and not done, or else the next offset."""
        return next(iter(self.pending), self.next_offset)

    # --- handing out ---------------------------------------------------------------------------

    def was_done(self, offset: int, leader_epoch: int) -> bool:
        """Tell whether an earlier assignment has marked the record at `offset` as done.

        A record with a later leader epoch than all marked ones is a different one: an unclean
        leader election has replaced the marked record.
        """
        restored = self._restored
        while restored and restored[0][1] <= offset:
            del restored[0]
        return bool(restored) and restored[0][0] <= offset and leader_epoch <= self._restored_epoch

    def add(self, offset: int, leader_epoch: int, task: T) -> None:
        """Note that a record is handed out."""
        # Invariant: pending before the next offset moves past it, as all between two offsets counts
        # as done. An interrupt in between repeats the record; the other order would lose it.
        self.pending[offset] = task
        if leader_epoch != self._epoch:
            self._pass(offset, leader_epoch)
        self._next = offset + 1

    def skip(self, offset: int, leader_epoch: int) -> None:
        """Note that a record is not handed out, because it was done before."""
        if leader_epoch != self._epoch:
            self._pass(offset, leader_epoch)
        self._next = offset + 1
        self.changes += 1

    def _pass(self, offset: int, leader_epoch: int) -> None:
        """Note that the record at `offset` has another leader epoch than those before it.

        Invariant: what lies between two records may have the epoch of either. With the first one
        and an offset behind such a gap, a broker would take the log for truncated.
        """
        first = offset if offset == self.next_offset else offset - 1
        self._epochs.append((first, leader_epoch))
        self._epoch = leader_epoch

    def reach(self, offset: int, leader_epoch: int) -> None:
        """Note that there are no more records before `offset`, or that they are to be skipped.

        Args:
            offset: The position of the consumer.
            leader_epoch: Its leader epoch, which may be that of an aborted record.
        """
        if offset > (self.next_offset or 0):
            if leader_epoch != self._epoch:
                self._pass(offset, leader_epoch)
            self._reached = offset
            self.changes += 1

    @property
    def has_marks(self) -> bool:
        """Whether an earlier assignment has marked offsets that are not handed out yet."""
        return bool(self._restored)

    @property
    def sure_until(self) -> int:
        """The first offset for which `has_room` must be asked.

        Before it, a bitset is short enough, no matter how old the lower bound of the base is.
        """
        sure = self._floor + 3 * self._limit
        return sure if not self._restored or self._restored[-1][1] <= sure else 0

    def has_room(self, offset: int) -> bool:
        """Tell whether one more record can be handed out, so that a commit still fits its limit.

        One record always can: while it is the only one, the map does not grow.
        """
        restored = self._restored
        last = max(restored[-1][1] if restored else 0, offset + 1)
        if not self.pending:
            self._floor = offset
            return True
        self._floor = next(iter(self.pending))
        window = last - self._floor
        undone = len(self.pending) + 1
        if restored:
            undone += last - offset - sum(end - start for start, end in restored)
        return done_map.fits(window, undone, len(self.pending) + 1 + len(restored), self._limit)

    # --- completion ----------------------------------------------------------------------------

    def finish(self, offset: int) -> None:
        """Note that the record at `offset` is done."""
        del self.pending[offset]
        self.changes += 1

    def done_ranges(self) -> list[tuple[int, int]]:
        """Return the ranges of done offsets after the base, ascending.

        Invariant: with the restored marks that are not reached yet. Without them, a second crash
        would repeat what the first one did not.
        """
        base, end = self.base, self._next
        if base is None or end is None:
            return []
        ranges: list[tuple[int, int]] = []
        at = base
        for offset in (*self.pending, end):
            if offset > at:
                ranges.append((at, offset))
            at = offset + 1
        return _joined(ranges, self._restored, max(end, base))

    def epoch_before(self, base: int) -> int:
        """Return the leader epoch of the last record before the base; forget earlier stretches."""
        epochs = self._epochs
        before = bisect_left(epochs, (base,)) - 1
        del epochs[: max(0, before)]
        return epochs[0][1] if before >= 0 else UNKNOWN_EPOCH

    def snapshot(self, *, final: bool = False) -> Snapshot | None:
        """Return what to commit, or None if nothing has changed since the last commit.

        Args:
            final: This is the last commit of the assignment. It repeats an unchanged one, because
                a coordinator that fails over may have lost it.
        """
        base = self.base
        again = final and self.changes > 0
        if base is None or (self.changes == self.committed_changes and not again):
            return None
        epochs, epoch = self._epochs, self.epoch_before(base)
        highest = max([self._restored_epoch, *(each for _, each in epochs)])
        done = DoneMap(self.done_ranges(), highest, done_map.fingerprint(self.topic_id))
        return Snapshot(base, done, epoch, self.topic_id, self.changes, self._limit)


def _joined(
    ranges: list[tuple[int, int]], restored: list[tuple[int, int]], end: int
) -> list[tuple[int, int]]:
    """Return `ranges`, all before `end`, and what was restored from `end` on."""
    for start, stop in restored:
        first = max(start, end)
        if first >= stop:
            continue
        if ranges and ranges[-1][1] == first:
            ranges[-1] = (ranges[-1][0], stop)
        else:
            ranges.append((first, stop))
    return ranges
