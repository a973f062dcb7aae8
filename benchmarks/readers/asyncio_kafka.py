"""aiokafka; its event loop runs only while the next records are awaited."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, TopicPartition

from benchmarks.readers.base import Source

__all__ = ["AsyncioKafka"]


class AsyncioKafka:
    """`getmany()` without a limit, with the default options."""

    def __init__(self, source: Source) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._open(source))

    async def _open(self, source: Source) -> None:
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=source.bootstrap, enable_auto_commit=False
        )
        await self._consumer.start()
        partitions = [TopicPartition(source.topic, number) for number in range(source.partitions)]
        self._consumer.assign(partitions)
        if source.from_end:
            await self._consumer.seek_to_end(*partitions)
        else:
            await self._consumer.seek_to_beginning(*partitions)

    def values(self, timeout_s: float) -> list[bytes]:
        """Get once."""
        batches = self._loop.run_until_complete(
            self._consumer.getmany(timeout_ms=int(timeout_s * 1000))
        )
        return [record.value for records in batches.values() for record in records]

    def close(self) -> None:
        """Close the client and its loop."""
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()
