"""Decides whether an assignment must consider racks (KIP-881).

Racks only matter if a member and a replica share one, and if some partition has no replica in some
rack. Otherwise either all members have replicas in their racks, or none has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tandem_kafka.assignors.group import Member

__all__ = ["racks_matter"]


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
