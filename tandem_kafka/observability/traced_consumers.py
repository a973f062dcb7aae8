"""The two consumers, with spans and metrics for `poll()`, iteration, commits and processing."""

from __future__ import annotations

from typing import Any

from opentelemetry.context import get_current

from tandem_kafka import AsyncKafkaConsumer, ConsumerRecords, KafkaConsumer
from tandem_kafka.config import sealed
from tandem_kafka.observability.telemetry import Telemetry
from tandem_kafka.observability.traced import Traced, committing
from tandem_kafka.runtime import Stopwatch
from tandem_kafka.types import Offsets


class _Intercepting:
    """Lets the telemetry notice what is returned.

    Invariant: interceptors come before the positions move, so that Ctrl-C in a report loses none.
    """

    _telemetry: Telemetry

    def __init__(self, *topics: str, **options: Any) -> None:
        options = sealed(options)
        interceptors = [*(options.pop("interceptor_classes", None) or ()), self._telemetry]
        super().__init__(*topics, interceptor_classes=interceptors, **options)  # type: ignore[call-arg]


class TracedKafkaConsumer(Traced, _Intercepting, KafkaConsumer[Any, Any]):
    """A ``KafkaConsumer`` with spans and metrics of OpenTelemetry.

    Args:
        *topics: As for ``KafkaConsumer``.
        tracer_provider: The global one by default.
        meter_provider: The global one by default.
        **options: As for ``KafkaConsumer``.
    """

    def _start(self, *arguments: Any, **keywords: Any) -> None:
        super()._start(*arguments, **keywords)
        self._telemetry.belongs_to(self.log_names)

    def poll(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        update_offsets: bool = True,
    ) -> ConsumerRecords[Any, Any]:
        """Return records, as ``KafkaConsumer.poll()``; a span ``poll`` if there are any."""
        with self._telemetry.poll():
            return super().poll(timeout_ms, max_records, update_offsets)

    def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commit, as ``KafkaConsumer.commit()``, in a span ``commit``."""
        with committing(self._telemetry, dict.fromkeys(offsets or ())):
            super().commit(offsets, timeout_ms)

    def commit_async(self, offsets: Offsets | None = None, callback: Any = None) -> Any:
        """Commit, as ``KafkaConsumer.commit_async()``; the span ends with the response."""
        watch, parent = Stopwatch(), get_current()

        def done(value: Any) -> None:
            error = value if isinstance(value, BaseException) else None
            self._telemetry.committed(dict.fromkeys(offsets or ()), error, watch, parent)

        return super().commit_async(offsets, callback).add_both(done)


class TracedAsyncKafkaConsumer(Traced, _Intercepting, AsyncKafkaConsumer[Any, Any]):
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
        self._telemetry.belongs_to(self.log_names)

    async def poll(
        self, timeout_ms: float | None = None, max_records: int | None = None
    ) -> ConsumerRecords[Any, Any]:
        """Return records, as ``AsyncKafkaConsumer.poll()``; a span ``poll`` if there are any."""
        with self._telemetry.poll():
            return await super().poll(timeout_ms, max_records)

    async def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commit, as ``AsyncKafkaConsumer.commit()``, in a span ``commit``."""
        with committing(self._telemetry, dict.fromkeys(offsets or ())):
            await super().commit(offsets, timeout_ms)
