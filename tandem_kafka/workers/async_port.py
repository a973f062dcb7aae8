"""How `AsyncKafkaConsumer` provides what the workers need of a consumer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tandem_kafka import ConsumerRecords
from tandem_kafka.aio import AsyncKafkaConsumer
from tandem_kafka.errors import KafkaError, WakeupError
from tandem_kafka.types import OffsetAndMetadata, Offsets, TopicPartition
from tandem_kafka.workers.ports import PlainPort

#: How long a commit in the background is retried. The next one contains what it has not committed.
COMMIT_MS = 5_000

_Done = Callable[[Exception | None], None]


class AsyncPort(PlainPort):
    """An `AsyncKafkaConsumer`. Commits in the background belong to a task of `run()`, `serve`.

    Commits are sent one at a time. A retried commit could otherwise overtake a newer one.
    """

    def __init__(self, consumer: AsyncKafkaConsumer[Any, Any]) -> None:
        super().__init__(consumer)
        self._consumer = consumer
        self._committing = asyncio.Lock()
        self._requested: deque[tuple[Offsets, _Done]] = deque()
        self._news = asyncio.Event()

    async def serve(self) -> None:
        """Send the commits of `begin_commit`, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._requested:
                offsets, done = self._requested.popleft()
                error: Exception | None = None
                try:
                    await self.commit(offsets, COMMIT_MS)
                except KafkaError as raised:
                    error = raised
                done(error)

    async def poll(self, timeout_ms: float, max_records: int) -> ConsumerRecords[Any, Any]:
        """Return records; empty after the timeout or `wakeup`."""
        self._polling = True  # first: a wakeup after the check below must reach the consumer
        try:
            if self._wakeup_requested:
                timeout_ms = 0
            return await self._consumer.poll(timeout_ms, max_records)
        except WakeupError:
            return ConsumerRecords()
        finally:
            self._polling = self._wakeup_requested = False

    async def subscribe(self, topics: set[str], pattern: Any, listener: Any) -> None:
        """Subscribe to topics or a pattern."""
        await self._consumer.subscribe(topics, pattern, listener)

    async def begin_commit(self, offsets: Offsets, done: _Done) -> None:
        """Let `serve` send a commit."""
        self._requested.append((offsets, done))
        self._news.set()

    async def commit(self, offsets: Offsets, timeout_ms: float) -> None:
        """Commit and wait."""
        async with self._committing:
            while True:
                with suppress(WakeupError):  # it was meant for `poll`
                    await self._consumer.commit(offsets, timeout_ms)
                    return

    async def committed(self, tp: TopicPartition, timeout_ms: float) -> OffsetAndMetadata | None:
        """Return the committed offset with its metadata."""
        while True:
            with suppress(WakeupError):
                return await self._consumer.committed(tp, metadata=True, timeout_ms=timeout_ms)

    async def end_offset(self, tp: TopicPartition, timeout_ms: float) -> int:
        """Return the end of a partition."""
        while True:
            with suppress(WakeupError):
                return (await self._consumer.end_offsets([tp], timeout_ms))[tp]

    async def end(self) -> None:
        """Consume a wakeup that came too late for its `poll`: it must not end a later call."""
        for tp in sorted(self._consumer.assignment()):
            with suppress(KafkaError):
                await self._consumer.position(tp, timeout_ms=0)
            return
