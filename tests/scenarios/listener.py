"""A rebalance listener that checks its calls, is slow, and sometimes fails."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tandem_kafka.types import TopicPartition
from tests.scenarios.violation import Violation

if TYPE_CHECKING:
    from tests.scenarios.members import Members

__all__ = ["CheckingListener", "DeliberateError", "format_partitions"]

Partitions = frozenset[TopicPartition]


class DeliberateError(ValueError):
    """Raised by a listener on purpose."""


class CheckingListener:
    """The listener of one member.

    Attributes:
        owned: Partitions from assigned calls that no revoked or lost call has taken away.
        being_revoked: Partitions of revoked and lost calls, from the start of such a call on.
        calls: Every call, in order.
        slept_ms: Total time that the calls have slept.
        member_leaves: True while the member closes or unsubscribes. It then revokes all partitions,
            including those of a failed revocation.
    """

    def __init__(self, members: Members, number: int) -> None:
        self._members = members
        self.number = number
        self.owned: set[TopicPartition] = set()
        self.being_revoked: set[TopicPartition] = set()
        self.calls: list[tuple[str, Partitions]] = []
        self.slept_ms = 0
        self.member_leaves = False
        #: A failed call and its partitions; the next call must repeat it.
        self._to_repeat: tuple[str, Partitions] | None = None
        self._failed_at = 0

    def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
        """Check that the partitions are new to the member, and have no other owner."""
        assigned = self._note_call("assigned", partitions)
        if self.owned & assigned:
            raise Violation(f"{assigned} assigned twice, {self.owned} owned")
        self._members.invariants.check_sole_owner(self, assigned)
        self.being_revoked -= assigned
        self._work("assigned", assigned)
        self.owned |= assigned
        self._members.history.assigned(self.number, assigned)
        self._to_repeat = None

    def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
        """Check that the member owned the partitions."""
        revoked = self._note_call("revoked", partitions)
        self._check_owned(revoked)
        self._members.invariants.check_committed(self, revoked)
        self.being_revoked |= revoked
        self._work("revoked", revoked)
        self._release(revoked)
        self._members.invariants.revoked(self, revoked)
        self._to_repeat = None

    def on_partitions_lost(self, partitions: set[TopicPartition]) -> None:
        """Check that the member owned the partitions."""
        lost = self._note_call("lost", partitions)
        self._check_owned(lost)
        self.being_revoked |= lost
        self._release(lost, lost=True)
        self._members.invariants.revoked(self, lost)
        self._to_repeat = None
        self._work("lost", lost)
        self._to_repeat = None

    def failed_while_leaving(self) -> None:
        """Note that a call failed while the member left; the member left all the same."""
        self._release(frozenset(self.owned), lost=True)
        self._to_repeat = None

    def _release(self, partitions: Partitions, *, lost: bool = False) -> None:
        members = self._members
        # Else another member may own them already; with members of both protocols, always.
        known = members.id_of(self) in members.invariants.member_ids()
        certain = known and not lost and members.scenario.others is None
        members.history.released(self.number, partitions & self.owned, certain=certain)
        self.owned -= partitions

    def _check_owned(self, revoked: Partitions) -> None:
        if not revoked:
            raise Violation("no partitions revoked")
        begun: Partitions = frozenset()
        if self._to_repeat is not None and self._to_repeat[0] == "assigned":
            begun = self._to_repeat[1]
        if revoked - self.owned - begun:
            raise Violation(f"{revoked} revoked, {self.owned} owned")

    def _note_call(self, kind: str, partitions: set[TopicPartition]) -> Partitions:
        given = frozenset(partitions)
        what = f"{kind} {format_partitions(given)}"
        self._members.invariants.check_thread(f"member {self.number}: {what}")
        self._members.note(self.number, what)
        self.calls.append((kind, given))
        if self._to_repeat is not None and self._to_repeat[0] == kind and kind != "lost":
            self._check_repeated(self._to_repeat[1], given)
        return given

    def _check_repeated(self, failed: Partitions, given: Partitions) -> None:
        """A failed call is repeated with its partitions, unless the membership was lost since.

        The loss of a membership without partitions causes no call.
        """
        lost = not failed or any(kind == "lost" for kind, _ in self.calls[self._failed_at :])
        same = failed <= given if self.member_leaves else failed == given
        if not lost and not same:
            raise Violation(f"called with {given} after {self._to_repeat} failed")

    def _work(self, kind: str, partitions: Partitions) -> None:
        members, random = self._members, self._members.simulation.random
        if random.random() < members.slow:
            duration_ms = random.choice([10, 700, 7_000])
            self.slept_ms += duration_ms
            members.simulation.sleep(duration_ms)
        if random.random() < members.failing:
            self._to_repeat = (kind, partitions)
            self._failed_at = len(self.calls)
            raise DeliberateError("the listener fails on purpose")


def format_partitions(partitions: Iterable[TopicPartition]) -> str:
    """Return the names of partitions as one text."""
    return " ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(partitions)) or "nothing"
