"""What happens to members without their doing, drawn from the story's seed."""

from __future__ import annotations

from collections.abc import Callable

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.testing.cluster.call import Call
from tandem_kafka.testing.coordinator.records import OffsetCommit
from tandem_kafka.testing.network import SimTransport
from tandem_kafka.testing.scheduler import Parked
from tandem_kafka.testing.stories.members import Members
from tandem_kafka.testing.stories.producers import Producers
from tandem_kafka.testing.stories.scenarios import Scenario
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupInstallAssignmentRequest,
    FetchRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)

__all__ = ["Faults"]

#: What a quota of requests, or of fetched bytes, holds up.
_THROTTLED = (
    ConsumerGroupHeartbeatRequest,
    FetchRequest,
    FetchRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)

#: Share of brokers behind a proxy that accepts connections while its broker is down.
_PROXIED = 0.3


class Faults:
    """Breaks things, and mends them.

    Attributes:
        counts: How often each thing happened.
    """

    def __init__(self, members: Members) -> None:
        self._members = members
        self._simulation = members.simulation
        self._network = members.simulation.network
        self._cluster = members.simulation.cluster
        self._random = members.simulation.random
        self.counts: dict[str, int] = {}
        for broker in self._cluster.brokers.values():
            if self._random.random() < _PROXIED:
                self._network.proxied.add(broker.address)
        self._happenings: list[Callable[[], None]] = [
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
        self._add_those_of(members.scenario)

    def _add_those_of(self, scenario: Scenario) -> None:
        """Have happen what only happens to some groups."""
        if scenario.recreated:
            # Without the record of a deletion, what was committed before is in force again.
            self._happenings.remove(self.lose_commits)
        own: list[tuple[bool, list[Callable[[], None]]]] = [
            (scenario.pattern is not None, [self.grow] * 2),
            (scenario.local, [self.hold_up] * 4),
            (scenario.transactions, [self.transact] * 4),
            (scenario.retention, [self.produce, self.expire]),
            (scenario.recreated, [self.recreate] * 2),
            (scenario.quotas, [self.throttle] * 3),
        ]
        for happens, happenings in own:
            if happens:
                self._happenings += happenings

    def weather(self) -> None:
        """Draw how bad the network and the listeners are."""
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

    def happen(self) -> None:
        """Let one thing happen."""
        happening = self._random.choice(self._happenings)
        name = happening.__name__
        self.counts[name] = self.counts.get(name, 0) + 1
        happening()

    def heal(self) -> None:
        """Mend everything; processes that are stopped go on."""
        self._simulation.trace.note("the faults stop")
        self._network.heal()
        for node_id, broker in self._cluster.brokers.items():
            if not broker.up:
                self._cluster.start(node_id)
            broker.quotas.lift()
        self._producers.end_all()
        for member in self._members.listeners:
            _parked(member).stalled_ms = 0
        self._simulation.sleep(1)
        self._members.stalled.clear()

    # --- brokers -------------------------------------------------------------------------------

    def _up(self) -> list[int]:
        return [broker.node_id for broker in self._cluster.brokers.values() if broker.up]

    def _address(self) -> tuple[str, int]:
        return self._cluster.brokers[self._random.choice(list(self._cluster.brokers))].address

    def crash(self) -> None:
        """A broker goes down, mostly with another taking over."""
        up = self._up()
        if len(up) > 1:
            self._cluster.stop(self._random.choice(up), elect=self._random.random() < 0.7)

    def restart(self) -> None:
        """A broker comes back."""
        down = [b.node_id for b in self._cluster.brokers.values() if not b.up]
        if down:
            self._cluster.start(self._random.choice(down))

    def lead(self) -> None:
        """A partition gets another leader."""
        tp = self._random.choice(self._members.partitions)
        self._cluster.move_leader(tp, self._random.choice(self._up()))

    def coordinate(self) -> None:
        """The group gets another coordinator, with all that the old one knew."""
        self._cluster.move_coordinator(self._members.group_id, self._random.choice(self._up()))

    def fail_over(self) -> None:
        """The group gets another coordinator, which knows what was written."""
        self._cluster.fail_over(self._members.group_id, self._random.choice(self._up()))

    def lose_commits(self) -> None:
        """The group gets another coordinator, which misses the last commits."""
        group_id = self._members.group_id
        node_id, lost = self._random.choice(self._up()), self._random.randrange(1, 4)
        # Records of members, once lost, leave a partition to two of them for a while.
        commits = self._cluster.coordination.of(group_id).log.newest_of(OffsetCommit)
        self._cluster.fail_over(group_id, node_id, min(lost, commits))

    def orphan(self) -> None:
        """Nobody coordinates the group for a while; who does then knows what was written."""
        group_id, node_id = self._members.group_id, self._random.choice(self._up())
        self._cluster.orphan(group_id)

        def adopt() -> None:
            if self._cluster.coordinator_of(group_id) not in self._cluster.brokers:
                self._cluster.fail_over(group_id, node_id)

        self._simulation.after(self._random.choice([500, 3_000, 9_000]), adopt)

    def throttle(self) -> None:
        """A broker has some of the next answers ask for silence."""
        quotas = self._cluster.brokers[self._random.choice(list(self._cluster.brokers))].quotas
        times = [self._random.choice([50, 700, 3_000]) for _ in range(3)]
        quotas.throttle(self._random.choice(_THROTTLED), *times)

    def expel(self) -> None:
        """The coordinator forgets a member."""
        name, number = self._members.group_id, self._random.randrange(3)
        for group in (self._cluster.group(name), self._cluster.consumer_group(name)):
            ids = sorted(group.members)
            if len(ids) > number:
                self._cluster.expel(name, ids[number])

    def hold_up(self) -> None:
        """The next assignment that a member brings arrives when it may be one of the past."""
        delay_ms = self._random.choice([400, 2_000, 6_000])

        def later(call: Call) -> None:
            def handle() -> None:
                if not call.answered:
                    call.broker.answer(call, call.default())

            self._simulation.after(delay_ms, handle)

        self._cluster.script(ConsumerGroupInstallAssignmentRequest, later)

    # --- links ---------------------------------------------------------------------------------

    def cut(self) -> None:
        """Every connection to a broker is cut."""
        self._network.cut(self._address())

    def part(self) -> None:
        """Nothing gets through between a member and a broker any more."""
        member = self._random.choice(list(self._members.listeners))
        self._network.partitions.add((_transport(member), self._address()))
        self._note(member, "is cut off from a broker")

    def slow_down(self) -> None:
        """A broker is far away."""
        self._network.slow[self._address()] = self._random.choice([50, 400, 2_000])

    def silence(self) -> None:
        """A broker hangs for a while."""
        address = self._address()
        self._network.silent.add(address)
        self._simulation.after(
            self._random.choice([500, 4_000, 12_000]), lambda: self._network.silent.discard(address)
        )

    def freeze(self) -> None:
        """A member's connections are half-open: a middle box forgot them."""
        member = self._random.choice(list(self._members.listeners))
        self._network.freeze(_transport(member))
        self._note(member, "has half-open connections")

    def reunite(self) -> None:
        """The links are well again."""
        self._network.partitions.clear()
        self._network.slow.clear()

    # --- processes and clocks ------------------------------------------------------------------

    def stall(self) -> None:
        """A member's process is stopped for a while."""
        if len(self._members.awake) < 2:
            return
        member = self._random.choice(self._members.awake)
        number = self._members.listeners[member].number
        duration_ms = self._random.choice([300, 4_000, 9_000])
        parked = _parked(member)
        parked.stalled_ms = self._simulation.clock.now_ms() + duration_ms
        self._members.stalled.add(number)
        self._note(member, f"is stopped for {duration_ms} ms")
        # One millisecond for its network thread to notice what is overdue.
        self._simulation.after(duration_ms + 1, lambda: self._members.stalled.discard(number))

    def jump(self) -> None:
        """The machine was suspended."""
        self._simulation.jump(self._random.choice([100, 2_000, 10_000]))

    def shift(self) -> None:
        """Somebody sets the wall clock."""
        self._simulation.clock.shift_wall(self._random.choice([-86_400_000, -1_000, 3_600_000]))

    # --- topics --------------------------------------------------------------------------------

    def produce(self) -> None:
        """There are new records."""
        partition = self._random.choice(self._members.partitions)
        self._members.books.produce(partition, self._random.randrange(1, 6))

    def transact(self) -> None:
        """There are records, and commits, that count or do not only later."""
        self._producers.transact()

    def expire(self) -> None:
        """Retention drops the oldest records of a partition, read or not."""
        tp = self._random.choice(self._members.partitions)
        log = self._cluster.at(tp).log
        before = self._random.randint(log.start_offset, log.last_stable_offset)
        self._cluster.delete_records(tp, before)

    def grow(self) -> None:
        """A topic gets a partition, or there is a new topic that the pattern matches."""
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
        """A topic is deleted, and made anew with records of its own."""
        topic, books = self._members.partitions[0].topic, self._members.books
        self._members.invariants.check()
        books.recreate(topic)
        self._members.invariants.recreated(topic)
        for tp in self._members.partitions:
            books.produce(tp, self._random.randrange(12))

    def _note(self, member: KafkaConsumer, what: str) -> None:
        self._members.note(self._members.listeners[member].number, what)


def _parked(member: KafkaConsumer) -> Parked:
    parked: Parked = member._core.driver.parked  # type: ignore[attr-defined]  # noqa: SLF001
    return parked


def _transport(member: KafkaConsumer) -> SimTransport:
    return _parked(member).transport
