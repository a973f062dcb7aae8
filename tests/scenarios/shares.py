"""Scenarios of share groups: members join, leave and crash, and their handlers are slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.runtime import Random
from tandem_kafka.testing.cluster.call import CUT, DROP, Call
from tandem_kafka.testing.simulation import Simulation
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import (
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
)
from tests.scenarios.catalogue import GROUP, Scenario
from tests.scenarios.faults import Faults
from tests.scenarios.invariants import LATE_MS, QUEUED, WAITING, Invariants
from tests.scenarios.members import Members
from tests.scenarios.share_ledger import ShareLedger
from tests.scenarios.share_members import ShareMember
from tests.scenarios.violation import Violation

__all__ = ["run_shares"]

MIN_MEMBERS, MAX_MEMBERS = 3, 5
#: After the faults, each lock may have to end once more, and each session of the group.
_SLACK_MS = 60_000
#: The iterations of an idle member in a second: its fetches are parked, and it heartbeats.
IDLE_ITERATIONS_PER_SECOND = 30
_IDLE_MS = 20_000


class ShareInvariants(Invariants):
    """The invariants of consumers, without assignments and commits."""

    def _check_commits(self) -> None:
        """Leave acknowledgements to the ledger."""

    def _check_target(self) -> None:
        """Leave out the target: partitions of a share group are shared."""

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
        self.records = ShareLedger(simulation, GROUP, partitions)
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
        member: Any = ShareMember(self.simulation, self.records, self._numbers, topic, options)
        self.listeners[member] = member

    def leave(self, member: ShareMember) -> None:
        """Close a member."""
        member.close()
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
        self._kinds = [kind for kind in self._kinds if kind != self.lose_commits]
        self._kinds += [self.produce, self.lose_answer, self.lose_answer, self.damage, self.pause]

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
    simulation: Simulation,
    scenario: Scenario,
    partitions: list[TopicPartition],
    faults_ms: int,
    settle_ms: int,
) -> tuple[int, dict[str, int]]:
    """Run a scenario of a share group; returns how long it took to settle, and the faults by name.

    Raises:
        Violation: An invariant does not hold.
    """
    members = ShareMembers(simulation, scenario, partitions)
    faults = ShareFaults(members)
    faults.draw_conditions()
    random, clock = members.random, simulation.clock
    for _ in range(random.randrange(MIN_MEMBERS, MAX_MEMBERS + 1)):
        members.join()
    until_ms = clock.now_ms() + faults_ms
    while clock.now_ms() < until_ms:
        _act(members, faults, random)
        members.check()
    faults.heal()
    settled_ms = _settle(members, settle_ms + _SLACK_MS + members.lock_ms)
    _conclude(members, settle_ms)
    for member in members.shares:
        members.leave(member)
    return settled_ms, faults.counts


def _act(  # noqa: C901 - a table
    members: ShareMembers, faults: Faults, random: Random
) -> None:
    """Do one action or cause one fault."""
    match random.randrange(16):
        case 0 if len(members.shares) < MAX_MEMBERS:
            members.join()
        case 1 if len(members.awake) > MIN_MEMBERS:
            members.leave(random.choice(members.awake))
        case 2 if len(members.awake) > MIN_MEMBERS:
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
        case 9 if random.random() < 0.2:
            _call(random, members, ShareMember.resubscribe)
        case 10 if random.random() < 0.2:
            _call(random, members, ShareMember.release_all)
        case _:
            for _ in range(random.randrange(1, 5)):
                members.step_all(random.choice([0, 0, 50, 200]))


def _call(random: Random, members: ShareMembers, call: Callable[[ShareMember], None]) -> None:
    if members.awake:
        call(random.choice(members.awake))


def _settle(members: ShareMembers, within_ms: int) -> int:
    """Let the members work until each record is done; returns the duration."""
    clock = members.simulation.clock
    began_ms = clock.now_ms()
    for member in members.shares:
        member.quick = True
        # A batch of slow records would take minutes, while its locks are renewed.
        member.busy_until_ms = min(member.busy_until_ms, began_ms + 2 * members.lock_ms)
    while not members.records.all_done():
        if clock.now_ms() > began_ms + within_ms:
            raise Violation(f"not done in {within_ms} ms: {members.records.undone()[:10]}")
        members.step_all(50)
    return clock.now_ms() - began_ms


def _conclude(members: ShareMembers, within_ms: int) -> None:
    """Check members without faults and, at last, without work."""
    simulation = members.simulation
    for tp in members.partitions:
        members.ledger.produce(tp, members.random.randrange(1, 6))
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
