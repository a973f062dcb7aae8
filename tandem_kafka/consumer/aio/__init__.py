"""Kafka consumers for asyncio.

``AsyncKafkaConsumer`` is ``KafkaConsumer`` with awaitable methods. Its network thread keeps the
membership alive even while the event loop is blocked. A cancelled call returns no record and
moves no position. `tasks.py` is how its calls wait, and `streams.py` what `async for` iterates
over. ``AsyncShareConsumer`` is for share groups.
"""

from typing import TYPE_CHECKING, Any

from tandem_kafka.consumer.aio.consumer import AsyncKafkaConsumer
from tandem_kafka.consumer.aio.listener import AsyncRebalanceListener

if TYPE_CHECKING:
    from tandem_kafka.consumer.aio.share_consumer import AsyncShareConsumer

__all__ = ["AsyncKafkaConsumer", "AsyncRebalanceListener", "AsyncShareConsumer"]


def __getattr__(name: str) -> Any:
    if name != "AsyncShareConsumer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Few use it: a consumer imports only what it uses.
    from tandem_kafka.consumer.aio.share_consumer import AsyncShareConsumer  # noqa: PLC0415

    return AsyncShareConsumer
