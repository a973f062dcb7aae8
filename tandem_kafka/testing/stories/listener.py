"""A rebalance listener that checks what it is told, is slow, and sometimes fails."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tandem_kafka.testing.stories.violation import Violation
from tandem_kafka.types import TopicPartition

if TYPE_CHECKING:
    from tandem_kafka.testing.stories.members import Members

__all__ = ["Reluctance", "Watched", "names"]

Partitions = frozenset[TopicPartition]


class Reluctance(ValueError):  # noqa: N818 - not an error: it is raised on purpose
    """What a listener raises on purpose."""


class Watched:
    """The listener of one member.

    Attributes:
        owned: What it was told to own and not yet told to have lost.
        leaving: What it was told to give back, from the beginning of that call on.
        calls: Every call, in order.
        slept_ms: How long its calls have slept.
        parting: While its member gives everything back, also what it failed to give back before.
    """

    def __init__(self, members: Members, number: int) -> None:
        self._members = members
        self.number = number
        self.owned: set[TopicPartition] = set()
        self.leaving: set[TopicPartition] = set()
        self.calls: list[tuple[str, Partitions]] = []
        self.slept_ms = 0
        self.parting = False
        #: What a call that failed was told: the next one is told the same.
        self._again: tuple[str, Partitions] | None = None
        self._failed_at = 0

    def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
        """Check that they are new to us and that nobody else has them."""
        told = self._called("assigned", partitions)
        if self.owned & told:
            raise Violation(f"{told} assigned twice, {self.owned} owned")
        self._members.invariants.check_nobody_else_owns(self, told)
        self.leaving -= told
        self._work("assigned", told)
        self.owned |= told
        self._again = None

    def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
        """Check that they were ours."""
        told = self._called("revoked", partitions)
        self._check_given_back(told)
        self._members.invariants.check_committed(self, told)
        self.leaving |= told
        self._work("revoked", told)
        self.owned -= told
        self._members.invariants.given_back(self, told)
        self._again = None

    def on_partitions_lost(self, partitions: set[TopicPartition]) -> None:
        """Check that they were ours."""
        told = self._called("lost", partitions)
        self._check_given_back(told)
        self.leaving |= told
        self.owned -= told
        self._members.invariants.given_back(self, told)
        self._again = None
        self._work("lost", told)
        self._again = None

    def told_on_the_way_out(self) -> None:
        """A call failed while the member went: it was told, and went all the same."""
        self.owned.clear()
        self._again = None

    def _check_given_back(self, told: Partitions) -> None:
        if not told:
            raise Violation("nothing given back")
        begun = self._again[1] if self._again is not None and self._again[0] == "assigned" else ()
        if told - self.owned - set(begun):
            raise Violation(f"{told} given back, {self.owned} owned")

    def _called(self, kind: str, partitions: set[TopicPartition]) -> Partitions:
        told = frozenset(partitions)
        self._members.invariants.check_thread(f"member {self.number}: {kind} {names(told)}")
        self._members.note(self.number, f"{kind} {names(told)}")
        self.calls.append((kind, told))
        if self._again is not None and self._again[0] == kind and kind != "lost":
            # A callback that is called anew tells the same, unless the membership was lost; of
            # which nothing is told to who had nothing.
            lost = not self._again[1] or any(k == "lost" for k, _ in self.calls[self._failed_at :])
            same = self._again[1] <= told if self.parting else self._again[1] == told
            if not lost and not same:
                raise Violation(f"{kind} {told} after {self._again} failed")
        return told

    def _work(self, kind: str, told: Partitions) -> None:
        members, random = self._members, self._members.simulation.random
        if random.random() < members.slow:
            duration_ms = random.choice([10, 700, 7_000])
            self.slept_ms += duration_ms
            members.simulation.sleep(duration_ms)
        if random.random() < members.failing:
            self._again = (kind, told)
            self._failed_at = len(self.calls)
            msg = "the listener does not feel like it"
            raise Reluctance(msg)


def names(partitions: Iterable[TopicPartition]) -> str:
    """Name partitions for a reader."""
    return " ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(partitions)) or "nothing"
