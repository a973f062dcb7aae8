"""Reading, waiting and measuring, for several integration tests."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from tandem_kafka import ConsumerRecord, KafkaConsumer, TopicPartition
from tandem_kafka.runtime import Driver
from tests.machine import slowness
from tests.waiting import until, wait_until

__all__ = [
    "ENDLESS_MS",
    "ENDLESS_REQUESTS",
    "Clock",
    "Consume",
    "Listener",
    "assigned",
    "cpu_share",
    "interrupted_when_blocked",
    "metric",
    "partitions_of",
    "poll_until",
    "read_all",
    "when_blocked",
]

#: Longer than a test may take: what must end such a wait is no timeout.
ENDLESS_MS = 3_600_000
#: Options of a consumer for whose requests no timeout counts.
ENDLESS_REQUESTS = {"request_timeout_ms": ENDLESS_MS, "connections_max_idle_ms": 2 * ENDLESS_MS}


class Consume(Protocol):
    """Creates a consumer that is closed when the test ends."""

    def __call__(self, *topics: str, **options: Any) -> KafkaConsumer: ...


class Listener:
    """Records its calls, as `("assigned", {...})`, and their threads."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, set[TopicPartition]]] = []
        self.threads: set[threading.Thread] = set()

    def _note(self, what: str, partitions: set[TopicPartition]) -> None:
        self.calls.append((what, partitions))
        self.threads.add(threading.current_thread())

    def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
        self._note("assigned", partitions)

    def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
        self._note("revoked", partitions)

    def on_partitions_lost(self, partitions: set[TopicPartition]) -> None:
        self._note("lost", partitions)


class Clock:
    """Measures how long something takes, in seconds."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start, or start again."""
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """The time since the start."""
        return time.monotonic() - self._start

    def within(self, seconds: float) -> bool:
        """Whether less time has passed; on a slow machine, all takes longer."""
        passed_s = self.seconds
        return passed_s < seconds * slowness()


def partitions_of(topic: str, count: int) -> list[TopicPartition]:
    """Partitions 0 to `count` of a topic."""
    return [TopicPartition(topic, number) for number in range(count)]


def poll_until(consumer: KafkaConsumer, ready: Callable[[], object]) -> list[ConsumerRecord]:
    """Poll until `ready()`; returns the records."""
    records: list[ConsumerRecord] = []
    for _ in until(ready, lambda: f"it did not happen; {len(records)} records were read"):
        for some in consumer.poll(timeout_ms=50).values():
            records.extend(some)
    return records


def read_all(
    consumer: KafkaConsumer, count: int, max_records: int | None = None
) -> list[ConsumerRecord]:
    """Poll until exactly `count` records were read."""
    records: list[ConsumerRecord] = []
    for _ in until(lambda: len(records) >= count, lambda: f"only {len(records)} of {count}"):
        for some in consumer.poll(timeout_ms=500, max_records=max_records).values():
            records.extend(some)
    assert len(records) == count
    return records


def assigned(consumer: KafkaConsumer, expected: list[TopicPartition]) -> None:
    """Poll until exactly these partitions are assigned, without reading a record."""
    records = poll_until(consumer, lambda: consumer.assignment() == set(expected))
    assert records == []


def metric(consumer: KafkaConsumer, group: str, name: str) -> float:
    """Return one value of `metrics()`."""
    value: float = consumer.metrics()[group][name]
    return value


def cpu_share(action: Callable[[], object]) -> float:
    """Run an action and return the share of one core that it used, of one as fast as most.

    The garbage of earlier tests is not collected meanwhile.
    """
    gc.disable()
    try:
        clock, before = Clock(), time.process_time()
        action()
        return (time.process_time() - before) / clock.seconds / slowness()
    finally:
        gc.enable()


def _waits(driver: Driver) -> bool:
    """Tell whether a thread waits, with a lock or in native code."""
    return bool(driver.waiting) or (driver.notifier is not None and driver.notifier.waiting > 0)


@contextmanager
def when_blocked(consumer: KafkaConsumer, action: Callable[[], object]) -> Iterator[Clock]:
    """Run an action on another thread as soon as this one waits inside the consumer.

    Yields a clock that starts at that moment.
    """
    clock = Clock()
    failures: list[BaseException] = []

    def watch() -> None:
        try:
            wait_until(lambda: _waits(consumer._core.driver), "waiting inside the consumer")
            clock.start()
            action()
        except BaseException as error:  # noqa: BLE001 - raised by the test's own thread
            failures.append(error)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield clock
    finally:
        thread.join()
    assert not failures, failures


def interrupted_when_blocked(consumer: KafkaConsumer) -> AbstractContextManager[Clock]:
    """Press Ctrl-C as soon as this thread, the main one, waits inside the consumer."""
    return when_blocked(consumer, lambda: os.kill(os.getpid(), signal.SIGINT))
