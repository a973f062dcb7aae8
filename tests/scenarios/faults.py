"""The faults, drawn from the seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import (
    ConsumerGroupInstallAssignmentRequest,
)
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.coordinator.records import OffsetCommit
from tandem_kafka_testing.faults import ClusterFaults
from tandem_kafka_testing.network import SimTransport
from tandem_kafka_testing.scheduler import ParkedLoop
from tests.scenarios.catalogue import Scenario
from tests.scenarios.members import Members
from tests.scenarios.producers import Producers

__all__ = ["Faults"]

#: Share of brokers behind a proxy, which accepts connections while its broker is down.
_PROXIED = 0.3


class Faults(ClusterFaults):
    """Causes faults, and ends them.

    Attributes:
        counts: How often each fault occurred.
    """

    def __init__(self, members: Members) -> None:
        super().__init__(members.simulation.cluster, members.simulation.random)
        self._members = members
        self._simulation = members.simulation
        self.counts: dict[str, int] = {}
        for broker in self._cluster.brokers.values():
            if self._random.random() < _PROXIED:
                self._network.proxied.add(broker.address)
        self._kinds: list[Callable[[], None]] = [
            self.produce,
            self.produce,
            self.crash,
            self.restart,
            self.lead,
            self.coordinate,
            self.fail_over,
            self.lose_commits,
            self.orphan,
            self.cut,
            self.part,
            self.slow_down,
            self.silence,
            self.freeze,
            self.stall,
            self.jump,
            self.shift,
            self.expel,
            self.reunite,
        ]
        self._producers = Producers(members)
        self._add_kinds_of(members.scenario)

    def _add_kinds_of(self, scenario: Scenario) -> None:
        """Add the faults that only some scenarios have."""
        if scenario.recreated:
            # A lost deletion of offsets would leave the new topic with old ones.
            self._kinds.remove(self.lose_commits)
        own: list[tuple[bool, list[Callable[[], None]]]] = [
            (scenario.pattern is not None, [self.grow] * 2),
            (scenario.local, [self.hold_up] * 4),
            (scenario.transactions, [self.transact] * 4),
            (scenario.retention, [self.produce, self.expire]),
            (scenario.recreated, [self.recreate] * 2),
            (scenario.quotas, [self.throttle] * 3),
        ]
        for included, kinds in own:
            if included:
                self._kinds += kinds

    def _partitions(self) -> Sequence[TopicPartition]:
        return self._members.partitions

    def _groups(self) -> Sequence[str]:
        return [self._members.group_id]

    def draw_conditions(self) -> None:
        """Draw the conditions of the network, and how often listeners fail."""
        random, conditions = self._random, self._network.conditions
        conditions.latency_ms = (1, random.choice([2, 20, 150]))
        conditions.loss = random.choice([0.0, 0.01, 0.04])
        conditions.clog = random.choice([0.0, 0.0, 0.01])
        conditions.clog_ms = (5_000, 30_000)
        conditions.refuse = random.choice([0.0, 0.0, 0.2])
        conditions.swallow = random.choice([0.0, 0.0, 0.01])
        conditions.double = random.choice([0.0, 0.0, 0.01])
        self._members.slow = random.choice([0.0, 0.2])
        self._members.failing = random.choice([0.0, 0.3])

    def cause_one(self) -> None:
        """Cause a random fault."""
        cause = self._random.choice(self._kinds)
        name = cause.__name__
        self.counts[name] = self.counts.get(name, 0) + 1
        cause()

    def heal(self) -> None:
        """End all faults; stopped brokers and processes continue."""
        self._simulation.trace.note("the faults stop")
        super().heal()
        self._producers.end_all()
        for member in self._members.listeners:
            _parked(member).stalled_until_ms = 0
        self._simulation.sleep(1)
        self._members.stalled.clear()

    # --- brokers -------------------------------------------------------------------------------

    def lose_commits(self) -> None:
        """The group fails over to another coordinator, and the last commits are lost."""
        group_id = self._members.group_id
        node_id, lost = self._up(), self._random.randrange(1, 4)
        assert node_id is not None
        # Only commits may be lost: without records of members, a partition could have two owners.
        commits = self._cluster.coordination.of(group_id).log.newest_of(OffsetCommit)
        self._cluster.fail_over(group_id, node_id, min(lost, commits))

    def hold_up(self) -> None:
        """The next assignment computed by a member is handled late, perhaps too late."""
        delay_ms = self._random.choice([400, 2_000, 6_000])

        def later(call: Call) -> None:
            def handle() -> None:
                if not call.responded:
                    call.respond_later(call.default())

            self._after(delay_ms, handle)

        self._cluster.script(ConsumerGroupInstallAssignmentRequest, later)

    # --- links ---------------------------------------------------------------------------------

    def part(self) -> None:
        """A member cannot reach a broker any more."""
        member = self._random.choice(list(self._members.listeners))
        self._network.partitions.add((_transport(member), self._address()))
        self._note(member, "cannot reach a broker")

    def freeze(self) -> None:
        """A member's connections become half-open, as if a firewall had dropped them."""
        member = self._random.choice(list(self._members.listeners))
        self._network.freeze(_transport(member))
        self._note(member, "has half-open connections")

    # --- processes and clocks ------------------------------------------------------------------

    def stall(self) -> None:
        """A member's process is stopped for a while."""
        if len(self._members.running) < 2:
            return
        member = self._random.choice(self._members.running)
        number = self._members.listeners[member].number
        duration_ms = self._random.choice([300, 4_000, 9_000])
        parked = _parked(member)
        parked.stalled_until_ms = self._simulation.clock.now_ms() + duration_ms
        self._members.stalled.add(number)
        self._note(member, f"is stopped for {duration_ms} ms")
        # One more millisecond: its network thread must notice expired timeouts first.
        self._after(duration_ms + 1, lambda: self._members.stalled.discard(number))

    def jump(self) -> None:
        """The machine was suspended."""
        self._simulation.jump(self._random.choice([100, 2_000, 10_000]))

    def shift(self) -> None:
        """The wall clock is set."""
        self._simulation.clock.shift_wall(self._random.choice([-86_400_000, -1_000, 3_600_000]))

    # --- topics --------------------------------------------------------------------------------

    def produce(self) -> None:
        """Records are produced."""
        partition = self._random.choice(self._members.partitions)
        self._members.history.produce(partition, self._random.randrange(1, 6))

    def transact(self) -> None:
        """A transaction begins, and is committed or aborted later."""
        self._producers.transact()

    def grow(self) -> None:
        """A topic gets a partition, or a topic that matches the pattern is created."""
        partitions = self._members.partitions
        topics = sorted({tp.topic for tp in partitions})
        if len(partitions) > 16:
            return
        known = self._random.random() < 0.6
        name = self._random.choice(topics) if known else f"{topics[0]}-{len(topics)}"
        if name in self._cluster.topics:
            self._cluster.add_partitions(name, len(self._cluster.topics[name].partitions) + 1)
        else:
            self._cluster.create_topic(name)
        tp = TopicPartition(name, len(self._cluster.topics[name].partitions) - 1)
        partitions.append(tp)
        self._members.invariants.read_to[tp] = 0

    def recreate(self) -> None:
        """A topic is deleted and created again, with new records."""
        topic, history = self._members.partitions[0].topic, self._members.history
        self._members.invariants.check()
        history.recreate(topic)
        self._members.invariants.recreated(topic)
        for tp in self._members.partitions:
            history.produce(tp, self._random.randrange(12))

    def _note(self, member: KafkaConsumer, what: str) -> None:
        self._members.note(self._members.listeners[member].number, what)


def _parked(member: KafkaConsumer) -> ParkedLoop:
    parked: ParkedLoop = member._core.driver.parked  # type: ignore[attr-defined]
    return parked


def _transport(member: KafkaConsumer) -> SimTransport:
    return _parked(member).transport
