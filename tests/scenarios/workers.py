"""Scenarios with workers: members crash, rebalance, and their handlers fail."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.errors import KafkaError
from tandem_kafka.runtime import Random, Runtime
from tandem_kafka.runtime.callers import run
from tandem_kafka.types import OffsetAndMetadata, TopicPartition
from tandem_kafka.workers import KeyedWorkers, Retry
from tandem_kafka.workers.assignment import WorkedPartition
from tandem_kafka.workers.control import Control
from tandem_kafka.workers.offsets import Snapshot
from tandem_kafka.workers.ports import BlockingPort
from tandem_kafka.workers.rebalancing import WorkersListener
from tandem_kafka.workers.settings import Order
from tandem_kafka_testing.simulation import Simulation
from tests.scenarios.catalogue import Scenario
from tests.scenarios.faults import Faults
from tests.scenarios.invariants import Invariants
from tests.scenarios.listener import CheckingListener
from tests.scenarios.members import MAX_MEMBERS, Members
from tests.scenarios.simulated_executor import SimulatedExecutor
from tests.scenarios.violation import Violation
from tests.scenarios.worker_records import Assignment, WorkerRecords

__all__ = ["run_workers"]

#: Smaller than a broker's, so that runs reach it.
LIMIT_BYTES = 80
DRAIN_MS = 4_000
#: How often the application pauses or resumes a partition, per action.
PAUSES = 0.2
MIN_MEMBERS = 2
#: Records of a partition with the same remainder are in one lane.
KEYS = 3


class Handlers(SimulatedExecutor):
    """The handlers of one member; each call knows the assignment that it belongs to."""

    def __init__(self, members: WorkerMembers, random: Random) -> None:
        self._members = members
        self._random = random
        self._assignments: dict[WorkedPartition, Assignment] = {}
        self.parts: dict[TopicPartition, WorkedPartition] = {}
        orders: list[Order] = ["key", "key", "partition", "none"]
        self.order = random.choice(orders)
        durations = random.choice([(0, 3), (1, 200), (1, 6_000)])

        def duration_ms() -> int:
            # After the faults, every record must be done soon.
            return random.randrange(*durations) if members.expects_slow_handlers else 5

        super().__init__(members.simulation, random.randrange(1, 6), duration_ms)

    def note_restored(self, part: WorkedPartition, offset: int, metadata: str) -> None:
        """Note what a member has read at the beginning of an assignment."""
        assignment = self._assignments[part] = Assignment()
        if part.start is not None and part.start.offset < offset:
            # It lost the partition unawares, and reads what the next owner has committed since.
            offset, metadata = part.start.offset, ""
        assignment.marked = self._members.records.marked_by(part.tp, offset, metadata)

    def check_commit(self, part: WorkedPartition, commit: OffsetAndMetadata) -> None:
        """Check that a commit still marks what the member has read as done."""
        assignment = self._assignments.get(part, Assignment())
        marked = self._members.records.marked_by(part.tp, commit.offset, commit.metadata or "")
        if not assignment.marked <= marked:
            raise Violation(f"{part.tp}: the commit forgets {assignment.marked - marked}")

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Queue a call with its assignment; dead letters have none."""
        if fn == self.handle:
            tp = TopicPartition(args[0].topic, args[0].partition)
            part = self.parts[tp]
            return super().submit(
                partial(self.handle_of, self._assignments.setdefault(part, Assignment())), *args
            )
        return super().submit(fn, *args, **kwargs)

    def lane_of(self, record: Any) -> Hashable | None:
        """Return the lane that the order implies."""
        tp = TopicPartition(record.topic, record.partition)
        return {"key": (tp, record.offset % KEYS), "partition": tp, "none": None}[self.order]

    def handle(self, record: Any) -> None:
        """Stand for the handler; `handle_of` is called in its place."""
        raise NotImplementedError(record)

    def handle_of(self, assignment: Assignment, record: Any) -> None:
        """Handle a record, or fail."""
        self._members.records.handled(assignment, record, self.lane_of(record))
        if self._random.random() < self._members.failing_handlers:
            raise ValueError("the handler fails on purpose")
        self._members.records.succeeded(record)

    def to_dead_letters(self, record: Any, _: Exception, __: int) -> None:
        """Take a record that could not be handled, or fail."""
        if self._random.random() < self._members.failing_handlers:
            raise ConnectionError("the dead letter fails on purpose")
        self._members.records.succeeded(record)


