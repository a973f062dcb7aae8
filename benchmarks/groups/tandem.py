"""This consumer as a member."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from benchmarks.groups.membership import HEARTBEAT_MS, Membership
from tandem_kafka import KafkaConsumer

__all__ = ["TandemMember"]

_PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {
        "group_protocol": "classic",
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "partition_assignment_strategy": [RangePartitionAssignor],
    },
    "cooperative": {
        "group_protocol": "classic",
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "partition_assignment_strategy": [CooperativeStickyAssignor],
    },
    "consumer": {"group_protocol": "consumer"},
}


class TandemMember:
    """`poll()` with the defaults."""

    def __init__(self, membership: Membership) -> None:
        self._topic = membership.topic
        self._consumer = KafkaConsumer(
            bootstrap_servers=membership.bootstrap,
            group_id=membership.group,
            auto_offset_reset=membership.reset,
            **_PROTOCOLS[membership.protocol],
        )

    def subscribe(self) -> None:
        """Subscribe to the topic."""
        self._consumer.subscribe([self._topic])

    def poll(self, timeout_s: float) -> Counter[int]:
        """Poll once."""
        batches = self._consumer.poll(timeout_ms=int(timeout_s * 1000))
        return Counter({each.partition: len(records) for each, records in batches.items()})

    def owned(self) -> list[int]:
        """Return the partitions of this member."""
        return sorted(each.partition for each in self._consumer.assignment())

    def close(self) -> None:
        """Leave the group and close the client."""
        self._consumer.close()
