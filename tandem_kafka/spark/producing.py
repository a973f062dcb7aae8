"""A worker's producer: one for each configuration, idempotent, every delivery waited for."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka import KafkaException, Producer

from tandem_kafka.errors import KafkaError
from tandem_kafka.runtime import MonotonicClock
from tandem_kafka.spark.client import producer_options, servers_of, what_to_check
from tandem_kafka.spark.options import SinkOptions
from tandem_kafka.spark.rows import Row, rows_of

__all__ = ["DebugLog", "DeliveryError", "TaskProducer", "deliver", "produce_all"]

log = logging.getLogger(__name__)

#: So many failures are told of; the rest are counted.
_SHOWN: Final = 5
#: Delivery reports are taken in after so many rows.
_ROWS_BETWEEN_POLLS: Final = 1_000
#: After so long without any delivery the cluster is asked whether it is there.
_FIRST_CONTACT_MS: Final = 30_000


class DeliveryError(KafkaError):
    """Rows that the cluster did not take."""


class _Errors:
    """The errors of a producer's connections: a warning for each that differs from the last."""

    last: str | None = None

    def note(self, error: Any) -> None:
        """Take one. That all brokers are down says less than the errors before it."""
        text = str(error.str())
        if error.code() != ConfluentError._ALL_BROKERS_DOWN and text != self.last:  # noqa: SLF001 - a constant
            log.warning("the sink's producer: %s", text)
            self.last = text


class TaskProducer(Producer):
    """confluent-kafka's producer: it calls back for failures only, and is quiet.

    librdkafka prints a line to stderr for each connection that fails. Here they go to the log at
    DEBUG.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        # With a method of this object as callback, only the garbage collector would free it.
        self._errors = _Errors()
        ours = {
            "delivery.report.only.error": True,
            "error_cb": self._errors.note,
            "logger": DebugLog(),
        }
        super().__init__(config | ours)

    def because(self) -> str:
        """Return the last error as the end of a sentence; empty if there was none."""
        return f" (last error: {self._errors.last})" if self._errors.last else ""


class DebugLog:
    """Takes librdkafka's lines, whatever level it gives them."""

    def log(self, level: int, message: str, *arguments: Any) -> None:  # noqa: ARG002 - its interface
        """Take one line."""
        log.debug(message, *arguments)


@dataclass(slots=True)
class _Failures:
    """Rows of a task that the cluster refused."""

    count: int = 0
    shown: list[str] = field(default_factory=list)

    def note(self, error: Any, message: Any) -> None:
        """Take a delivery report; the producer reports failures only."""
        self.count += 1
        if len(self.shown) < _SHOWN:
            at = f"{message.topic()}-{message.partition()}"
            self.shown.append(f"{at} key {_shown(message.key())}: {error.str()}")

    def check(self) -> None:
        """Raise if a row was not taken."""
        if self.count:
            raise DeliveryError(f"{self.count} rows were not delivered: {'; '.join(self.shown)}")


def _shown(key: bytes | None) -> str:
    return "null" if key is None else repr(key[:64])


#: Of this process, given in the key.
_producers: dict[Any, Any] = {}


def deliver(batches: Iterator[Any], options: SinkOptions) -> None:
    """Produce all rows and wait for their delivery.

    Raises:
        DeliveryError: Rows were refused, or not delivered in time.
        InvalidArgumentError: A row has no topic, or a timestamp that cannot be written.
    """
    config = producer_options(options.kafka)
    key = (os.getpid(), *sorted(config.items()))
    producer = _producers.get(key)
    if producer is None:
        _producers.clear()  # of a parent process, or of a configuration that is not used any more
        producer = _producers[key] = TaskProducer(config)
    try:
        produce_all(producer, batches, options)
    except BaseException:
        # What it still holds belongs to a task that failed.
        _producers.pop(key, None)
        producer.purge()
        raise


def produce_all(producer: TaskProducer, batches: Iterator[Any], options: SinkOptions) -> int:
    """Produce all rows, wait for their delivery, and return how many there were.

    Raises:
        DeliveryError: Rows were refused, or not delivered in time.
        InvalidArgumentError: A row has no topic, or a timestamp that cannot be written.
    """
    failures = _Failures()
    rows = 0
    for batch in batches:
        _produce(producer, rows_of(batch, options.topic), failures, options.flush_timeout_ms)
        rows += batch.num_rows
    left = _flush(producer, options, rows)
    failures.check()
    if left:
        raise DeliveryError(
            f"{left} rows were not delivered within {options.flush_timeout_ms} ms "
            f"(tandem.flushTimeoutMs){producer.because()}"
        )
    return rows


def _flush(producer: TaskProducer, options: SinkOptions, rows: int) -> int:
    """Wait for deliveries; not to the end where nothing arrived and no broker answers."""
    timeout_ms = options.flush_timeout_ms
    first_ms = min(timeout_ms, _FIRST_CONTACT_MS)
    left: int = producer.flush(first_ms / 1_000)
    if left and left >= rows and not _answers(producer):
        raise DeliveryError(
            f"{left} rows were not delivered within {first_ms} ms: no broker of "
            f"{servers_of(options.kafka)} answers; {what_to_check('the workers')}"
            f"{producer.because()}"
        )
    if left and first_ms < timeout_ms:
        left = producer.flush((timeout_ms - first_ms) / 1_000)
    return left


def _answers(producer: Any) -> bool:
    """Tell whether the cluster answers at all; only asked when it looks as if it did not."""
    try:
        producer.list_topics(timeout=1)
    except KafkaException:
        return False
    return True


def _produce(
    producer: Any, rows: Iterator[tuple[Any, ...]], failures: _Failures, timeout_ms: int
) -> None:
    produce, note = producer.produce, failures.note
    for number, row in enumerate(rows, 1):
        topic, value, key, partition, timestamp_ms, headers = row
        full_since_ms: int | None = None
        while True:
            try:
                # Both names of the callback: None for the first would win over the second.
                produce(topic, value, key, partition, note, note, timestamp_ms, headers)
                break
            except BufferError:
                full_since_ms = _wait_for_room(producer, full_since_ms, timeout_ms)
                failures.check()
            except KafkaException as error:
                raise _refused(Row._make(row), error) from None
        if not number % _ROWS_BETWEEN_POLLS:
            producer.poll(0)
            failures.check()
    producer.poll(0)
    failures.check()


def _wait_for_room(producer: Any, full_since_ms: int | None, timeout_ms: int) -> int:
    """Take in deliveries, which make room in the buffer; return since when it has been full."""
    now_ms = MonotonicClock().now_ms()
    if full_since_ms is None:
        full_since_ms = now_ms
    if now_ms - full_since_ms >= timeout_ms:
        raise DeliveryError(f"the producer's buffer has stayed full for {timeout_ms} ms")
    producer.poll(0.1)
    return full_since_ms


def _refused(row: Row, error: KafkaException) -> DeliveryError:
    at = row.topic if row.partition < 0 else f"{row.topic}-{row.partition}"
    return DeliveryError(f"{at} key {_shown(row.key)}: {error}")
