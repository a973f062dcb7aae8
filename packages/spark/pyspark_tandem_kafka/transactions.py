"""One Kafka transaction for each task, so that the rows of a repeated task are written once.

A task writes its rows and a marker in one transaction. The marker is an offset, committed to a
group with the name of the transactional id. Its metadata names the write of the rows. An attempt
first takes over the transactional id, which fences earlier attempts and aborts their open
transactions (KIP-98). It then looks for the marker: if the marker exists, so do the rows.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from pyspark_tandem_kafka.client import producer_options
from pyspark_tandem_kafka.options import SinkOptions
from pyspark_tandem_kafka.producing import (
    DebugLog,
    DeliveryError,
    TaskProducer,
    configured,
    produce_all,
)
from pyspark_tandem_kafka.rows import topics_of
from tandem_kafka.errors import KafkaConfigurationError
from tandem_kafka.runtime import MonotonicClock

#: Must exceed the time that a task takes to produce its rows. By default, brokers allow at most 15
#: minutes. A repeated task does not wait for this timeout.
_TRANSACTION_TIMEOUT_MS: Final = "600000"
#: Prefixes of producer properties that also apply to the consumer of the offsets.
_CONNECTION_PROPERTIES: Final = (
    "bootstrap.servers",
    "broker.",
    "client.",
    "enable.ssl.",
    "reconnect.",
    "sasl.",
    "security.",
    "socket.",
    "ssl.",
)
_FENCED: Final = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001 - a public constant in spite of its name
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
    }
)
#: Errors of a coordinator that starts, moves, or waits for a transaction: retried.
_TRANSIENT: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
    }
)
_RETRY_PAUSE_S: Final = 0.1
#: Without the right to read the group, librdkafka's consumer only times out. It is asked in steps
#: of this length, and an admin client finds out why it did not respond.
_LOOKUP_S: Final = 3.0
#: The partition of the marker: brokers reject offsets of partitions that do not exist.
_MARKER_PARTITION: Final = 0


@dataclass(frozen=True, slots=True)
class TaskWrite:
    """The write of one task, the same for all its attempts.

    Attributes:
        prefix: The option `tandem.transactionalIdPrefix`.
        epoch: The write that the task belongs to: a streaming query, or one batch query.
        partition: The number of the task.
        batch: The number of the micro-batch; 0 for a batch query.
    """

    prefix: str
    epoch: str
    partition: int
    batch: int = 0

    @property
    def transactional_id(self) -> str:
        """The same for every attempt, so that a later attempt fences an earlier one."""
        return f"{self.prefix}-{self.partition}"

    def marker(self, rows: int) -> str:
        """Return the metadata of the marker for this write."""
        return f"{self.epoch} batch {self.batch}: {rows} rows"

    def rows_in(self, marker: str) -> int | None:
        """Return the number of rows in a marker of this write; None for a marker of another one.

        Raises:
            DeliveryError: The marker belongs to a later micro-batch. Spark has abandoned this
                attempt, and another one has written its rows.
        """
        found = re.fullmatch(rf"{re.escape(self.epoch)} batch (\d+): (\d+) rows", marker)
        if found is None or int(found[1]) < self.batch:
            return None
        if int(found[1]) > self.batch:
            raise DeliveryError(
                f"this attempt of task {self.partition} in batch {self.batch} is out of date: "
                f"batch {found[1]} is already written"
            )
        return int(found[2])


def deliver_once(batches: Iterator[Any], options: SinkOptions, write: TaskWrite) -> None:
    """Produce all rows of a task in a transaction, unless an earlier attempt has done so.

    A task without rows starts no transaction.

    Raises:
        DeliveryError: Rows were rejected or not delivered in time, another attempt has taken over,
            or a repeated task has a different number of rows than the committed one.
        InvalidArgumentError: A row has no topic, or a timestamp that cannot be written.
        KafkaConfigurationError: The broker does not allow the transaction, or the producer does not
            know an option or allow its value.
    """
    batches = (batch for batch in batches if batch.num_rows)
    first = next(batches, None)
    if first is None:
        return
    topic = topics_of(first)[0] if options.topic is None else options.topic
    batches = itertools.chain([first], batches)
    with closing(_Transaction(options, write)) as transaction:
        transaction.take_over()
        written = write.rows_in(transaction.marker(topic))
        if written is None:
            transaction.write(batches)
            return
    rows = sum(batch.num_rows for batch in batches)
    if written != rows:
        raise DeliveryError(
            f"task {write.partition} is repeated with {rows} rows, but Kafka has {written} rows of "
            "it. A repeated batch must distribute its rows over the tasks as before. To write this "
            "batch again, with duplicates, delete the offsets of the group "
            f"{write.transactional_id}"
        )


class _Transaction:
    """A producer with the transactional id of a task, and a consumer for the marker."""

    def __init__(self, options: SinkOptions, write: TaskWrite) -> None:
        self._options = options
        self._write = write
        self._clock = MonotonicClock()
        self._deadline_ms = self._clock.now_ms() + options.flush_timeout_ms
        config = producer_options(options.kafka)
        # This consumer joins no group and reads no records. With read_committed, a lookup of
        # offsets waits for open transactions (KIP-447). It is created first, so that it connects
        # while the producer waits.
        self._connection = {
            name: value for name, value in config.items() if name.startswith(_CONNECTION_PROPERTIES)
        } | {"logger": DebugLog()}
        self._consumer = configured(
            Consumer,
            self._connection
            | {"group.id": write.transactional_id, "isolation.level": "read_committed"},
        )
        self._producer = configured(
            TaskProducer,
            {
                "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                **config,
                "transactional.id": write.transactional_id,
            },
        )

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def take_over(self) -> None:
        """Fence earlier attempts, and abort their open transactions."""
        self._retried("init_transactions", self._producer.init_transactions)

    def marker(self, topic: str) -> str:
        """Return the last committed marker; empty if there is none."""
        partitions = [TopicPartition(topic, _MARKER_PARTITION)]
        found = self._retried("committed", lambda timeout_s: self._committed(partitions, timeout_s))
        return found[0].metadata or ""

    def _committed(self, partitions: list[TopicPartition], timeout_s: float) -> Any:
        try:
            return self._consumer.committed(partitions, timeout=min(timeout_s, _LOOKUP_S))
        except KafkaException as error:
            if error.args[0].code() == KafkaError._TIMED_OUT:  # noqa: SLF001
                self._check_group()
            raise

    def _check_group(self) -> None:
        """Raise the error with which the broker rejects questions about the group, if it does."""
        admin, group = AdminClient(self._connection), self._write.transactional_id
        # Invariant: no question about its offsets. librdkafka's admin client, version 2.16, makes
        # the process crash if the coordinator has moved.
        (found,) = admin.describe_consumer_groups([group], request_timeout=_LOOKUP_S).values()
        try:
            found.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise

    def write(self, batches: Iterator[Any]) -> None:
        """Produce rows and marker, and commit them."""
        topics: set[str] = set()
        try:
            self._producer.begin_transaction()
            rows = produce_all(self._producer, self._noted(batches, topics), self._options)
            self._deadline_ms = self._clock.now_ms() + self._options.flush_timeout_ms
            self._mark(topics, rows)
            self._retried("commit_transaction", self._producer.commit_transaction)
        except BaseException:
            # Aborting also detects whether the cause is an attempt that has taken over.
            self._abort()
            raise

    def _noted(self, batches: Iterator[Any], topics: set[str]) -> Iterator[Any]:
        """Yield the batches, and record their topics."""
        for batch in batches:
            if self._options.topic is None:
                topics.update(batch.column("topic").unique().drop_null().to_pylist())
            else:
                topics.add(self._options.topic)
            yield batch

    def _mark(self, topics: set[str], rows: int) -> None:
        """Add a marker for every topic: a repeated task may begin with a row for any of them."""
        text = self._write.marker(rows)
        offsets = [TopicPartition(topic, _MARKER_PARTITION, rows, text) for topic in sorted(topics)]
        group = self._consumer.consumer_group_metadata()
        self._retried(
            "send_offsets_to_transaction",
            lambda timeout_s: self._producer.send_offsets_to_transaction(offsets, group, timeout_s),
        )

    def _abort(self) -> None:
        """Abort the transaction. On failure, the next attempt or the broker's timeout ends it.

        Raises:
            DeliveryError: Another attempt has taken over.
        """
        try:
            self._producer.purge()
            self._producer.abort_transaction(self._timeout_s())
        except KafkaException as error:
            self._check_fenced(error)

    def _timeout_s(self) -> float:
        return max(1.0, (self._deadline_ms - self._clock.now_ms()) / 1_000)

    def _retried(self, name: str, call: Callable[[float], Any]) -> Any:
        while True:
            try:
                return call(self._timeout_s())
            except KafkaException as error:
                self._check(name, error)
            self._producer.poll(_RETRY_PAUSE_S)

    def _check(self, name: str, raised: KafkaException) -> None:
        """Return if the call can be retried; otherwise raise an error."""
        error = raised.args[0]
        self._check_fenced(raised)
        if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            raise KafkaConfigurationError(
                "the broker's transaction.max.timeout.ms is less than the transaction timeout: set "
                "kafka.transaction.timeout.ms to at most that value"
            ) from None
        transient = error.retriable() or error.code() in _TRANSIENT
        if not transient or self._clock.now_ms() >= self._deadline_ms:
            raise DeliveryError(
                f"{name} failed with the transactional id {self._write.transactional_id}: "
                f"{error.str()}"
                f"{self._producer.last_error_suffix()}"
            ) from None

    def _check_fenced(self, raised: KafkaException) -> None:
        if raised.args[0].code() in _FENCED:
            raise DeliveryError(
                f"another attempt of task {self._write.partition}, or another query with "
                f"tandem.transactionalIdPrefix={self._write.prefix}, has taken over the "
                f"transactional id {self._write.transactional_id}"
            ) from None
