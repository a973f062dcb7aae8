"""`AsyncKafkaConsumer`, the public API for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, overload

from typing_extensions import Unpack

from tandem_kafka.config import Config, ConsumerOptions, PlainOptions, sealed
from tandem_kafka.config.described import described
from tandem_kafka.consumer.aio.starting import Startable
from tandem_kafka.consumer.aio.streams import FedLoop, Stream, usually
from tandem_kafka.consumer.aio.tasks import Tasks
from tandem_kafka.consumer.arguments import check_limit, check_names, check_wait
from tandem_kafka.consumer.methods.awaitable_methods import AwaitableMethods
from tandem_kafka.consumer.methods.plain_methods import PlainMethods
from tandem_kafka.consumer.parts import ConsumerParts, named_client
from tandem_kafka.consumer.reading.arrow_form import ArrowForm
from tandem_kafka.consumer.reading.reading import ENDLESS_MS
from tandem_kafka.consumer.reading.records import ConsumerRecords
from tandem_kafka.runtime import Runtime
from tandem_kafka.types import ArrowDecoder, ConsumerRecord, KeyT, ValueT

if TYPE_CHECKING:
    import pyarrow as pa

    from tandem_kafka.config.typed import Deserializes


_BATCH_RECORDS = 500


@described()
class AsyncKafkaConsumer(Startable, PlainMethods, AwaitableMethods, Generic[KeyT, ValueT]):
    """Reads records from a Kafka cluster, in tasks of one asyncio event loop.

    It has the same network thread as ``KafkaConsumer``: a blocked event loop does not cost the
    membership. Deserializers, listeners and callbacks run on the event loop. Only one task at a
    time may poll or iterate; any task may call the other methods meanwhile. Cancel any call at any
    time: a cancelled call returns no record and moves no position. Use it as a context manager::

        async with AsyncKafkaConsumer("orders", group_id="billing") as consumer:
            async for record in consumer:
                ...

    The constructor does no input or output.

    Args:
        *topics: Topics to subscribe to.
        **options: See ``ConsumerOptions``; the same as for ``KafkaConsumer``.

    Raises:
        KafkaConfigurationError: An option is unknown or has an invalid value.
        InvalidGroupIdError: ``group_id`` is blank.
        TypeError, InvalidTopicError: A topic is not a str or not a valid name.
    """

    _loop: FedLoop

    # The types of keys and values are those that the deserializers return.
    @overload
    def __init__(
        self: AsyncKafkaConsumer[bytes | None, bytes | None],
        *topics: str,
        key_deserializer: None = None,
        value_deserializer: None = None,
        **options: Unpack[PlainOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: AsyncKafkaConsumer[bytes | None, ValueT],
        *topics: str,
        key_deserializer: None = None,
        value_deserializer: Deserializes[ValueT],
        **options: Unpack[PlainOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: AsyncKafkaConsumer[KeyT, bytes | None],
        *topics: str,
        key_deserializer: Deserializes[KeyT],
        value_deserializer: None = None,
        **options: Unpack[PlainOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: AsyncKafkaConsumer[KeyT, ValueT],
        *topics: str,
        key_deserializer: Deserializes[KeyT],
        value_deserializer: Deserializes[ValueT],
        **options: Unpack[PlainOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: AsyncKafkaConsumer[Any, Any], *topics: str, **options: Unpack[ConsumerOptions]
    ) -> None: ...

    def __init__(self, *topics: str, **options: Any) -> None:
        options = sealed(options)
        config = Config.from_options(options)
        check_names(topics)
        self._topics = topics
        self._config, self._written = named_client(config)

    async def _start(self, runtime: Runtime, tasks: Tasks, transport: Any) -> None:
        parts = ConsumerParts(self._config, runtime, tasks, transport)
        self._loop = FedLoop(parts.reading)
        await self._begin(parts, self._topics)

    async def close(
        self,
        autocommit: bool = True,
        timeout_ms: float | None = None,
        leave_group: Literal["default", "leave", "remain"] = "default",
    ) -> None:
        """Commit if auto-commit is on, run the listener, leave the group and stop the thread.

        A cancellation does not interrupt this; it is raised at the end. The close takes at most
        its timeout, plus the time of the listener. After a cancellation, it waits for brokers for
        one more second at most.

        Args:
            autocommit: If False, do not commit.
            timeout_ms: Time limit in milliseconds, never more than ``request_timeout_ms``. The
                default is 30,000, or 5,000 if the coordinator is already unreachable.
            leave_group: As for ``KafkaConsumer.close()``.

        Raises:
            RebalanceCallbackError: The listener raised. The consumer is closed nevertheless.
        """
        if self._ready_to_close():
            close = self._parts.closing.close(
                autocommit=autocommit, timeout_ms=timeout_ms, leave_group=leave_group
            )
            await self._core.callers.shield(close)

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the consumer, also if cancelled; commit only if the block raised nothing."""
        await self.close(autocommit=exc_type is None)

    # --- reading -------------------------------------------------------------------------------

    async def poll(
        self, timeout_ms: float | None = None, max_records: int | None = None
    ) -> ConsumerRecords[KeyT, ValueT]:
        """Return records as soon as any are available, or an empty result after the timeout.

        This method also runs rebalance listeners and commit callbacks.

        Args:
            timeout_ms: How long to wait for the first record, in milliseconds; by default until
                there is one.
            max_records: Maximum number of records, ``max_poll_records`` by default. The batch is
                also limited to ``fetch_buffer_max_bytes``, unless its first record is larger.

        Returns:
            Records by partition, in offset order. Positions move when this method returns. If it
            is cancelled, the next call returns the same records.

        Raises:
            ConcurrentModificationError: Another task is polling or iterating.
            KafkaError: As ``KafkaConsumer.poll()``.
        """
        reading = self._reading
        wait_ms = ENDLESS_MS if timeout_ms is None else timeout_ms
        limits = wait_ms, max_records
        begin = None if reading.usual is None else partial(reading.usual.begin_poll, *limits)
        read = partial(reading.poll, *limits)
        found, publication = await usually(self._tasks, begin, read)
        # Invariant: this store moves all positions. No wait follows, where a cancellation could
        # arrive.
        publication.done = True
        return found

    def __aiter__(self) -> Self:
        """Iterate over records.

        Iteration stops after ``consumer_timeout_ms`` without a record, or once the consumer is
        closed. A record moves the position of its partition when it is returned.
        """
        return self

    async def __anext__(self) -> ConsumerRecord[KeyT, ValueT]:
        """Return the next record."""
        reading, loop = self._reading, self._loop
        record: ConsumerRecord[KeyT, ValueT] | None = next(loop, None)
        while record is None:
            usual, follow = reading.usual, loop.follow
            begin = None if usual is None else partial(usual.begin_feed, follow)
            if not await usually(self._tasks, begin, partial(reading.find_feed, follow)):
                raise StopAsyncIteration
            record = next(loop, None)
        return record

    def batches(
        self, *, max_records: int = _BATCH_RECORDS, max_wait_ms: float = 1_000
    ) -> AsyncIterator[ConsumerRecords[KeyT, ValueT]]:
        """Iterate over batches of records.

        A batch has ``max_records`` records, or those that arrive within ``max_wait_ms`` after its
        first one. It is never empty. Iteration stops after ``consumer_timeout_ms`` without a
        record, or once the consumer is closed. A batch moves positions when it is returned.

        Args:
            max_records: Maximum number of records in a batch.
            max_wait_ms: How long a batch may wait for more records, in milliseconds.

        Raises:
            InvalidArgumentError: ``max_records`` is not positive, or ``max_wait_ms`` is negative.
            ArgumentTypeError: An argument is not a number.
            KafkaError: As ``poll()``, during iteration.
        """
        reading, limit = self._reading, check_limit(max_records, _BATCH_RECORDS)
        check_wait("max_wait_ms", max_wait_ms)

        return Stream(lambda: reading.fill(limit, max_wait_ms))

    def arrow_batches(
        self,
        *,
        columns: Sequence[str] | None = None,
        binary_view: bool = False,
        key: ArrowDecoder | None = None,
        value: ArrowDecoder | None = None,
    ) -> AsyncIterator[pa.RecordBatch]:
        """Iterate over Arrow record batches, each with all records that are at hand.

        Requires pyarrow (``pip install tandem-kafka[arrow]``). A batch is never empty. Iteration
        stops as that of ``batches()`` does.

        Args:
            columns: Names of the columns to build; all by default. See
                ``KafkaConsumer.poll_arrow()``.
            binary_view: Use the type binary_view for key and value.
            key: Decodes keys; see `tandem_kafka.tables`.
            value: Decodes values.

        Raises:
            ImportError: pyarrow is not installed.
            InvalidArgumentError: A column does not exist.
            ArgumentTypeError: ``key`` or ``value`` is no decoder.
            IllegalStateError: The consumer has deserializers, or interceptors with
                ``on_consume()``. Raised during iteration.
            KafkaError: As ``poll()``, during iteration.
        """
        reading, form = self._reading, ArrowForm(columns, binary_view, key, value)
        form.checked()

        return Stream(lambda: reading.next_arrow(form))
