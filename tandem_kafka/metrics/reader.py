"""What the reader measures: two tuples per `poll()`, summed up several times a second."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tandem_kafka.metrics.registry import ConsumerMetrics

T = TypeVar("T")


class ReaderMeasurements:
    """Measurements of `poll()`. Writer: the reader; any thread may flush them.

    Attributes:
        note_poll: Stores the time since the last poll() in ms, at least 1, and how long it waited.
        polled_ms: When the present poll() began, 0 before the first one. Writer: the reader.
        idle_ms: For how long the present poll() has waited. Writer: the reader.
        due_ms: When to flush again.
        note_records: Stores the topic, the number of records that a partition returns, and its
            lag in records, or None.
        note_dropped: Stores how many records a decoder has left out.
    """

    __slots__ = (
        "_dropped",
        "_metrics",
        "_polls",
        "_records",
        "due_ms",
        "idle_ms",
        "note_dropped",
        "note_poll",
        "note_records",
        "polled_ms",
    )

    def __init__(self, metrics: ConsumerMetrics) -> None:
        self._metrics = metrics
        # Appended to and emptied in single steps, because another thread may read the metrics.
        limit = None if metrics.enabled else 0
        self._polls: deque[tuple[int, int]] = deque(maxlen=limit)
        self._records: deque[tuple[str, int, int | None]] = deque(maxlen=limit)
        self.note_poll = self._polls.append
        self._dropped: deque[int] = deque(maxlen=limit)
        self.note_records = self._records.append
        self.note_dropped = self._dropped.append
        self.due_ms = self.idle_ms = self.polled_ms = 0
        if metrics.enabled:
            metrics.sources.append(self.flush)

    def flush_due(self, now_ms: int) -> None:
        """Flush, and set when to do it again."""
        self.due_ms = now_ms + self._metrics.flush_ms
        self.flush()

    def flush(self) -> None:
        """Write what has been stored to the statistics."""
        metrics = self._metrics
        if polls := _taken(self._polls):
            metrics.record_all("time-between-poll", _sizes([since for since, _ in polls]))
            idle = [min(1.0, idle_ms / since_ms) for since_ms, idle_ms in polls]
            metrics.record_all("poll-idle", _sizes(idle))
        metrics.record_all("records-dropped", _sizes(_taken(self._dropped)))
        records = _taken(self._records)
        metrics.record_all("records", _sizes([count for _, count, _ in records]))
        lags = [max(0, lag) for _, _, lag in records if lag is not None]
        metrics.record_all("records-lag", _sizes(lags))
        for topic in {topic for topic, _, _ in records}:
            counts = [count for name, count, _ in records if name == topic]
            metrics.record_all("records", _sizes(counts), topic)


def _taken(stored: deque[T]) -> list[T]:
    taken = []
    with suppress(IndexError):  # another thread may flush at the same time
        while stored:
            taken.append(stored.popleft())
    return taken


def _sizes(values: list[int] | list[float]) -> tuple[int, float, float]:
    return len(values), sum(values), max(values, default=0)
