"""One Kafka transaction for each task, so that rows of a repeated task are there once.

A task writes its rows and a marker in one transaction. The marker is an offset, committed to a
group that is called like the transactional id; its metadata say which write the rows belong to.
An attempt first takes over the transactional id, which ends what an earlier attempt has left open
and shuts it out (KIP-98), and then looks for the marker: if it is there, the rows are too.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tandem_kafka.errors import KafkaConfigurationError
from tandem_kafka.runtime import MonotonicClock
from tandem_kafka.spark.client import producer_options
from tandem_kafka.spark.options import SinkOptions
from tandem_kafka.spark.producing import DebugLog, DeliveryError, TaskProducer, produce_all
from tandem_kafka.spark.rows import topics_of

__all__ = ["TaskWrite", "deliver_once"]

#: Longer than a task takes to make its rows; a broker allows 15 minutes at most unless told
#: otherwise. A task that is repeated does not wait for it.
_TRANSACTION_TIMEOUT_MS: Final = "600000"
#: What a consumer that only reads offsets needs of a producer's configuration.
_OF_CONNECTIONS: Final = (
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
#: Of a coordinator that starts, moves, or waits for a transaction to end: it is asked again.
_PASSING: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
    }
)
_PAUSE_S: Final = 0.1
#: The partition that has the marker: a broker takes no offset of one that does not exist.
_MARKED: Final = 0


@dataclass(frozen=True, slots=True)
class TaskWrite:
    """What one task writes, however often it is tried.

    Attributes:
        prefix: The option `tandem.transactionalIdPrefix`.
        epoch: The write that the task is a part of: a query of micro-batches, or a batch query.
        partition: The number of the task in it.
        batch: The number of the micro-batch; 0 of a batch query.
    """

    prefix: str
    epoch: str
    partition: int
    batch: int = 0

    @property
    def transactional_id(self) -> str:
        """The same for every attempt, so that a later one shuts out an earlier one."""
        return f"{self.prefix}-{self.partition}"

    def marker(self, rows: int) -> str:
        """Return the metadata of the offset that says that the rows are written."""
        return f"{self.epoch} batch {self.batch}: {rows} rows"

    def rows_in(self, marker: str) -> int | None:
        """Return how many rows of this task a marker says are written, None if it is of another.

        Raises:
            DeliveryError: It is of a later micro-batch: this attempt is one that Spark has given
                up, and its rows have been written by another.
        """
        found = re.fullmatch(rf"{re.escape(self.epoch)} batch (\d+): (\d+) rows", marker)
        if found is None or int(found[1]) < self.batch:
            return None
        if int(found[1]) > self.batch:
            raise DeliveryError(
                f"this attempt of task {self.partition} in batch {self.batch} is out of date: "
                f"batch {found[1]} is written already"
            )
        return int(found[2])


def deliver_once(batches: Iterator[Any], options: SinkOptions, write: TaskWrite) -> None:
    """Produce all rows of a task in a transaction, unless an earlier attempt has done so.

    A task without rows makes no transaction.

    Raises:
        DeliveryError: Rows were refused or not delivered in time, another attempt has taken over,
            or the rows of a repeated task differ in number from those that are written.
        InvalidArgumentError: A row has no topic, or a timestamp that cannot be written.
        KafkaConfigurationError: The broker does not allow the transaction.
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
            "it. The job must deal rows to tasks in the same way when a batch is repeated. To "
            "write this batch again, with duplicates, delete the offsets of the group "
            f"{write.transactional_id}"
        )


