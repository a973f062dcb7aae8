"""Members of one group, polled in turn from one thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

from kafka.errors import GroupIdNotFoundError

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.consumer.records import ConsumerRecords
from tandem_kafka.errors import KafkaError, RebalanceCallbackError, UnreleasedInstanceIdError
from tandem_kafka.testing.simulation import Simulation
from tandem_kafka.testing.stories.books import Books
from tandem_kafka.testing.stories.invariants import LATE_MS, Invariants
from tandem_kafka.testing.stories.listener import Reluctance, Watched, names
from tandem_kafka.testing.stories.local_assignors import drawn_assignors
from tandem_kafka.testing.stories.scenarios import MAX_POLL_INTERVAL_MS, Scenario
from tandem_kafka.testing.stories.steering import Steering
from tandem_kafka.testing.stories.violation import Violation
from tandem_kafka.types import TopicPartition

__all__ = ["MOST", "Leave", "Members"]

Leave = Literal["default", "leave"]

#: As many members as there may be; a static one has one of so many instance ids.
MOST = 8
#: One in so many members keeps metrics: they cost time, and no story looks at them.
MEASURING = 4
#: What ends a call of close() or unsubscribe() that reaches nobody, and a farewell behind it.
PARTING_MS = 30_000 + 10_000


class Members:
    """The applications of a story.

    Attributes:
        listeners: The members that there are, with their listeners.
        stalled: Numbers of those whose process is stopped.
        slow: Share of listener calls that take their time.
        failing: Share of listener calls that raise, and of assignments that fail.
        hostile: While this is True, errors of poll() are to be expected.
        concluding: Commits are answered, and there are no faults: what is given back is committed.
        books: What was produced, and what of it counts.
        steering: What the applications do with their positions.
    """

    def __init__(
        self,
        simulation: Simulation,
        scenario: Scenario,
        options: dict[str, Any],
        partitions: list[TopicPartition],
    ) -> None:
        self.simulation = simulation
        self.scenario = scenario
        self.options = options
        self.partitions = partitions
        self.group_id: str = options["group_id"]
        self.listeners: dict[KafkaConsumer, Watched] = {}
        self.stalled: set[int] = set()
        self.slow = self.failing = 0.0
        self.hostile = True
        self.concluding = False
        self.books = Books(simulation)
        self.steering = Steering(self)
        self.invariants = Invariants(self)
        self._instances: dict[KafkaConsumer, str] = {}
        self._numbers = 0

    def note(self, number: int, what: str) -> None:
        """Write into the trace."""
        self.simulation.trace.note(f"member {number}: {what}")

    @property
    def awake(self) -> list[KafkaConsumer]:
        """Members whose process runs."""
        return [m for m, listener in self.listeners.items() if listener.number not in self.stalled]

    def id_of(self, owner: Watched) -> str:
        """Return the id under which a member is in the group; empty for one that is gone."""
        for member, listener in self.listeners.items():
            if listener is owner:
                member_id: str = member.group_metadata().member_id
                return member_id
        return ""

    # --- coming and going ----------------------------------------------------------------------

    def join(self) -> None:
        """Start a member."""
        self._numbers += 1
        self.note(self._numbers, "starts")
        options = {**self.options, "metrics_enabled": self._numbers % MEASURING == 0}
        if self.scenario.others is not None and self.simulation.random.random() < 0.5:
            options = self.scenario.one_of_the_others(options)
        if self.scenario.static:
            taken = self._instances.values()
            free = [f"instance-{n}" for n in range(MOST) if f"instance-{n}" not in taken]
            options["group_instance_id"] = self.simulation.random.choice(free)
        if self.scenario.local:
            options["group_local_assignors"] = drawn_assignors(self, self.simulation.random)
        if self.scenario.racks:
            options["client_rack"] = self.simulation.random.choice(["", *self.scenario.racks])
        if self.scenario.remote:
            choices = ["range", "range", "uniform", None]
            options["group_remote_assignor"] = self.simulation.random.choice(choices)
        member = self.simulation.consumer(**options)
        if self.scenario.static:
            self._instances[member] = options["group_instance_id"]
        self.listeners[member] = Watched(self, self._numbers)
        self._subscribe(member)

    def _subscribe(self, member: KafkaConsumer) -> None:
        listener = self.listeners[member]
        if self.scenario.pattern is None:
            member.subscribe([self.partitions[0].topic], listener=listener)
        else:
            member.subscribe(pattern=self.scenario.pattern, listener=listener)

    def close(self, member: KafkaConsumer, leave: Leave = "default") -> None:
        """Close a member."""
        self.note(self.listeners[member].number, f"closes, leave_group={leave}")
        self._part(member, lambda: member.close(leave_group=leave))
        del self.listeners[member]
        self._instances.pop(member, None)
        self.invariants.check()

    def resubscribe(self, member: KafkaConsumer) -> None:
        """Unsubscribe a member and subscribe it again."""
        self.note(self.listeners[member].number, "unsubscribes")
        self._part(member, member.unsubscribe)
        if member.assignment():
            raise Violation(f"unsubscribed with {member.assignment()}")
        self._subscribe(member)

    def _part(self, member: KafkaConsumer, call: Callable[[], None]) -> None:
        listener = self.listeners[member]
        listener.parting = True
        try:
            self.timed(listener, PARTING_MS, call)
        except RebalanceCallbackError as error:
            _only_on_purpose(error)
            listener.told_on_the_way_out()
        finally:
            listener.parting = False
        if listener.owned:
            raise Violation(f"parted with {listener.owned}")

    # --- calls ---------------------------------------------------------------------------------

    def timed(
        self, listener: Watched, patience_ms: int, call: Callable[[], Any], late_ms: int = LATE_MS
    ) -> Any:
        """Make a call and check that it does not take longer than it may."""
        clock = self.simulation.clock
        began_ms, slept_ms = clock.now_ms(), listener.slept_ms
        try:
            return call()
        finally:
            took_ms = clock.now_ms() - began_ms - (listener.slept_ms - slept_ms)
            if took_ms > patience_ms + late_ms:
                raise Violation(f"a call of {patience_ms} ms took {took_ms} ms")

    def poll(self, member: KafkaConsumer, timeout_ms: int) -> None:
        """Poll a member; its records and the time it took are checked."""
        listener = self.listeners[member]
        clock = self.simulation.clock
        began_ms, calls, slept_ms = clock.now_ms(), len(listener.calls), listener.slept_ms
        self._poll_and_note(member, timeout_ms)
        took_ms = clock.now_ms() - began_ms - (listener.slept_ms - slept_ms)
        # A commit before giving back may take its time.
        called = len(listener.calls) - calls
        patience_ms = timeout_ms + LATE_MS + called * (MAX_POLL_INTERVAL_MS + LATE_MS)
        if took_ms > patience_ms:
            raise Violation(f"poll({timeout_ms}) took {took_ms} ms")
        self.invariants.check()

    def _poll_and_note(self, member: KafkaConsumer, timeout_ms: int) -> None:
        try:
            batch = member.poll(timeout_ms)
        except RebalanceCallbackError as error:
            _only_on_purpose(error)
        except (UnreleasedInstanceIdError, GroupIdNotFoundError) as error:
            if not self._may_be(error):
                raise
            self.resubscribe(member)
        except KafkaError:
            if not self.hostile:
                raise
        else:
            self._note_records(member, batch)

    def _may_be(self, error: KafkaError) -> bool:
        """Tell whether an error that ends a membership is one to be expected."""
        if isinstance(error, UnreleasedInstanceIdError):
            # The previous member with this instance id could not send a leave request.
            return self.scenario.static
        # The coordinator took it for dead, and the group became a classic one meanwhile.
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
            for member in self.awake:
                self.poll(member, timeout_ms)

    # --- the end -------------------------------------------------------------------------------

    def settle(self, within_ms: int) -> int:
        """Without faults everything is assigned to somebody, once, and read; returns how long."""
        self.failing = self.slow = 0.0
        self.steering.resume_all()
        clock = self.simulation.clock
        began_ms = clock.now_ms()
        while not self._settled():
            if clock.now_ms() > began_ms + within_ms:
                raise Violation(f"does not settle in {within_ms} ms: {self.describe()}")
            self.poll_all()
        self.hostile = False
        return clock.now_ms() - began_ms

    def _settled(self) -> bool:
        return (
            self._all_assigned() and self.invariants.all_read() and self.invariants.all_caught_up()
        )

    def _all_assigned(self) -> bool:
        held = Counter(tp for member in self.listeners for tp in member.assignment())
        told = Counter(tp for listener in self.listeners.values() for tp in listener.owned)
        return held == Counter(self.partitions) == told

    def describe(self) -> str:
        """Who has what."""
        lines = [
            f"{listener.number}: {member.group_metadata().state} {names(member.assignment())}, "
            f"told of {names(listener.owned)}"
            for member, listener in self.listeners.items()
        ]
        at = self.simulation.cluster.at
        ends = {tp: (to, at(tp).log.end_offset) for tp, to in self.invariants.read_to.items()}
        unread = [f"{names([tp])} to {to} of {end}" for tp, (to, end) in ends.items() if to < end]
        return "; ".join([*lines, f"read {', '.join(unread) or 'everything'}"])


def _only_on_purpose(error: RebalanceCallbackError) -> None:
    """Let through what a listener raised on purpose, and not what it found wrong."""
    if not isinstance(error.__cause__, Reluctance):
        raise error
