"""A producer that continues while brokers restart, and a reader with a ledger."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import confluent_kafka

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import KafkaError

__all__ = ["Ledger", "Stream", "while_running"]

_TIMEOUT_S = 90.0


class Stream:
    """Produces 0, 1, 2, ... to each partition of a topic, exactly once, until stopped.

    The value is the partition, a hyphen and the number, which is the offset.

    Args:
        pause_s: The pause after each number.
        padding: The bytes after each number.

    Attributes:
        sent: The number of records per partition; final once stopped.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int = 1,
        *,
        pause_s: float = 0.002,
        padding: bytes = b"",
    ) -> None:
        self.sent = 0
        self._pause_s = pause_s
        self._padding = padding
        self._topic = topic
        self._partitions = partitions
        self._failures: list[str] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                # Several in flight can cause a fatal error if the broker stops meanwhile.
                "max.in.flight.requests.per.connection": 1,
                "linger.ms": 2,
                "delivery.timeout.ms": int(_TIMEOUT_S * 1_000),
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stopped.is_set():
            for partition in range(self._partitions):
                value = b"%d-%d" % (partition, self.sent) + self._padding
                self._producer.produce(
                    self._topic, value, partition=partition, on_delivery=self._note
                )
            self.sent += 1
            self._producer.poll(0)
            self._stopped.wait(self._pause_s)

    def _note(self, error: object, _message: object) -> None:
        if error is not None:
            self._failures.append(str(error))

    def stop(self) -> None:
        """Send the remaining records; all must be delivered."""
        if not self._stopped.is_set():
            self._stopped.set()
            self._thread.join()
            assert self._producer.flush(_TIMEOUT_S) == 0
            assert not self._failures, f"{len(self._failures)} failures: {self._failures[:3]}"


class Ledger:
    """Reads partitions from their beginning and sees that nothing is missing or doubled."""

    def __init__(self, consumer: KafkaConsumer, partitions: list[TopicPartition]) -> None:
        self._consumer = consumer
        self._values: dict[TopicPartition, list[bytes]] = {tp: [] for tp in partitions}

    @property
    def next(self) -> dict[TopicPartition, int]:
        """The next offset by partition."""
        return {tp: len(values) for tp, values in self._values.items()}

    def read(self) -> None:
        """Poll once."""
        for tp, records in self._consumer.poll(timeout_ms=100).items():
            values = self._values[tp]
            expected = list(range(len(values), len(values) + len(records)))
            assert [record.offset for record in records] == expected
            values.extend(record.value or b"" for record in records)

    def read_until(self, ready: Callable[[], object], what: str) -> None:
        """Poll until `ready()`."""
        end = time.monotonic() + _TIMEOUT_S
        while not ready():
            assert time.monotonic() < end, f"{what} did not happen; read {self.next}"
            self.read()

    def read_more(self, count: int = 20) -> None:
        """Poll until every partition went on by `count` records."""
        goal = {tp: at + count for tp, at in self.next.items()}
        self.read_until(lambda: all(self.next[tp] >= goal[tp] for tp in goal), "more records")

    def read_to_end(self, bootstrap: str, at_least: int) -> None:
        """Poll to the end of all partitions, and compare with another client."""
        log = {tp: _read_log(bootstrap, tp) for tp in self._values}
        assert all(len(values) >= at_least for values in log.values())
        self.read_until(lambda: all(self.next[tp] >= len(log[tp]) for tp in log), "the end")
        self.read()
        for tp, values in log.items():
            assert self._values[tp] == values, f"{tp} was not read as it is"


def _read_log(bootstrap: str, tp: TopicPartition) -> list[bytes]:
    """All values of a partition that begins at 0."""
    reader = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    try:
        start = confluent_kafka.TopicPartition(tp.topic, tp.partition, 0)
        _, end = reader.get_watermark_offsets(start, _TIMEOUT_S)
        reader.assign([start])
        messages: list[confluent_kafka.Message] = []
        while len(messages) < end:
            some = reader.consume(min(end - len(messages), 10_000), timeout=_TIMEOUT_S)
            assert some, f"{len(messages)} of {end} records came"
            messages += [message for message in some if not message.error()]
        return [message.value() or b"" for message in messages]
    finally:
        reader.close()


def while_running(action: Callable[[], object], meanwhile: Callable[[], object]) -> None:
    """Do something on another thread, and something else on this one until that is done."""
    failures: list[BaseException] = []

    def act() -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - raised by the caller's thread
            failures.append(error)

    thread = threading.Thread(target=act)
    thread.start()
    try:
        while thread.is_alive():
            try:
                meanwhile()
            except KafkaError as error:
                failures.append(error)
                break
    finally:
        thread.join()
    if failures:
        raise failures[0]
