"""Members of one group, polled one after another by one thread."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

from kafka.errors import GroupIdNotFoundError

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.consumer.reading.records import ConsumerRecords
from tandem_kafka.errors import KafkaError, RebalanceCallbackError, UnreleasedInstanceIdError
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.simulation import Simulation
from tests.scenarios.async_members import async_member
from tests.scenarios.catalogue import MAX_POLL_INTERVAL_MS, Scenario
from tests.scenarios.history import History
from tests.scenarios.invariants import LATE_MS, Invariants
from tests.scenarios.listener import CheckingListener, DeliberateError, format_partitions
from tests.scenarios.local_assignors import draw_assignors
from tests.scenarios.producers import MAX_OPEN
from tests.scenarios.steering import Steering
from tests.scenarios.violation import Violation

__all__ = ["MAX_MEMBERS", "Leave", "Members"]

Leave = Literal["default", "leave"]

#: The size of the group, and the number of instance ids for static members.
MAX_MEMBERS = 8
#: One in so many members has metrics enabled: they take time, and no invariant reads them.
METRICS_EVERY = 4
#: The longest close() or unsubscribe() without a reachable broker, with its LeaveGroup.
LEAVING_MS = 30_000 + 10_000


class Members:
    """The members of a run, and their applications.

    Attributes:
        listeners: The present members, with their listeners.
        stalled: Numbers of the members whose process is stopped.
        slow: Share of listener calls that sleep.
        failing: Share of listener calls that raise, and of assignments that fail.
        expects_errors: Whether poll() may raise because of faults.
        concluding: Whether the faults are over and commits are answered. A member then commits
            before its partitions are revoked.
        history: What was produced, which records are due, and what everybody did.
        steering: How applications pause, resume and seek.
    """

    def __init__(
        self,
        simulation: Simulation,
        scenario: Scenario,
        options: dict[str, Any],
        partitions: list[TopicPartition],
        runner: asyncio.Runner | None = None,
    ) -> None:
        self.simulation = simulation
        self._runner = runner
        self.scenario = scenario
        self.options = options
        self.partitions = partitions
        self.group_id: str = options["group_id"]
        self.listeners: dict[KafkaConsumer, CheckingListener] = {}
        self.stalled: set[int] = set()
        self.slow = self.failing = 0.0
        self.expects_errors = True
        self.concluding = False
        vanishing = scenario.retention or scenario.recreated
        transactions = MAX_OPEN if scenario.transactions else 0
        self.history = History(simulation, judged=not vanishing, transactions=transactions)
        for tp in partitions:
            self.history.found(tp)
        self.steering = Steering(self)
        self.invariants = Invariants(self)
        self._instances: dict[KafkaConsumer, str] = {}
        self._numbers = 0

    def note(self, number: int, what: str) -> None:
        """Add a line to the trace."""
        self.simulation.trace.note(f"member {number}: {what}")

    @property
    def running(self) -> list[KafkaConsumer]:
        """Members whose process runs."""
        return [m for m, listener in self.listeners.items() if listener.number not in self.stalled]

    def id_of(self, owner: CheckingListener) -> str:
        """Return the member id of a listener's member; empty after it has closed."""
        for member, listener in self.listeners.items():
            if listener is owner:
                member_id: str = member.group_metadata().member_id
                return member_id
        return ""

    # --- joining and leaving ---------------------------------------------------------------------

    def join(self) -> None:
        """Start a member."""
        self._numbers += 1
        self.note(self._numbers, "starts")
        options = {**self.options, "metrics_enabled": self._numbers % METRICS_EVERY == 0}
        if self.scenario.others is not None and self.simulation.random.random() < 0.5:
            options = self.scenario.options_of_others(options)
        if self.scenario.static:
            taken = self._instances.values()
            free = [f"instance-{n}" for n in range(MAX_MEMBERS) if f"instance-{n}" not in taken]
            options["group_instance_id"] = self.simulation.random.choice(free)
        if self.scenario.local:
            options["group_local_assignors"] = draw_assignors(self, self.simulation.random)
        if self.scenario.racks:
            options["client_rack"] = self.simulation.random.choice(["", *self.scenario.racks])
        if self.scenario.remote:
            choices = ["range", "range", "uniform", None]
            options["group_remote_assignor"] = self.simulation.random.choice(choices)
        member = self._start(options)
        if self.scenario.static:
            self._instances[member] = options["group_instance_id"]
        self.listeners[member] = CheckingListener(self, self._numbers)
        self._subscribe(member)

    def _start(self, options: dict[str, Any]) -> KafkaConsumer:
        if not self.scenario.asynchronous:
            return self.simulation.consumer(**options)
        assert self._runner is not None
        return async_member(self.simulation, self._runner, options)

    def _subscribe(self, member: KafkaConsumer) -> None:
        listener = self.listeners[member]
        if self.scenario.pattern is None:
            member.subscribe([self.partitions[0].topic], listener=listener)
        else:
            member.subscribe(pattern=self.scenario.pattern, listener=listener)

    def close(self, member: KafkaConsumer, leave: Leave = "default") -> None:
        """Close a member."""
        self.note(self.listeners[member].number, f"closes, leave_group={leave}")
        self._leave(member, lambda: member.close(leave_group=leave))
        del self.listeners[member]
        self._instances.pop(member, None)
        self.invariants.check()

    def resubscribe(self, member: KafkaConsumer) -> None:
        """Unsubscribe a member and subscribe it again."""
        self.note(self.listeners[member].number, "unsubscribes")
        self._leave(member, member.unsubscribe)
        if member.assignment():
            raise Violation(f"unsubscribed, and {member.assignment()} assigned")
        self._subscribe(member)

    def _leave(self, member: KafkaConsumer, call: Callable[[], None]) -> None:
        listener = self.listeners[member]
        listener.member_leaves = True
        try:
            self.timed(listener, LEAVING_MS, call)
        except RebalanceCallbackError as error:
            _check_deliberate(error)
            listener.failed_while_leaving()
        finally:
            listener.member_leaves = False
        if listener.owned:
            raise Violation(f"left the group, and its listener still owns {listener.owned}")

    # --- calls ---------------------------------------------------------------------------------

    def timed(
        self,
        listener: CheckingListener,
        limit_ms: int,
        call: Callable[[], Any],
        late_ms: int = LATE_MS,
    ) -> Any:
        """Make a call and check its duration, without the time that listeners slept."""
        clock = self.simulation.clock
        began_ms, slept_ms = clock.now_ms(), listener.slept_ms
        try:
            return call()
        finally:
            took_ms = clock.now_ms() - began_ms - (listener.slept_ms - slept_ms)
            if took_ms > limit_ms + late_ms:
                raise Violation(f"a call of {limit_ms} ms took {took_ms} ms")

    def poll(self, member: KafkaConsumer, timeout_ms: int) -> None:
        """Poll a member; check its records and the duration of the call."""
        listener = self.listeners[member]
        clock = self.simulation.clock
        began_ms, calls, slept_ms = clock.now_ms(), len(listener.calls), listener.slept_ms
        outcome = self._polled(member, timeout_ms)
        took_ms = clock.now_ms() - began_ms - (listener.slept_ms - slept_ms)
        # A commit before a revocation may take until its timeout. Directly after it, a poll may be
        # cancelled before the listener is called.
        called = len(listener.calls) - calls + self.scenario.asynchronous
        limit_ms = timeout_ms + LATE_MS + called * (MAX_POLL_INTERVAL_MS + LATE_MS)
        if took_ms > limit_ms:
            raise Violation(f"poll({timeout_ms}) took {took_ms} ms")
        if isinstance(outcome, KafkaError):
            self.resubscribe(member)
        elif outcome is not None:
            self._note_records(member, outcome)
        self.invariants.check()

    def _polled(
        self, member: KafkaConsumer, timeout_ms: int
    ) -> ConsumerRecords | KafkaError | None:
        """Poll; return an error that ends the membership, if it is correct, and None for others."""
        try:
            return member.poll(timeout_ms)
        except RebalanceCallbackError as error:
            _check_deliberate(error)
        except (UnreleasedInstanceIdError, GroupIdNotFoundError) as error:
            if not self._is_expected(error):
                raise
            return error
        except KafkaError:
            if not self.expects_errors:
                raise
        return None

    def _is_expected(self, error: KafkaError) -> bool:
        """Return whether an error that ends a membership is correct."""
        if isinstance(error, UnreleasedInstanceIdError):
            # The previous member with this instance id could not leave the group.
            return self.scenario.static
        # The coordinator removed the member, and the group has become a classic one since.
        return self.scenario.others is not None

    def _note_records(self, member: KafkaConsumer, batch: ConsumerRecords) -> None:
        listener, assignment = self.listeners[member], member.assignment()
        for tp, records in batch.items():
            if tp not in assignment:
                raise Violation(f"records of {tp}, {assignment} assigned")
            self.invariants.handed_out(listener, tp, records)
        self.steering.check_paused(member, listener)

    def poll_all(self, rounds: int = 1, timeout_ms: int = 200) -> None:
        """Poll every member whose process runs."""
        for _ in range(rounds):
            for member in self.running:
                self.poll(member, timeout_ms)

    # --- the end -------------------------------------------------------------------------------

    def settle(self, within_ms: int) -> int:
        """Poll until each partition has one owner and is read to its end; returns the duration."""
        self.failing = self.slow = 0.0
        self.steering.resume_all()
        clock = self.simulation.clock
        began_ms = clock.now_ms()
        while not self._settled():
            if clock.now_ms() > began_ms + within_ms:
                raise Violation(f"does not settle in {within_ms} ms: {self.describe()}")
            self.poll_all()
        self.expects_errors = False
        return clock.now_ms() - began_ms

    def _settled(self) -> bool:
        return (
            self._all_assigned() and self.invariants.all_read() and self.invariants.all_caught_up()
        )

    def _all_assigned(self) -> bool:
        held = Counter(tp for member in self.listeners for tp in member.assignment())
        owned = Counter(tp for listener in self.listeners.values() for tp in listener.owned)
        return held == Counter(self.partitions) == owned

    def describe(self) -> str:
        """Return the state of each member and the unread partitions as text."""
        lines = [
            f"{listener.number}: {member.group_metadata().state}, "
            f"assigned {format_partitions(member.assignment())}, "
            f"owned by its listener {format_partitions(listener.owned)}"
            for member, listener in self.listeners.items()
        ]
        at = self.simulation.cluster.at
        ends = {tp: (to, at(tp).log.end_offset) for tp, to in self.invariants.read_to.items()}
        unread = [
            f"{format_partitions([tp])} to {to} of {end}"
            for tp, (to, end) in ends.items()
            if to < end
        ]
        return "; ".join([*lines, f"read {', '.join(unread) or 'everything'}"])


def _check_deliberate(error: RebalanceCallbackError) -> None:
    """Raise the error, unless the listener failed on purpose."""
    if not isinstance(error.__cause__, DeliberateError):
        raise error
