"""The methods of `AsyncKafkaConsumer` that wait for a broker, except those that read records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal, overload
from uuid import UUID

from tandem_kafka.aio.listener import AsyncRebalanceListener
from tandem_kafka.consumer.calls.cluster import ClusterCalls
from tandem_kafka.consumer.calls.offsets import OffsetCalls
from tandem_kafka.consumer.calls.subscriptions import SubscriptionCalls
from tandem_kafka.types import (
    ClusterSnapshot,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RebalanceListener,
    SubscriptionPattern,
    TopicPartition,
)

__all__ = ["AwaitableMethods"]


class AwaitableMethods:
    """A part of ``AsyncKafkaConsumer``.

    Arguments, results and errors are those of the methods of ``KafkaConsumer`` with the same
    names. If a call is cancelled, its request may still reach the broker.
    """

    _subscriptions: SubscriptionCalls
    _offsets: OffsetCalls
    _cluster: ClusterCalls

    # --- subscription --------------------------------------------------------------------------

    async def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: AsyncRebalanceListener | RebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics, or to all topics that match a pattern. The next poll joins.

        Args:
            topics: Names of the topics.
            pattern: A regular expression, or a ``SubscriptionPattern`` for the coordinator.
            listener: Its methods may be coroutines. ``poll()`` awaits them in its task, and they
                may await any method of this consumer.

        Raises:
            KafkaError, TypeError: As ``KafkaConsumer.subscribe()``.
        """
        await self._subscriptions.subscribe(topics, pattern, listener)

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign partitions manually, without group management.

        Raises:
            KafkaError, TypeError: As ``KafkaConsumer.assign()``.
        """
        await self._subscriptions.assign(partitions)

    async def unsubscribe(self) -> None:
        """Release all partitions, leave the group and end the subscription or assignment.

        A cancellation while it waits for another task's ``poll()`` changes nothing. A later one
        is raised at the end, after at most ``default_api_timeout_ms``.

        Raises:
            RebalanceCallbackError: The listener raised; all other steps were completed.
        """
        await self._subscriptions.unsubscribe()

    # --- positions and offsets -----------------------------------------------------------------

    @overload
    async def position(self, partition: TopicPartition, timeout_ms: None = None) -> int: ...

    @overload
    async def position(self, partition: TopicPartition, timeout_ms: float | None) -> int | None: ...

    async def position(
        self, partition: TopicPartition, timeout_ms: float | None = None
    ) -> int | None:
        """Return the offset of the next record of a partition, and look it up if necessary.

        Returns:
            The offset, or None if the lookup did not finish within ``timeout_ms``.

        Raises:
            KafkaError: As ``KafkaConsumer.position()``.
        """
        return await self._offsets.position(partition, timeout_ms)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first available offset; all partitions if none is given.

        Raises:
            NotAssignedError: A partition is not assigned, or no partition is.
        """
        self._offsets.seek_to_beginning(partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue at the end; all partitions if none is given.

        Raises:
            NotAssignedError: A partition is not assigned, or no partition is.
        """
        self._offsets.seek_to_end(partitions)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first available offset of each partition.

        Raises:
            KafkaTimeoutError: The lookup did not finish in time.
        """
        return await self._offsets.beginning_offsets(partitions, timeout_ms)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the end of each partition: the offset after its last readable record.

        Raises:
            KafkaTimeoutError: The lookup did not finish in time.
        """
        return await self._offsets.end_offsets(partitions, timeout_ms)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offset of each partition whose record is at or after a timestamp.

        Args:
            timestamps: Milliseconds since the Unix epoch, by partition.
            timeout_ms: How long to wait, in milliseconds.

        Raises:
            KafkaError: As ``KafkaConsumer.offsets_for_times()``.
        """
        return await self._offsets.offsets_for_times(timestamps, timeout_ms)

    # --- commits -------------------------------------------------------------------------------

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit offsets and wait for the response. Transient errors are retried.

        Args:
            offsets: The offsets to commit, each one past the last processed record. By default,
                the positions of all records that have been returned.
            timeout_ms: How long to retry, in milliseconds; ``default_api_timeout_ms`` by default.

        Raises:
            KafkaError, TypeError: As ``KafkaConsumer.commit()``.
        """
        await self._offsets.commit(offsets, timeout_ms)

    @overload
    async def committed(
        self,
        partition: TopicPartition,
        metadata: Literal[False] = False,
        timeout_ms: float | None = None,
    ) -> int | None: ...

    @overload
    async def committed(
        self, partition: TopicPartition, metadata: Literal[True], timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None: ...

    async def committed(
        self,
        partition: TopicPartition,
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> int | OffsetAndMetadata | None:
        """Return the group's committed offset of a partition, or None if there is none.

        Args:
            partition: Assigned or not.
            metadata: If True, return an ``OffsetAndMetadata`` instead of the offset.
            timeout_ms: How long to retry, in milliseconds; ``default_api_timeout_ms`` by default.

        Raises:
            KafkaError: As ``KafkaConsumer.committed()``.
        """
        found = await self._offsets.committed(partition, timeout_ms)
        return found if metadata or found is None else found.offset

    # --- the cluster ---------------------------------------------------------------------------

    async def enforce_rebalance(self, reason: str = "the application asks for it") -> None:
        """Ask the group to rebalance (KIP-568). The next poll starts to rejoin.

        Raises:
            NoGroupError: There is no ``group_id``.
        """
        self._cluster.enforce_rebalance(reason)

    async def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the names of all topics that this client may see, without internal topics.

        Raises:
            KafkaTimeoutError: The cluster did not respond in time.
        """
        return await self._cluster.topics(timeout_ms)

    async def cluster(
        self, timeout_ms: float | None = None, topics: Iterable[str] | None = None
    ) -> ClusterSnapshot:
        """Return the brokers and topics, looked up in the cluster now.

        Args:
            timeout_ms: How long to wait, in milliseconds; ``default_api_timeout_ms`` by default.
            topics: Names of topics; the result has those that exist. By default, it has all topics
                that this client may see, including internal topics. No topic is created.

        Raises:
            InvalidTopicError, TopicAuthorizationFailedError: The cluster rejected one of `topics`.
            KafkaTimeoutError: The cluster did not respond in time.
        """
        return await self._cluster.cluster(timeout_ms, topics)

    async def client_instance_id(self, timeout_ms: float | None = None) -> UUID:
        """Return the id under which brokers receive the metrics of this consumer (KIP-714).

        Raises:
            IllegalStateError: ``enable_metrics_push`` or ``metrics_enabled`` is False.
            KafkaTimeoutError: No broker has given an id in time.
        """
        return await self._cluster.client_instance_id(timeout_ms)

    async def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int]:
        """Return the partition numbers of a topic; empty if the topic is not visible.

        Raises:
            KafkaTimeoutError: The cluster did not respond in time.
        """
        return await self._cluster.partitions_for_topic(topic, timeout_ms)
