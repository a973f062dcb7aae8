"""What tests do with members of a share group."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tandem_kafka import ShareConsumer
from tests.integration.simulated_cluster import Cluster

__all__ = ["LOCK_MS", "QUIET_MS", "Share", "places", "produce", "quiet", "take", "until"]

#: Brokers of these tests allow short ones.
LOCK_MS = 4_000
QUIET_MS = 800

Share = Callable[..., ShareConsumer]


def produce(kafka: Cluster, topic: str, count: int) -> None:
    kafka.admin.produce(topic, [b"%d" % number for number in range(count)])


def take(consumer: ShareConsumer, count: int, timeout_s: float = 30) -> list[Any]:
    """Poll until there are so many records."""
    deadline, found = time.monotonic() + timeout_s, []
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records"
        found += [record for batch in consumer.poll(500).values() for record in batch]
    return found


def quiet(consumer: ShareConsumer) -> bool:
    return not consumer.poll(QUIET_MS)


def places(records: list[Any]) -> list[tuple[int, int]]:
    return sorted((record.offset, record.delivery_count) for record in records)


def until(condition: Callable[[], bool], timeout_s: float = 30) -> Callable[[], bool]:
    """Ends a run when a condition is true; fails it after a time."""
    deadline = time.monotonic() + timeout_s

    def ended() -> bool:
        assert time.monotonic() < deadline, "the run has not come to its end"
        return condition()

    return ended
