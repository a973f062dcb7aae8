"""The records in work against a model: none is lost, doubled, or handled before its turn."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tandem_kafka.runtime import Random
from tandem_kafka.types import OffsetAndMetadata, PositionStart, TopicPartition
from tandem_kafka.workers import Retry
from tandem_kafka.workers.assignment import Task, WorkedPartition
from tandem_kafka.workers.done_map import DoneMap
from tandem_kafka.workers.settings import WorkerSettings
from tandem_kafka.workers.workload import Workload
from tandem_kafka_testing.clock import SimClock

TPS = [TopicPartition("orders", number) for number in range(2)]
PARTITIONS = st.sampled_from(TPS)
KEYS = 3
EPOCH = 3


def settings_of(batch: int, exhausted: Any) -> WorkerSettings:
    return WorkerSettings(
        handle=print,
        order="key",
        key=None,
        workers=4,
        batch=batch,
        max_in_flight=1_000,
        retry=Retry(2, backoff_ms=(10, 20)),
        exhausted=exhausted,
        commit_interval_ms=1_000,
        drain_timeout_ms=1_000,
        metadata_limit_bytes=64,
        listener=None,
        pattern=None,
    )


def epoch_at(offset: int) -> int:
    """The leader epoch of what lies at an offset: an election precedes each fourth one."""
    return EPOCH + offset // 4


def position_at(offset: int) -> OffsetAndMetadata:
    """A position as the consumer tells it: with the epoch of what lies before it."""
    return OffsetAndMetadata(offset, "", epoch_at(offset - 1))


def record_at(tp: TopicPartition, offset: int) -> Any:
    """A record; each fourth one has no key."""
    key = None if offset % 4 == 3 else b"%d" % (offset % KEYS)
    return SimpleNamespace(
        topic=tp.topic,
        partition=tp.partition,
        offset=offset,
        leader_epoch=epoch_at(offset),
        key=key,
    )


class Model:
    """What must be known of one assignment."""

    def __init__(self) -> None:
        self.admitted: list[int] = []
        self.done: set[int] = set()
        self.marked: set[int] = set()

    @property
    def undone(self) -> set[int]:
        return set(self.admitted) - self.done - self.marked

    @property
    def marks(self) -> set[int]:
        """Those marked offsets that have records, or may have some that are not read yet."""
        last = max(self.admitted, default=-1)
        return {offset for offset in self.marked if offset > last or offset in self.admitted}


class WorkloadMachine(RuleBasedStateMachine):
    """Two partitions are assigned, read, handled, drained and lost."""

    @initialize(batch=st.sampled_from([1, 1, 3]), letters=st.booleans())
    def begin(self, batch: int, letters: bool) -> None:
        self.clock = SimClock()
        exhausted = print if letters else "skip"
        self.workload = Workload(
            settings_of(batch, exhausted), self.clock, Random(1), nullcontext()
        )
        self.workload.on_room = self.note_room
        self.workload.on_settled = self.note_settled
        self.models: dict[WorkedPartition, Model] = {}
        self.with_worker: list[Task] = []
        self.positions = dict.fromkeys(TPS, 0)
        self.topics = dict.fromkeys(TPS, UUID(int=1))
        self.total = 0
        self.room = self.settled = False

    def note_room(self) -> None:
        self.room = True

    def note_settled(self) -> None:
        self.settled = True

    def model(self, tp: TopicPartition) -> Model:
        return self.models.setdefault(self.workload.parts[tp], Model())

    # --- assignment and intake -------------------------------------------------------------------

    @rule(tp=PARTITIONS, lost=st.booleans())
    def assign(self, tp: TopicPartition, lost: bool) -> None:
        if lost:
            self.workload.fence([tp])
        self.workload.assign([tp])
        self.room = True  # as above
        self.models[self.workload.parts[tp]] = Model()

    @rule(tp=PARTITIONS, marked=st.lists(st.integers(1, 30), max_size=6))
    def restore(self, tp: TopicPartition, marked: list[int]) -> None:
        part = self.workload.parts.get(tp)
        if part is None or part.restored:
            return
        model, base = self.model(tp), self.positions[tp]
        if part.start is not None:
            base = part.start.offset
        places = sorted({base + each for each in marked})
        ranges = [(at, at + 1) for at in places]
        model.marked = set(places)
        epoch = epoch_at(max(places, default=base))
        self.workload.restore(part, position_at(base), DoneMap(_joined(ranges), epoch))
        self.room = True  # the run hands out next

    def starts(self, tp: TopicPartition) -> dict[TopicPartition, PositionStart]:
        """What the consumer tells: where a new assignment begins."""
        part = self.workload.parts.get(tp)
        if part is not None and part.start is not None:
            return {}
        at = self.positions[tp]
        return {tp: PositionStart(at, epoch_at(at - 1), self.topics[tp])}

    @rule(tp=PARTITIONS)
    def restore_behind(self, tp: TopicPartition) -> None:
        """The application has sought back before the run: what the commit says is not for it."""
        part = self.workload.parts.get(tp)
        if part is None or part.restored or not part.backlog:
            return
        old = self.model(tp)
        committed, ranges = position_at(old.admitted[0] + 3), ((old.admitted[0] + 4, 2**40),)
        self.workload.restore(part, committed, DoneMap(ranges, epoch_at(2**40)))
        self.workload.hand_out_backlog()
        self.room = True
        assert not part.offsets.has_marks

    @rule(tp=PARTITIONS, gap=st.integers(1, 5))
    def pass_over(self, tp: TopicPartition, gap: int) -> None:
        """The log has no record there, for example the end of a transaction."""
        starts = self.starts(tp)
        self.positions[tp] += gap
        self.workload.admit({}, {tp: position_at(self.positions[tp])}, starts)
        self.room = True

    @rule(tp=PARTITIONS, count=st.integers(1, 30), gap=st.sampled_from([0, 0, 2, 300]))
    def poll(self, tp: TopicPartition, count: int, gap: int) -> None:
        part = self.workload.parts.get(tp)
        if part is not None and part.draining:
            return
        starts, begin = self.starts(tp), self.positions[tp] + gap
        records = [record_at(tp, offset) for offset in range(begin, begin + count)]
        self.positions[tp] = end = begin + count + gap
        self.workload.admit({tp: records}, {tp: position_at(end)}, starts)
        self.model(tp).admitted += range(begin, begin + count)
        self.room = True  # the run looks again after each poll

    @rule(tp=PARTITIONS, by=st.integers(-50, 50), told=st.booleans())
    def move(self, tp: TopicPartition, by: int, told: bool) -> None:
        """A seek or a reset: the next records are not those that were done, or come later."""
        part = self.workload.parts.get(tp)
        if part is None or part.draining or part.start is None:
            return
        if not part.begun and by < 0:
            return  # what is in the backlog is read again
        self.positions[tp] = at = max(0, self.positions[tp] + by)
        back, old = part.begun and at < (part.following or 0), self.model(tp)
        start = PositionStart(at, epoch_at(at - 1), self.topics[tp])
        self.workload.admit({}, {tp: position_at(at)} if told else {}, {tp: start})
        assert (self.workload.parts[tp] is part) != back
        if back:  # what was read before it is still to be done
            new = self.model(tp)
            new.admitted = [offset for offset in old.admitted if offset < at]
            new.done = {offset for offset in old.done if offset < at}
            new.marked = {offset for offset in old.marked if offset < at}
        self.room = True

    @rule(tp=PARTITIONS)
    def recreate(self, tp: TopicPartition) -> None:
        """The topic is deleted and made again: nothing of the old one counts for the new one."""
        part = self.workload.parts.get(tp)
        if part is None or part.draining or not part.begun:
            return
        self.topics[tp] = UUID(int=self.topics[tp].int + 1)
        self.workload.admit({}, {}, {tp: PositionStart(self.positions[tp], -1, self.topics[tp])})
        self.room, new = True, self.workload.parts[tp]
        assert new is not part
        assert part.fenced
        (snapshot,) = self.workload.snapshots([tp], final=False).values()
        assert (snapshot.base, snapshot.done.ranges) == (self.positions[tp], [])
        assert snapshot.topic_id == self.topics[tp]

    @rule(share=st.one_of(st.none(), st.floats(0, 1)))
    def step(self, share: float | None) -> None:
        """Hand out, as between two polls; with a share, `on_room` tells when few are in flight."""
        self.workload.hand_out_backlog()
        active, self.room = self.workload.active, False
        self.workload.refill_at = -1 if share is None else int(share * active) - 1

    # --- workers ---------------------------------------------------------------------------------

    @rule(count=st.integers(1, 8))
    def take(self, count: int) -> None:
        for _ in range(count):
            task = self.workload.take()
            if task is None:
                return
            self.check(task)
            self.with_worker.append(task)

    def check(self, task: Task) -> None:
        model = self.models[task.part]
        offsets = [record.offset for record in task.records]
        assert not task.part.fenced
        assert not task.part.draining
        assert set(offsets) <= model.undone, "handled again, or although it is marked"
        if task.lane is not None:
            assert all(other.lane != task.lane for other in self.with_worker)
            waiting = (o for o in model.undone if record_at(task.part.tp, o).key == task.lane[1])  # type: ignore[index]
            assert sorted(waiting)[: len(offsets)] == offsets, "in the order of the key"

    @rule(count=st.integers(1, 60))
    def work(self, count: int) -> None:
        """A worker handles several records, one after the other."""
        for _ in range(count):
            self.take(1)
            if self.with_worker:
                self.end_call(self.with_worker.pop(), "done")

    @rule(failed=st.booleans())
    def take_after_the_end(self, failed: bool) -> None:
        workload = self.workload
        workload.stopped, workload.failure = not failed, ValueError() if failed else None
        assert workload.take() is None, "nothing begins after stop() or a failure"
        assert not workload.has_ready
        workload.stopped, workload.failure = False, None

    @precondition(lambda self: self.with_worker)
    @rule(data=st.data(), outcome=st.sampled_from(["done", "done", "failed", "back", "abandoned"]))
    def settle(self, data: Any, outcome: str) -> None:
        index = data.draw(st.integers(0, len(self.with_worker) - 1))
        self.end_call(self.with_worker.pop(index), outcome)

    def end_call(self, task: Task, outcome: str) -> None:
        model, sizes = self.models[task.part], [record.offset for record in task.records]
        done, self.settled = self.workload.done, False
        if outcome == "abandoned" and (task.part.draining or task.part.fenced):
            self.workload.abandon(task)
        elif outcome == "back" and task.error is None and not task.failures:
            self.workload.take_back(task)
        elif outcome == "failed" and not (task.error is not None and task.refusals):
            self.workload.settle(task, ValueError("again"))
        else:
            self.workload.settle(task, None)
        if self.workload.done > done:
            model.done.update(sizes)
            self.total += len(sizes)
            assert not task.part.fenced, "a late handler changes nothing"
        if task.part.draining and not task.part.running:
            assert self.settled

    @rule(duration_ms=st.sampled_from([1, 30]))
    def pass_time(self, duration_ms: int) -> None:
        self.clock.advance_to(self.clock.now_ms() + duration_ms)

    @rule(tp=PARTITIONS)
    def drain(self, tp: TopicPartition) -> None:
        for part in self.workload.drop_queued([tp]):
            part.draining = self.room = True  # the run looks again after a rebalance

    # --- what must hold --------------------------------------------------------------------------

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "workload"):
            return
        for part in self.workload.parts.values():
            model, offsets = self.models.setdefault(part, Model()), part.offsets
            if part.draining:
                continue
            assert part.begun == (offsets.base is not None), "it may be committed unread"
            held = {record.offset for record in part.backlog}
            assert len(held) == len(part.backlog)
            assert not held & set(offsets.pending)
            assert {
                o for o in (held | set(offsets.pending)) if o not in model.marked
            } == model.undone
            if offsets.base is not None and model.undone:
                assert offsets.base <= min(model.undone)
            if part.begun:
                after = {o for s, e in offsets.done_ranges() for o in range(s, e)}
                known = model.done | model.marks
                assert {o for o in known if o >= (offsets.base or 0)} <= after, "forgotten"
            if part.begun and not part.backlog and model.admitted:
                assert (offsets.next_offset or 0) > model.admitted[-1], "its commit stays behind"
            if part.backlog and part.begun:
                assert self.room or len(offsets.pending) > part.resumes_at >= 0
            assert part.running == sum(task.part is part for task in self.with_worker)

    @invariant()
    def the_log_never_seems_truncated(self) -> None:
        """The epoch of a commit ends where the next one begins: not before the offset."""
        if not hasattr(self, "workload"):
            return
        for part in self.workload.parts.values():
            at, start = part.base, part.start
            if at is None or start is None:
                continue
            if start.leader_epoch < 0 and at.offset == start.offset:
                continue  # the topic was made anew
            assert epoch_at(at.offset - 1) <= at.leader_epoch <= epoch_at(at.offset)

    @invariant()
    def all_in_flight_is_counted(self) -> None:
        if not hasattr(self, "workload"):
            return
        workload = self.workload
        assert workload.done == self.total
        assert workload.in_flight == sum(
            len(part.offsets.pending) for part in workload.parts.values() if not part.draining
        ) + sum(task.size for task in self.with_worker if task.part.fenced or task.part.draining)
        assert workload.refill_at < 0 or workload.active > workload.refill_at or self.room
        assert 0 <= workload.active <= workload.in_flight

    def teardown(self) -> None:
        """At last, everything that is assigned gets done."""
        if not hasattr(self, "workload"):
            return
        for part in tuple(self.workload.parts.values()):
            if part.draining:
                self.workload.fence([part.tp])
            elif not part.restored:
                self.workload.restore(part, None, DoneMap())
        self.finish_all()
        for tp, part in self.workload.parts.items():
            assert self.models[part].undone == set(), f"{tp} is never done"
            assert not part.offsets.pending
        assert self.workload.in_flight == 0

    def finish_all(self) -> None:
        while True:
            self.workload.hand_out_backlog()
            self.pass_time(100)
            self.take(1)
            if not self.with_worker:
                return
            task = self.with_worker.pop()
            self.workload.settle(task, None)
            if not task.part.fenced:
                self.models[task.part].done.update(record.offset for record in task.records)


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for begin, end in ranges:
        if joined and joined[-1][1] == begin:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((begin, end))
    return joined


TestWorkload = WorkloadMachine.TestCase


def workload_of(records: list[Any]) -> Workload:
    """A workload that has read these records, but not the committed offset."""
    workload = Workload(settings_of(1, "stop"), SimClock(), Random(1), nullcontext())
    workload.assign(TPS)
    workload.admit({TPS[0]: records}, {}, {TPS[0]: PositionStart(records[0].offset)})
    return workload


def test_records_that_are_marked_move_the_base_when_they_are_handed_out() -> None:
    """They were held back until the marks were read, so no poll tells where they end."""
    workload = workload_of([record_at(TPS[0], offset) for offset in range(5, 8)])
    part = workload.parts[TPS[0]]
    workload.restore(part, position_at(5), DoneMap([(6, 8)], epoch_at(7)))
    workload.hand_out_backlog()
    task = workload.take()
    assert task is not None
    workload.settle(task, None)
    (snapshot,) = workload.snapshots(TPS, final=False).values()
    assert snapshot.base == 8
    assert workload.in_flight == 0


def test_a_backlog_is_tried_again_before_all_calls_have_ended() -> None:
    """Nothing else ends the poll: far fewer records than allowed are in flight."""
    workload = workload_of([record_at(TPS[0], offset) for offset in (*range(26), *range(330, 360))])
    part = workload.parts[TPS[0]]
    workload.restore(part, None, DoneMap())
    workload.hand_out_backlog()
    assert part.backlog
    workload.admit({}, {TPS[0]: position_at(360)}, {})  # as far as poll() read
    called: list[int] = []
    workload.on_room = lambda: called.append(workload.in_flight)
    while not called and (task := workload.take()) is not None:
        workload.settle(task, None)
    assert called
    assert 0 < called[0] <= part.resumes_at
    while (task := workload.take()) is not None:
        workload.settle(task, None)
    (snapshot,) = workload.snapshots(TPS, final=False).values()
    assert snapshot.base <= part.backlog[0].offset, "what waits is not done"
    workload.hand_out_backlog()
    assert workload.in_flight > called[0]


@pytest.mark.parametrize("end", ["abandon", "take_back", "settle"])
def test_a_drain_learns_that_its_last_call_has_ended(end: str) -> None:
    workload = workload_of([record_at(TPS[0], offset) for offset in range(2)])
    workload.restore(workload.parts[TPS[0]], None, DoneMap())
    workload.hand_out_backlog()
    running = [workload.take(), workload.take()]
    (part,) = workload.drop_queued(TPS[:1])
    part.draining = True
    left: list[int] = []
    workload.on_settled = lambda: left.append(part.running)
    for task in running:
        assert task is not None
        if end == "settle":
            workload.settle(task, None)
        else:
            getattr(workload, end)(task)
    assert left[-1] == 0


def test_a_drain_does_not_wait_for_what_was_taken_back() -> None:
    """A thread had taken it along with a record whose call is slow."""
    workload = workload_of([record_at(TPS[0], offset) for offset in range(3)])
    part = workload.parts[TPS[0]]
    workload.restore(part, None, DoneMap())
    workload.hand_out_backlog()
    tasks = [task for _ in range(3) if (task := workload.take()) is not None]
    for task in tasks[1:]:
        workload.take_back(task)
    assert part.running == 1
    workload.drop_queued(TPS)
    part.draining = True
    settled: list[int] = []
    workload.on_settled = lambda: settled.append(part.running)
    workload.settle(tasks[0], None)
    assert settled == [0]
