"""confluent-kafka as a member."""

from __future__ import annotations

from collections import Counter

from confluent_kafka import Consumer

from benchmarks.groups.membership import HEARTBEAT_MS, Membership

__all__ = ["ConfluentMember"]

_PROTOCOLS: dict[str, dict[str, str | int]] = {
    "classic": {
        "group.protocol": "classic",
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "partition.assignment.strategy": "range",
    },
    "cooperative": {
        "group.protocol": "classic",
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "partition.assignment.strategy": "cooperative-sticky",
    },
    "consumer": {"group.protocol": "consumer"},
}


class ConfluentMember:
    """`poll()`, which returns one record."""

    def __init__(self, membership: Membership) -> None:
        self._topic = membership.topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": membership.bootstrap,
                "group.id": membership.group,
                "auto.offset.reset": membership.reset,
                **_PROTOCOLS[membership.protocol],
            }
        )

    def subscribe(self) -> None:
        """Subscribe to the topic."""
        self._consumer.subscribe([self._topic])

    def poll(self, timeout_s: float) -> Counter[int]:
        """Poll once."""
        message = self._consumer.poll(timeout_s)
        if message is None:
            return Counter()
        partition, error = message.partition(), message.error()
        if error is not None or partition is None:
            raise RuntimeError(f"error instead of a record: {error}")
        return Counter((partition,))

    def owned(self) -> list[int]:
        """Return the partitions of this member."""
        return sorted(each.partition for each in self._consumer.assignment())

    def close(self) -> None:
        """Leave the group and close the client."""
        self._consumer.close()
