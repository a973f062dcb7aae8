"""The racks of members and partitions, for the sticky assignors (KIP-881)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from tandem_kafka.assignors.group import Member, Topics
from tandem_kafka.types import TopicPartition


def racks_matter(members: Iterable[Member], replica_racks: Collection[frozenset[str]]) -> bool:
    """Tell whether an assignment must consider racks.

    Args:
        members: The members among which the partitions are shared.
        replica_racks: The racks of each partition's replicas.
    """
    member_racks = {member.rack for member in members if member.rack}
    if not member_racks:
        return False
    every_rack = frozenset().union(*replica_racks)
    return not member_racks.isdisjoint(every_rack) and any(
        racks != every_rack for racks in replica_racks
    )


class Placement:
    """The racks of members and replicas, if they matter to the group.

    Attributes:
        matters: Whether the assignment must consider racks.
        rack_of: The rack of each member with a known rack; empty if racks do not matter.
    """

    def __init__(self, members: Sequence[Member], topics: Topics) -> None:
        self._topics = topics
        racks = [racks for partitions in topics.values() for racks in partitions.values()]
        self.matters = racks_matter(members, racks)
        self.rack_of = {m.member_id: m.rack for m in members if m.rack} if self.matters else {}
        self._population = Counter(self.rack_of.values())

    def racks(self, tp: TopicPartition) -> frozenset[str]:
        """Return the racks that have a replica of a partition."""
        return self._topics[tp.topic][tp.partition]

    def mismatch(self, member_id: str, tp: TopicPartition) -> bool:
        """Tell whether a member's rack has no replica of a partition."""
        rack = self.rack_of.get(member_id)
        return rack is not None and rack not in self.racks(tp)

    def neighbours(self, tp: TopicPartition) -> int:
        """Return the number of members in racks with a replica of a partition."""
        return sum(self._population[rack] for rack in self.racks(tp))
