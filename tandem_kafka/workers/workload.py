"""The records in work: from the batch that poll() returned to the offsets to commit.

This is a state machine without threads, waits or input and output. Its owner holds `lock` during
each call, unless the method says otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from tandem_kafka.errors import RecordFailedError
from tandem_kafka.logs import ClientNames, client_logger
from tandem_kafka.runtime import Clock, Random
from tandem_kafka.types import (
    OffsetAndMetadata,
    PositionStart,
    TopicPartition,
    epoch_of,
    may_be_same_topic,
)
from tandem_kafka.workers.assignment import Task, WorkedPartition
from tandem_kafka.workers.done_map import DoneMap
from tandem_kafka.workers.offsets import NOTHING_DONE, Snapshot
from tandem_kafka.workers.settings import WorkerSettings
from tandem_kafka.workers.work import Work, place_of

log = client_logger(__name__)


class Workload(Work):
    """Records that are queued, running and done.

    Attributes:
        parts: The assigned partitions.
        refill_at: The value of `active` at which `on_room` is called; -1 for never.
    """

    _settings: WorkerSettings

    def __init__(
        self,
        settings: WorkerSettings,
        clock: Clock,
        random: Random,
        lock: AbstractContextManager[Any],
        client: ClientNames | None = None,
    ) -> None:
        super().__init__(settings, clock, random, lock, client)
        self.parts: dict[TopicPartition, WorkedPartition] = {}
        self.refill_at = -1
        self._lane_of = settings.lane_of()

    @property
    def active(self) -> int:
        """Number of records in flight that wait neither for a retry nor behind such a record."""
        return self.in_flight - self._scheduler.delayed

    @property
    def retries_full(self) -> bool:
        """Whether as many records wait for a retry, or behind such a record, as may be active."""
        return self._scheduler.delayed >= self._settings.max_in_flight

    # --- assignments ---------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin an assignment of these partitions; an earlier one of the same partition ends."""
        chosen = list(partitions)
        self.fence(chosen)
        for tp in chosen:
            self.parts[tp] = WorkedPartition(tp, self._settings.metadata_limit_bytes)

    def restore(
        self, part: WorkedPartition, committed: OffsetAndMetadata | None, done: DoneMap
    ) -> None:
        """Note what is committed for a partition."""
        part.committed, part.marks, part.restored = committed, done, True
        self._begin_if_known(part)

    def _begin_if_known(self, part: WorkedPartition) -> None:
        start = part.start
        if start is None or not part.restored:
            return
        marks = part.marks
        if marks.ranges and not marks.is_of(start.topic_id):
            log.warning(
                "the metadata of the committed offset of %s-%s is of a deleted topic with the same "
                "name and is ignored, so all records are handled",
                *part.tp,
                client=self._client,
            )
            marks = NOTHING_DONE
        part.offsets.begin(start, part.committed, marks)

    def drop_queued(self, partitions: Iterable[TopicPartition]) -> list[WorkedPartition]:
        """Drop the records of these partitions that are not with a worker.

        Returns:
            The partitions that are assigned.
        """
        parts = [self.parts[tp] for tp in partitions if tp in self.parts]
        for part in parts:
            part.backlog.clear()
        self.in_flight -= sum(task.size for task in self._scheduler.drop(parts))
        return parts

    def fence(self, partitions: Iterable[TopicPartition]) -> None:
        """End the assignment of these partitions: completions of their tasks change nothing.

        Invariant: a running task keeps its lane all the same. Otherwise the next assignment could
        handle the same key at the same time.
        """
        for part in self.drop_queued(partitions):
            part.fenced = True
            del self.parts[part.tp]

    # --- intake --------------------------------------------------------------------------------

    def admit(
        self,
        batch: Mapping[TopicPartition, Any],
        ends: Mapping[TopicPartition, OffsetAndMetadata],
        starts: Mapping[TopicPartition, PositionStart],
    ) -> None:
        """Hand out what poll() returned.

        Args:
            batch: Records by partition.
            ends: The position after the batch, by partition.
            starts: The position before the batch, by partition, where it did not come by reading.

        Raises:
            RecordFailedError: The lane of a record cannot be determined.
        """
        for tp, start in starts.items():
            self._continue_at(tp, start)
        for tp, records in batch.items():
            if tp not in self.parts:
                self._continue_at(tp, PositionStart(records[0].offset))
            part = self.parts[tp]
            if part.backlog or not part.begun:
                part.backlog.extend(records)
            else:
                self._hand_out(part, deque(records))
        for tp, end in ends.items():
            known = self.parts.get(tp)
            if known is not None:
                self._reach(known, end.offset, epoch_of(end))

    def _reach(self, part: WorkedPartition, offset: int, leader_epoch: int) -> None:
        """Note that there are no records before `offset` but those that poll() has returned."""
        if part.holds_back:
            part.reached = offset, leader_epoch
        else:
            part.reached = None
            part.offsets.reach(offset, leader_epoch)

    def _continue_at(self, tp: TopicPartition, start: PositionStart) -> None:
        """Follow the position of the consumer, which a seek, a reset or an assignment has set.

        What poll() returned before that offset of the same topic is still to be done. Records from
        an earlier offset on, or of another topic, are not those that were done.
        """
        if tp not in self.parts:
            self.assign([tp])
        part = self.parts[tp]
        before, following = part.start, part.following
        part.reached = None
        if before is None or following is None:
            part.start = start
            self._begin_if_known(part)
        elif start.kept or (_same_topic(before, start) and start.offset >= following):
            part.start = before._replace(topic_id=start.topic_id)
            part.offsets.topic_id = start.topic_id
            self._reach(part, start.offset, start.leader_epoch)
        else:
            self._restart(part, start, following)

    def _restart(self, part: WorkedPartition, start: PositionStart, following: int) -> None:
        tp = part.tp
        same = part.start is None or _same_topic(part.start, start)
        log.info(
            "the position of %s-%s moved from %s to %s%s; records from there on are handled again",
            *tp,
            following,
            start.offset,
            "" if same else " of a new topic",
            client=self._client,
            fields={"topic": tp.topic, "partition": tp.partition, "offset": start.offset},
        )
        restarted = WorkedPartition(tp, self._settings.metadata_limit_bytes)
        restarted.start, restarted.restored, restarted.draining = start, True, part.draining
        base = part.base
        if same and base is not None and base.offset < start.offset:
            # What was read before is still to be done, and is not read again.
            before = part.offsets.snapshot(final=True)
            restarted.start = PositionStart(base.offset, epoch_of(base), start.topic_id)
            restarted.committed = base
            restarted.marks = before.done.before(start.offset) if before else NOTHING_DONE
            restarted.backlog.extend(r for r in part.undone if r.offset < start.offset)
            restarted.reached = start.offset, start.leader_epoch
        self._begin_if_known(restarted)
        self.drop_queued([tp])
        part.fenced = True
        # Invariant: without a moment in which the partition has no base, to which an interrupted
        # run would have to give it back.
        self.parts[tp] = restarted

    def hand_out_backlog(self) -> None:
        """Hand out records of the backlog while there is room."""
        for part in tuple(self.parts.values()):
            if part.begun and part.backlog:
                held, part.backlog = part.backlog, deque()
                self._hand_out(part, held)
            if part.reached is not None:
                self._reach(part, *part.reached)

    def _hand_out(self, part: WorkedPartition, records: deque[Any]) -> None:
        """Queue records; those for which the metadata may have no room become the backlog."""
        offsets, add, lane_of = part.offsets, self._scheduler.add, self._lane_of
        now_ms = self._clock.now_ms()
        sure_until, some_done = offsets.sure_until, offsets.has_marks
        while records:
            record = records[0]
            offset, epoch = record.offset, record.leader_epoch
            if some_done and offsets.was_done(offset, epoch):
                offsets.skip(offset, epoch)
                records.popleft()
                continue
            if offset >= sure_until and not offsets.has_room(offset):
                part.backlog = records
                part.resumes_at = len(offsets.pending) // 2
                return
            try:
                lane = lane_of(part, record)
                hash(lane)
            except Exception as error:
                raise _no_lane(record) from error
            task = Task(part, record, lane, now_ms)
            offsets.add(offset, epoch, task)
            records.popleft()
            self.in_flight += 1
            add(task)

    # --- workers -------------------------------------------------------------------------------

    def _drops(self, task: Task) -> bool:
        return bool(task.part.fenced or task.part.draining)

    def _finish(self, task: Task) -> None:
        part = task.part
        if not part.fenced:
            part.offsets.finish(task.record.offset)
            self.done += 1
            if task.more is not None:
                for other in task.more:
                    part.offsets.finish(other.record.offset)
                    self.done += 1
        self._release(task)

    def _release(self, task: Task) -> None:
        """Free the lane and the room of a task."""
        self._scheduler.release(task)
        self.in_flight -= 1 if task.more is None else task.size
        if not self._refill() and (
            task.part.backlog and len(task.part.offsets.pending) <= task.part.resumes_at
        ):
            self.on_room()

    def _refill(self) -> bool:
        """Ask for more records if few are left that can be handled."""
        if self.refill_at < 0 or self.active > self.refill_at or self.retries_full:
            return False
        self.refill_at = -1
        self.on_room()
        return True

    def _postpone(self, task: Task, error: Exception, delay_ms: int) -> None:
        super()._postpone(task, error, delay_ms)
        self._refill()

    def _give_up(self, task: Task, error: Exception) -> None:
        if self._settings.exhausted == "stop":
            self._fail_with(task, _failed(task), error)
            return
        log.warning(
            "%s is skipped after %s failures: %r",
            place_of(task),
            task.failures,
            error,
            client=self._client,
        )
        self._finish(task)

    def _refuse(self, task: Task, error: Exception) -> None:
        self._fail_with(task, _refused(task), error)

    # --- commits -------------------------------------------------------------------------------

    def snapshots(
        self, partitions: Iterable[TopicPartition], *, final: bool
    ) -> dict[WorkedPartition, Snapshot]:
        """Return the present state of the partitions whose state must be committed."""
        found = {}
        for tp in partitions:
            part = self.parts.get(tp)
            snapshot = part.offsets.snapshot(final=final) if part is not None else None
            if part is not None and snapshot is not None:
                found[part] = snapshot
        return found


def _times(task: Task) -> str:
    return "once" if task.failures == 1 else f"{task.failures} times"


def _failed(task: Task) -> RecordFailedError:
    msg = (
        f"the handler failed {_times(task)} for {place_of(task)}, see the cause; the record "
        "is not committed, and the next run handles it again"
    )
    return RecordFailedError(msg, task.record, task.failures)


def _refused(task: Task) -> RecordFailedError:
    msg = (
        f"the handler failed {_times(task)} for {place_of(task)}, and the function "
        f"`exhausted` {task.refusals} times, see the cause; the record is not committed, and the "
        "next run handles it again"
    )
    return RecordFailedError(msg, task.record, task.failures)


def _no_lane(record: Any) -> RecordFailedError:
    msg = (
        f"record {record.topic}-{record.partition} at offset {record.offset} has no usable key, "
        "see the cause; a key must be hashable, and the function `key` must not raise"
    )
    return RecordFailedError(msg, record, 0)


def _same_topic(one: PositionStart, other: PositionStart) -> bool:
    return may_be_same_topic(one.topic_id, other.topic_id)
