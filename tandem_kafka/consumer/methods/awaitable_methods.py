"""The methods that wait for a broker, as coroutines: written once, for both consumers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tandem_kafka.consumer.concurrent_calls import part_of_consumers
from tandem_kafka.consumer.methods.cluster_methods import ClusterMethods
from tandem_kafka.consumer.methods.offset_methods import OffsetMethods
from tandem_kafka.consumer.methods.subscription_methods import SubscriptionMethods
from tandem_kafka.consumer.parts import ConsumerParts
from tandem_kafka.consumer.reading.reading import Reading


@part_of_consumers
class AwaitableMethods(SubscriptionMethods, OffsetMethods, ClusterMethods):
    """A part of ``AsyncKafkaConsumer``; ``KafkaConsumer`` has the same methods, which block.

    With asyncio, any call can be cancelled. Its request may still reach the broker, but is not
    sent again.

    Invariant: a method uses none of its own class through ``self``, which may be a
    ``KafkaConsumer``: the same name blocks there.
    """

    _parts: ConsumerParts
    _reading: Reading

    async def _begin(self, parts: ConsumerParts, topics: Sequence[str]) -> None:
        """Wait for the first contact with the cluster, and subscribe; see `Parts.begin`."""
        self._parts = parts
        self._core = parts.core
        self._commits = parts.commits
        self._reading = parts.reading
        subscribe = partial(SubscriptionMethods.subscribe, self, topics) if topics else None
        close = partial(parts.closing.close, autocommit=False, timeout_ms=0)
        await parts.begin(subscribe, close)
