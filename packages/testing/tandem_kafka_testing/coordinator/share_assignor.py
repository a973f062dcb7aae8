"""Kafka's SimpleAssignor: partitions of a share group may have several members."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from tandem_kafka.types import TopicPartition

Partitions = frozenset[TopicPartition]


def assign_shared(
    wanted: Mapping[str, Partitions], before: Mapping[str, Partitions]
) -> dict[str, Partitions]:
    """Assign each wanted partition to one member or more; every member gets as many as it can.

    Members keep partitions as long as no member has too many and no partition is shared more than
    necessary.

    Args:
        wanted: The partitions of each member's subscription.
        before: The assignment so far.
    """
    target: dict[str, set[TopicPartition]] = {}
    for everything in {*wanted.values()}:
        members = [member_id for member_id, each in wanted.items() if each == everything]
        kept = {m: before.get(m, frozenset()) & everything for m in members}
        target.update(_assign_equal(members, sorted(everything), kept))
    return {member_id: frozenset(target[member_id]) for member_id in wanted}


def _assign_equal(
    members: list[str], partitions: list[TopicPartition], before: Mapping[str, Partitions]
) -> dict[str, set[TopicPartition]]:
    """Assign partitions to members with the same subscription."""
    if not partitions:
        return {member_id: set() for member_id in members}
    sharing = -(-len(members) // len(partitions))
    share = sharing * len(partitions) / len(members)
    room = {m: ceil(share * (n + 1)) - ceil(share * n) for n, m in enumerate(members)}
    target: dict[str, set[TopicPartition]] = {}
    shared = dict.fromkeys(partitions, 0)
    for member_id in members:
        target[member_id] = set()
        for tp in sorted(before[member_id]):
            if len(target[member_id]) < room[member_id] and shared[tp] < sharing:
                target[member_id].add(tp)
                shared[tp] += 1
    for tp in partitions:
        for member_id in members:
            free = len(target[member_id]) < room[member_id] and tp not in target[member_id]
            if shared[tp] < sharing and free:
                target[member_id].add(tp)
                shared[tp] += 1
    return target