class _Transaction:
    """A producer with the transactional id of a task; ready when no other has it."""

    def __init__(self, options: SinkOptions, write: TaskWrite) -> None:
        self._options = options
        self._write = write
        self._clock = MonotonicClock()
        self._until_ms = self._clock.now_ms() + options.flush_timeout_ms
        config = producer_options(options.kafka)
        # It joins nothing and reads nothing: offsets of transactions that are not ended yet are
        # waited for (KIP-447). It is made first, so that it connects while the producer waits.
        self._consumer = Consumer(
            {name: value for name, value in config.items() if name.startswith(_OF_CONNECTIONS)}
            | {"group.id": write.transactional_id, "isolation.level": "read_committed"}
            | {"logger": DebugLog()}
        )
        self._producer = TaskProducer(
            {
                "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                **config,
                "transactional.id": write.transactional_id,
            }
        )

    def close(self) -> None:
        """End the connections of the consumer."""
        self._consumer.close()

    def take_over(self) -> None:
        """Shut out earlier attempts, and end what they have left open."""
        self._retried("init_transactions", self._producer.init_transactions)

    def marker(self, topic: str) -> str:
        """Return the marker that was committed last; empty if there is none."""
        asked = [TopicPartition(topic, _MARKED)]
        found = self._retried(
            "committed", lambda left_s: self._consumer.committed(asked, timeout=left_s)
        )
        return found[0].metadata or ""

    def write(self, batches: Iterator[Any]) -> None:
        """Produce rows and marker, and commit them."""
        topics: set[str] = set()
        try:
            self._producer.begin_transaction()
            rows = produce_all(self._producer, self._noted(batches, topics), self._options)
            self._until_ms = self._clock.now_ms() + self._options.flush_timeout_ms
            self._mark(topics, rows)
            self._retried("commit_transaction", self._producer.commit_transaction)
        except BaseException:
            # It tells, too, whether all of this is because another attempt has taken over.
            self._abort()
            raise

    def _noted(self, batches: Iterator[Any], topics: set[str]) -> Iterator[Any]:
        """Pass batches on, and note the topics that they go to."""
        for batch in batches:
            if self._options.topic is None:
                topics.update(batch.column("topic").unique().drop_null().to_pylist())
            else:
                topics.add(self._options.topic)
            yield batch

    def _mark(self, topics: set[str], rows: int) -> None:
        """Mark every topic: a repeated task may begin with a row of another one."""
        text = self._write.marker(rows)
        offsets = [TopicPartition(topic, _MARKED, rows, text) for topic in sorted(topics)]
        group = self._consumer.consumer_group_metadata()
        self._retried(
            "send_offsets_to_transaction",
            lambda left_s: self._producer.send_offsets_to_transaction(offsets, group, left_s),
        )

    def _abort(self) -> None:
        """End the transaction; where that fails, the next attempt or the broker's timeout does.

        Raises:
            DeliveryError: Another attempt has taken over.
        """
        try:
            self._producer.purge()
            self._producer.abort_transaction(self._left_s())
        except KafkaException as error:
            self._check_fenced(error)

    def _left_s(self) -> float:
        return max(1.0, (self._until_ms - self._clock.now_ms()) / 1_000)

    def _retried(self, what: str, call: Callable[[float], Any]) -> Any:
        while True:
            try:
                return call(self._left_s())
            except KafkaException as error:
                self._check(what, error)
            self._producer.poll(_PAUSE_S)

    def _check(self, what: str, raised: KafkaException) -> None:
        """Return if the call can be made again, raise what happened otherwise."""
        error = raised.args[0]
        self._check_fenced(raised)
        if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            raise KafkaConfigurationError(
                "the broker's transaction.max.timeout.ms is less than the transactions' timeout; "
                "give kafka.transaction.timeout.ms"
            ) from None
        passing = error.retriable() or error.code() in _PASSING
        if not passing or self._clock.now_ms() >= self._until_ms:
            raise DeliveryError(
                f"{what} with the transactional id {self._write.transactional_id}: {error.str()}"
                f"{self._producer.because()}"
            ) from None

    def _check_fenced(self, raised: KafkaException) -> None:
        if raised.args[0].code() in _FENCED:
            raise DeliveryError(
                f"another attempt of task {self._write.partition}, or another query with "
                f"tandem.transactionalIdPrefix={self._write.prefix}, has taken over the "
                f"transactional id {self._write.transactional_id}"
            ) from None
