"""Filter pushdown: filters on topic, partition, offset and timestamp reduce the ranges.

A range may keep records that do not match, because Spark applies the filters again. A timestamp
filter moves only the start of a range, because producers may write older timestamps later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from pyspark_tandem_kafka.cluster import Cluster
from pyspark_tandem_kafka.offsets import Since
from pyspark_tandem_kafka.ranges import OffsetRange

_FROM: Final = frozenset({"EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"})

Test = Callable[[OffsetRange], bool]


@dataclass
class Narrowing:
    """The limits that a query's filters impose on ranges."""

    tests: list[Test] = field(default_factory=list)
    first_offset: int = 0
    last_offset: int | None = None
    first_ms: int | None = None

    @classmethod
    def from_filters(cls, filters: Iterable[Any]) -> Narrowing:
        """Extract the limits from Spark's filters; other filters are ignored."""
        found = cls()
        for each in filters:
            path: Sequence[str] = getattr(each, "attribute", ())
            if len(path) == 1:
                found._take(type(each).__name__, path[0], getattr(each, "value", None))
        return found

    def _take(self, kind: str, column: str, value: Any) -> None:
        if column in {"topic", "partition"}:
            if kind == "In":
                self.tests.append(lambda r: getattr(r, column) in value)
            elif kind in {"EqualTo", "EqualNullSafe"}:
                self.tests.append(lambda r: getattr(r, column) == value)
        elif column == "offset" and isinstance(value, int):
            self._take_offset(kind, value)
        elif column == "timestamp" and kind in _FROM and isinstance(value, datetime):
            at_ms = max(0, int(value.timestamp() * 1_000))
            self.first_ms = max(self.first_ms or 0, at_ms)

    def _take_offset(self, kind: str, value: int) -> None:
        if kind in {"EqualTo", "EqualNullSafe", "GreaterThanOrEqual"}:
            self.first_offset = max(self.first_offset, value)
        elif kind == "GreaterThan":
            self.first_offset = max(self.first_offset, value + 1)
        ends = {"EqualTo": value + 1, "EqualNullSafe": value + 1, "LessThanOrEqual": value + 1}
        end = value if kind == "LessThan" else ends.get(kind)
        if end is not None:
            self.last_offset = end if self.last_offset is None else min(self.last_offset, end)

    def apply(self, ranges: Sequence[OffsetRange], cluster: Cluster) -> list[OffsetRange]:
        """Return the parts of ranges that can contain matching rows."""
        kept = [each for each in ranges if all(test(each) for test in self.tests)]
        since: dict[Any, int] = {}
        if self.first_ms is not None and kept:
            since = cluster.first_since(Since(self.first_ms), [each.tp for each in kept])
        return [
            replace(
                each,
                start=max(each.start, self.first_offset, since.get(each.tp, 0)),
                end=each.end if self.last_offset is None else min(each.end, self.last_offset),
            )
            for each in kept
        ]
