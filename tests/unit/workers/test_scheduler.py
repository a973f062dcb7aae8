"""The scheduler against a model: lanes in order, one at a time, and nothing lost."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tandem_kafka.types import TopicPartition
from tandem_kafka.workers.assignment import Task, WorkedPartition
from tandem_kafka.workers.scheduler import Scheduler

LANES = ["a", "b", "c", None]


class SchedulerMachine(RuleBasedStateMachine):
    """Tasks of two partitions are added, taken, finished, retried and dropped."""

    @initialize(batch=st.sampled_from([1, 1, 3]))
    def begin(self, batch: int) -> None:
        self.scheduler = Scheduler(batch)
        self.batch = batch
        self.parts = [WorkedPartition(TopicPartition("orders", n), 64) for n in range(2)]
        self.now_ms = self.added = 0
        self.queued: dict[int, Task] = {}
        self.with_worker: dict[int, Task] = {}
        self.last: dict[str, int] = {}

    @rule(lane=st.sampled_from(LANES), part=st.integers(0, 1))
    def add(self, lane: str | None, part: int) -> None:
        task = Task(self.parts[part], self.added, lane, 0)
        self.queued[self.added] = task
        self.added += 1
        self.scheduler.add(task)

    @rule()
    def take(self) -> None:
        self.scheduler.wake(self.now_ms)
        task = self.scheduler.take()
        if task is None:
            return
        assert task.size <= self.batch
        if task.lane is not None:
            assert all(other.lane != task.lane for other in self.with_worker.values())
            first = min(n for n, other in self.queued.items() if other.lane == task.lane)
            assert task.record == first, "the oldest of the lane"
        records = task.records
        assert records == sorted(records)
        assert all(self.queued.pop(number).part is task.part for number in records)
        self.with_worker[task.record] = task

    @precondition(lambda self: self.with_worker)
    @rule(data=st.data())
    def finish(self, data: Any) -> None:
        task = self.with_worker.pop(data.draw(st.sampled_from(sorted(self.with_worker))))
        self.scheduler.release(task)

    @precondition(lambda self: self.with_worker)
    @rule(data=st.data(), delay_ms=st.integers(0, 5))
    def retry(self, data: Any, delay_ms: int) -> None:
        task = self.with_worker.pop(data.draw(st.sampled_from(sorted(self.with_worker))))
        task.failures += 1
        self.queued |= dict.fromkeys(task.records, task)
        self.scheduler.retry_at(task, self.now_ms + delay_ms)

    @precondition(lambda self: self.with_worker)
    @rule(data=st.data())
    def take_back(self, data: Any) -> None:
        task = self.with_worker.pop(data.draw(st.sampled_from(sorted(self.with_worker))))
        self.queued |= dict.fromkeys(task.records, task)
        self.scheduler.retry_now(task)

    @rule(duration_ms=st.integers(0, 4))
    def pass_time(self, duration_ms: int) -> None:
        self.now_ms += duration_ms

    @rule(part=st.integers(0, 1))
    def drop(self, part: int) -> None:
        gone = self.parts[part]
        dropped = {number for task in self.scheduler.drop([gone]) for number in task.records}
        assert dropped == {n for n, task in self.queued.items() if task.part is gone}
        for number in dropped:
            del self.queued[number]

    @invariant()
    def every_lane_without_a_worker_can_go_on(self) -> None:
        """Otherwise its records would wait for ever."""
        if not hasattr(self, "scheduler"):
            return
        busy = {task.lane for task in self.with_worker.values()}
        ready = {task.lane for task in self.scheduler.ready}
        delayed = {task.lane for _, _, task in self.scheduler._delayed}
        waiting = {task.lane for task in self.queued.values()} - {None}
        assert waiting <= busy | ready | delayed

    @invariant()
    def what_waits_for_a_retry_is_counted(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        delayed = [task for _, _, task in self.scheduler._delayed]
        lanes = {task.lane for task in delayed} - {None}
        behind = [n for n, task in self.queued.items() if task.lane in lanes]
        alone = sum(task.size for task in delayed if task.lane is None)
        assert self.scheduler.delayed == len(behind) + alone


TestScheduler = SchedulerMachine.TestCase


def test_a_batch_that_is_taken_back_keeps_its_records() -> None:
    scheduler = Scheduler(batch=3)
    part = WorkedPartition(TopicPartition("orders", 0), 64)
    for number in range(5):
        scheduler.add(Task(part, number, "a", 0))
    taken = []
    for _ in range(2):
        task = scheduler.take()
        assert task is not None
        taken.append(task.records)
        scheduler.retry_now(task)
    assert taken == [[0, 1, 2], [0, 1, 2]]
    scheduler.release(scheduler.take())  # type: ignore[arg-type]
    last = scheduler.take()
    assert last is not None
    assert last.records == [3, 4]
