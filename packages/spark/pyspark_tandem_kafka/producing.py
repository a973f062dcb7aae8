"""A worker's producer: one for each configuration, idempotent; tasks wait for every delivery."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka import KafkaException, Producer

from pyspark_tandem_kafka.client import producer_options, servers_of, what_to_check
from pyspark_tandem_kafka.options import SinkOptions
from pyspark_tandem_kafka.rows import Row, rows_of
from tandem_kafka.errors import KafkaConfigurationError, KafkaError
from tandem_kafka.logs import client_logger
from tandem_kafka.runtime import MonotonicClock

log = client_logger(__name__)

C = TypeVar("C")

#: Failures shown in an error; the others are only counted.
_MAX_SHOWN: Final = 5
#: Rows between two polls for delivery reports.
_ROWS_BETWEEN_POLLS: Final = 1_000
#: After this time without any delivery, check that the cluster is reachable.
_FIRST_CONTACT_MS: Final = 30_000


class DeliveryError(KafkaError):
    """Rows were not delivered to the cluster."""


class _Errors:
    """Logs the connection errors of a producer; consecutive equal errors are logged once."""

    last: str | None = None
    _cause: str | None = None

    def note(self, error: Any) -> None:
        """Log an error. "All brokers down" is skipped: the errors before it say more."""
        text = str(error.str())
        # librdkafka appends how long the attempt took and how many equal errors it has left out.
        cause = text.partition(" (after ")[0]
        if error.code() != ConfluentError._ALL_BROKERS_DOWN and cause != self._cause:  # noqa: SLF001 - a constant
            log.warning("the sink's producer: %s", text)
            self.last, self._cause = text, cause


class TaskProducer(Producer):
    """confluent-kafka's producer: it reports only failed deliveries, and prints nothing.

    By default, librdkafka prints a line to stderr for each failed connection. This class logs the
    line at DEBUG instead.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        # A callback bound to this object would be a reference cycle, which delays its release.
        self._errors = _Errors()
        ours = {
            "delivery.report.only.error": True,
            "error_cb": self._errors.note,
            "logger": DebugLog(),
        }
        super().__init__(config | ours)

    def last_error_suffix(self) -> str:
        """Return the last error as a suffix for a message; empty if there was none."""
        return f" (last error: {self._errors.last})" if self._errors.last else ""


class DebugLog:
    """Logs librdkafka's lines at DEBUG, regardless of their level."""

    def log(self, level: int, message: str, *arguments: Any) -> None:  # noqa: ARG002 - its interface
        """Log one line."""
        log.debug(message, *arguments)


@dataclass(slots=True)
class _Failures:
    """Rows of a task that were not delivered."""

    count: int = 0
    shown: list[str] = field(default_factory=list)

    def note(self, error: Any, message: Any) -> None:
        """Record a failed delivery; the producer reports no others."""
        self.count += 1
        if len(self.shown) < _MAX_SHOWN:
            at = f"{message.topic()}-{message.partition()}"
            self.shown.append(f"{at} key {_shown(message.key())}: {error.str()}")

    def check(self) -> None:
        """Raise an error if a delivery failed."""
        if self.count:
            raise DeliveryError(f"{self.count} rows were not delivered: {'; '.join(self.shown)}")


def _shown(key: bytes | None) -> str:
    return "null" if key is None else repr(key[:64])


def configured(kind: Callable[[dict[str, Any]], C], config: dict[str, Any]) -> C:
    """Return a client of librdkafka with these properties.

    Raises:
        KafkaConfigurationError: librdkafka does not know a property, or does not allow its value.
    """
    try:
        return kind(config)
    except KafkaException as raised:
        error = raised.args[0]
        if error.code() != ConfluentError._INVALID_ARG:  # noqa: SLF001 - a constant
            raise
        message = f"the producer rejects an option kafka.*: {error.str()}"
        raise KafkaConfigurationError(message) from None


