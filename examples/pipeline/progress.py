"""Writes Spark's report about each micro-batch to a file, as lines of JSON."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

__all__ = ["ProgressLog"]


class ProgressLog(StreamingQueryListener):
    """Writes a line for each finished micro-batch: its rows, time, offsets and watermark.

    The lag of a query is `latestOffset` minus `endOffset` of its source.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Write the line."""
        self._file.write(event.progress.json + "\n")
        self._file.flush()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Do nothing."""