class Member:
    """A process: its consumer, its workers, and the present run."""

    def __init__(self, members: WorkerMembers, consumer: KafkaConsumer, random: Random) -> None:
        self.handlers = Handlers(members, random)
        self._members = members
        self._consumer = consumer
        self.workers = KeyedWorkers(
            consumer,
            self.handlers.handle,
            workers=self.handlers,
            order=self.handlers.order,
            key=self.handlers.lane_of if self.handlers.order == "key" else None,
            max_in_flight=random.choice([5, 50, 1_000]),
            retry=Retry(random.choice([2, None]), backoff_ms=(50, 2_000)),
            exhausted=random.choice(["stop", self.handlers.to_dead_letters]),
            commit_interval_ms=random.choice([100, 1_000, 5_000]),
            drain_timeout_ms=DRAIN_MS,
            metadata_limit_bytes=LIMIT_BYTES,
        )
        driver = consumer._core.driver
        self.workers._runtime = Runtime(members.simulation.clock, driver, random)
        self.workers._letters = self.handlers
        self.begin()

    def begin(self) -> None:
        """Begin a run."""
        self.control: Control = self.workers._new_control(
            BlockingPort(self._consumer), self.workers._crew_of
        )
        self.workers._begin(self.control)
        workload = self.control._workload
        restore = workload.restore

        def noting(part: WorkedPartition, committed: Any, done: Any) -> None:
            metadata = "" if committed is None else committed.metadata
            offset = 0 if committed is None else committed.offset
            self.handlers.note_restored(part, offset, metadata)
            restore(part, committed, done)

        admit, steering = workload.admit, self._members.steering

        def admitting(batch: Any, ends: Any, starts: Any) -> None:
            for tp in batch:
                steering.check_not_paused(self._members.listeners[self._consumer], tp)
                part = workload.parts.get(tp)
                if part is not None and (part.backlog or not part.begun):
                    raise Violation(f"records of {tp}, which the workers hold back already")
            admit(batch, ends, starts)

        snapshots = workload.snapshots

        def checking(
            partitions: Iterable[TopicPartition], *, final: bool
        ) -> dict[WorkedPartition, Snapshot]:
            found = snapshots(partitions, final=final)
            for part, snapshot in found.items():
                self.handlers.check_commit(part, snapshot.to_commit(part.tp)[0])
            return found

        workload.admit = admitting  # type: ignore[method-assign]
        workload.restore = noting  # type: ignore[method-assign]
        workload.snapshots = checking  # type: ignore[method-assign]
        commit_now = self.control._commits.commit_now

        async def counting(partitions: Any, timeout_ms: float) -> KafkaError | None:
            error = await commit_now(partitions, timeout_ms)
            self._members.failed_commits += error is not None
            return error

        self.control._commits.commit_now = counting  # type: ignore[method-assign]
        self.handlers.parts = workload.parts
        listener = WorkersListener(self.control, self._members.listeners[self._consumer])
        run(self.control.begin(listener))

    def step(self, timeout_ms: int) -> None:
        """Do what `run()` does between two polls; a failed run ends, and another one begins."""
        try:
            run(self.control.step(timeout_ms))
        except KafkaError:
            if not self._members.expects_errors:
                raise
        else:
            if self.control._workload.failure is None:
                return
        self.end()
        self.begin()

    def end(self) -> None:
        """End the run: drain, commit, and give back what is not done."""
        deadline_ms = self.control._clock.after_ms(DRAIN_MS)
        try:
            run(self.control.end(deadline_ms))
        finally:
            run(self.control.conclude(deadline_ms))


class WorkerInvariants(Invariants):
    """The invariants of consumers, except for commits: `WorkerRecords` checks those."""

    def _check_commits(self) -> None:
        """Leave commits to `WorkerRecords`."""


class WorkerMembers(Members):
    """The members of a run with workers.

    Attributes:
        records: What was handled and committed.
        failing_handlers: Share of the calls of handlers that fail.
        failed_commits: How often partitions were given up, or a run ended, without a commit.
        expects_slow_handlers: Whether handlers may run longer than a drain.
    """

    def __init__(
        self, simulation: Simulation, scenario: Scenario, partitions: list[TopicPartition]
    ) -> None:
        options = scenario.draw_options(Random(f"{simulation.seed}/options"))
        super().__init__(simulation, scenario, {**options, "enable_auto_commit": False}, partitions)
        self.invariants = WorkerInvariants(self)
        self.records = WorkerRecords(simulation, self.history, LIMIT_BYTES)
        self.members: dict[KafkaConsumer, Member] = {}
        self._all_listeners: list[CheckingListener] = []
        self._all_handlers: list[Handlers] = []
        self.random = Random(f"{simulation.seed}/workers")
        self.expects_slow_handlers = True
        self.failed_commits = 0
        self.failing_handlers = self.random.choice([0.0, 0.1, 0.4])

    def join(self) -> None:
        """Start a member and its workers."""
        super().join()
        consumer, listener = next(reversed(self.listeners.items()))
        self._all_listeners.append(listener)
        random = Random(f"{self.simulation.seed}/workers {len(self.simulation.drivers)}")
        self.members[consumer] = Member(self, consumer, random)
        self._all_handlers.append(self.members[consumer].handlers)

    def stop(self, consumer: KafkaConsumer) -> None:
        """Stop a member: it drains, commits and leaves."""
        self.members.pop(consumer).end()
        self.close(consumer)

    def kill(self, consumer: KafkaConsumer) -> None:
        """Kill a process: its threads do nothing more, and its connections break."""
        self.note(self.listeners[consumer].number, "is killed")
        self.members.pop(consumer).handlers.killed = True
        del self.listeners[consumer]
        driver: Any = consumer._core.driver
        driver.parked.stalled_until_ms = 2**60
        consumer._core.closed = True
        self.simulation.consumers.remove(consumer)

    def step(self, consumer: KafkaConsumer, timeout_ms: int) -> None:
        """Let a member work."""
        self.members[consumer].step(timeout_ms)
        self.steering.check_paused(consumer, self.listeners[consumer])
        self.records.check()
        self.invariants.check()

    def bases(self) -> dict[TopicPartition, int]:
        """Return the lowest offset that is not done, by partition."""
        return {
            tp: progress.base or 0
            for member in self.members.values()
            for tp, progress in member.workers.progress().items()
        }

    def committed(self) -> dict[TopicPartition, int]:
        """Return the committed offsets."""
        cluster = self.simulation.cluster
        return {tp: cluster.committed(self.group_id, tp) or 0 for tp in self.partitions}

    def losses(self) -> int:
        """Return how often members have lost partitions, or could not commit."""
        calls = (call for listener in self._all_listeners for call in listener.calls)
        return self.failed_commits + sum(kind == "lost" for kind, _ in calls)

    def any_busy(self) -> bool:
        """Return whether a handler runs, also one whose member has left or lost the partition."""
        return any(each.busy for each in self._all_handlers)

    def step_all(self, timeout_ms: int) -> None:
        """Let every member work whose process runs."""
        for consumer in self.running:
            self.step(consumer, timeout_ms)


