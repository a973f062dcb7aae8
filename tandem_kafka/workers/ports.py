"""What the workers need of a consumer, and how both kinds of consumers provide it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tandem_kafka import AsyncKafkaConsumer, ConsumerRecords, KafkaConsumer
from tandem_kafka.errors import KafkaError, WakeupError
from tandem_kafka.types import OffsetAndMetadata, Offsets, TopicPartition

Done = Callable[[Exception | None], None]


async def result_of(call: Any) -> Any:
    """Return what a method of a consumer returns: at once if it blocks, or when awaited."""
    return await call if inspect.isawaitable(call) else call


class ConsumerPort:
    """The calls of a consumer. Those that wait are coroutines; a wakeup ends only `poll`.

    With a `KafkaConsumer`, the coroutines block their thread and never suspend.
    """

    def __init__(self, consumer: KafkaConsumer[Any, Any] | AsyncKafkaConsumer[Any, Any]) -> None:
        self._consumer: Any = consumer
        self.assignment = consumer.assignment
        self.subscription = consumer.subscription
        #: Continues a partition at an offset, unless it belongs to a deleted topic.
        self.seek = consumer.seek
        #: Lets the next `poll` return the `starts` of partitions, known or not.
        self.tell_starts_again = consumer._tell_starts_again  # noqa: SLF001 - not public
        #: Returns the present id of a topic, `NO_TOPIC_ID` if it is unknown.
        self.topic_id = consumer._topic_id_now  # noqa: SLF001 - not public
        #: Replaces the listener of the subscription.
        self.listen = consumer._listen  # noqa: SLF001 - not public
        self._polling = self._wakeup_requested = False

    def wakeup(self) -> None:
        """End the present or the next `poll`; for any thread or signal handler.

        Invariant: outside of `poll`, the consumer is not woken up. The wakeup would end another
        call, perhaps one of a handler.
        """
        self._wakeup_requested = True
        if self._polling:
            self._consumer.wakeup()

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop returning records of partitions; pauses of the application are apart from it."""
        self._consumer._pause_for_workers(partitions, paused=True)  # noqa: SLF001 - not public

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of partitions again, unless the application has paused them."""
        self._consumer._pause_for_workers(partitions, paused=False)  # noqa: SLF001 - not public

    async def poll(self, timeout_ms: float, max_records: int) -> ConsumerRecords[Any, Any]:
        """Return records; empty after the timeout or `wakeup`."""
        self._polling = True  # first: a wakeup after the check below must reach the consumer
        try:
            if self._wakeup_requested:
                timeout_ms = 0
            polled: ConsumerRecords[Any, Any] = await result_of(
                self._consumer.poll(timeout_ms, max_records)
            )
        except WakeupError:
            polled = ConsumerRecords()
        finally:
            self._polling = self._wakeup_requested = False
        return polled

    async def subscribe(self, pattern: Any, listener: Any) -> None:
        """Subscribe to a pattern."""
        await result_of(self._consumer.subscribe(pattern=pattern, listener=listener))

    async def begin_commit(self, offsets: Offsets, done: Done) -> None:
        """Commit without waiting longer than needed; call `done` with the outcome."""
        raise NotImplementedError

    async def commit(self, offsets: Offsets, timeout_ms: float) -> None:
        """Commit and wait."""
        await self._unwoken(lambda: self._consumer.commit(offsets, timeout_ms))

    async def committed(self, tp: TopicPartition, timeout_ms: float) -> OffsetAndMetadata | None:
        """Return the committed offset with its metadata."""
        found: OffsetAndMetadata | None = await self._unwoken(
            lambda: self._consumer.committed(tp, metadata=True, timeout_ms=timeout_ms)
        )
        return found

    async def end_offset(self, tp: TopicPartition, timeout_ms: float) -> int:
        """Return the end of a partition."""
        ends = await self._unwoken(lambda: self._consumer.end_offsets([tp], timeout_ms))
        return int(ends[tp])

    async def end(self) -> None:
        """Consume a wakeup that came too late for its `poll`: it must not end a later call."""
        for tp in sorted(self.assignment()):
            with suppress(KafkaError):
                await result_of(self._consumer.position(tp, timeout_ms=0))
            return

    async def _unwoken(self, call: Callable[[], Any]) -> Any:
        """Make a call again after a wakeup, which was meant for `poll`."""
        while True:
            with suppress(WakeupError):
                return await result_of(call())


class BlockingPort(ConsumerPort):
    """A `KafkaConsumer`."""

    async def begin_commit(self, offsets: Offsets, done: Done) -> None:
        """Send a commit; `done` is called by a later call of the consumer."""
        self._consumer.commit_async(offsets, lambda _offsets, error: done(error))
