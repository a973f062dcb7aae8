"""Applications that read in one task of an event loop, one for each client and way of reading."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from benchmarks.aio.clients import open_aiokafka, open_confluent, open_tandem
from benchmarks.readers.base import Source

__all__ = ["APPLICATIONS", "Application"]

#: Records of a batch: the default of `batches()`, and a size that suits confluent-kafka.
_DEFAULT_BATCH, _LARGE_BATCH = 500, 5_000
_WAIT_S: Final = 1.0

Values = list[bytes]
#: Returns the values of the next records.
Turn = Callable[[], Awaitable[Values]]


def _batches(max_records: int, consumer: Any) -> Turn:
    batches = consumer.batches(max_records=max_records)

    async def turn() -> Values:
        batch = await anext(batches)
        return [record.value for records in batch.values() for record in records]

    return turn


def _poll(consumer: Any) -> Turn:
    async def turn() -> Values:
        batch = await consumer.poll(_WAIT_S * 1000)
        return [record.value for records in batch.values() for record in records]

    return turn


def _getmany(consumer: Any) -> Turn:
    async def turn() -> Values:
        batch = await consumer.getmany(timeout_ms=int(_WAIT_S * 1000))
        return [record.value for records in batch.values() for record in records]

    return turn


def _poll_one(consumer: Any) -> Turn:
    async def turn() -> Values:
        message = await consumer.poll(_WAIT_S)
        return [] if message is None else [message.value()]

    return turn


def _consume(consumer: Any) -> Turn:
    async def turn() -> Values:
        return [message.value() for message in await consumer.consume(_LARGE_BATCH, _WAIT_S)]

    return turn


@dataclass(frozen=True, slots=True)
class Application:
    """One client and one way of reading.

    Attributes:
        title: The name in results.
        open: Returns the consumer of a topic, to be entered.
        turns: Makes the function that returns the next values; None for `async for`.
        share: The part of the records to read, if all of them would take minutes.

    """

    title: str
    open: Callable[[Source], AbstractAsyncContextManager[Any]]
    turns: Callable[[Any], Turn] | None = None
    share: float = 1.0


_open_tuned: Final = partial(open_confluent, tuned=True)

#: By names that end with the measures they take part in.
APPLICATIONS: Final[Mapping[str, Application]] = {
    "aio-tandem-each": Application("tandem-kafka: async for", open_tandem),
    "aio-aiokafka-each": Application("aiokafka: async for", open_aiokafka, share=0.1),
    "aio-confluent-each": Application("AIOConsumer: poll()", open_confluent, _poll_one, share=0.01),
    "aio-tuned-each": Application("AIOConsumer, tuned: poll()", _open_tuned, _poll_one, share=0.02),
    "aio-tandem-batches": Application(
        "tandem-kafka: batches()", open_tandem, partial(_batches, _DEFAULT_BATCH)
    ),
    "aio-tandem-large-batches": Application(
        "tandem-kafka: batches(max_records=5000)", open_tandem, partial(_batches, _LARGE_BATCH)
    ),
    "aio-aiokafka-batches": Application("aiokafka: getmany()", open_aiokafka, _getmany, share=0.25),
    "aio-confluent-batches": Application(
        "AIOConsumer: consume(5000)", open_confluent, _consume, share=0.15
    ),
    "aio-tuned-batches": Application("AIOConsumer, tuned: consume(5000)", _open_tuned, _consume),
    "aio-tandem-latency": Application("tandem-kafka: async for", open_tandem),
    "aio-tandem-poll-latency": Application("tandem-kafka: poll()", open_tandem, _poll),
    "aio-aiokafka-latency": Application("aiokafka: async for", open_aiokafka),
    "aio-aiokafka-getmany-latency": Application("aiokafka: getmany()", open_aiokafka, _getmany),
    "aio-confluent-latency": Application("AIOConsumer: poll()", open_confluent, _poll_one),
    "aio-tuned-latency": Application("AIOConsumer, tuned: poll()", _open_tuned, _poll_one),
}
