"""What the workers need of a consumer, and how `KafkaConsumer` provides it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Protocol, TypeVar
from uuid import UUID

from tandem_kafka import ConsumerRecords, KafkaConsumer
from tandem_kafka.aio import AsyncKafkaConsumer
from tandem_kafka.errors import KafkaError, WakeupError
from tandem_kafka.types import OffsetAndMetadata, OffsetOfTopic, Offsets, TopicPartition

T = TypeVar("T")


class ConsumerPort(Protocol):
    """The calls of a consumer. Those that wait are coroutines; a wakeup ends only `poll`."""

    async def poll(self, timeout_ms: float, max_records: int) -> ConsumerRecords[Any, Any]:
        """Return records; empty after the timeout or `wakeup`."""
        ...

    async def subscribe(self, topics: set[str], pattern: Any, listener: Any) -> None:
        """Subscribe to topics or a pattern."""
        ...

    async def begin_commit(
        self, offsets: Offsets, done: Callable[[Exception | None], None]
    ) -> None:
        """Commit without waiting longer than needed; call `done` with the outcome."""
        ...

    async def commit(self, offsets: Offsets, timeout_ms: float) -> None:
        """Commit and wait."""
        ...

    async def committed(self, tp: TopicPartition, timeout_ms: float) -> OffsetAndMetadata | None:
        """Return the committed offset with its metadata."""
        ...

    async def end_offset(self, tp: TopicPartition, timeout_ms: float) -> int:
        """Return the end of a partition."""
        ...

    def seek(self, tp: TopicPartition, offset: OffsetOfTopic) -> None:
        """Continue a partition at an offset, unless it belongs to a deleted topic."""
        ...

    def tell_starts_again(self, partitions: Iterable[TopicPartition]) -> None:
        """Let the next `poll` return the `starts` of partitions, known or not."""
        ...

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop returning records of partitions; pauses of the application are apart from it."""
        ...

    def resume(self, *partitions: TopicPartition) -> None:
        """End such a pause."""
        ...

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions."""
        ...

    def subscription(self) -> set[str] | None:
        """Return the subscribed topics, None without a subscription."""
        ...

    def topic_id(self, topic: str) -> UUID:
        """Return the present id of a topic, `NO_TOPIC_ID` if it is unknown."""
        ...

    def wakeup(self) -> None:
        """End the present or the next `poll`; for any thread or signal handler."""
        ...

    async def end(self) -> None:
        """Consume a pending wakeup."""
        ...


class PlainPort:
    """The calls that are alike for both kinds of consumers: none of them waits for a broker."""

    def __init__(self, consumer: KafkaConsumer[Any, Any] | AsyncKafkaConsumer[Any, Any]) -> None:
        self._plain = consumer
        self.assignment = consumer.assignment
        self.subscription = consumer.subscription
        self._polling = self._wakeup_requested = False

    def wakeup(self) -> None:
        """End the present or the next `poll`.

        Invariant: outside of `poll`, the consumer is not woken up. The wakeup would end another
        call, perhaps one of a handler.
        """
        self._wakeup_requested = True
        if self._polling:
            self._plain.wakeup()

    def seek(self, tp: TopicPartition, offset: OffsetOfTopic) -> None:
        """Continue a partition at an offset, unless it belongs to a deleted topic."""
        self._plain.seek(tp, offset)

    def tell_starts_again(self, partitions: Iterable[TopicPartition]) -> None:
        """Let the next `poll` return the `starts` of partitions, known or not."""
        self._plain._tell_starts_again(partitions)  # noqa: SLF001 - not public

    def topic_id(self, topic: str) -> UUID:
        """Return the present id of a topic, `NO_TOPIC_ID` if it is unknown."""
        return self._plain._topic_id_now(topic)  # noqa: SLF001 - not public

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop returning records of partitions."""
        self._plain._pause_for_workers(partitions, paused=True)  # noqa: SLF001 - not public

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of partitions again, unless the application has paused them."""
        self._plain._pause_for_workers(partitions, paused=False)  # noqa: SLF001 - not public


class BlockingPort(PlainPort):
    """A `KafkaConsumer`: the coroutines block their thread and never suspend."""

    def __init__(self, consumer: KafkaConsumer[Any, Any]) -> None:
        super().__init__(consumer)
        self._consumer = consumer

    async def poll(self, timeout_ms: float, max_records: int) -> ConsumerRecords[Any, Any]:
        """Return records; empty after the timeout or `wakeup`."""
        self._polling = True  # first: a wakeup after the check below must reach the consumer
        try:
            if self._wakeup_requested:
                timeout_ms = 0
            return self._consumer.poll(timeout_ms, max_records)
        except WakeupError:
            return ConsumerRecords()
        finally:
            self._polling = self._wakeup_requested = False

    async def end(self) -> None:
        """Consume a wakeup that came too late for its `poll`: it must not end a later call."""
        for tp in sorted(self._consumer.assignment()):
            with suppress(KafkaError):
                self._consumer.position(tp, timeout_ms=0)
            return

    async def subscribe(self, topics: set[str], pattern: Any, listener: Any) -> None:
        """Subscribe to topics or a pattern."""
        self._consumer.subscribe(topics, pattern, listener)

    async def begin_commit(
        self, offsets: Offsets, done: Callable[[Exception | None], None]
    ) -> None:
        """Send a commit; `done` is called by a later call of the consumer."""
        self._consumer.commit_async(offsets, lambda _offsets, error: done(error))

    async def commit(self, offsets: Offsets, timeout_ms: float) -> None:
        """Commit and wait."""
        self._unwoken(lambda: self._consumer.commit(offsets, timeout_ms))

    async def committed(self, tp: TopicPartition, timeout_ms: float) -> OffsetAndMetadata | None:
        """Return the committed offset with its metadata."""
        return self._unwoken(
            lambda: self._consumer.committed(tp, metadata=True, timeout_ms=timeout_ms)
        )

    async def end_offset(self, tp: TopicPartition, timeout_ms: float) -> int:
        """Return the end of a partition."""
        return self._unwoken(lambda: self._consumer.end_offsets([tp], timeout_ms))[tp]

    def _unwoken(self, call: Callable[[], T]) -> T:
        """Make a call again after a wakeup, which was meant for `poll`."""
        while True:
            try:
                return call()
            except WakeupError:
                continue
