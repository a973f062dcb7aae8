"""The methods that wait for a broker, as coroutines: written once, for both share consumers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from tandem_kafka.consumer.arguments import check_topics
from tandem_kafka.consumer.concurrent_calls import WithCore, any_thread, suspends_poll
from tandem_kafka.consumer.methods.cluster_methods import ClusterMethods
from tandem_kafka.consumer.share.parts import ShareParts
from tandem_kafka.errors import KafkaError
from tandem_kafka.events.application import Subscribe
from tandem_kafka.types import TopicPartition


class AwaitableShareMethods(WithCore):
    """A part of ``AsyncShareConsumer``; ``ShareConsumer`` has the same methods, which block.

    Invariant: a method uses none of its own class through ``self``; see `AwaitableMethods`.
    """

    _parts: ShareParts

    async def _begin(self, parts: ShareParts, topics: Sequence[str]) -> None:
        """Wait for the first contact with the cluster, and subscribe; see `Parts.begin`."""
        self._parts = parts
        self._core = parts.core
        subscribe = partial(AwaitableShareMethods.subscribe, self, topics) if topics else None
        await parts.begin(subscribe, partial(parts.closing.close, timeout_ms=0, clean=False))

    @any_thread
    async def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics in place of those before. Takes effect with the next poll().

        Raises:
            InvalidArgumentError: A name is not valid.
        """
        deadline_ms = self._core.deadline_ms(None)
        await self._core.ask(Subscribe(deadline_ms=deadline_ms, topics=check_topics(topics)))

    @any_thread
    async def unsubscribe(self) -> None:
        """End the subscription, release records that were not handed out, and leave the group."""
        await self._parts.closing.unsubscribe()

    async def commit(
        self, timeout_ms: float | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Send all acknowledgements made so far, and wait for the brokers' answers.

        With implicit acknowledgement, records are accepted by the next poll(), not by this.

        Args:
            timeout_ms: Time limit in milliseconds, ``default_api_timeout_ms`` by default.

        Returns:
            Each partition with acknowledgements since the last call: None if the brokers have
            stored all of them, or the error of those that failed, whose records are delivered
            again. ``renew()`` counts too; automatic renewals do not.

        Raises:
            KafkaTimeoutError: Not all brokers answered in time.
            WakeupError: ``wakeup()`` was called.
        """
        return await self._parts.commits.commit(timeout_ms)

    @suspends_poll
    async def release_all(self) -> None:
        """Release all records without an acknowledgement, for an application that pauses.

        With implicit acknowledgement, these are those of the last call, which the next one would
        accept. Nothing is locked for this consumer until it asks for the next record.
        """
        self._parts.handing.release_all()

    client_instance_id = ClusterMethods.client_instance_id
