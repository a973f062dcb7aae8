"""Ids of producers, and the transactions of those with a transactional id (KIP-98, KIP-890)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafka import errors

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.cluster.batch import Marker
from tandem_kafka_testing.cluster.produced import Sequence
from tandem_kafka_testing.cluster.topics import SimPartition

_FIRST_PRODUCER_ID = 1_000
#: The default of `transaction.max.timeout.ms`.
MAX_TIMEOUT_MS = 900_000
#: The last epoch of a producer id; the producer gets another id instead of it.
_LAST_EPOCH = 2**15 - 1


@dataclass(slots=True, eq=False)
class TransactionalProducer:
    """A producer with a transactional id.

    Attributes:
        begun_ms: When the open transaction began (wall clock); None without one.
        number: The number of its transactions.
        state: The state that administrators see.
        renewed: The id and the epoch with which the present epoch was asked for.
        ended: The id, the epoch and the outcome of the request that ended the last transaction and
            began the present epoch.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    partitions: dict[TopicPartition, None] = field(default_factory=dict)
    groups: dict[str, None] = field(default_factory=dict)
    begun_ms: int | None = None
    number: int = 0
    state: str = "Empty"
    renewed: tuple[int, int] | None = None
    ended: tuple[int, int, bool] | None = None


class Cluster(Protocol):
    """What the coordinator needs of the cluster."""

    def partition(self, tp: TopicPartition) -> SimPartition | None:
        """Return a partition, if it exists."""
        ...

    def end_transaction(self, group_id: str, producer_id: int, *, commit: bool = True) -> None:
        """End a transaction for a group."""
        ...

    def changed(self) -> None:
        """Note a change that a parked request may be waiting for."""
        ...


