"""The methods that choose topics, patterns and partitions."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tandem_kafka.config.external import check_listener
from tandem_kafka.consumer.arguments import (
    check_partitions,
    check_regex,
    check_subscription,
    compile_pattern,
)
from tandem_kafka.consumer.concurrent_calls import WithCore, part_of_consumers, suspends_poll
from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.parts import ConsumerParts
from tandem_kafka.events.application import Assign, Subscribe, SubscribePattern, SubscribeRegex
from tandem_kafka.state.subscription import SubscriptionKind
from tandem_kafka.types import RebalanceListener, SubscriptionPattern, TopicPartition


@part_of_consumers
class SubscriptionMethods(WithCore):
    """A part of both consumers.

    `subscribe` and `assign` wait without suspending: a cancellation in between would leave topics
    without their listener.
    """

    _parts: ConsumerParts

    @suspends_poll
    async def subscribe(
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
        names = check_subscription(topics, pattern)
        check_listener(listener)
        deadline_ms = self._core.deadline_ms(None)
        subscription = self._core.engine.subscription
        if isinstance(pattern, SubscriptionPattern):
            _subscribe_regex(self._core, pattern, deadline_ms)
        elif pattern is not None:
            compiled = compile_pattern(pattern)
            subscription.check_kind(SubscriptionKind.PATTERN)
            self._core.ask_now(SubscribePattern(deadline_ms=deadline_ms, pattern=compiled))
        else:
            subscription.check_kind(SubscriptionKind.TOPICS)
            self._core.ask_now(Subscribe(deadline_ms=deadline_ms, topics=names))
        self._parts.listener.listener = listener

    @suspends_poll
    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
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
        chosen = check_partitions(partitions)
        if not chosen:
            await _unsubscribe(self._parts)
            return
        self._core.engine.subscription.check_kind(SubscriptionKind.USER_ASSIGNED)
        self._parts.commits.auto_commit(self._core.clock.now_ms(), due=False)
        self._core.ask_now(Assign(deadline_ms=self._core.deadline_ms(None), partitions=chosen))
        self._parts.collector.purge()

    @suspends_poll
    async def unsubscribe(self) -> None:
        """Release all partitions, leave the group and end the subscription or assignment.

        If auto-commit is on, the positions are committed first. With asyncio, a cancellation while
        this waits for another task's ``poll()`` changes nothing. A later one is raised at the end;
        brokers are then waited for one more second at most.

        Raises:
            RebalanceCallbackError: The listener raised; all other steps were completed.
        """
        await _unsubscribe(self._parts)


def _subscribe_regex(core: Core, pattern: SubscriptionPattern, deadline_ms: int) -> None:
    core.require_group()
    regex = check_regex(pattern, core.config.group_protocol)
    core.engine.subscription.check_kind(SubscriptionKind.REGEX)
    core.ask_now(SubscribeRegex(deadline_ms=deadline_ms, regex=regex))


async def _unsubscribe(parts: ConsumerParts) -> None:
    try:
        await parts.core.callers.shield(parts.closing.unsubscribe())
    finally:
        parts.collector.purge()
