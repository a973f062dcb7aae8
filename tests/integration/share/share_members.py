"""What tests do with members of a share group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tandem_kafka import ShareConsumer
from tests.integration.brokers import Cluster
from tests.waiting import until

__all__ = ["LOCK_MS", "QUIET_MS", "Share", "ends_when", "places", "produce", "quiet", "take"]

#: Brokers of these tests allow short ones.
LOCK_MS = 4_000
QUIET_MS = 800

Share = Callable[..., ShareConsumer]


def produce(kafka: Cluster, topic: str, count: int) -> None:
    kafka.admin.produce(topic, [b"%d" % number for number in range(count)])


def take(consumer: ShareConsumer, count: int) -> list[Any]:
    """Poll until there are so many records."""
    found: list[Any] = []
    for _ in until(lambda: len(found) >= count, lambda: f"{len(found)} of {count} records"):
        for records in consumer.poll(500).values():
            found.extend(records)
    return found


def quiet(consumer: ShareConsumer) -> bool:
    return not consumer.poll(QUIET_MS)


def places(records: list[Any]) -> list[tuple[int, int]]:
    return sorted((record.offset, record.delivery_count) for record in records)


def ends_when(condition: Callable[[], bool]) -> Callable[[], bool]:
    """Ends a run when a condition is true; fails it after a time."""
    waiting = until(condition, "the end of the run")
    return lambda: next(waiting, waiting) is waiting