#: Producers by process id and configuration.
_producers: dict[Any, Any] = {}


def deliver(batches: Iterator[Any], options: SinkOptions) -> None:
    """Produce all rows and wait for their delivery.

    Raises:
        DeliveryError: Rows were rejected, or not delivered in time.
        InvalidArgumentError: A row has no topic, or a timestamp that cannot be written.
        KafkaConfigurationError: The producer does not know an option, or does not allow its value.
    """
    config = producer_options(options.kafka)
    key = (os.getpid(), *sorted(config.items()))
    producer = _producers.get(key)
    if producer is None:
        _producers.clear()  # those of the parent process, or of an old configuration
        producer = _producers[key] = configured(TaskProducer, config)
    try:
        produce_all(producer, batches, options)
    except BaseException:
        # The records still in its buffer belong to the failed task.
        _producers.pop(key, None)
        producer.purge()
        raise


def produce_all(producer: TaskProducer, batches: Iterator[Any], options: SinkOptions) -> int:
    """Produce all rows, wait for their delivery, and return their number.

    Raises:
        DeliveryError: Rows were rejected, or not delivered in time.
        InvalidArgumentError: A row has no topic, or a timestamp that cannot be written.
    """
    failures = _Failures()
    rows = 0
    for batch in batches:
        _produce(producer, rows_of(batch, options.topic), failures, options.flush_timeout_ms)
        rows += batch.num_rows
    remaining = _flush(producer, options, rows)
    failures.check()
    if remaining:
        raise DeliveryError(
            f"{remaining} rows were not delivered within {options.flush_timeout_ms} ms "
            f"(tandem.flushTimeoutMs){producer.last_error_suffix()}"
        )
    return rows


def _flush(producer: TaskProducer, options: SinkOptions, rows: int) -> int:
    """Wait for deliveries; give up early if nothing was delivered and no broker responds."""
    timeout_ms = options.flush_timeout_ms
    first_ms = min(timeout_ms, _FIRST_CONTACT_MS)
    remaining: int = producer.flush(first_ms / 1_000)
    if remaining and remaining >= rows and not _is_reachable(producer):
        raise DeliveryError(
            f"{remaining} rows were not delivered within {first_ms} ms: no broker of "
            f"{servers_of(options.kafka)} responds; {what_to_check('the workers')}"
            f"{producer.last_error_suffix()}"
        )
    if remaining and first_ms < timeout_ms:
        remaining = producer.flush((timeout_ms - first_ms) / 1_000)
    return remaining


def _is_reachable(producer: Any) -> bool:
    """Check whether the cluster responds at all; called only after a flush without deliveries."""
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
                # The callback has two parameters; None for the first would override the second.
                produce(topic, value, key, partition, note, note, timestamp_ms, headers)
                break
            except BufferError:
                full_since_ms = _wait_for_room(producer, full_since_ms, timeout_ms)
                failures.check()
            except KafkaException as error:
                raise _rejected(Row._make(row), error) from None
        if not number % _ROWS_BETWEEN_POLLS:
            producer.poll(0)
            failures.check()
    producer.poll(0)
    failures.check()


def _wait_for_room(producer: Any, full_since_ms: int | None, timeout_ms: int) -> int:
    """Poll for deliveries, which free buffer space; return since when the buffer is full."""
    now_ms = MonotonicClock().now_ms()
    if full_since_ms is None:
        full_since_ms = now_ms
    if now_ms - full_since_ms >= timeout_ms:
        raise DeliveryError(
            f"the producer's buffer was full for {timeout_ms} ms (tandem.flushTimeoutMs)"
        )
    producer.poll(0.1)
    return full_since_ms


def _rejected(row: Row, error: KafkaException) -> DeliveryError:
    at = row.topic if row.partition < 0 else f"{row.topic}-{row.partition}"
    return DeliveryError(f"{at} key {_shown(row.key)}: {error}")
