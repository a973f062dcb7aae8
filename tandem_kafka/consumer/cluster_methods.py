"""The methods of the consumer that concern its group, the cluster, metrics and options."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from tandem_kafka.config import Config
from tandem_kafka.consumer.arguments import check_topics
from tandem_kafka.consumer.owned import Owned, shared
from tandem_kafka.errors import (
    InvalidTopicError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
)
from tandem_kafka.events.application import (
    Bootstrap,
    EnforceRebalance,
    ListTopics,
    PartitionsForTopic,
)
from tandem_kafka.shared.metadata import ClusterSnapshot
from tandem_kafka.types import ConsumerGroupMetadata

__all__ = ["ClusterMethods"]

log = logging.getLogger(__name__)


class ClusterMethods(Owned):
    """A part of ``KafkaConsumer``."""

    _config: Config
    _written: dict[str, Any]
    _release_known = False

    # --- the group -----------------------------------------------------------------------------

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this consumer's membership, for a transactional producer (KIP-447).

        After a membership is lost, this method returns its data until a new one begins, so that
        the coordinator rejects offsets committed for it. Without any membership, for example
        after ``unsubscribe()``, the generation is -1. Any thread may call this, even after close().

        Returns:
            Group id (None without a group), generation or member epoch, member id and
            ``group_instance_id``.
        """
        self._core.check_readable()
        return self._core.engine.group.last

    @shared
    def enforce_rebalance(self, reason: str = "the application asks for it") -> None:
        """Ask the group to rebalance (KIP-568). The next poll starts to rejoin.

        Args:
            reason: Sent to the coordinator, which logs it.

        Raises:
            NoGroupError: There is no ``group_id``.
        """
        self._core.require_group()
        self._core.ask(EnforceRebalance(deadline_ms=self._core.deadline_ms(None), reason=reason))

    # --- the cluster ---------------------------------------------------------------------------

    @shared
    def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the names of all topics that this client may see, without internal topics.

        Args:
            timeout_ms: How long to wait, in milliseconds; ``default_api_timeout_ms`` by default.

        Raises:
            KafkaTimeoutError: The cluster did not respond in time.
            WakeupError: ``wakeup()`` was called.
        """
        event = ListTopics(deadline_ms=self._core.deadline_ms(timeout_ms))
        found = self._core.ask(event, interruptible=True)
        return {name for name, topic in found.items() if not topic.internal}

    @shared
    def cluster(self, timeout_ms: float | None = None) -> ClusterSnapshot:
        """Return the brokers and all topics that this client may see, including internal topics.

        Args:
            timeout_ms: How long to wait, in milliseconds; ``default_api_timeout_ms`` by default.

        Raises:
            KafkaTimeoutError: The cluster did not respond in time.
            WakeupError: ``wakeup()`` was called.
        """
        deadline_ms = self._core.deadline_ms(timeout_ms)
        if not self.bootstrap_connected():
            self._core.ask(Bootstrap(deadline_ms=deadline_ms))
        found = self._core.ask(ListTopics(deadline_ms=deadline_ms), interruptible=True)
        return dataclasses.replace(self._core.engine.metadata.snapshot, topics=dict(found))

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
        self._core.check_readable()
        (name,) = check_topics([topic])
        known = self._core.engine.metadata.snapshot.topics.get(name)
        if known is None:
            self._core.check_usable()
            event = PartitionsForTopic(deadline_ms=self._core.deadline_ms(timeout_ms), topic=name)
            try:
                known = self._core.ask(event, interruptible=True)
            except (TopicAuthorizationFailedError, InvalidTopicError) as error:
                log.warning("partitions_for_topic(%r) returns no partitions: %s", name, error)
        return set(known.partitions) if known is not None else set()

    @shared
    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Wait until the cluster has been reached.

        Args:
            timeout_ms: How long to wait, in milliseconds; ``bootstrap_timeout_ms`` by default.
            refresh: Wait for the next metadata response even if the cluster was reached before.

        Raises:
            KafkaTimeoutError: No bootstrap server responded in time.
            KafkaError: The cluster rejected the connection.
        """
        if timeout_ms is None:
            timeout_ms = self._config.bootstrap_timeout_ms
        try:
            deadline_ms = self._core.deadline_ms(timeout_ms)
            self._core.ask(Bootstrap(deadline_ms=deadline_ms, refresh=refresh))
        except KafkaTimeoutError as error:
            servers = ", ".join(f"{host}:{port}" for host, port in self._config.bootstrap_servers)
            msg = (
                f"no broker responded within {timeout_ms} ms; bootstrap_servers: {servers} "
                "(the log has the reason for each server)"
            )
            raise KafkaTimeoutError(msg) from error

    def bootstrap_connected(self) -> bool:
        """Return whether the cluster has been reached."""
        self._core.check_readable()
        return self._core.engine.metadata.snapshot.version > 0

    def metrics(self, raw: bool = False) -> Any:
        """Return the consumer's metrics, or None if ``metrics_enabled`` is False.

        Args:
            raw: If True, return kafka-python's metric objects by ``MetricName``. Otherwise return
                values by group and name; each topic and each partition has its own group.
        """
        measured = self._core.engine.metrics
        return measured.raw() if raw else measured.values()

    @property
    def config(self) -> dict[str, Any]:
        """The options by name, with defaults for those not given; changing it has no effect.

        Once the cluster has been reached, ``api_version`` is the release of its brokers. The
        ``repr()`` hides secrets; the values do not.
        """
        if not self._release_known:
            release = self._core.engine.release()
            if release is not None:
                self._release_known = True
                self._written["api_version"] = release
        return self._written
