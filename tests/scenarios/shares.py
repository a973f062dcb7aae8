"""Scenarios of share groups: members join, leave and crash, and their handlers are slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.runtime import Random
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import (
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
)
from tandem_kafka_testing.cluster.call import CUT, DROP, Call
from tandem_kafka_testing.simulation import Simulation
from tests.scenarios.catalogue import GROUP, Scenario
from tests.scenarios.faults import Faults
from tests.scenarios.invariants import LATE_MS, QUEUED, WAITING, Invariants
from tests.scenarios.members import Members
from tests.scenarios.share_ledger import ShareLedger
from tests.scenarios.share_members import ShareMember
from tests.scenarios.share_soak import LOCK_MS, SoakMember, draw_soak_options
from tests.scenarios.violation import Violation

__all__ = ["ShareMembers", "run_shares"]

#: The size of a group, and of one of a soak.
_MEMBERS = 3, 5
_SOAK_MEMBERS = 1, 3
_MOST_PARTITIONS = 16
#: The records of one batch.
_BATCH = 20
#: Without faults, nothing takes longer to be sent, answered or closed; a fetch may be parked for an
#: eighth of a lock.
_PROMPT_MS = 1_000
#: How many of the endings of consumers and subscriptions happen without faults.
_CALM_ENDINGS = 0.1
#: Applications that are so far behind get no new records without faults.
_MOST_BEHIND = 2_000
#: After the faults, each lock may have to end once more, and each session of the group.
_SLACK_MS = 60_000
#: What faults have lost is asked for again: a request after 15 s, a connection after up to 36 s.
_LOST_MS = 40_000
#: The iterations of an idle member in a second: its fetches are parked, and it heartbeats.
IDLE_ITERATIONS_PER_SECOND = 30
_IDLE_MS = 20_000
#: The iterations for a record: its fetch, its response, and the call of the application.
ITERATIONS_PER_RECORD = 3


class ShareInvariants(Invariants):
    """The invariants of consumers, without assignments and commits."""

    def _check_commits(self) -> None:
        """Leave acknowledgements to the ledger."""

    def _check_target(self) -> None:
        """Leave out the target: partitions of a share group are shared."""

    def _check_iterations(self, iterations: int, number: int) -> None:
        """Check the budget, besides what each record takes that was fetched alone."""
        got = cast(ShareMembers, self._members).records.got[number]
        super()._check_iterations(iterations - ITERATIONS_PER_RECORD * got, number)

    def _check_queues(self, member: KafkaConsumer) -> None:
        link = member._core.engine
        background, reaper = len(link.background), len(link.loop._reaper)
        if background > QUEUED or reaper > QUEUED:
            raise Violation(f"events queued: {background=}, {reaper=}")
        client = link.loop._client
        if max(client.queued, client.in_flight) > WAITING:
            raise Violation(f"requests pile up: {client.queued=}, {client.in_flight=}")
        share = cast(ShareMember, member)
        records, now_ms = share.consumer._parts.records, self._clock.now_ms()
        ahead = records.ahead()
        for partition in ahead:
            if now_ms > partition.usable_until_ms + LATE_MS:
                raise Violation(f"{partition.tp} waits after half of its lock")
        waiting = sum(each.ahead for each in ahead)
        if waiting > 10_000 + 500 or len(records._acknowledged) > QUEUED:
            raise Violation(f"{waiting} wait, {len(records._acknowledged)} acknowledged")


class ShareMembers(Members):
    """The members of a run of a share group.

    Attributes:
        shares: The members that run or are stopped for a while.
        records: What became of each record.
    """

    def __init__(
        self, simulation: Simulation, scenario: Scenario, partitions: list[TopicPartition]
    ) -> None:
        super().__init__(simulation, scenario, {"group_id": GROUP}, partitions)
        self.random = Random(f"{simulation.seed}/shares")
        self.invariants = ShareInvariants(self)
        self.records = ShareLedger(simulation, GROUP, partitions, calm=scenario.calm)
        self.least, self.most = _SOAK_MEMBERS if scenario.soak else _MEMBERS
        self.lock_ms = self.random.choice([3_000, 8_000, 30_000])
        simulation.cluster.configure_group(
            GROUP,
            share_auto_offset_reset="earliest",
            share_record_lock_duration_ms=self.lock_ms,
            share_delivery_count_limit=self.random.choice([2, 5, 5]),
            share_max_record_locks=self.random.choice([5, 2_000]),
            share_heartbeat_interval_ms=self.random.choice([1_000, 5_000]),
            share_session_timeout_ms=self.random.choice([6_000, 20_000]),
            share_assignment_interval_ms=self.random.choice([0, 1_000]),
        )
        self.expects_errors = not scenario.calm
        if scenario.soak:
            self._prepare_soak()

    def _prepare_soak(self) -> None:
        """Set long locks, and produce so much that members are busy."""
        self.lock_ms = LOCK_MS
        self.simulation.cluster.configure_group(
            GROUP,
            share_record_lock_duration_ms=LOCK_MS,
            share_delivery_count_limit=self.random.choice([2, 5, 10]),
            share_max_record_locks=self.random.choice([100, 2_000]),
        )
        for _ in range(self.random.randrange(4)):
            self.grow()
        for tp in self.partitions:
            self.produce(tp, self.random.choice([5, 100, 500]))

    @property
    def shares(self) -> list[ShareMember]:
        """Return all members."""
        return cast("list[ShareMember]", list(self.listeners))

    @property
    def awake(self) -> list[ShareMember]:
        """Return the members whose process runs."""
        return [each for each in self.shares if each.number not in self.stalled]

    def join(self) -> None:
        """Start a member."""
        self._numbers += 1
        self.note(self._numbers, "starts")
        random = self.random
        options = {
            **self.scenario.options,
            "renew": random.choice(["off", "auto"]),
            "max_processing_ms": random.choice([2 * self.lock_ms, 600_000]),
            "max_poll_records": random.choice([1, 2, 500]),
            "fetch_max_wait_ms": random.choice([500, 3_000]),
            "metrics_enabled": False,
            "lock_ms": self.lock_ms,
        }
        topic = self.partitions[0].topic
        kind = ShareMember
        if self.scenario.soak:
            kind = SoakMember
            options |= draw_soak_options(random, self.scenario)
        member: Any = kind(self.simulation, self.records, self._numbers, topic, options)
        self.listeners[member] = member

    def grow(self) -> TopicPartition:
        """Add a partition to the topic, and return it."""
        topic, number = self.partitions[0].topic, len(self.partitions)
        self.simulation.cluster.add_partitions(topic, number + 1)
        tp = TopicPartition(topic, number)
        self.records.watch(tp)
        self.partitions.append(tp)
        self.invariants.read_to[tp] = 0
        return tp

    def produce(self, tp: TopicPartition, count: int) -> None:
        """Produce records in batches."""
        for begin in range(0, count, _BATCH):
            self.history.produce(tp, min(_BATCH, count - begin))

    def leave(self, member: ShareMember) -> None:
        """Close a member; without faults, it takes no longer than the last fetch."""
        calm = self.scenario.calm
        member.close(*([self.lock_ms // 8 + _PROMPT_MS] if calm else []))
        del self.listeners[cast(KafkaConsumer, member)]
        self.check()

    def kill(self, member: ShareMember) -> None:
        """End the process of a member."""
        member.kill()
        del self.listeners[cast(KafkaConsumer, member)]
        self.check()

    def step_all(self, timeout_ms: int) -> None:
        """Let each application work whose process runs."""
        began_ms = self.simulation.clock.now_ms()
        for member in self.awake:
            if member.number not in self.stalled:
                member.step(timeout_ms, fails=self.expects_errors)
                self.check()
                if member.ended:
                    self.leave(member)
        if timeout_ms and self.simulation.clock.now_ms() == began_ms:
            self.simulation.sleep(timeout_ms)  # all applications work

    def check(self) -> None:
        """Check the invariants."""
        self.records.check()
        self.invariants.check()


class ShareFaults(Faults):
    """The faults, and those of answers to share groups."""

    def __init__(self, members: ShareMembers) -> None:
        super().__init__(members)
        self._shares = members
        if members.scenario.calm:
            self._kinds = [self.produce, self.produce, self.grow]
            return
        self._kinds = [kind for kind in self._kinds if kind != self.lose_commits]
        if members.scenario.soak:
            self._kinds += [self.produce, self.grow]
        self._kinds += [self.produce, self.lose_answer, self.lose_answer, self.damage, self.pause]

    def draw_conditions(self) -> None:
        """Draw the conditions of the network; without faults, only its latency."""
        if self._shares.scenario.calm:
            latency_ms = self._random.choice([2, 20, 150])
            self._network.conditions.latency_ms = (1, latency_ms)
            self._network.proxied.clear()
        else:
            super().draw_conditions()

    def produce(self) -> None:
        """Records are produced, many at a time in a soak."""
        shares = self._shares
        if not shares.scenario.soak:
            super().produce()
        elif shares.records.records - len(shares.records.final) < _MOST_BEHIND:
            count = self._random.choice([1, 20, 200])
            shares.produce(self._random.choice(shares.partitions), count)

    def grow(self) -> None:
        """The topic gets a partition, unless it has many."""
        if len(self._shares.partitions) < _MOST_PARTITIONS:
            self._shares.grow()

    def expel(self, *, group: str | None = None) -> None:
        """The coordinator removes a member, as after a session timeout."""
        del group
        member = self._random.choice(self._shares.shares)
        self._cluster.expel(GROUP, member.member_id)

    def lose_answer(self) -> None:
        """A broker handles a request, and its answer is lost or wrong."""
        api: Any = self._random.choice(
            [ShareAcknowledgeRequest, ShareFetchRequest, ShareGroupHeartbeatRequest]
        )
        outcome: Any = self._random.choice([CUT, CUT, DROP])
        processed = self._random.random() < 0.7

        def answer(call: Call) -> Any:
            if processed:
                call.default()
            return outcome

        self._cluster.script(api, answer)

    def damage(self) -> None:
        """Some answers are cut short for a while."""
        network, random = self._network, self._random

        def alter(frame: bytes) -> bytes:
            return frame[: random.randrange(len(frame))] if random.random() < 0.2 else frame

        network.alter_response = alter
        self._after(2_000, lambda: setattr(network, "alter_response", None))


def run_shares(
    members: ShareMembers, working_ms: int, settle_ms: int, account: dict[str, int]
) -> tuple[int, dict[str, int]]:
    """Run a scenario of a share group; returns how long it took to settle, and the faults by name.

    Args:
        members: The members.
        working_ms: How long applications work, with faults unless the scenario is calm.
        settle_ms: How long they may take to settle then.
        account: Gets what became of the records.

    Raises:
        Violation: An invariant does not hold.
    """
    faults = ShareFaults(members)
    faults.draw_conditions()
    random, clock = members.random, members.simulation.clock
    for _ in range(random.randrange(members.least, members.most + 1)):
        members.join()
    until_ms = clock.now_ms() + working_ms
    while clock.now_ms() < until_ms:
        _act(members, faults, random)
        while len(members.shares) < members.least:  # jobs have ended
            members.join()
        members.check()
    faults.heal()
    settled_ms = _settle(members, settle_ms + _SLACK_MS + members.lock_ms)
    if members.scenario.soak:
        _check_growth(members)
    _conclude(members, settle_ms)
    for member in members.shares:
        members.leave(member)
    account.update(members.records.account())
    return settled_ms, faults.counts


def _act(  # noqa: C901 - a table
    members: ShareMembers, faults: Faults, random: Random
) -> None:
    """Do one action or cause one fault."""
    match number := _draw_action(members, random):
        case 0 if len(members.shares) < members.most:
            members.join()
        case 1 if len(members.awake) > members.least:
            members.leave(random.choice(members.awake))
        case 2 if len(members.awake) > members.least and not members.scenario.calm:
            members.kill(random.choice(members.awake))
        case 3:
            members.simulation.sleep(random.choice([100, 1_000, 9_000]))
        case 4 | 5 | 6:
            faults.cause_one()
        case 7 | 8:
            _call(
                random,
                members,
                lambda member: member.commit(random.choice([0, 200, 5_000]), fails=True),
            )
        case 9 | 10 if random.random() < 0.2:
            ending = ShareMember.resubscribe if number == 9 else ShareMember.release_all
            _call(random, members, ending)
        case _:
            for _ in range(random.randrange(1, 5)):
                members.step_all(random.choice([0, 0, 50, 200]))


def _draw_action(members: ShareMembers, random: Random) -> int:
    number = random.randrange(16)
    # Without faults, an application works for longer than a few calls before it ends.
    if members.scenario.calm and number in {1, 9, 10} and random.random() > _CALM_ENDINGS:
        return 3
    return number


def _call(random: Random, members: ShareMembers, call: Callable[[ShareMember], None]) -> None:
    if members.awake:
        call(random.choice(members.awake))


def _check_growth(members: ShareMembers) -> None:
    """Check that members without other work soon read a partition that is added."""
    settings = members.simulation.cluster.coordination.of(GROUP).settings
    clock = members.simulation.clock
    lost_until_ms = clock.now_ms() + (0 if members.scenario.calm else _LOST_MS)
    while clock.now_ms() < lost_until_ms:
        members.step_all(1_000)
    tp = members.grow()
    members.history.produce(tp, 1)
    began_ms = clock.now_ms()
    within_ms = 2 * settings.share_heartbeat_interval_ms + settings.share_assignment_interval_ms
    while (tp, 0) not in members.records.handed_ms:
        if clock.now_ms() > began_ms + within_ms + members.lock_ms // 8 + _PROMPT_MS:
            raise Violation(f"{tp} was added {clock.now_ms() - began_ms} ms ago, and is not read")
        members.step_all(50)


def _settle(members: ShareMembers, within_ms: int) -> int:
    """Let the members work until each record is done; returns the duration."""
    clock = members.simulation.clock
    began_ms = clock.now_ms()
    for member in members.shares:
        member.quick = True
        # A batch of slow records would take minutes, while its locks are renewed.
        member.busy_until_ms = min(member.busy_until_ms, began_ms + 2 * members.lock_ms)
    records, done = members.records, 0
    while not records.all_done():
        if members.scenario.soak and len(records.final) > done:  # so many take longer
            began_ms, done = clock.now_ms(), len(records.final)
        if clock.now_ms() > began_ms + within_ms:
            raise Violation(f"not done in {within_ms} ms: {members.records.undone()[:10]}")
        members.step_all(50)
    return clock.now_ms() - began_ms


def _conclude(members: ShareMembers, within_ms: int) -> None:
    """Check members without faults and, at last, without work."""
    simulation = members.simulation
    for tp in members.partitions:
        members.history.produce(tp, members.random.randrange(1, 6))
    _settle(members, within_ms)
    deadline_ms = simulation.clock.now_ms() + 2 * members.lock_ms + _IDLE_MS
    while simulation.clock.now_ms() < deadline_ms:
        members.step_all(1_000)
    members.expects_errors = False
    for member in members.shares:
        member.commit(30_000, fails=False)
    before = [member._core.driver.iterations for member in members.shares]
    began_ms = simulation.clock.now_ms()
    while simulation.clock.now_ms() < began_ms + _IDLE_MS:
        members.step_all(1_000)
    for member, count in zip(members.shares, before, strict=True):
        done = member._core.driver.iterations - count
        if done > IDLE_ITERATIONS_PER_SECOND * (simulation.clock.now_ms() - began_ms) // 1_000:
            raise Violation(f"member {member.number}: {done} iterations without work")
        _check_empty(member)


def _check_empty(member: ShareMember) -> None:
    """Check that nothing is kept for records that are done."""
    records = member.consumer._parts.records
    sessions: Any = member._core.engine.loop._managers.locks._sessions
    kept = [len(session.locked) for session in sessions.values() if session.fetching]
    waiting = sum(each.ahead for each in records.ahead())
    if waiting or records._handed or any(kept):
        raise Violation(
            f"member {member.number} keeps {waiting} records that wait, "
            f"{len(records._handed)} in work, {kept} locked"
        )
