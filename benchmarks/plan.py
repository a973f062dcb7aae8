"""What is measured, how much of it, and how long that may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["FULL", "MEASURES", "QUICK", "SIZES", "Measure", "Plan"]

#: Bytes of the values of the topics.
SIZES: Final = (100, 1000)


@dataclass(frozen=True, slots=True)
class Measure:
    """A table of the results.

    Attributes:
        name: How `--only` calls it.
        title: Its heading.
        figure: The figure that decides.
        higher_is_better: Whether more of that is better.
        method: How it is measured, for the reader of the results.

    """

    name: str
    title: str
    figure: str
    higher_is_better: bool
    method: str


_CLOCK = (
    "The clock runs from the first batch handed to the application to the last; the records of the "
    "first batch are not counted, so connecting is left out. CPU is that of the whole process "
    "between the same two moments, memory the peak of the process since its start."
)
_JAVA = (
    "The Java client is measured by Kafka's ConsumerPerformance: the tool's own rate for the time "
    "it fetched; CPU less that of a run that reads one batch."
)

MEASURES: Final = (
    *(
        Measure(
            f"throughput-{size}",
            f"Throughput, values of {size} bytes",
            "records_per_s",
            higher_is_better=True,
            method=f"Every value is taken and its length added up. {_CLOCK} {_JAVA}",
        )
        for size in SIZES
    ),
    Measure(
        "handler",
        "Throughput with a handler of about 2 µs of Python for each record, values of 100 bytes",
        "records_per_s",
        higher_is_better=True,
        method=f"The handler takes the same number of empty turns for every reader. {_CLOCK}",
    ),
    Measure(
        "latency",
        "End-to-end latency at 500 records a second",
        "p99_ms",
        higher_is_better=False,
        method=(
            "A process of its own writes at an even pace, without lingering. The time runs from "
            "before `produce()` to the record in the application's hands; the producer's part is "
            "the same for all. confluent-kafka reads with `poll()` here, because `consume()` waits "
            "to fill its batch."
        ),
    ),
    Measure(
        "idle",
        "CPU while nothing comes, in percent of one core",
        "cpu_percent",
        higher_is_better=False,
        method="Polling four empty partitions with a timeout of a second, after two seconds.",
    ),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure.

    Attributes:
        runs: Runs of each reader; the median counts.
        records: Records in the topic of each size.
        handled: Records that the handler gets.
        paced: Records of a latency run.
        paced_skip: Those before it counts.
        per_second: Their pace.
        idle_s: Seconds of an idle run.

    """

    runs: int
    records: dict[int, int]
    handled: int
    paced: int
    paced_skip: int
    per_second: float
    idle_s: float


FULL: Final = Plan(
    runs=3,
    records={100: 3_000_000, 1000: 1_000_000},
    handled=1_000_000,
    paced=6000,
    paced_skip=1000,
    per_second=500.0,
    idle_s=10.0,
)
QUICK: Final = Plan(
    runs=3,
    records={100: 500_000, 1000: 200_000},
    handled=200_000,
    paced=1500,
    paced_skip=500,
    per_second=500.0,
    idle_s=3.0,
)
