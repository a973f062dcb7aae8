"""The methods that concern the group, the cluster and topics."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from uuid import UUID

from tandem_kafka.consumer.arguments import check_topics
from tandem_kafka.consumer.concurrent_calls import WithCore, any_thread, part_of_consumers
from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.parts import bootstrap
from tandem_kafka.errors import (
    IllegalStateError,
    InvalidTopicError,
    TopicAuthorizationFailedError,
)
from tandem_kafka.events.application import (
    Bootstrap,
    EnforceRebalance,
    GetClientInstanceId,
    ListTopics,
    PartitionsForTopic,
)
from tandem_kafka.logs import client_logger
from tandem_kafka.types import ClusterSnapshot, TopicInfo

log = client_logger(__name__)


@part_of_consumers
class ClusterMethods(WithCore):
    """A part of both consumers."""

    @any_thread
    async def enforce_rebalance(self, reason: str = "the application asks for it") -> None:
        """Ask the group to rebalance (KIP-568). The next poll starts to rejoin.

        Args:
            reason: Sent to the coordinator, which logs it.

        Raises:
            NoGroupError: There is no ``group_id``.
        """
        self._core.require_group()
        deadline_ms = self._core.deadline_ms(None)
        self._core.ask_now(EnforceRebalance(deadline_ms=deadline_ms, reason=reason))

    @any_thread
    async def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the names of all topics that this client may see, without internal topics.

        Args:
            timeout_ms: How long to wait, in milliseconds; ``default_api_timeout_ms`` by default.

        Raises:
            KafkaTimeoutError: The cluster did not respond in time.
            WakeupError: ``wakeup()`` was called.
        """
        event = ListTopics(deadline_ms=self._core.deadline_ms(timeout_ms))
        found = await self._core.ask(event, interruptible=True)
        return {name for name, topic in found.topics.items() if not topic.internal}

    @any_thread
    async def cluster(
        self, timeout_ms: float | None = None, topics: Iterable[str] | None = None
    ) -> ClusterSnapshot:
        """Return the brokers and topics, looked up in the cluster now.

        .. versionchanged:: 0.10
           The argument ``topics``.

        Args:
            timeout_ms: How long to wait, in milliseconds; ``default_api_timeout_ms`` by default.
            topics: Names of topics; the result has those that exist. By default, it has all topics
                that this client may see, including internal topics. No topic is created.

        Raises:
            InvalidTopicError, TopicAuthorizationFailedError: The cluster rejected one of `topics`.
            KafkaTimeoutError: The cluster did not respond in time.
            WakeupError: ``wakeup()`` was called.
        """
        deadline_ms = self._core.deadline_ms(timeout_ms)
        metadata = self._core.engine.metadata
        if not metadata.snapshot.version:
            await self._core.ask(Bootstrap(deadline_ms=deadline_ms))
        if topics is not None:
            return dataclasses.replace(
                metadata.snapshot,
                topics=await _describe(self._core, check_topics(topics), deadline_ms),
            )
        found = await self._core.ask(ListTopics(deadline_ms=deadline_ms), interruptible=True)
        # The metadata itself may have no nodes at the moment, after a rebootstrap.
        return dataclasses.replace(metadata.snapshot, nodes=found.nodes, topics=found.topics)

    @any_thread
    async def client_instance_id(self, timeout_ms: float | None = None) -> UUID:
        """Return the id under which brokers receive the metrics of this consumer (KIP-714).

        Brokers give an id only if they receive metrics of clients.

        .. versionadded:: 0.10

        Args:
            timeout_ms: How long to wait, in milliseconds; ``default_api_timeout_ms`` by default.

        Raises:
            IllegalStateError: ``enable_metrics_push`` or ``metrics_enabled`` is False.
            KafkaTimeoutError: No broker has given an id in time.
            WakeupError: ``wakeup()`` was called.
        """
        config = self._core.config
        for option in ("enable_metrics_push", "metrics_enabled"):
            if not getattr(config, option):
                raise IllegalStateError(
                    f"client_instance_id() requires {option}=True: no broker gives an id otherwise"
                )
        event = GetClientInstanceId(deadline_ms=self._core.deadline_ms(timeout_ms))
        return await self._core.ask(event, interruptible=True)

    async def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int]:
        """Return the partition numbers of a topic; empty if the topic is not visible.

        This method never creates the topic. Cached metadata can be read even after close().

        Args:
            topic: Name of the topic.
            timeout_ms: How long to wait, in milliseconds; ``default_api_timeout_ms`` by default.

        Raises:
            KafkaTimeoutError: The cluster did not respond in time.
            WakeupError: ``wakeup()`` was called.
        """
        try:
            return await known_partitions(self._core, topic, timeout_ms)
        except (TopicAuthorizationFailedError, InvalidTopicError) as error:
            log.warning(
                "partitions_for_topic(%r) returns no partitions: %s",
                topic,
                error,
                client=self._core.client,
                fields={"topic": topic},
            )
            return set()

    async def _known_partitions(self, topic: str, timeout_ms: float | None = None) -> set[int]:
        """Call `known_partitions`, for `tandem_kafka.confluent`."""
        return await known_partitions(self._core, topic, timeout_ms)

    @any_thread
    async def _bootstrap(self, timeout_ms: float | None = None, *, refresh: bool = False) -> None:
        """Wait until the cluster has been reached."""
        await bootstrap(self._core, timeout_ms, refresh=refresh)


async def known_partitions(core: Core, topic: str, timeout_ms: float | None) -> set[int]:
    """Return the partition numbers of a topic; empty if it does not exist.

    Raises:
        TopicAuthorizationFailedError: This client may not describe the topic.
        InvalidTopicError: The cluster rejects its name.
        KafkaTimeoutError: The cluster did not respond in time.
    """
    core.check_readable()
    (name,) = check_topics([topic])
    known = core.engine.metadata.snapshot.topics.get(name)
    if known is None:
        core.check_usable()
        event = PartitionsForTopic(deadline_ms=core.deadline_ms(timeout_ms), topic=name)
        known = await core.ask(event, interruptible=True)
    return set(known.partitions) if known is not None else set()


async def _describe(core: Core, names: Iterable[str], deadline_ms: int) -> dict[str, TopicInfo]:
    found: dict[str, TopicInfo] = {}
    for name in sorted(names):
        event = PartitionsForTopic(deadline_ms=deadline_ms, topic=name)
        topic = await core.ask(event, interruptible=True)
        if topic is not None:
            found[name] = topic
    return found
