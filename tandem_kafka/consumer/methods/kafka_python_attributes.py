"""Private attributes of kafka-python's consumer that other programs read. Nothing is written.

Readers: `_closed`, programs that share a consumer between threads; `_subscription.subscription`,
Elastic's APM agent, in each poll(); `_coordinator` with `_generation`, `coordinator_id` and
`rejoining`, test suites and probes that wait for a stable group; `_client.cluster`,
instrumentations that label spans with the cluster; `_client._conns`, readiness probes.
"""

from __future__ import annotations

from collections.abc import Mapping

from tandem_kafka.consumer.core import Core
from tandem_kafka.dataclass import dataclass
from tandem_kafka.types import ClusterSnapshot, ConsumerGroupMetadata, Node, TopicPartition


@dataclass(frozen=True)
class _Subscription:
    """The subscribed topics, None without a subscription; the assigned partitions."""

    subscription: set[str] | None
    assignment: frozenset[TopicPartition]


@dataclass(frozen=True)
class _Coordinator:
    """The membership."""

    group_id: str | None
    coordinator_id: int | None
    rejoining: bool
    _generation: ConsumerGroupMetadata

    def generation(self) -> ConsumerGroupMetadata:
        """Return the generation and the member id."""
        return self._generation


@dataclass(frozen=True)
class _Cluster:
    """The cached metadata."""

    _snapshot: ClusterSnapshot

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster, None before the first contact."""
        return self._snapshot.cluster_id

    def brokers(self) -> set[Node]:
        """Return the known brokers."""
        return set(self._snapshot.nodes.values())

    def topics(self) -> set[str]:
        """Return the known topics."""
        return set(self._snapshot.topics)


@dataclass(frozen=True)
class _Connection:
    """A broker as a readiness probe sees it."""

    _usable: bool

    def connected(self) -> bool:
        """Return whether the last request or attempt to connect succeeded."""
        return self._usable


@dataclass(frozen=True)
class _Client:
    """The cluster and the brokers."""

    cluster: _Cluster
    _conns: Mapping[int, _Connection]


class KafkaPythonAttributes:
    """A part of ``KafkaConsumer``. Each attribute is a new snapshot."""

    _core: Core

    @property
    def _closed(self) -> bool:
        return self._core.closing or self._core.closed

    @property
    def _subscription(self) -> _Subscription:
        subscription = self._core.engine.subscription
        topics = set(subscription.topics) if subscription.auto_assigned else None
        return _Subscription(topics, frozenset(subscription.assigned))

    @property
    def _coordinator(self) -> _Coordinator:
        group = self._core.engine.group
        node = group.coordinator
        return _Coordinator(
            self._core.config.group_id,
            None if node is None else node.node_id,
            group.rebalancing_since_ms is not None,
            group.metadata,
        )

    @property
    def _client(self) -> _Client:
        metadata = self._core.engine.metadata
        snapshot, unreachable = metadata.snapshot, metadata.unreachable
        found = {n: _Connection(n not in unreachable) for n in snapshot.nodes}
        return _Client(_Cluster(snapshot), found)
