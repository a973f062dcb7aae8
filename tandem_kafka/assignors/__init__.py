"""Partition assignors: pure functions from members and topics to an assignment.

The option `partition_assignment_strategy` takes the four classes of `strategies.py`. The option
`group_local_assignors` takes subclasses of `PartitionAssignor` (`local.py`). The algorithms are in
`range.py`, `round_robin.py` and `sticky.py`; `classic.py` is what a classic member calls.
"""

from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

_LOCAL = ("GroupMember", "MemberAssignment", "PartitionAssignor")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "local" if name in _LOCAL else "strategies"
    found = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
