"""The methods of the consumer that concern its group, the cluster and topics."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from tandem_kafka.consumer.calls.cluster import ClusterCalls
from tandem_kafka.runtime.callers import run
from tandem_kafka.types import ClusterSnapshot

__all__ = ["ClusterMethods"]


class ClusterMethods:
    """A part of ``KafkaConsumer``."""

    _cluster: ClusterCalls

    # --- the group -----------------------------------------------------------------------------

    def enforce_rebalance(self, reason: str = "the application asks for it") -> None:
        """Ask the group to rebalance (KIP-568). The next poll starts to rejoin.

        Args:
            reason: Sent to the coordinator, which logs it.

        Raises:
            NoGroupError: There is no ``group_id``.
        """
        self._cluster.enforce_rebalance(reason)

    # --- the cluster ---------------------------------------------------------------------------

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the names of all topics that this client may see, without internal topics.

        Args:
            timeout_ms: How long to wait, in milliseconds; ``default_api_timeout_ms`` by default.

        Raises:
            KafkaTimeoutError: The cluster did not respond in time.
            WakeupError: ``wakeup()`` was called.
        """
        return run(self._cluster.topics(timeout_ms))

    def cluster(
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
            WakeupError: ``wakeup()`` was called.
        """
        return run(self._cluster.cluster(timeout_ms, topics))

    def client_instance_id(self, timeout_ms: float | None = None) -> UUID:
        """Return the id under which brokers receive the metrics of this consumer (KIP-714).

        Brokers give an id only if they receive metrics of clients.

        Args:
            timeout_ms: How long to wait, in milliseconds; ``default_api_timeout_ms`` by default.

        Raises:
            IllegalStateError: ``enable_metrics_push`` or ``metrics_enabled`` is False.
            KafkaTimeoutError: No broker has given an id in time.
            WakeupError: ``wakeup()`` was called.
        """
        return run(self._cluster.client_instance_id(timeout_ms))

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int]:
        """Return the partition numbers of a topic; empty if the topic is not visible.

        This method never creates the topic. Cached metadata can be read even after close().

        Args:
            topic: Name of the topic.
            timeout_ms: How long to wait, in milliseconds; ``default_api_timeout_ms`` by default.

        Raises:
            KafkaTimeoutError: The cluster did not respond in time.
            WakeupError: ``wakeup()`` was called.
        """
        return run(self._cluster.partitions_for_topic(topic, timeout_ms))

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Wait until the cluster has been reached.

        Args:
            timeout_ms: How long to wait, in milliseconds; ``bootstrap_timeout_ms`` by default.
            refresh: Wait for the next metadata response even if the cluster was reached before.

        Raises:
            KafkaTimeoutError: No bootstrap server responded in time.
            KafkaError: The cluster rejected the connection.
        """
        run(self._cluster.bootstrap(timeout_ms, refresh=refresh))
