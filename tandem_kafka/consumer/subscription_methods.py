"""The consumer's methods about what it reads: topics, patterns, partitions."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tandem_kafka.config import Config
from tandem_kafka.consumer.arguments import (
    check_partitions,
    check_regex,
    check_subscription,
    compile_pattern,
)
from tandem_kafka.consumer.closing import Closing
from tandem_kafka.consumer.collector import Collector
from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.listener import ListenerCalls, RebalanceListener, check_listener
from tandem_kafka.consumer.owned import Owned, steering
from tandem_kafka.events.application import Assign, Subscribe, SubscribePattern, SubscribeRegex
from tandem_kafka.shared.subscription import SubscriptionKind
from tandem_kafka.types import SubscriptionPattern, TopicPartition

__all__ = ["SubscriptionMethods"]


class SubscriptionMethods(Owned):
    """A part of `KafkaConsumer`."""

    _config: Config
    _listener: ListenerCalls
    _commits: Commits
    _collector: Collector
    _closing: Closing

    @steering
    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics, or to all that a pattern matches; the next poll joins the group.

        Replaces what was subscribed before, and the listener. Without a `group_id` every partition
        of the topics is assigned to this consumer, new ones too; nothing is committed.

        Args:
            topics: Names.
            pattern: Regular expression, a str or compiled; matched here, from the beginning of a
                name (`re.match`). Internal topics are left out unless
                `exclude_internal_topics=False`. A `SubscriptionPattern` is matched by the
                coordinator, against whole names (needs `group_protocol` "consumer" or "auto").
            listener: A `ConsumerRebalanceListener` or any object with its methods, which may be
                coroutines (kafka-python's `AsyncConsumerRebalanceListener`); called inside poll(),
                by the thread that polls.

        Raises:
            IllegalStateError: Partitions are assigned, or topics and a pattern would be mixed.
            NoGroupError: A `SubscriptionPattern` is given, and there is no `group_id`.
            InvalidArgumentError: There are neither topics nor a pattern, or one is not allowed.
            TypeError: Something is of a type that cannot be a topic, pattern or listener.
        """
        names = check_subscription(topics, pattern)
        check_listener(listener)
        deadline_ms = self._core.deadline_ms(None)
        subscription = self._core.engine.subscription
        if isinstance(pattern, SubscriptionPattern):
            self._subscribe_regex(pattern, deadline_ms)
        elif pattern is not None:
            compiled = compile_pattern(pattern)
            subscription.check_kind(SubscriptionKind.PATTERN)
            self._core.ask(SubscribePattern(deadline_ms=deadline_ms, pattern=compiled))
        else:
            subscription.check_kind(SubscriptionKind.TOPICS)
            self._core.ask(Subscribe(deadline_ms=deadline_ms, topics=names))
        self._listener.listener = listener

    def _subscribe_regex(self, pattern: SubscriptionPattern, deadline_ms: int) -> None:
        self._core.require_group()
        regex = check_regex(pattern, self._config.group_protocol)
        self._core.engine.subscription.check_kind(SubscriptionKind.REGEX)
        self._core.ask(SubscribeRegex(deadline_ms=deadline_ms, regex=regex))

    @steering
    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, without a group's say; those assigned before keep their state.

        No partitions at all means `unsubscribe()`. With auto-commit on, what was handed out is
        committed first.

        Raises:
            IllegalStateError: Topics or a pattern are subscribed.
            TypeError, InvalidArgumentError: Something is not a TopicPartition.
        """
        chosen = check_partitions(partitions)
        if not chosen:
            self._unsubscribe()
            return
        self._core.engine.subscription.check_kind(SubscriptionKind.USER_ASSIGNED)
        self._commits.auto_commit(self._core.clock.now_ms(), due=False)
        self._core.ask(Assign(deadline_ms=self._core.deadline_ms(None), partitions=chosen))
        self._collector.purge()

    @steering
    def unsubscribe(self) -> None:
        """Give partitions back, leave the group, and drop subscription or assignment."""
        self._unsubscribe()

    def _unsubscribe(self) -> None:
        try:
            self._closing.unsubscribe()
        finally:
            self._collector.purge()

    def subscription(self) -> set[str] | None:
        """Return the topics subscribed to (or matched), None when there is no subscription.

        Any thread may ask, also after close(); `assignment()` likewise.
        """
        self._core.check_readable()
        subscription = self._core.engine.subscription
        return set(subscription.topics) if subscription.auto_assigned else None

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions assigned now."""
        self._core.check_readable()
        return set(self._core.engine.subscription.assigned)
