"""The methods of the consumer that choose topics, patterns and partitions."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tandem_kafka.consumer.calls.subscriptions import SubscriptionCalls
from tandem_kafka.runtime.callers import run
from tandem_kafka.types import RebalanceListener, SubscriptionPattern, TopicPartition

__all__ = ["SubscriptionMethods"]


class SubscriptionMethods:
    """A part of ``KafkaConsumer``."""

    _subscriptions: SubscriptionCalls

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics, or to all topics that match a pattern. The next poll joins.

        This replaces the previous subscription and its listener. Without a ``group_id``, all
        partitions of the topics are assigned to this consumer, including partitions that are
        added later, and nothing is committed.

        Args:
            topics: Names of the topics.
            pattern: A regular expression, as a str or compiled. The client matches it against the
                beginning of each name (``re.match``). Internal topics do not match unless
                ``exclude_internal_topics`` is False. The coordinator matches a
                ``SubscriptionPattern`` against whole names (KIP-848; requires ``group_protocol``
                "consumer" or "auto").
            listener: A ``ConsumerRebalanceListener``, or any object with its methods. The methods
                may be coroutines, as in kafka-python's ``AsyncConsumerRebalanceListener``. They run
                inside poll(), on the thread that polls.

        Raises:
            IllegalStateError: The consumer already has another kind of subscription or
                assignment, or both topics and a pattern are given.
            NoGroupError: A ``SubscriptionPattern`` is given and the consumer has no ``group_id``.
            InvalidArgumentError: Neither topics nor a pattern is given, or one is invalid.
            UnsupportedVersionError: The group uses the classic protocol, which does not support
                ``SubscriptionPattern``.
            TypeError: An argument has the wrong type.
            KafkaTimeoutError: The listener or deserializer of a polling thread did not return
                within ``default_api_timeout_ms``.
        """
        run(self._subscriptions.subscribe(topics, pattern, listener))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign partitions manually, without group management.

        This replaces the previous assignment; partitions in both keep their positions. If
        auto-commit is on, the positions are committed first.

        Args:
            partitions: The partitions to read; if empty, this is ``unsubscribe()``.

        Raises:
            IllegalStateError: The consumer is subscribed to topics or a pattern.
            TypeError, InvalidArgumentError: ``partitions`` is not a collection of valid
                ``TopicPartition`` objects.
            KafkaTimeoutError: The listener or deserializer of a polling thread did not return
                within ``default_api_timeout_ms``.
        """
        run(self._subscriptions.assign(partitions))

    def unsubscribe(self) -> None:
        """Release all partitions, leave the group and end the subscription or assignment.

        If auto-commit is on, the positions are committed first.

        Raises:
            RebalanceCallbackError: The listener raised; all other steps were completed.
        """
        run(self._subscriptions.unsubscribe())
