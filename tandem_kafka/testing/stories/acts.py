"""What applications do, drawn from the story's seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.errors import IllegalStateError, KafkaError
from tandem_kafka.testing.stories.async_commits import AsyncCommits
from tandem_kafka.testing.stories.faults import Faults
from tandem_kafka.testing.stories.members import MOST, Leave, Members

__all__ = ["FEWEST", "Applications"]

FEWEST = 3


class Applications:
    """Acts of the members, and the faults in between."""

    def __init__(self, members: Members, faults: Faults) -> None:
        self._members = members
        self._faults = faults
        self._simulation = members.simulation
        self._random = members.simulation.random
        self._commits = AsyncCommits(members)

    def act(self) -> None:
        """Let one thing be done or happen."""
        random, members = self._random, self._members
        match random.randrange(14):
            case 0 if len(members.listeners) < MOST:
                members.join()
            case 1 if len(members.awake) > FEWEST:
                leaving: list[Leave] = ["default", "leave"]
                self.close(random.choice(members.awake), random.choice(leaving))
            case 2:
                members.resubscribe(random.choice(members.awake))
            case 3:
                self._simulation.sleep(random.choice([100, 1_000, 3_000, 9_000, 22_000]))
            case 4 | 5 | 6 | 7:
                self._faults.happen()
            case 8:
                members.poll(random.choice(members.awake), random.choice([0, 3_000]))
            case 9:
                self._call(random.choice(members.awake))
            case _:
                members.poll_all(random.randrange(1, 4), random.choice([0, 50, 200]))
        self._steer()
        self._commits.check()
        members.invariants.check()

    def _steer(self) -> None:
        """Let one application do something with its positions, and poll at once if it likes."""
        members, steering = self._members, self._members.steering
        if not members.scenario.steered:
            return
        member = steering.act()
        if steering.random.random() < 0.2:
            self._commits.commit_repeatedly(member, steering.random)
        if steering.random.random() < 0.5:
            members.poll(member, steering.random.choice([0, 50, 500]))

    def conclude(self, within_ms: int) -> None:
        """There are no faults any more: commits count, also those before partitions move."""
        members = self._members
        if not members.scenario.steered:
            return
        self._commits.conclude()
        # Only now: until a commit is answered, its connection may be one that the faults left dead.
        members.concluding = True
        for tp in members.partitions:
            members.books.produce(tp, members.steering.random.randrange(4))
        members.settle(within_ms)
        if len(members.listeners) < MOST:
            members.join()
            members.settle(within_ms)

    def close(self, member: KafkaConsumer, leave: Leave = "default") -> None:
        """Close a member; by then every callback has run."""
        self._members.close(member, leave)
        self._commits.check_closed(member)

    def _call(self, member: KafkaConsumer) -> None:
        """Make one of the calls that have a deadline."""
        timeout_ms = self._random.choice([0, 200, 5_000])
        partition = self._random.choice(self._members.partitions)
        match self._random.randrange(5):
            case 0:
                self._timed(member, timeout_ms, lambda: member.commit(timeout_ms=timeout_ms))
            case 1:
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
            pass  # of a partition that it does not own
        except KafkaError:
            if not self._members.hostile:
                raise
