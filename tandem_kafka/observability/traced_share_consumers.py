"""The two share consumers, with spans and metrics for `poll()`, iteration, commits and processing.

Invariant: records are reported before they count as handed out. What raises then, such as Ctrl-C,
lets the next call accept none that the application did not get.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tandem_kafka import (
    AsyncShareConsumer,
    ShareConsumer,
    ShareRecord,
    ShareRecords,
    TopicPartition,
)
from tandem_kafka.errors import KafkaError
from tandem_kafka.observability.telemetry import Outcomes
from tandem_kafka.observability.traced import Traced, committing


class _TracedShare(Traced):
    """Spans and context of both traced share consumers."""

    _tell_again: Callable[[Outcomes], None]

    def _batch_of(self, given: Sequence[Any]) -> dict[TopicPartition, ShareRecords[Any, Any]]:
        batch = ShareConsumer._batch_of(given)  # noqa: SLF001 - of the class behind this one
        self._telemetry.on_consume(batch)
        return batch

    def _iterated(self, chunk: Any, start: int, _stop: int) -> Sequence[ShareRecord[Any, Any]]:
        [record] = ShareConsumer._iterated(chunk, start, start + 1)  # noqa: SLF001 - as above
        self._telemetry.on_consume({TopicPartition(record.topic, record.partition): [record]})
        return [record]

    @contextmanager
    def _committing(self) -> Iterator[Outcomes]:
        outcomes: Outcomes = {}
        try:
            with committing(self._telemetry, outcomes):
                yield outcomes
        except BaseException:
            # An error in the report keeps the outcome from the application.
            self._tell_again(outcomes)
            raise


class TracedShareConsumer(_TracedShare, ShareConsumer[Any, Any]):
    """A ``ShareConsumer`` with spans and metrics of OpenTelemetry.

    Args:
        *topics: As for ``ShareConsumer``.
        tracer_provider: The global one by default.
        meter_provider: The global one by default.
        **options: As for ``ShareConsumer``.
    """

    def _start(self, *arguments: Any, **keywords: Any) -> None:
        super()._start(*arguments, **keywords)
        self._telemetry.belongs_to(self.log_names)

    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, ShareRecords[Any, Any]]:
        """Return records, as ``ShareConsumer.poll()``; a span ``poll`` if there are any."""
        with self._telemetry.poll():
            return super().poll(timeout_ms, max_records)

    def commit(self, timeout_ms: float | None = None) -> dict[TopicPartition, KafkaError | None]:
        """Send all acknowledgements, as ``ShareConsumer.commit()``, in a span ``commit``."""
        with self._committing() as outcomes:
            outcomes.update(super().commit(timeout_ms))
        return outcomes


class TracedAsyncShareConsumer(_TracedShare, AsyncShareConsumer[Any, Any]):
    """An ``AsyncShareConsumer`` with spans and metrics of OpenTelemetry.

    Args:
        *topics: As for ``AsyncShareConsumer``.
        tracer_provider: The global one by default.
        meter_provider: The global one by default.
        **options: As for ``AsyncShareConsumer``.
    """

    async def start(self) -> None:
        """Connect, as ``AsyncShareConsumer.start()``."""
        await super().start()
        self._telemetry.belongs_to(self.log_names)

    async def poll(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, ShareRecords[Any, Any]]:
        """Return records, as ``AsyncShareConsumer.poll()``; a span ``poll`` if there are any."""
        with self._telemetry.poll():
            return await super().poll(timeout_ms, max_records)

    async def commit(
        self, timeout_ms: float | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Send all acknowledgements, as ``AsyncShareConsumer.commit()``, in a span ``commit``."""
        with self._committing() as outcomes:
            outcomes.update(await super().commit(timeout_ms))
        return outcomes
