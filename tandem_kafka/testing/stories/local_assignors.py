"""Assignors that the members of a story bring along, some of them at odds with the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from tandem_kafka.assignors import GroupMember, MemberAssignment, PartitionAssignor
from tandem_kafka.runtime import Random
from tandem_kafka.types import TopicPartition

if TYPE_CHECKING:
    from tandem_kafka.testing.stories.members import Members

__all__ = ["Dealt", "UnableError", "drawn_assignors"]

#: Lowest version read, own version, highest version read.
_OLD, _NEW, _APART = (0, 0, 0), (0, 1, 1), (2, 2, 2)


class UnableError(Exception):
    """Raised on purpose."""


class Dealt(PartitionAssignor):
    """Partitions one by one to who has least, if possible to who had them before.

    While the story's listeners fail this fails too, or assigns a partition twice.
    """

    name = "dealt"

    def __init__(self, members: Members, versions: tuple[int, int, int] = (0, 0, 0)) -> None:
        self._members = members
        self.minimum_version, self.version, self.maximum_version = versions

    def metadata(self) -> bytes:
        """Return the same for as long as the version is."""
        return b"of version %d" % self.version

    def assign(
        self, members: Mapping[str, GroupMember], topics: Mapping[str, int]
    ) -> Mapping[str, Collection[TopicPartition] | MemberAssignment]:
        """See the interface; what it is given is checked."""
        for each in members.values():
            if each.metadata != b"of version %d" % each.metadata_version:
                raise AssertionError(f"{each.metadata!r} of version {each.metadata_version}")
            if not self.minimum_version <= each.metadata_version <= self.maximum_version:
                raise AssertionError(f"version {each.metadata_version} cannot be read here")
        random = self._members.simulation.random
        if self._members.failing and random.random() < self._members.failing:
            raise UnableError
        dealt = _dealt(members, topics)
        if self._members.failing and random.random() < self._members.failing / 2:
            return {member_id: partitions * 2 for member_id, partitions in dealt.items()}
        return {
            member_id: MemberAssignment(
                partitions, _named(partitions), self.version, int(not partitions)
            )
            for member_id, partitions in dealt.items()
        }

    def on_assignment(self, assignment: MemberAssignment) -> None:
        """What is assigned is what was computed, or a part of it that is free already."""
        computed = set(assignment.metadata.split())
        told = set(_named(assignment.partitions).split())
        if not told <= computed or assignment.error != int(not computed):
            what = f"{assignment.partitions} with what was handed to {assignment.metadata!r}"
            self._members.invariants.broken.append(what)


def _named(partitions: Collection[TopicPartition]) -> bytes:
    return " ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(partitions)).encode()


def _dealt(
    members: Mapping[str, GroupMember], topics: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    dealt: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
    everything = [TopicPartition(name, n) for name, count in topics.items() for n in range(count)]
    most = -(-len(everything) // max(1, len(members)))
    for tp in everything:
        having = [m for m in members if tp in members[m].target and len(dealt[m]) < most]
        wanting = [m for m in members if tp.topic in members[m].topics]
        if wanting:
            dealt[min(having or wanting, key=lambda m: (len(dealt[m]), m))].append(tp)
    return dealt


def drawn_assignors(members: Members, random: Random) -> list[PartitionAssignor]:
    """Return what one more member brings.

    Now and then that is nothing, or of a version that no other reads: then the coordinator assigns
    for as long as such a member is there.
    """
    match random.randrange(32):
        case 0:
            return []
        case 1:
            return [Dealt(members, _APART)]
        case _:
            return [Dealt(members, random.choice([_OLD, _NEW, _NEW]))]
