"""The job's reports about micro-batches: positions and durations of each query."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Batch", "Progress"]


@dataclass(frozen=True, slots=True)
class Batch:
    """A finished micro-batch of a query.

    Attributes:
        end_s: The end in seconds since the epoch.
        duration_s: The duration in seconds.
        rows: The number of records read.
        position: The number of records of the topic processed so far.
        watermark_ms: The watermark of the batch; 0 without one.
    """

    end_s: float
    duration_s: float
    rows: int
    position: int
    watermark_ms: int

    @classmethod
    def parse(cls, line: dict[str, Any], topic: str) -> Batch:
        """Parse a line from the job."""
        duration_s = line["durationMs"].get("triggerExecution", 0) / 1_000
        source = line["sources"][0]
        offsets = source["endOffset"] or {}
        if isinstance(offsets, str):
            offsets = json.loads(offsets)
        watermark = line.get("eventTime", {}).get("watermark")
        return cls(
            _seconds(line["timestamp"]) + duration_s,
            duration_s,
            source["numInputRows"],
            sum(offsets.get(topic, {}).values()),
            int(_seconds(watermark) * 1_000) if watermark else 0,
        )


def _seconds(text: str) -> float:
    return dt.datetime.fromisoformat(text).timestamp()


@dataclass(slots=True)
class Progress:
    """All micro-batches by query, over all runs of the job."""

    topic: str
    batches: dict[str, list[Batch]] = field(default_factory=dict)
    _read: dict[Path, int] = field(default_factory=dict)

    def update(self, path: Path) -> None:
        """Read the lines that were added to a run's file."""
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            added = file.read()
        whole = added[: added.rfind(b"\n") + 1]  # the last line may be incomplete
        self._read[path] = self._read.get(path, 0) + len(whole)
        for line in map(json.loads, whole.splitlines()):
            self.batches.setdefault(line["name"], []).append(Batch.parse(line, self.topic))

    def position(self, query: str) -> int:
        """Return the number of records of the topic that a query has processed."""
        return max((batch.position for batch in self.batches.get(query, [])), default=0)

    def watermark_ms(self, query: str) -> int:
        """Return the newest watermark of a finished batch."""
        return max((batch.watermark_ms for batch in self.batches.get(query, [])), default=0)
