"""Partition assignors: pure functions from members and topics to an assignment.

The option `partition_assignment_strategy` takes the four classes of `strategies.py`. The option
`group_local_assignors` takes subclasses of `PartitionAssignor` (`local.py`). The algorithms are in
`range.py`, `round_robin.py` and `sticky.py`; `classic.py` is what a classic member calls.
"""

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

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
