"""How `AsyncKafkaConsumer` provides what the workers need of a consumer."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from tandem_kafka import AsyncKafkaConsumer
from tandem_kafka.errors import KafkaError
from tandem_kafka.types import Offsets
from tandem_kafka.workers.ports import ConsumerPort, Done

#: How long a commit in the background is retried. The next one contains what it has not committed.
COMMIT_MS = 5_000


class AsyncPort(ConsumerPort):
    """An `AsyncKafkaConsumer`. Commits in the background belong to a task of `run()`, `serve`.

    Commits are sent one at a time. A retried commit could otherwise overtake a newer one.
    """

    def __init__(self, consumer: AsyncKafkaConsumer[Any, Any]) -> None:
        super().__init__(consumer)
        self._committing = asyncio.Lock()
        self._requested: deque[tuple[Offsets, Done]] = deque()
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

    async def begin_commit(self, offsets: Offsets, done: Done) -> None:
        """Let `serve` send a commit."""
        self._requested.append((offsets, done))
        self._news.set()

    async def commit(self, offsets: Offsets, timeout_ms: float) -> None:
        """Commit and wait."""
        async with self._committing:
            await super().commit(offsets, timeout_ms)
