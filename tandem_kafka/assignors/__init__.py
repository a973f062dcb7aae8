"""Partition assignors: pure functions from members and topics to an assignment.

Name the four classes of `strategies.py` in `partition_assignment_strategy`. A `PartitionAssignor`
is for `group_local_assignors`.
"""

from tandem_kafka.assignors.local import GroupMember, MemberAssignment, PartitionAssignor
from tandem_kafka.assignors.strategies import (
    CooperativeStickyAssignor,
    RangePartitionAssignor,
    RoundRobinPartitionAssignor,
    StickyPartitionAssignor,
)

__all__ = [
    "CooperativeStickyAssignor",
    "GroupMember",
    "MemberAssignment",
    "PartitionAssignor",
    "RangePartitionAssignor",
    "RoundRobinPartitionAssignor",
    "StickyPartitionAssignor",
]
