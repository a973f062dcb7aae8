"""The two consumers, with spans and metrics for `poll()`, iteration, commits and processing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, TypeVar

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, TracerProvider

from tandem_kafka import ConsumerRecords, KafkaConsumer
from tandem_kafka.aio import AsyncKafkaConsumer
from tandem_kafka.opentelemetry.telemetry import Telemetry
from tandem_kafka.runtime import Stopwatch
from tandem_kafka.types import ConsumerRecord, Offsets

Handler = TypeVar("Handler", bound=Callable[..., Any])


class _Traced:
    """What both consumers have in common."""

    def __init__(
        self,
        *topics: str,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        **options: Any,
    ) -> None:
        self._telemetry = Telemetry(tracer_provider, meter_provider)
        # An interceptor notices iteration.
        interceptors = [*(options.pop("interceptor_classes", None) or ()), self._telemetry]
        super().__init__(*topics, interceptor_classes=interceptors, **options)  # type: ignore[call-arg]

    def process(
        self, records: ConsumerRecord[Any, Any] | Sequence[ConsumerRecord[Any, Any]]
    ) -> AbstractContextManager[Span]:
        """Return a ``with`` block for the work on a record or a batch.

        Its span ``process`` is the current one inside of the block, and has links to the spans that
        created the records.
        """
        batch: Any = [records] if hasattr(records, "offset") else records
        return self._telemetry.process(batch)

    def traced(self, handle: Handler) -> Handler:
        """Return a function of one record or batch that runs inside of ``process()``.

        Use it for handlers of ``KeyedWorkers`` and, if they are ``async def``, of
        ``AsyncKeyedWorkers``.
        """
        if inspect.iscoroutinefunction(handle):

            @wraps(handle)
            async def run_async(records: Any, *rest: Any) -> Any:
                with self.process(records):
                    return await handle(records, *rest)

            return run_async  # type: ignore[return-value]

        @wraps(handle)
        def run(records: Any, *rest: Any) -> Any:
            with self.process(records):
                return handle(records, *rest)

        return run  # type: ignore[return-value]


@contextmanager
def _poll(telemetry: Telemetry) -> Iterator[Callable[[ConsumerRecords[Any, Any]], None]]:
    watch = Stopwatch()
    telemetry.polling = True
    try:
        yield lambda records: telemetry.polled(records, watch)
    except Exception as error:
        telemetry.poll_failed(error, watch)
        raise
    finally:
        telemetry.polling = False


@contextmanager
def _commit(telemetry: Telemetry, offsets: Offsets | None) -> Iterator[None]:
    watch = Stopwatch()
    failure: BaseException | None = None
    try:
        yield
    except BaseException as error:
        failure = error
        raise
    finally:
        telemetry.committed(offsets, failure, watch)


class TracedKafkaConsumer(_Traced, KafkaConsumer[Any, Any]):
    """A ``KafkaConsumer`` with spans and metrics of OpenTelemetry.

    Args:
        *topics: As for ``KafkaConsumer``.
        tracer_provider: The global one by default.
        meter_provider: The global one by default.
        **options: As for ``KafkaConsumer``.
    """

    def _start(self, *arguments: Any, **keywords: Any) -> None:
        super()._start(*arguments, **keywords)
        self._telemetry.belongs_to(self._core.client)

    def poll(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        update_offsets: bool = True,
    ) -> ConsumerRecords[Any, Any]:
        """Return records, as ``KafkaConsumer.poll()``; a span ``poll`` if there are any."""
        with _poll(self._telemetry) as report:
            records = super().poll(timeout_ms, max_records, update_offsets)
            report(records)
            return records

    def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commit, as ``KafkaConsumer.commit()``, in a span ``commit``."""
        with _commit(self._telemetry, offsets):
            super().commit(offsets, timeout_ms)

    def commit_async(self, offsets: Offsets | None = None, callback: Any = None) -> Any:
        """Commit, as ``KafkaConsumer.commit_async()``; the span ends with the response."""
        watch = Stopwatch()

        def done(value: Any) -> None:
            error = value if isinstance(value, BaseException) else None
            self._telemetry.committed(offsets, error, watch)

        return super().commit_async(offsets, callback).add_both(done)


class TracedAsyncKafkaConsumer(_Traced, AsyncKafkaConsumer[Any, Any]):
    """An ``AsyncKafkaConsumer`` with spans and metrics of OpenTelemetry.

    Args:
        *topics: As for ``AsyncKafkaConsumer``.
        tracer_provider: The global one by default.
        meter_provider: The global one by default.
        **options: As for ``AsyncKafkaConsumer``.
    """

    async def start(self) -> None:
        """Connect, as ``AsyncKafkaConsumer.start()``."""
        await super().start()
        self._telemetry.belongs_to(self._core.client)

    async def poll(
        self, timeout_ms: float | None = None, max_records: int | None = None
    ) -> ConsumerRecords[Any, Any]:
        """Return records, as ``AsyncKafkaConsumer.poll()``; a span ``poll`` if there are any."""
        with _poll(self._telemetry) as report:
            records = await super().poll(timeout_ms, max_records)
            report(records)
            return records

    async def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commit, as ``AsyncKafkaConsumer.commit()``, in a span ``commit``."""
        with _commit(self._telemetry, offsets):
            await super().commit(offsets, timeout_ms)
