"""`AsyncShareConsumer`: `ShareConsumer` for asyncio."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

from tandem_kafka.aio.streams import uncancelled
from tandem_kafka.aio.tasks import Tasks, running_loop
from tandem_kafka.consumer.arrow_form import ArrowForm
from tandem_kafka.consumer.health import Health
from tandem_kafka.consumer.parts import named_client
from tandem_kafka.errors import IllegalStateError, KafkaError
from tandem_kafka.logs import ClientNames
from tandem_kafka.runtime import Runtime
from tandem_kafka.share.consumer import batch_of, record_of
from tandem_kafka.share.methods import ShareMethods
from tandem_kafka.share.options import share_options
from tandem_kafka.share.record import ShareRecord, ShareRecords
from tandem_kafka.types import ArrowDecoder, KeyT, TopicPartition, ValueT

if TYPE_CHECKING:
    import pyarrow as pa


class AsyncShareConsumer(Generic[KeyT, ValueT]):
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

    _batch_of = staticmethod(batch_of)  # as in ShareConsumer
    _record_of = staticmethod(record_of)
    _tasks: Tasks

    def __init__(
        self,
        *topics: str,
        acknowledgement: Literal["implicit", "explicit"] = "implicit",
        renew: Literal["off", "auto"] = "off",
        max_processing_ms: float = 600_000,
        **options: Any,
    ) -> None:
        self._topics = topics
        self._options = share_options(options, acknowledgement, renew, max_processing_ms)
        self._started: ShareMethods | None = None
        self._closed = False

    async def start(self) -> None:
        """Contact the cluster and subscribe, bound to the running event loop.

        ``async with`` does this, and closes the consumer at its end.

        Raises:
            IllegalStateError: No asyncio event loop is running, or the consumer was started or
                closed before.
            KafkaTimeoutError: No bootstrap server responded within ``bootstrap_timeout_ms``.
            NetworkThreadError: The system cannot start another thread.
        """
        loop = running_loop()
        if self._started is not None or self._closed:
            msg = "the consumer was started or closed before; create another one"
            raise IllegalStateError(msg)
        runtime = Runtime.threaded()
        config, how = self._options
        named, _ = named_client(config)
        self._tasks = Tasks(runtime.clock, runtime.driver, loop)
        self._started = ShareMethods(named, runtime, self._tasks, how)
        await self._started.begin(self._topics)

    @property
    def _methods(self) -> ShareMethods:
        if self._started is None:
            msg = (
                "the consumer has not been started; use `async with consumer:` or "
                "`await consumer.start()`"
            )
            raise IllegalStateError(msg)
        return self._started

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics in place of those before. Takes effect with the next poll()."""
        await self._methods.subscribe(topics)

    async def unsubscribe(self) -> None:
        """End the subscription, release records that were not handed out, and leave the group."""
        await self._methods.unsubscribe()

    def subscription(self) -> set[str]:
        """Return the topics."""
        return self._methods.subscription()

    @property
    def acknowledgement(self) -> str:
        """``"implicit"`` or ``"explicit"``."""
        return "implicit" if self._options[1].implicit else "explicit"

    @property
    def log_names(self) -> ClientNames:
        """The names of this consumer, for a logger of ``tandem_kafka.logs``."""
        return self._methods.core.client

    def renew_locks(self, max_processing_ms: float) -> None:
        """Renew the locks of records in work; as ``ShareConsumer.renew_locks()``."""
        self._methods.renew_locks(max_processing_ms)

    def health(self) -> Health:
        """Return what the consumer does, and what is wrong; as ``ShareConsumer.health()``."""
        return self._methods.health()

    def metrics(self, raw: bool = False) -> Any:
        """Return the metrics; as ``ShareConsumer.metrics()``."""
        return self._methods.metrics(raw=raw)

    async def poll(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, ShareRecords[KeyT, ValueT]]:
        """Return records as soon as there are any; as ``ShareConsumer.poll()``."""
        methods = self._methods
        given = await uncancelled(lambda: methods.poll(max(0, timeout_ms), max_records))
        batch = self._batch_of(given)
        methods.handing.given = given  # nothing is awaited between this and the return
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
        methods, form = self._methods, ArrowForm(columns, binary_view, key, value)
        batch, given = await uncancelled(lambda: methods.poll_arrow(timeout_ms, max_records, form))
        methods.handing.given = given  # as in poll()
        return batch

    def acknowledge(
        self, batch: pa.RecordBatch | pa.Table, how: Literal["accept", "release", "reject", "renew"]
    ) -> None:
        """Acknowledge each row of a record batch; as ``ShareConsumer.acknowledge()``."""
        self._methods.acknowledge(batch, how)

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
        methods = self._methods
        given = methods.following() or await uncancelled(methods.next)
        if given is None:
            raise StopAsyncIteration
        record = self._record_of(given)
        methods.handing.given = (given,)  # as in poll()
        return record

    async def commit(
        self, timeout_ms: float | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Send all acknowledgements, and return the outcomes; as ``ShareConsumer.commit()``."""
        return await self._methods.commit(timeout_ms)

    def _tell_again(self, outcome: dict[TopicPartition, KafkaError | None]) -> None:
        self._methods.tell_again(outcome)  # as in ShareConsumer

    async def release_all(self) -> None:
        """Release all records that are not acknowledged; as ``ShareConsumer.release_all()``."""
        await self._methods.release_all()

    def wakeup(self) -> None:
        """End the current or the next poll() with ``WakeupError``; for any thread or signal."""
        self._methods.core.wakeup()

    async def close(self, timeout_ms: float | None = None) -> None:
        """Send all acknowledgements, release all other records, and leave the group.

        A cancellation does not interrupt this; it is raised at the end.

        Args:
            timeout_ms: Time limit in milliseconds, 30,000 by default.
        """
        await self._close(timeout_ms, clean=True)

    async def _close(self, timeout_ms: float | None, *, clean: bool) -> None:
        self._closed = True
        if self._started is not None:
            close = self._started.close(timeout_ms=timeout_ms, clean=clean)
            await self._started.core.callers.shield(close)

    async def __aenter__(self) -> Self:
        """Start the consumer and return it; the end of the block closes it."""
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the consumer; after an exception, release what was not done."""
        await self._close(None, clean=exc_type is None)

    def __del__(self) -> None:
        """Warn that the consumer was never closed; stop its thread."""
        methods = getattr(self, "_started", None)
        if methods is None or methods.core.closed or not methods.core.in_own_process:
            return
        warnings.warn(f"unclosed consumer {self!r}", ResourceWarning, source=self, stacklevel=2)
        methods.core.engine.loop.stop()
        self._tasks.abandon()

    def __repr__(self) -> str:
        """Show the group."""
        return f"<AsyncShareConsumer, group {self._options[0].group_id!r}>"