class TransactionCoordinator:
    """Gives ids to producers, and begins and ends transactions.

    Args:
        cluster: The cluster.
        wall_ms: Returns the wall clock.
        after: Calls an action after a delay in ms.

    Attributes:
        producers: The producers with a transactional id.
    """

    def __init__(
        self,
        cluster: Cluster,
        wall_ms: Callable[[], int],
        after: Callable[[int, Callable[[], object]], None],
    ) -> None:
        self._cluster = cluster
        self._wall_ms = wall_ms
        self._after = after
        self._ids = 0
        self.producers: dict[str, TransactionalProducer] = {}

    def new_producer_id(self) -> int:
        """Return an id that no producer has."""
        self._ids += 1
        return _FIRST_PRODUCER_ID + self._ids

    def initialize(
        self, transactional_id: str, timeout_ms: int, producer_id: int, epoch: int
    ) -> TransactionalProducer | Any:
        """Begin an epoch of a producer, which ends its open transaction and fences older ones.

        Returns:
            The producer, or the class of the error.
        """
        if not 0 < timeout_ms <= MAX_TIMEOUT_MS:
            return errors.InvalidTransactionTimeoutError
        producer = self.producers.get(transactional_id)
        if producer is None:
            producer = TransactionalProducer(transactional_id, self.new_producer_id(), -1, 0)
            self.producers[transactional_id] = producer
        elif producer_id >= 0 and (producer_id, epoch) != (producer.producer_id, producer.epoch):
            # The request is repeated, because its response was lost.
            again = producer.renewed == (producer_id, epoch)
            return producer if again else errors.ProducerFencedError
        producer.epoch += 1
        producer.timeout_ms = timeout_ms
        if producer.begun_ms is not None:
            self._write_markers(producer, "abort")
        producer.state = "Empty"
        producer.renewed, producer.ended = (producer_id, epoch) if producer_id >= 0 else None, None
        self._renew_exhausted(producer)
        return producer

    def _renew_exhausted(self, producer: TransactionalProducer) -> None:
        """Give a producer another id, if its present one has no more epochs."""
        if producer.epoch >= _LAST_EPOCH:
            producer.producer_id, producer.epoch = self.new_producer_id(), 0

    def find(
        self, transactional_id: str | None, producer_id: int, epoch: int
    ) -> TransactionalProducer | Any:
        """Return the producer, or an error class if its id or epoch is another one."""
        producer = self.producers.get(transactional_id or "")
        if producer is None or producer.producer_id != producer_id:
            return errors.InvalidProducerIdMappingError
        return producer if producer.epoch == epoch else errors.ProducerFencedError

    def add(
        self,
        producer: TransactionalProducer,
        partitions: Iterable[TopicPartition] = (),
        group_id: str | None = None,
    ) -> None:
        """Add partitions and a group to the transaction of a producer, which may begin with it."""
        if producer.begun_ms is None:
            producer.begun_ms = self._wall_ms()
            producer.number += 1
            producer.state = "Ongoing"
            producer.renewed = producer.ended = None
            number = producer.number
            self._after(producer.timeout_ms, lambda: self._expire(producer, number))
        producer.partitions.update(dict.fromkeys(partitions))
        if group_id is not None:
            producer.groups[group_id] = None

    def check_batch(
        self, transactional_id: str | None, sequence: Sequence, tp: TopicPartition, *, joins: bool
    ) -> None:
        """Check that a batch belongs to the open transaction of its producer.

        Args:
            transactional_id: That of the request.
            sequence: Has the id and the epoch of the producer.
            tp: The partition.
            joins: Whether the batch adds the partition to the transaction.

        Raises:
            BrokerResponseError: It does not.
        """
        producer = self.find(transactional_id, sequence.producer_id, sequence.epoch)
        if not isinstance(producer, TransactionalProducer):
            raise errors.InvalidProducerEpochError
        if joins:
            self.add(producer, [tp])
        if tp not in producer.partitions:
            raise errors.InvalidTxnStateError

    def end(self, producer: TransactionalProducer, *, commit: bool, new_epoch: bool) -> Any:
        """End the transaction of a producer.

        Args:
            producer: The producer.
            commit: Whether to commit it.
            new_epoch: Begin an epoch with each transaction (transactions v2).

        Returns:
            The class of the error, None for success.
        """
        marker: Marker = "commit" if commit else "abort"
        ended = "CompleteCommit" if commit else "CompleteAbort"
        if producer.begun_ms is None and not new_epoch:
            # The response to an earlier request was lost, or there is nothing to end.
            return None if producer.state == ended else errors.InvalidTxnStateError
        producer.ended = (producer.producer_id, producer.epoch, commit) if new_epoch else None
        producer.epoch += new_epoch
        self._write_markers(producer, marker)
        producer.state = ended
        self._renew_exhausted(producer)
        return None

    def ended_by(
        self, transactional_id: str, producer_id: int, epoch: int, *, commit: bool
    ) -> TransactionalProducer | None:
        """Return the producer if this same request has ended its last transaction (v2).

        Invariant: a timeout and a newer producer begin an epoch too, and abort. Their epochs do
        not show that the request was handled.
        """
        producer = self.producers.get(transactional_id)
        same = producer is not None and producer.ended == (producer_id, epoch, commit)
        return producer if same else None

    def _expire(self, producer: TransactionalProducer, number: int) -> None:
        """Abort a transaction that is open for too long, and fence its producer."""
        if producer.begun_ms is not None and producer.number == number:
            producer.epoch += 1
            producer.renewed = producer.ended = None
            self._write_markers(producer, "abort")
            producer.state = "CompleteAbort"

    def _write_markers(self, producer: TransactionalProducer, marker: Marker) -> None:
        for tp in producer.partitions:
            partition = self._cluster.partition(tp)
            if partition is not None:
                partition.log.end_transaction(
                    producer.producer_id, marker, partition.epoch, self._wall_ms()
                )
                partition.log.producers.begin_epoch(producer.producer_id, producer.epoch)
        for group_id in producer.groups:
            self._cluster.end_transaction(group_id, producer.producer_id, commit=marker == "commit")
        producer.partitions.clear()
        producer.groups.clear()
        producer.begun_ms = None
        self._cluster.changed()
