"""A transaction, from its first record to its markers."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from tandem_kafka.errors import IllegalStateError
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.cluster.batch import Marker
from tandem_kafka_testing.cluster.cluster_state import ClusterState


class Transaction:
    """One transaction; as a context manager, it commits, or aborts after an exception.

        with cluster.transaction() as transaction:
            transaction.produce(tp, b"paid", b"shipped")

    Attributes:
        producer_id: Its producer; the same producer may begin another transaction later.
        open: True until it is committed or aborted.
    """

    def __init__(self, cluster: ClusterState, producer_id: int) -> None:
        self._cluster = cluster
        self.producer_id = producer_id
        self.open = True
        self._partitions: dict[TopicPartition, None] = {}

    def produce(self, tp: TopicPartition, *values: bytes | None) -> int:
        """Append records as one batch; returns the offset of the first.

        Raises:
            IllegalStateError: The transaction has ended.
        """
        self._check("produce")
        self._partitions[tp] = None
        return self._cluster.produce(tp, *values, producer_id=self.producer_id)

    def commit(self) -> None:
        """Commit: write a marker into each partition; readers receive the records.

        Raises:
            IllegalStateError: The transaction has ended.
        """
        self._end("commit")

    def abort(self) -> None:
        """Abort: write a marker into each partition; `read_committed` skips the records.

        Raises:
            IllegalStateError: The transaction has ended.
        """
        self._end("abort")

    def _end(self, marker: Marker) -> None:
        self._check(marker)
        self.open = False
        self._cluster.trace.note(f"producer {self.producer_id}: {marker}")
        for tp in self._partitions:
            partition = self._cluster.at(tp)
            when = self._cluster.clock.wall_ms()
            partition.log.end_transaction(self.producer_id, marker, partition.epoch, when)
        self._cluster.changed()

    def _check(self, action: str) -> None:
        if not self.open:
            msg = f"{action}: the transaction of producer {self.producer_id} has ended"
            raise IllegalStateError(msg)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.open:
            self._end("commit" if error is None else "abort")
