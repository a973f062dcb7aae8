"""The consumer's methods about its group, the cluster and itself."""

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
    """A part of `KafkaConsumer`."""

    _config: Config
    _written: dict[str, Any]
    _release_known = False

    # --- the group -----------------------------------------------------------------------------

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return who we are in the group, as a transactional producer needs it (KIP-447).

        A membership that was lost is named on, so that what is committed for it is refused, until
        there is a new one; without any, as after `unsubscribe()`, the generation is -1.

        Without a `group_id` it names no group. Any thread may ask, also after close().
        """
        self._core.check_readable()
        return self._core.engine.group.last

    @shared
    def enforce_rebalance(self, reason: str = "the application asks for it") -> None:
        """Have the group rebalance (KIP-568); the next poll takes part.

        Raises:
            NoGroupError: There is no `group_id`.
        """
        self._core.require_group()
        self._core.ask(EnforceRebalance(deadline_ms=self._core.deadline_ms(None), reason=reason))

    # --- the cluster ---------------------------------------------------------------------------

    @shared
    def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the names of all topics this client may see, without internal ones.

        Raises:
            KafkaTimeoutError: The cluster did not answer in time.
            WakeupError: `wakeup()` was called.
        """
        event = ListTopics(deadline_ms=self._core.deadline_ms(timeout_ms))
        found = self._core.ask(event, interruptible=True)
        return {name for name, topic in found.items() if not topic.internal}

    @shared
    def cluster(self, timeout_ms: float | None = None) -> ClusterSnapshot:
        """Return brokers by id and all topics this client may see, internal ones too.

        Raises:
            KafkaTimeoutError: The cluster did not answer in time.
            WakeupError: `wakeup()` was called.
        """
        deadline_ms = self._core.deadline_ms(timeout_ms)
        if not self.bootstrap_connected():
            self._core.ask(Bootstrap(deadline_ms=deadline_ms))
        found = self._core.ask(ListTopics(deadline_ms=deadline_ms), interruptible=True)
        return dataclasses.replace(self._core.engine.metadata.snapshot, topics=dict(found))

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int]:
        """Return the partition numbers of a topic; empty if we see no such topic.

        Asking creates no topic. What is known is told after close() too.

        Raises:
            KafkaTimeoutError: The cluster did not answer in time.
            WakeupError: `wakeup()` was called.
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
                log.warning("partitions_for_topic(%r) finds none: %s", name, error)
        return set(known.partitions) if known is not None else set()

    @shared
    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Wait for the first contact with the cluster, by default `bootstrap_timeout_ms`.

        Args:
            timeout_ms: How long to wait, in milliseconds.
            refresh: Wait for the next answer to a metadata request, whatever is known already.

        Raises:
            KafkaTimeoutError: No bootstrap server answered in time.
            KafkaError: The cluster refused.
        """
        if timeout_ms is None:
            timeout_ms = self._config.bootstrap_timeout_ms
        try:
            deadline_ms = self._core.deadline_ms(timeout_ms)
            self._core.ask(Bootstrap(deadline_ms=deadline_ms, refresh=refresh))
        except KafkaTimeoutError as error:
            servers = ", ".join(f"{host}:{port}" for host, port in self._config.bootstrap_servers)
            msg = (
                f"no broker answered within {timeout_ms} ms; bootstrap_servers: {servers} "
                "(the log says why each could not be reached)"
            )
            raise KafkaTimeoutError(msg) from error

    def bootstrap_connected(self) -> bool:
        """Tell whether the cluster has been reached."""
        self._core.check_readable()
        return self._core.engine.metadata.snapshot.version > 0

    def metrics(self, raw: bool = False) -> Any:
        """Return what the consumer measures, None with `metrics_enabled=False`.

        Args:
            raw: Return kafka-python's metric objects by `MetricName` instead of values by group
                and name. What belongs to a topic or partition stands in a group of its own.
        """
        measured = self._core.engine.metrics
        return measured.raw() if raw else measured.values()

    @property
    def config(self) -> dict[str, Any]:
        """The options as they were given, and the defaults, by name; changing it changes nothing.

        Once the cluster has been reached, `api_version` is the release that its brokers speak. Its
        `repr()` shows no secrets, its values do.
        """
        if not self._release_known:
            release = self._core.engine.release()
            if release is not None:
                self._release_known = True
                self._written["api_version"] = release
        return self._written
