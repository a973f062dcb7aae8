"""`AsyncShareConsumer`: `ShareConsumer` for asyncio."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

from tandem_kafka.config import sealed
from tandem_kafka.config.described import described
from tandem_kafka.consumer.aio.starting import Startable
from tandem_kafka.consumer.aio.streams import FedLoop, uncancelled
from tandem_kafka.consumer.aio.tasks import Tasks
from tandem_kafka.consumer.arguments import check_names
from tandem_kafka.consumer.parts import named_client
from tandem_kafka.consumer.reading.arrow_form import ArrowForm
from tandem_kafka.consumer.share.methods import AwaitableShareMethods, PlainShareMethods
from tandem_kafka.consumer.share.options import WITHOUT_MEANING, share_options
from tandem_kafka.consumer.share.parts import ShareParts
from tandem_kafka.consumer.share.record import ShareRecord, ShareRecords
from tandem_kafka.runtime import Runtime
from tandem_kafka.types import ArrowDecoder, KeyT, TopicPartition, ValueT

if TYPE_CHECKING:
    import pyarrow as pa


@described(WITHOUT_MEANING)
class AsyncShareConsumer(
    Startable, PlainShareMethods, AwaitableShareMethods, Generic[KeyT, ValueT]
):
    """A member of a share group for asyncio; see `tandem_kafka.ShareConsumer`.

    A cancelled call returns no record and accepts none. The network thread is the only thread.

    Args:
        *topics: Topics to subscribe to.
        acknowledgement: "implicit" or "explicit", as for ``ShareConsumer``.
        renew: "off" or "auto", as for ``ShareConsumer``.
        max_processing_ms: For how long "auto" renews the lock of a record, in milliseconds.
        **options: As for ``ShareConsumer``.

    Raises:
        KafkaConfigurationError: An option is unknown, has an invalid value, or has no meaning here.
        NoGroupError: There is no ``group_id``.
        InvalidArgumentError: One of the other arguments has an invalid value.

    Example::

        async with AsyncShareConsumer("jobs", group_id="resizers") as consumer:
            async for record in consumer:
                await resize(record.value)
    """

    _loop: FedLoop

    def __init__(
        self,
        *topics: str,
        acknowledgement: Literal["implicit", "explicit"] = "implicit",
        renew: Literal["off", "auto"] = "off",
        max_processing_ms: float = 600_000,
        **options: Any,
    ) -> None:
        options = sealed(options)
        check_names(topics)
        self._topics = topics
        config, self._how = share_options(options, acknowledgement, renew, max_processing_ms)
        self._config, self._written = named_client(config)

    async def _start(self, runtime: Runtime, tasks: Tasks, transport: Any) -> None:
        parts = ShareParts(self._config, runtime, tasks, self._how, transport)
        self._loop = FedLoop(parts.reading)
        await self._begin(parts, self._topics)

    async def poll(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, ShareRecords[KeyT, ValueT]]:
        """Return records as soon as there are any; as ``ShareConsumer.poll()``."""
        parts = self._parts
        given = await uncancelled(lambda: parts.reading.poll(timeout_ms, max_records))
        batch = self._batch_of(given)
        parts.handing.given = given  # nothing is awaited between this and the return
        return batch

    async def poll_arrow(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        binary_view: bool = False,
        key: ArrowDecoder | None = None,
        value: ArrowDecoder | None = None,
    ) -> pa.RecordBatch:
        """Return records as an Arrow record batch; as ``ShareConsumer.poll_arrow()``."""
        parts, form = self._parts, ArrowForm(columns, binary_view, key, value)
        batch, given = await uncancelled(
            lambda: parts.reading.poll_arrow(timeout_ms, max_records, form)
        )
        parts.handing.given = given  # as in poll()
        return batch

    def __aiter__(self) -> Self:
        """Return this consumer."""
        return self

    async def __anext__(self) -> ShareRecord[KeyT, ValueT]:
        """Return the next record; wait for it.

        Raises:
            StopAsyncIteration: The consumer was closed, or no record came in
                ``consumer_timeout_ms``.
            KafkaError: As for ``poll()``.
        """
        reading, loop = self._parts.reading, self._loop
        record: Any = next(loop, None)
        while record is None:
            if not await uncancelled(lambda: reading.find_feed(loop.follow, self._iterated)):
                raise StopAsyncIteration
            record = next(loop, None)
        found: ShareRecord[KeyT, ValueT] = record
        return found

    def __del__(self) -> None:
        """Warn that the consumer was never closed, and stop its thread."""
        super().__del__()
        if (parts := self.__dict__.get("_parts")) is not None:
            parts.handing.end_feed()  # as in ShareConsumer

    async def close(self, timeout_ms: float | None = None) -> None:
        """Send all acknowledgements, release all other records, and leave the group.

        A cancellation does not interrupt this; it is raised at the end. This waits for brokers for
        one more second at most.

        Args:
            timeout_ms: As for ``ShareConsumer.close()``.
        """
        await self._close(timeout_ms, clean=True)

    async def _close(self, timeout_ms: float | None, *, clean: bool) -> None:
        if self._ready_to_close():
            close = self._parts.closing.close(timeout_ms=timeout_ms, clean=clean)
            await self._core.callers.shield(close)

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the consumer; after an exception, release what was not done."""
        await self._close(None, clean=exc_type is None)
