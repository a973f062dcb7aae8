"""Programs that read, process and write in transactions, with the producers of both clients."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import confluent_kafka
from kafka import KafkaProducer

from tandem_kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from tandem_kafka.confluent.lookups import group_bytes

__all__ = ["PRODUCERS", "TransactionalLoop", "Writes"]


class Writes(ABC):
    """The transactions of one program."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def write(self, topic: str, value: bytes) -> None:
        """Write a record in the transaction."""

    @abstractmethod
    def commit(self, offsets: dict[TopicPartition, int], group: Any) -> None:
        """Commit the transaction, with offsets of a group."""

    @abstractmethod
    def abort(self) -> None:
        """Abort the transaction."""

    @abstractmethod
    def close(self) -> None:
        """Release the connections."""


class KafkaPythonWrites(Writes):
    """With kafka-python's producer."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=name, max_block_ms=30_000
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def write(self, topic: str, value: bytes) -> None:
        self._producer.send(topic, value)

    def commit(self, offsets: dict[TopicPartition, int], group: Any) -> None:
        sent = {tp: OffsetAndMetadata(offset, "", -1) for tp, offset in offsets.items()}
        self._producer.send_offsets_to_transaction(sent, group)
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=10)


class ConfluentWrites(Writes):
    """With confluent-kafka's producer."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0}
        )
        self._producer.init_transactions(30)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def write(self, topic: str, value: bytes) -> None:
        self._producer.produce(topic, value)

    def commit(self, offsets: dict[TopicPartition, int], group: Any) -> None:
        sent = [confluent_kafka.TopicPartition(*tp, offset) for tp, offset in offsets.items()]
        self._producer.send_offsets_to_transaction(sent, group_bytes(group), 30)
        self._producer.commit_transaction(30)

    def abort(self) -> None:
        self._producer.abort_transaction(30)

    def close(self) -> None:
        assert not len(self._producer)


PRODUCERS: dict[str, Callable[[str, str], Writes]] = {
    "kafka-python": KafkaPythonWrites,
    "confluent-kafka": ConfluentWrites,
}


class TransactionalLoop:
    """Copies records on a thread; its transaction stays open until partitions are revoked.

    Attributes:
        owned: Its partitions.
        written: How many records the open transaction has.
        ended: How many records each transaction had that a revocation ended.
        error: What ended the thread before `stop`.
    """

    def __init__(
        self, consumer: KafkaConsumer, writes: Writes, topics: tuple[str, str], *, aborts: bool
    ) -> None:
        self._consumer = consumer
        self._writes = writes
        self._output = topics[1]
        self._aborts = aborts
        self._offsets: dict[TopicPartition, int] = {}
        self._stopping = threading.Event()
        self.owned: set[TopicPartition] = set()
        self.written = 0
        self.ended: list[int] = []
        self.error: BaseException | None = None
        consumer.subscribe([topics[0]], listener=self)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                for tp, records in self._consumer.poll(timeout_ms=100).items():
                    self._copy([record.value or b"" for record in records])
                    self._offsets[tp] = self._consumer.position(tp)
            self._consumer.close()  # which revokes all partitions
            self._writes.close()
        except BaseException as error:  # noqa: BLE001 - `stop` raises it
            self.error = error

    def _copy(self, values: list[bytes]) -> None:
        if not self._offsets and not self.written:
            self._writes.begin()
        for value in values:
            self._writes.write(self._output, value)
        self.written += len(values)

    def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
        """Read them from their committed offsets."""
        self.owned |= partitions

    def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
        """End the open transaction, before another member reads these partitions."""
        self.owned -= partitions
        if not self._offsets:
            return
        if self._aborts:
            self._writes.abort()
        else:
            self._writes.commit(self._offsets, self._consumer.group_metadata())
        self.ended.append(self.written)
        self._offsets, self.written = {}, 0

    @property
    def total(self) -> int:
        """How many records all transactions have."""
        return self.written + sum(self.ended)

    def stop(self) -> None:
        """End the thread; raises what has ended it before."""
        self._stopping.set()
        self._thread.join(90)
        assert not self._thread.is_alive(), "the loop has not ended"
        if self.error is not None:
            raise self.error
