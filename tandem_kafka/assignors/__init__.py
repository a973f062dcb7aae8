"""Partition assignors: pure functions from members and topics to an assignment.

The option `partition_assignment_strategy` takes the four classes of `strategies.py`. The option
`group_local_assignors` takes subclasses of `PartitionAssignor` (`local.py`). The algorithms are in
`range.py`, `round_robin.py` and `sticky.py`; `classic.py` is what a classic member calls.
"""

from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

from typing import TYPE_CHECKING, Final

from tandem_kafka.lazy_names import lazy_names

if TYPE_CHECKING:
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

_HOMES: Final = {
    **dict.fromkeys(__all__, "strategies"),
    **dict.fromkeys(("GroupMember", "MemberAssignment", "PartitionAssignor"), "local"),
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
