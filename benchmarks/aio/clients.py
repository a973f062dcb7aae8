"""The clients, each opened at the beginning or the end of a topic, without a group.

A client that starts at the end is connected and knows its position once it is open.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.readers.base import Source

__all__ = ["open_aiokafka", "open_confluent", "open_tandem"]

_CONNECT_S = 1.0


@asynccontextmanager
async def open_tandem(source: Source) -> AsyncIterator[Any]:
    """`AsyncKafkaConsumer`."""
    from tandem_kafka import AsyncKafkaConsumer, TopicPartition

    consumer = AsyncKafkaConsumer(bootstrap_servers=source.bootstrap, enable_auto_commit=False)
    async with consumer:
        partitions = [TopicPartition(source.topic, number) for number in range(source.partitions)]
        await consumer.assign(partitions)
        if source.from_end:
            await consumer.seek_to_end(*partitions)
            await consumer.poll(_CONNECT_S * 1000)
        else:
            await consumer.seek_to_beginning(*partitions)
        yield consumer


@asynccontextmanager
async def open_aiokafka(source: Source) -> AsyncIterator[Any]:
    """`AIOKafkaConsumer`."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=source.bootstrap, enable_auto_commit=False)
    async with consumer:
        partitions = [TopicPartition(source.topic, number) for number in range(source.partitions)]
        consumer.assign(partitions)
        if source.from_end:
            await consumer.seek_to_end(*partitions)
            await consumer.getmany(timeout_ms=int(_CONNECT_S * 1000))
        else:
            await consumer.seek_to_beginning(*partitions)
        yield consumer


@asynccontextmanager
async def open_confluent(source: Source, *, tuned: bool = False) -> AsyncIterator[Any]:
    """`AIOConsumer`, with its defaults or tuned for throughput."""
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition
    from confluent_kafka.aio import AIOConsumer

    from benchmarks.readers.confluent import FOR_THROUGHPUT

    required = {"bootstrap.servers": source.bootstrap, "group.id": "unused"}
    options = FOR_THROUGHPUT if tuned else {}
    consumer = AIOConsumer({**required, "enable.auto.commit": False, **options})
    async with consumer:
        start = OFFSET_END if source.from_end else OFFSET_BEGINNING
        partitions = range(source.partitions)
        await consumer.assign([TopicPartition(source.topic, each, start) for each in partitions])
        if source.from_end:
            await consumer.poll(_CONNECT_S)
        yield consumer
