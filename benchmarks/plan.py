"""The measures, with their numbers of records and runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks.readers.catalogue import (
    ALONE,
    AMONG,
    ARROW,
    CONFLUENT,
    DRAIN,
    JAVA,
    LOOP,
    OURS,
    PYTHON,
    TUNED,
)

__all__ = ["CODECS", "FULL", "MEASURES", "QUICK", "SIZES", "Measure", "Plan"]

#: Bytes of the values of the topics.
SIZES: Final = (100, 1000)
CODECS: Final = ("lz4", "zstd", "snappy", "gzip")


@dataclass(frozen=True, slots=True)
class Measure:
    """A table of the results.

    Attributes:
        name: The name for `--only`.
        title: The heading in the report.
        figure: The figure that orders the table.
        higher_is_better: Whether a higher figure is better.
        method: A description of the method, for the report.
        readers: The readers to measure; empty if the suite selects them.

    """

    name: str
    title: str
    figure: str
    higher_is_better: bool
    method: str
    readers: tuple[str, ...] = ()


_CLOCK = (
    "The clock runs from the first batch that the application receives to the last. The records of "
    "the first batch are not counted, which excludes connecting. CPU is that of the whole process "
    "between these two moments; memory is the peak of the process since its start."
)
_JAVA = (
    "The Java client is measured with Kafka's ConsumerPerformance: the rate is the tool's own for "
    "fetching; CPU is that of the process minus that of a run that reads one batch."
)
_VALUES = "The lengths of all values are summed; for `poll_arrow`, they are read from the column."
_EVERYONE = (
    *(OURS, ARROW, PYTHON, CONFLUENT, TUNED, JAVA),
    *("aiokafka", "kafka-python", "kafka-python-crc32c", DRAIN),
)

MEASURES: Final = (
    *(
        Measure(
            f"throughput-{size}",
            f"Throughput, values of {size} bytes",
            "records_per_s",
            higher_is_better=True,
            method=(
                f"{_VALUES} {_CLOCK} {_JAVA} The bare socket has one fetch in flight, and discards "
                "the responses."
            ),
            readers=_EVERYONE,
        )
        for size in SIZES
    ),
    *(
        Measure(
            f"compressed-{size}-{codec}",
            f"Throughput, values of {size} bytes, {codec}",
            "records_per_s",
            higher_is_better=True,
            method=f"The values are compressible text. {_VALUES} {_CLOCK}",
            readers=(OURS, TUNED),
        )
        for codec in CODECS
        for size in SIZES
    ),
    Measure(
        "handler",
        "Throughput with a handler of about 2 µs of Python for each record, values of 1000 bytes",
        "records_per_s",
        higher_is_better=True,
        method=(
            "The handler runs the same number of empty iterations for every reader; “the handler "
            f"alone” gets its values from memory. {_CLOCK}"
        ),
        readers=(OURS, PYTHON, CONFLUENT, TUNED, "aiokafka", ALONE),
    ),
    Measure(
        "tls",
        "Throughput over TLS 1.3, values of 1000 bytes",
        "records_per_s",
        higher_is_better=True,
        method=f"{_VALUES} {_CLOCK} {_JAVA}",
        readers=(OURS, ARROW, TUNED, JAVA),
    ),
    Measure(
        "tls-handler",
        "Throughput over TLS 1.3 with the same handler, values of 1000 bytes",
        "records_per_s",
        higher_is_better=True,
        method=f"As above. {_CLOCK}",
        readers=(OURS, TUNED),
    ),
    *(
        Measure(
            name,
            f"End-to-end latency at 500 records a second, {partitions}",
            "p50_ms",
            higher_is_better=False,
            method=(
                "A separate process writes at an even pace, without lingering. The time runs from "
                "before `produce()` until the application has the record; the producer's part is "
                "the same for all readers. CPU is that of the reader's process. confluent-kafka "
                "reads with `poll()` here, because `consume()` waits for a full batch."
            ),
            readers=(OURS, LOOP, CONFLUENT, TUNED),
        )
        for name, partitions in (("latency", "four partitions"), ("latency-1", "one partition"))
    ),
    Measure(
        "memory",
        "Memory while a backlog is read with a slow handler",
        "above_idle_mb",
        higher_is_better=False,
        method=(
            "Values of {backlog_size:,} bytes, {backlog_mb:,} MB in total, and a handler that is "
            "slower than any of the readers. “above idle” is the peak of the process minus its "
            "memory with an idle reader before."
        ),
        readers=(OURS, TUNED),
    ),
    Measure(
        "idle",
        "CPU without records, in percent of one core",
        "cpu_percent",
        higher_is_better=False,
        method="Polling four empty partitions with a timeout of a second, after two seconds.",
        readers=(OURS, CONFLUENT),
    ),
    Measure(
        "many-idle",
        "CPU without records, one member of a group with many partitions",
        "cpu_percent",
        higher_is_better=False,
        method=(
            "The only member of a group has {many:,} empty partitions. Measured as above, after "
            "two seconds plus one second per thousand partitions since their assignment."
        ),
        readers=(OURS, CONFLUENT),
    ),
    Measure(
        "many-busy",
        "Throughput of 8 busy partitions, alone and among many idle ones",
        "records_per_s",
        higher_is_better=True,
        method=(
            "Values of 1000 bytes in 8 of {many:,} partitions. The reader is assigned all of them, "
            "or only those 8. With all of them, the measurement starts after all positions are "
            f"known and fetches have run for three seconds. {_CLOCK}"
        ),
        readers=(OURS, AMONG),
    ),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure.

    Attributes:
        runs: Runs of each reader, for the median.
        records: Records in the uncompressed topic of each size.
        compressed: Records in the compressed topics of each size.
        handled: Records for the measures with a handler.
        paced: Records of a latency run.
        paced_skip: Records at its start that are not counted.
        per_second: Records per second in a latency run.
        idle_s: Seconds of an idle run.
        backlog: Records of the backlog in the memory measure.
        backlog_size: Bytes of their values.
        many: Partitions of the topic with many partitions.
        busy: Records in 8 of them.
        documents: Records in the topic of JSON documents.

    """

    runs: int
    records: dict[int, int]
    compressed: dict[int, int]
    handled: int
    paced: int
    paced_skip: int
    per_second: float
    idle_s: float
    backlog: int
    backlog_size: int
    many: int
    busy: int
    documents: int = 0

    @property
    def backlog_mb(self) -> int:
        """The size of the backlog in MB."""
        return self.backlog * self.backlog_size // 1_000_000


FULL: Final = Plan(
    runs=5,
    records={100: 3_000_000, 1000: 1_000_000},
    compressed={100: 1_500_000, 1000: 300_000},
    handled=400_000,
    paced=2000,
    paced_skip=500,
    per_second=500.0,
    idle_s=3.0,
    backlog=200_000,
    backlog_size=10_000,
    many=10_000,
    busy=500_000,
)
QUICK: Final = Plan(
    runs=1,
    records={100: 1_000_000, 1000: 250_000},
    compressed={100: 500_000, 1000: 100_000},
    handled=100_000,
    paced=1000,
    paced_skip=250,
    per_second=500.0,
    idle_s=2.0,
    backlog=20_000,
    backlog_size=10_000,
    many=1_000,
    busy=200_000,
)
