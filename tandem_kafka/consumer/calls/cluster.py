"""The group, the cluster and its topics."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from uuid import UUID

from tandem_kafka.consumer.arguments import check_topics
from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.owned import Owned, shared
from tandem_kafka.errors import (
    IllegalStateError,
    InvalidTopicError,
    KafkaTimeoutError,
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

__all__ = ["ClusterCalls"]

log = client_logger(__name__)


class ClusterCalls(Owned):
    """Documented in `ClusterMethods`."""

    def __init__(self, core: Core) -> None:
        self._core = core

    @shared
    def enforce_rebalance(self, reason: str) -> None:
        """Ask the group to rebalance."""
        self._core.require_group()
        deadline_ms = self._core.deadline_ms(None)
        self._core.ask_now(EnforceRebalance(deadline_ms=deadline_ms, reason=reason))

    @shared
    async def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the names of all visible topics, without internal topics."""
        event = ListTopics(deadline_ms=self._core.deadline_ms(timeout_ms))
        found = await self._core.ask(event, interruptible=True)
        return {name for name, topic in found.topics.items() if not topic.internal}

    @shared
    async def cluster(
        self, timeout_ms: float | None = None, topics: Iterable[str] | None = None
    ) -> ClusterSnapshot:
        """Return the brokers, and all visible topics or those of these names that exist."""
        deadline_ms = self._core.deadline_ms(timeout_ms)
        metadata = self._core.engine.metadata
        if not metadata.snapshot.version:
            await self._core.ask(Bootstrap(deadline_ms=deadline_ms))
        if topics is not None:
            return dataclasses.replace(
                metadata.snapshot, topics=await self._described(check_topics(topics), deadline_ms)
            )
        found = await self._core.ask(ListTopics(deadline_ms=deadline_ms), interruptible=True)
        # The metadata itself may have no nodes at the moment, after a rebootstrap.
        return dataclasses.replace(metadata.snapshot, nodes=found.nodes, topics=found.topics)

    async def _described(self, names: Iterable[str], deadline_ms: int) -> dict[str, TopicInfo]:
        found: dict[str, TopicInfo] = {}
        for name in sorted(names):
            event = PartitionsForTopic(deadline_ms=deadline_ms, topic=name)
            topic = await self._core.ask(event, interruptible=True)
            if topic is not None:
                found[name] = topic
        return found

    @shared
    async def client_instance_id(self, timeout_ms: float | None = None) -> UUID:
        """Return the id that a broker has given to this client."""
        config = self._core.config
        for option in ("enable_metrics_push", "metrics_enabled"):
            if not getattr(config, option):
                raise IllegalStateError(
                    f"client_instance_id() requires {option}=True: no broker gives an id otherwise"
                )
        event = GetClientInstanceId(deadline_ms=self._core.deadline_ms(timeout_ms))
        return await self._core.ask(event, interruptible=True)

    async def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int]:
        """Return the partition numbers of a topic; empty if the topic is not visible."""
        self._core.check_readable()
        (name,) = check_topics([topic])
        known = self._core.engine.metadata.snapshot.topics.get(name)
        if known is None:
            self._core.check_usable()
            event = PartitionsForTopic(deadline_ms=self._core.deadline_ms(timeout_ms), topic=name)
            try:
                known = await self._core.ask(event, interruptible=True)
            except (TopicAuthorizationFailedError, InvalidTopicError) as error:
                log.warning(
                    "partitions_for_topic(%r) returns no partitions: %s",
                    name,
                    error,
                    client=self._core.client,
                    fields={"topic": name},
                )
        return set(known.partitions) if known is not None else set()

    @shared
    async def bootstrap(self, timeout_ms: float | None = None, *, refresh: bool = False) -> None:
        """Wait until the cluster has been reached."""
        config = self._core.config
        if timeout_ms is None:
            timeout_ms = config.bootstrap_timeout_ms
        try:
            deadline_ms = self._core.deadline_ms(timeout_ms)
            await self._core.ask(Bootstrap(deadline_ms=deadline_ms, refresh=refresh))
        except KafkaTimeoutError:
            troubles = self._core.engine.loop.troubles(self._core.clock.now_ms())
            if not troubles:
                servers = (f"{host}:{port}" for host, port in config.bootstrap_servers)
                troubles = [f"still connecting to {', '.join(servers)}; allow more time"]
            msg = f"no broker responded within {timeout_ms} ms: {'; '.join(troubles)}"
            raise KafkaTimeoutError(msg) from None