def run_workers(
    simulation: Simulation,
    scenario: Scenario,
    partitions: list[TopicPartition],
    faults_ms: int,
    settle_ms: int,
) -> tuple[int, dict[str, int]]:
    """Run a scenario with workers; returns how long it took to settle, and the faults by name.

    Raises:
        Violation: An invariant does not hold.
    """
    members = WorkerMembers(simulation, scenario, partitions)
    faults = Faults(members)
    faults.draw_conditions()
    members.failing = 0.0
    random = members.random
    for _ in range(random.randrange(MIN_MEMBERS, MIN_MEMBERS + 3)):
        members.join()
    until_ms = simulation.clock.now_ms() + faults_ms
    steering = members.steering
    while simulation.clock.now_ms() < until_ms:
        _act(members, faults, random)
        if steering.random.random() < PAUSES:
            steering.pause_or_resume()
    steering.resume_all()
    faults.heal()
    members.failing_handlers = members.slow = 0.0
    members.expects_slow_handlers = False
    settled_ms = _settle(members, settle_ms, committed=False)
    _check_quiet(members, settle_ms)
    for consumer in list(members.members):
        members.stop(consumer)
    members.records.check()
    return settled_ms, faults.counts


def _act(members: WorkerMembers, faults: Faults, random: Random) -> None:
    """Do one action or cause one fault."""
    match random.randrange(12):
        case 0 if len(members.listeners) < MAX_MEMBERS:
            members.join()
        case 1 if len(members.running) > MIN_MEMBERS:
            members.stop(random.choice(members.running))
        case 2 if len(members.running) > MIN_MEMBERS:
            members.kill(random.choice(members.running))
        case 3:
            members.simulation.sleep(random.choice([100, 1_000, 9_000]))
        case 4 | 5 | 6:
            faults.cause_one()
        case _:
            for _ in range(random.randrange(1, 6)):
                members.step_all(random.choice([0, 50, 200]))


def _settle(members: WorkerMembers, within_ms: int, *, committed: bool) -> int:
    """Let the members work until every record is done; returns the duration.

    Args:
        members: The members.
        within_ms: The longest duration.
        committed: Whether the coordinator must have a commit of each end. It may have lost one
            during the faults; the next record causes another one.
    """
    clock, records = members.simulation.clock, members.records
    began_ms = clock.now_ms()
    while not (
        members._all_assigned()
        and records.all_reached(members.bases())
        and (not committed or records.all_reached(members.committed()))
    ):
        if clock.now_ms() > began_ms + within_ms:
            raise Violation(f"not done in {within_ms} ms: {members.describe()}; {members.bases()}")
        members.step_all(200)
    records.check_complete(members.partitions)
    members.expects_errors = False
    return clock.now_ms() - began_ms


def _check_quiet(members: WorkerMembers, within_ms: int) -> None:
    """Check that without faults every record is handled once, also while members leave.

    Memberships and commits may still be lost: a connection that was cut, or whose attempt began,
    during the faults may be noticed late.
    """
    began_ms = members.simulation.clock.now_ms()
    while members.any_busy():  # a handler of a lost partition cannot be stopped
        if members.simulation.clock.now_ms() > began_ms + within_ms:
            raise Violation(f"a handler still runs after {within_ms} ms")
        members.step_all(50)
    before = dict(members.records.calls)
    losses = members.losses()
    for tp in members.partitions:
        members.history.produce(tp, members.random.randrange(1, 12))
    members.step_all(50)
    if len(members.members) > 1:
        members.stop(members.random.choice(list(members.members)))
    _settle(members, within_ms, committed=True)
    for place, count in members.records.calls.items():
        if count != before.get(place, 1) and members.losses() == losses:
            raise Violation(f"{place} was handled {count} times without a fault")
