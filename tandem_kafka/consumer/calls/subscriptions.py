"""Choosing topics, patterns and partitions."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tandem_kafka.consumer.arguments import (
    check_partitions,
    check_regex,
    check_subscription,
    compile_pattern,
)
from tandem_kafka.consumer.closing import Closing
from tandem_kafka.consumer.collector import Collector
from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.listener import ListenerCalls, check_listener
from tandem_kafka.consumer.owned import Owned, steering
from tandem_kafka.events.application import Assign, Subscribe, SubscribePattern, SubscribeRegex
from tandem_kafka.shared.subscription import SubscriptionKind
from tandem_kafka.types import RebalanceListener, SubscriptionPattern, TopicPartition

__all__ = ["SubscriptionCalls"]


class SubscriptionCalls(Owned):
    """Documented in `SubscriptionMethods`.

    `subscribe` and `assign` wait without suspending: a cancellation in between would leave topics
    without their listener.
    """

    def __init__(
        self,
        core: Core,
        listener: ListenerCalls,
        commits: Commits,
        collector: Collector,
        closing: Closing,
    ) -> None:
        self._core = core
        self._listener = listener
        self._commits = commits
        self._collector = collector
        self._closing = closing

    @steering
    async def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics, or to all topics that match a pattern."""
        names = check_subscription(topics, pattern)
        check_listener(listener)
        deadline_ms = self._core.deadline_ms(None)
        subscription = self._core.engine.subscription
        if isinstance(pattern, SubscriptionPattern):
            self._subscribe_regex(pattern, deadline_ms)
        elif pattern is not None:
            compiled = compile_pattern(pattern)
            subscription.check_kind(SubscriptionKind.PATTERN)
            self._core.ask_now(SubscribePattern(deadline_ms=deadline_ms, pattern=compiled))
        else:
            subscription.check_kind(SubscriptionKind.TOPICS)
            self._core.ask_now(Subscribe(deadline_ms=deadline_ms, topics=names))
        self._listener.listener = listener

    def _subscribe_regex(self, pattern: SubscriptionPattern, deadline_ms: int) -> None:
        self._core.require_group()
        regex = check_regex(pattern, self._core.config.group_protocol)
        self._core.engine.subscription.check_kind(SubscriptionKind.REGEX)
        self._core.ask_now(SubscribeRegex(deadline_ms=deadline_ms, regex=regex))

    @steering
    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign partitions manually."""
        chosen = check_partitions(partitions)
        if not chosen:
            await self._unsubscribe()
            return
        self._core.engine.subscription.check_kind(SubscriptionKind.USER_ASSIGNED)
        self._commits.auto_commit(self._core.clock.now_ms(), due=False)
        self._core.ask_now(Assign(deadline_ms=self._core.deadline_ms(None), partitions=chosen))
        self._collector.purge()

    @steering
    async def unsubscribe(self) -> None:
        """End the subscription or assignment."""
        await self._unsubscribe()

    async def _unsubscribe(self) -> None:
        try:
            await self._core.callers.shield(self._closing.unsubscribe())
        finally:
            self._collector.purge()
