"""The actions of the applications, drawn from the seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.errors import IllegalStateError, KafkaError
from tests.scenarios.async_commits import AsyncCommits
from tests.scenarios.faults import Faults
from tests.scenarios.members import MAX_MEMBERS, Leave, Members

__all__ = ["MIN_MEMBERS", "Applications"]

MIN_MEMBERS = 3


class Applications:
    """Chooses the next action of a member, or the next fault."""

    def __init__(self, members: Members, faults: Faults) -> None:
        self._members = members
        self._faults = faults
        self._simulation = members.simulation
        self._random = members.simulation.random
        self._commits = AsyncCommits(members)

    def step(self) -> None:
        """Do one action or cause one fault, then check the invariants."""
        random, members = self._random, self._members
        match random.randrange(14):
            case 0 if len(members.listeners) < MAX_MEMBERS:
                members.join()
            case 1 if len(members.running) > MIN_MEMBERS:
                choices: list[Leave] = ["default", "leave"]
                self.close(random.choice(members.running), random.choice(choices))
            case 2:
                members.resubscribe(random.choice(members.running))
            case 3:
                self._simulation.sleep(random.choice([100, 1_000, 3_000, 9_000, 22_000]))
            case 4 | 5 | 6 | 7:
                self._faults.cause_one()
            case 8:
                members.poll(random.choice(members.running), random.choice([0, 3_000]))
            case 9:
                self._call(random.choice(members.running))
            case _:
                members.poll_all(random.randrange(1, 4), random.choice([0, 50, 200]))
        self._steer()
        self._commits.check()
        members.invariants.check()

    def _steer(self) -> None:
        """Let one application pause, resume or seek; it may then commit or poll at once."""
        members, steering = self._members, self._members.steering
        if not members.scenario.steered:
            return
        member = steering.act()
        if steering.random.random() < 0.2:
            self._commits.commit_repeatedly(member, steering.random)
        if steering.random.random() < 0.5:
            members.poll(member, steering.random.choice([0, 50, 500]))

    def conclude(self, within_ms: int) -> None:
        """Check commits after the faults, also those before a revocation."""
        members = self._members
        if not members.scenario.steered:
            return
        self._commits.conclude()
        # Only from here on: a connection may be half-open until a commit was answered on it.
        members.concluding = True
        for tp in members.partitions:
            members.history.produce(tp, members.steering.random.randrange(4))
        members.settle(within_ms)
        if len(members.listeners) < MAX_MEMBERS:
            members.join()
            members.settle(within_ms)

    def close(self, member: KafkaConsumer, leave: Leave = "default") -> None:
        """Close a member, and check that every commit callback has run."""
        self._members.close(member, leave)
        self._commits.check_closed(member)

    def _call(self, member: KafkaConsumer) -> None:
        """Make one of the calls that have a timeout."""
        timeout_ms = self._random.choice([0, 200, 5_000])
        partition = self._random.choice(self._members.partitions)
        match self._random.randrange(5):
            case 0:
                self._timed(member, timeout_ms, lambda: member.commit(timeout_ms=timeout_ms))
            case 1 if not self._members.scenario.asynchronous:
                self._commits.commit(member)
            case 2:
                self._timed(member, timeout_ms, lambda: member.position(partition, timeout_ms))
            case 3:
                self._timed(
                    member, timeout_ms, lambda: member.committed(partition, timeout_ms=timeout_ms)
                )
            case _:
                self._timed(member, timeout_ms, lambda: member.end_offsets([partition], timeout_ms))

    def _timed(self, member: KafkaConsumer, timeout_ms: int, call: Callable[[], Any]) -> None:
        listener = self._members.listeners[member]
        try:
            self._members.timed(listener, timeout_ms, call)
        except IllegalStateError:
            pass  # the member does not own the partition
        except KafkaError:
            if not self._members.expects_errors:
                raise
