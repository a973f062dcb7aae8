"""The sticky assignors, which balance partitions and then move as few as possible.

`even.py` assigns if all members subscribe to the same topics, `uneven.py` otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tandem_kafka.assignors.claims import resolve_claims
from tandem_kafka.assignors.even import share_evenly
from tandem_kafka.assignors.group import Assignment, Member, Topics
from tandem_kafka.assignors.racked_placement import Placement
from tandem_kafka.assignors.uneven import share_unevenly
from tandem_kafka.types import TopicPartition


def assign_sticky(members: Sequence[Member], topics: Topics) -> Assignment:
    """Balance the partitions among the members, and keep their owners if possible.

    Args:
        members: The members of the group, in any order.
        topics: Partitions by topic.

    Returns:
        The partitions of each member.
    """
    if not members:
        return {}
    ordered = sorted(members, key=lambda member: member.member_id)
    wanted = frozenset().union(*(member.topics for member in ordered))
    known = {name: topics[name] for name in sorted(wanted) if topics.get(name)}
    claims, placement = resolve_claims(ordered, known), Placement(ordered, known)
    alike = all(member.topics == wanted for member in ordered)
    share = share_evenly if alike else share_unevenly
    return share(ordered, known, claims, placement)


def assign_cooperative_sticky(members: Sequence[Member], topics: Topics) -> Assignment:
    """Like `assign_sticky`, but without partitions that another member must revoke first."""
    return without_revoked(assign_sticky(members, topics), members, topics)


def without_revoked(
    target: Mapping[str, Sequence[TopicPartition]], members: Sequence[Member], topics: Topics
) -> Assignment:
    """Remove from a target all partitions that their owners must revoke first (KIP-429).

    The owner revokes the missing partition and rejoins, and the next round assigns it. A partition
    with conflicting claims is removed for all members.
    """
    owners = resolve_claims(sorted(members, key=lambda each: each.member_id), topics).owners
    return {
        member_id: [tp for tp in partitions if owners.get(tp, member_id) == member_id]
        for member_id, partitions in target.items()
    }
