"""The performance targets, relative to other clients or absolute, and whether they are met."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks.measures import Figures
from benchmarks.plan import CODECS, SIZES
from benchmarks.readers.catalogue import (
    ALONE,
    AMONG,
    ARROW,
    CATALOGUE,
    CONFLUENT,
    DRAIN,
    JAVA,
    LOOP,
    OURS,
    PYTHON,
    TUNED,
)

__all__ = ["BARS", "Bar", "Verdict", "verdicts"]

_RATE, _CPU = "records_per_s", "cpu_us_per_record"
_NAMES: Final = {
    _RATE: "records/s",
    _CPU: "CPU",
    "first_record_ms": "first record",
    "p50_ms": "p50",
    "p99_ms": "p99",
    "start_cpu_ms": "CPU",
}
_UNITS: Final = {"cpu_percent": "% of a core", "above_idle_mb": "MiB above idle"}


@dataclass(frozen=True, slots=True)
class Bar:
    """A target for one figure of one reader.

    Attributes:
        measure: The measure of the figure.
        value: A factor relative to `other`, or an absolute figure if `other` is None.
        other: The reader to compare with.
        figure: The figure to compare.
        reader: The reader that must meet the target.
        at_most: Whether less is better.

    """

    measure: str
    value: float
    other: str | None = None
    figure: str = _RATE
    reader: str = OURS
    at_most: bool = False

    def text(self) -> str:
        """A description of the target."""
        limit = "at most" if self.at_most else "at least"
        if self.other is None:
            return f"{limit} {self.value:g} {_UNITS[self.figure]}"
        name = CATALOGUE[self.other].title
        return f"{_NAMES[self.figure]} {limit} {self.value:g}x {name}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target and the measured factor or figure."""

    bar: Bar
    found: float

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        value = self.bar.value
        return self.found <= value if self.bar.at_most else self.found >= value

    @property
    def measured(self) -> str:
        """The measured value, in the unit of the target."""
        if self.bar.other is None:
            return f"{self.found:.3g} {_UNITS[self.bar.figure]}"
        return f"{self.found:.2f}x"

    def text(self) -> str:
        """A line for the report."""
        reader = CATALOGUE[self.bar.reader].title
        verdict = "met" if self.met else "MISSED"
        return f"{reader}: {self.bar.text()}: {self.measured}, {verdict}"


def verdicts(measure: str, medians: Mapping[str, Figures]) -> Iterator[Verdict]:
    """Yield the verdicts on a measure whose readers were both measured."""
    for bar in BARS:
        if bar.measure == measure:
            ours = medians.get(bar.reader, {}).get(bar.figure)
            theirs = 1.0 if bar.other is None else medians.get(bar.other, {}).get(bar.figure)
            if ours is not None and theirs:
                yield Verdict(bar, ours / theirs)


def _throughput(size: int, tuned: float, java: float) -> tuple[Bar, ...]:
    measure = f"throughput-{size}"
    return (
        Bar(measure, tuned, TUNED),
        Bar(measure, java, JAVA),
        Bar(measure, 0.4, TUNED, figure=_CPU, at_most=True),
        Bar(measure, 3.0, JAVA, reader=ARROW),
        Bar(measure, 2.0, "kafka-python", reader=PYTHON),
    )


def _asynchronous(size: int) -> Iterator[Bar]:
    for kind, factor in (("each", 3.0), ("batches", 10.0)):
        for other in ("aiokafka", "confluent", "tuned"):
            measure, reader = f"aio-{kind}-{size}", f"aio-tandem-{kind}"
            yield Bar(measure, factor, f"aio-{other}-{kind}", reader=reader)


_COMPRESSED: Final = {100: 1.5, 1000: 1.1}

BARS: Final = (
    *_throughput(100, tuned=2.0, java=1.4),
    *_throughput(1000, tuned=1.3, java=2.0),
    Bar("throughput-1000", 0.4, DRAIN, reader=ARROW),
    *(
        Bar(f"compressed-{size}-{codec}", _COMPRESSED[size], TUNED)
        for codec in CODECS
        for size in SIZES
    ),
    Bar("handler", 0.92, ALONE),
    Bar("handler", 1.0, TUNED),
    Bar("handler", 2.5, CONFLUENT),
    Bar("tls", 1.0, TUNED),
    Bar("tls", 1.5, JAVA),
    Bar("tls-handler", 1.0, TUNED),
    *(
        Bar(measure, value, CONFLUENT, figure, reader, at_most=True)
        for measure in ("latency", "latency-1")
        for reader in (OURS, LOOP)
        for figure, value in (("p50_ms", 0.95), ("p99_ms", 1.0), (_CPU, 1.1))
    ),
    Bar("memory", 64.0 + 60.0, figure="above_idle_mb", at_most=True),
    Bar("many-idle", 3.0, figure="cpu_percent", at_most=True),
    Bar("many-busy", 0.8, OURS, reader=AMONG),
    *(bar for size in SIZES for bar in _asynchronous(size)),
    Bar("start-import", 0.7, "kafka-python", "start_cpu_ms", at_most=True),
    *(
        Bar(f"start-{way}-{partitions}", 1.5, CONFLUENT, "first_record_ms", at_most=True)
        for way in ("member", "beginning", "offset")
        for partitions in (1, 200)
    ),
)
