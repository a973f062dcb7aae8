"""Partition assignors: pure functions from members and topics to an assignment."""

from tandem_kafka.assignors.local import GroupMember, MemberAssignment, PartitionAssignor

__all__ = ["GroupMember", "MemberAssignment", "PartitionAssignor"]
