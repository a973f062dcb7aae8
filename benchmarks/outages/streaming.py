"""A producer that continues while brokers restart."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

import confluent_kafka

from tandem_kafka import TopicPartition

__all__ = ["Stream"]

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

    @staticmethod
    def value_of(tp: TopicPartition, number: int) -> bytes:
        """Return what is written at an offset, without the padding."""
        return b"%d-%d" % (tp.partition, number)

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
            for number in range(self._partitions):
                value = self.value_of(TopicPartition(self._topic, number), self.sent)
                self._producer.produce(
                    self._topic, value + self._padding, partition=number, on_delivery=self._note
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
