"""Client-side assignors of the members; some disagree with the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from tandem_kafka.assignors import GroupMember, MemberAssignment, PartitionAssignor
from tandem_kafka.runtime import Random
from tandem_kafka.types import TopicPartition

if TYPE_CHECKING:
    from tests.scenarios.members import Members

__all__ = ["DeliberateAssignorError", "EvenAssignor", "draw_assignors"]

#: Lowest supported version, own version, highest supported version.
_OLD, _NEW, _INCOMPATIBLE = (0, 0, 0), (0, 1, 1), (2, 2, 2)


class DeliberateAssignorError(Exception):
    """Raised by an assignor on purpose."""


class EvenAssignor(PartitionAssignor):
    """Gives each partition to a previous owner if possible, else to the member with the fewest.

    While the listeners fail, it sometimes raises, or assigns a partition twice.
    """

    name = "even"

    def __init__(self, members: Members, versions: tuple[int, int, int] = (0, 0, 0)) -> None:
        self._members = members
        self.minimum_version, self.version, self.maximum_version = versions

    def metadata(self) -> bytes:
        """Return the metadata of a member; it depends on the version only."""
        return b"of version %d" % self.version

    def assign(
        self, members: Mapping[str, GroupMember], topics: Mapping[str, int]
    ) -> Mapping[str, Collection[TopicPartition] | MemberAssignment]:
        """Check the metadata of the members, then compute an assignment."""
        for each in members.values():
            if each.metadata != b"of version %d" % each.metadata_version:
                raise AssertionError(f"{each.metadata!r} of version {each.metadata_version}")
            if not self.minimum_version <= each.metadata_version <= self.maximum_version:
                raise AssertionError(f"version {each.metadata_version} cannot be read here")
        random = self._members.simulation.random
        if self._members.failing and random.random() < self._members.failing:
            raise DeliberateAssignorError
        assignment = _assign_evenly(members, topics)
        if self._members.failing and random.random() < self._members.failing / 2:
            return {member_id: partitions * 2 for member_id, partitions in assignment.items()}
        return {
            member_id: MemberAssignment(
                partitions, _encode(partitions), self.version, int(not partitions)
            )
            for member_id, partitions in assignment.items()
        }

    def on_assignment(self, assignment: MemberAssignment) -> None:
        """Check that the assignment is a part of what was computed: others may be unreleased."""
        computed = set(assignment.metadata.split())
        assigned = set(_encode(assignment.partitions).split())
        if not assigned <= computed or assignment.error != int(not computed):
            text = f"{assignment.partitions} was handed to a member with {assignment.metadata!r}"
            self._members.invariants.violations.append(text)


def _encode(partitions: Collection[TopicPartition]) -> bytes:
    return " ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(partitions)).encode()


def _assign_evenly(
    members: Mapping[str, GroupMember], topics: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    assigned: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
    everything = [TopicPartition(name, n) for name, count in topics.items() for n in range(count)]
    most = -(-len(everything) // max(1, len(members)))
    for tp in everything:
        owners = [m for m in members if tp in members[m].target and len(assigned[m]) < most]
        subscribers = [m for m in members if tp.topic in members[m].topics]
        if subscribers:
            assigned[min(owners or subscribers, key=lambda m: (len(assigned[m]), m))].append(tp)
    return assigned


def draw_assignors(members: Members, random: Random) -> list[PartitionAssignor]:
    """Draw the assignors of one more member.

    Sometimes it has none, or one of a version that no other supports. The coordinator then assigns
    for as long as this member is in the group.
    """
    match random.randrange(32):
        case 0:
            return []
        case 1:
            return [EvenAssignor(members, _INCOMPATIBLE)]
        case _:
            return [EvenAssignor(members, random.choice([_OLD, _NEW, _NEW]))]
