"""Members that share a group under faults, and the invariants that hold after every step."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import KafkaError, RebalanceCallbackError
from tandem_kafka.testing import Simulation
from tests.simulation.ledger import value_of

#: The application thread notices a little late: up to two extra steps of the driver.
LATE_MS = 25
MAX_POLL_INTERVAL_MS = 20_000
#: Requests of all members per second of simulated time, long before something spins.
BUSY = 60

Partitions = frozenset[TopicPartition]


class Watched:
    """A listener that checks what it is told, is slow, and sometimes fails."""

    def __init__(self, crew: Crew, number: int) -> None:
        self.crew = crew
        self.number = number
        self.owned: set[TopicPartition] = set()
        self.calls: list[tuple[str, Partitions]] = []
        self.slept_ms = 0
        #: What a call that failed was told: the next one is told the same.
        self._again: tuple[str, Partitions] | None = None

    def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
        told = self._called("assigned", partitions)
        assert not self.owned & told, f"{told} assigned twice, {self.owned} owned"
        self.crew.check_nobody_else_owns(self, told)
        self._work("assigned", told)
        self.owned |= told
        self._again = None

    def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
        told = self._called("revoked", partitions)
        assert told, "revoked: nothing"
        self._check_given_back(told)
        self._work("revoked", told)
        self.owned -= told
        self._again = None

    def on_partitions_lost(self, partitions: set[TopicPartition]) -> None:
        told = self._called("lost", partitions)
        assert told, "lost: nothing"
        self._check_given_back(told)
        self.owned -= told
        self._again = None
        self._work("lost", told)
        self._again = None

    def _check_given_back(self, told: Partitions) -> None:
        begun = self._again[1] if self._again is not None and self._again[0] == "assigned" else ()
        assert told - self.owned <= set(begun), f"{told} given back, {self.owned} owned"

    def _called(self, kind: str, partitions: set[TopicPartition]) -> Partitions:
        told = frozenset(partitions)
        self.crew.simulation.trace.note(f"member {self.number}: {kind} {sorted(told)}")
        self.calls.append((kind, told))
        if self._again is not None and self._again[0] == kind and kind != "lost":
            # A callback that is called anew tells the same, unless the membership was lost; of
            # which nothing is told to who had nothing.
            lost = not self._again[1] or any(k == "lost" for k, _ in self.calls[self._failed_at :])
            assert lost or self._again[1] == told, f"{kind} {told} after {self._again} failed"
        return told

    _failed_at = 0

    def _work(self, kind: str, told: Partitions) -> None:
        crew, random = self.crew, self.crew.simulation.random
        if random.random() < crew.slow:
            self._sleep(random.choice([10, 700, 7_000]))
        if random.random() < crew.failing:
            self._again = (kind, told)
            self._failed_at = len(self.calls)
            msg = "the listener does not feel like it"
            raise ValueError(msg)

    def _sleep(self, duration_ms: int) -> None:
        self.slept_ms += duration_ms
        self.crew.simulation.sleep(duration_ms)


class Crew:
    """Members of one group, polled in turn from one thread."""

    def __init__(
        self, simulation: Simulation, tps: list[TopicPartition], options: dict[str, Any]
    ) -> None:
        self.simulation = simulation
        self.partitions = tps
        self.options = options
        self.members: dict[KafkaConsumer, Watched] = {}
        self.read: Counter[tuple[TopicPartition, int]] = Counter()
        self.ends = dict.fromkeys(tps, 0)
        self.slow = self.failing = 0.0
        self._numbers = 0
        self._commits_seen = 0
        self._began_ms = simulation.clock.now_ms()

    # --- what members do -----------------------------------------------------------------------

    def join(self) -> None:
        self._numbers += 1
        member = self.simulation.consumer(**self.options)
        self.members[member] = Watched(self, self._numbers)
        member.subscribe([self.partitions[0].topic], listener=self.members[member])

    def close(self, member: KafkaConsumer) -> None:
        listener = self.members[member]
        try:
            member.close()
        except RebalanceCallbackError:
            listener.owned.clear()  # it was told and closed all the same
        assert not listener.owned, f"closed with {listener.owned}"
        del self.members[member]
        self.check()

    def resubscribe(self, member: KafkaConsumer) -> None:
        listener = self.members[member]
        try:
            member.unsubscribe()
        except RebalanceCallbackError:
            listener.owned.clear()
            listener._again = None
        assert not listener.owned, f"unsubscribed with {listener.owned}"
        assert member.assignment() == set()
        member.subscribe([self.partitions[0].topic], listener=listener)

    def poll(self, member: KafkaConsumer, timeout_ms: int) -> None:
        listener = self.members[member]
        clock = self.simulation.clock
        began_ms, calls, slept_ms = clock.now_ms(), len(listener.calls), listener.slept_ms
        try:
            batch = member.poll(timeout_ms)
        except RebalanceCallbackError as error:
            if not isinstance(error.__cause__, ValueError):
                raise  # not what the listener raised on purpose, but what it found wrong
        except KafkaError:
            if self.calm:
                raise
        else:
            for tp, records in batch.items():
                assert tp in listener.owned, f"records of {tp}, {listener.owned} owned"
                assert tp in member.assignment()
                for record in records:
                    assert record.value == value_of(tp, record.offset)
                    self.read[tp, record.offset] += 1
                    self.ends[tp] = max(self.ends[tp], record.offset + 1)
        took_ms = clock.now_ms() - began_ms - (listener.slept_ms - slept_ms)
        # A commit before giving back may take its time.
        called = len(listener.calls) - calls
        patience_ms = timeout_ms + LATE_MS + called * (MAX_POLL_INTERVAL_MS + LATE_MS)
        assert took_ms <= patience_ms, f"poll({timeout_ms}) took {took_ms} ms"
        self.check()

    def poll_all(self, rounds: int = 1, timeout_ms: int = 200) -> None:
        for _ in range(rounds):
            for member in list(self.members):
                self.poll(member, timeout_ms)

    @property
    def calm(self) -> bool:
        conditions = self.simulation.network.conditions
        return not (conditions.loss or conditions.clog or conditions.refuse)

    # --- invariants ----------------------------------------------------------------------------

    def known(self) -> set[str]:
        """Ids of those that the coordinator takes for members."""
        cluster = self.simulation.cluster
        name = self.options["group_id"]
        return {*cluster.group(name).members, *cluster.consumer_group(name).members}

    def check_nobody_else_owns(self, me: Watched, told: Partitions) -> None:
        known = self.known()
        in_group = {
            listener: member.group_metadata().member_id in known
            for member, listener in self.members.items()
        }
        for other in self.members.values():
            # Who has been dropped will hear of it; what it owns or takes over is lost by then.
            shared = other.owned & told
            if other is not me and shared and in_group[other] and in_group[me]:
                msg = f"{shared} of member {other.number} given to member {me.number}"
                raise AssertionError(msg)

    def check(self) -> None:
        """What holds after every step."""
        cluster, clock = self.simulation.cluster, self.simulation.clock
        for tp, (offset, _, _) in cluster.commit_log[self._commits_seen :]:
            assert offset <= self.ends[tp], f"{tp}: {offset} committed, {self.ends[tp]} read"
        self._commits_seen = len(cluster.commit_log)
        for member in self.members:
            deadline_ms = member._core.link.loop._reaper.next_deadline_ms()
            assert deadline_ms >= clock.now_ms() - LATE_MS, "something waits past its deadline"
        seconds = (clock.now_ms() - self._began_ms) / 1_000 + 1
        for name in ("ConsumerGroupHeartbeatRequest", "JoinGroupRequest", "SyncGroupRequest"):
            count = sum(b.requests.get(name, 0) for b in cluster.brokers.values())
            assert count <= 100 + BUSY * seconds, f"{count} times {name} in {seconds} s"

    # --- the end -------------------------------------------------------------------------------

    def settle(self, within_ms: int = 400_000) -> None:
        """Without faults everything is assigned to somebody, once, and read."""
        self.simulation.network.conditions.calm()
        self.failing = self.slow = 0.0
        clock = self.simulation.clock
        until_ms = clock.now_ms() + within_ms
        self.poll_all(10)
        while not (self.settled() and self.all_read()):
            assert clock.now_ms() < until_ms, f"does not settle: {self.describe()}"
            self.poll_all()

    def settled(self) -> bool:
        held = Counter(tp for member in self.members for tp in member.assignment())
        told = Counter(tp for listener in self.members.values() for tp in listener.owned)
        return held == Counter(self.partitions) == told

    def all_read(self) -> bool:
        at = self.simulation.cluster.at
        return all(
            (tp, n) in self.read for tp in self.partitions for n in range(at(tp).log.end_offset)
        )

    def describe(self) -> str:
        lines = []
        for member, listener in self.members.items():
            state = member.group_metadata().state
            lines.append(
                f"{listener.number}: {state} {sorted(member.assignment())} {listener.owned}"
            )
        return "; ".join(lines)
