"""Rebalance listeners with coroutines."""

from __future__ import annotations

from typing import Protocol

from tandem_kafka.types import TopicPartition


class AsyncRebalanceListener(Protocol):
    """The interface of a listener for ``AsyncKafkaConsumer.subscribe()``.

    ``poll()`` awaits its methods in its own task. They may await any method of the consumer. A
    third method, ``on_partitions_lost(lost)``, is optional. Without it, lost partitions are passed
    to ``on_partitions_revoked``. If ``poll()`` is cancelled during a method, the method ends with
    ``CancelledError`` and the rebalance continues.
    """

    async def on_partitions_revoked(self, revoked: set[TopicPartition], /) -> object:
        """Release partitions, which are still assigned during the call.

        Args:
            revoked: The partitions that this consumer must release.
        """

    async def on_partitions_assigned(self, assigned: set[TopicPartition], /) -> object:
        """Prepare for newly assigned partitions, which have not been fetched yet.

        Args:
            assigned: The new partitions; empty if the assignment did not grow.
        """
