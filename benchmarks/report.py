"""The report: medians, ratios, and tables."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from statistics import median

from benchmarks.bars import Verdict, verdicts
from benchmarks.measures import Figures
from benchmarks.plan import MEASURES, Measure, Plan
from benchmarks.readers.catalogue import CATALOGUE, OURS
from benchmarks.suite import Sample
from tandem_kafka_testing.kafka.jars import KAFKA_VERSION

__all__ = [
    "COLUMNS",
    "Results",
    "about",
    "cells",
    "failures",
    "loads",
    "markdown",
    "ranked",
    "row",
    "table",
    "tables",
    "targets",
    "times",
    "write_json",
]

#: Heading and format of each figure.
COLUMNS = {
    "records_per_s": ("records/s", "{:,.0f}"),
    "above_idle_mb": ("above idle MB", "{:.0f}"),
    "idle_memory_mb": ("idle MB", "{:.0f}"),
    "cpu_us_per_record": ("CPU µs / record", "{:.2f}"),
    "peak_memory_mb": ("peak MB", "{:.0f}"),
    "first_batch_ms": ("first batch after ms", "{:.0f}"),
    "p50_ms": ("p50 ms", "{:.2f}"),
    "p99_ms": ("p99 ms", "{:.2f}"),
    "max_ms": ("max ms", "{:.1f}"),
    "cpu_percent": ("CPU %", "{:.2f}"),
    "first_record_ms": ("first record ms", "{:.0f}"),
    "last_record_ms": ("last record ms", "{:.0f}"),
    "held": ("records in work", "{:.0f}"),
    "members_with_records": ("members with records", "{:.0f}"),
    "with_construction_ms": ("with construction ms", "{:.0f}"),
    "cold_ms": ("cold ms", "{:.0f}"),
    "pause_ms": ("pause ms", "{:.0f}"),
    "before_ms": ("before ms", "{:.0f}"),
    "moved_ms": ("moved ms", "{:.0f}"),
    "start_cpu_ms": ("CPU ms", "{:.0f}"),
    "modules": ("modules", "{:.0f}"),
    "memory_mb": ("MB", "{:.1f}"),
    "close_ms": ("close ms", "{:.0f}"),
}
_METHOD = (
    "One broker and one reader at a time share the machine. Medians of {runs} runs, with the "
    "readers taking turns. Every reader has a separate process and reads four partitions without a "
    "group, with the defaults of its client. Records are uncompressed, in batches of up to "
    "{batch_bytes:,} bytes. “times” compares the figure that orders the table with that of {ours}: "
    "above 1, {ours} is better by this factor. By default, confluent-kafka does not check the CRC "
    "of batches; all the others do."
)
_LIBRARIES = ("tandem-kafka", "kafka-python", "confluent-kafka", "aiokafka", "crc32c")


@dataclass(slots=True)
class Results:
    """The results of one run.

    Attributes:
        samples: The samples so far.
        known: All measures, in order.
        load: The load average over a minute, at the start and at the end.

    """

    samples: list[Sample]
    known: Sequence[Measure] = MEASURES
    load: list[float] = field(default_factory=lambda: [_load()])

    def end(self) -> None:
        """Record the load average at the end."""
        self.load[1:] = [_load()]

    def measures(self) -> list[Measure]:
        """The measures that have samples."""
        names = {sample.measure for sample in self.samples}
        return [measure for measure in self.known if measure.name in names]

    def medians(self, measure: Measure) -> dict[str, Figures]:
        """The median of each figure of each reader."""
        taken: dict[str, dict[str, list[float]]] = {name: {} for name in CATALOGUE}
        for sample in self.samples:
            if sample.measure == measure.name:
                for figure, value in sample.figures.items():
                    taken[sample.reader].setdefault(figure, []).append(value)
        return {
            name: {figure: median(values) for figure, values in figures.items()}
            for name, figures in taken.items()
            if figures
        }

    def verdicts(self, measure: Measure) -> list[Verdict]:
        """The verdicts on the targets of a measure."""
        return list(verdicts(measure.name, self.medians(measure)))

    def failures(self) -> list[str]:
        """The failures, each once."""
        found = (
            f"{sample.measure}, {sample.reader}: {sample.failure}"
            for sample in self.samples
            if sample.failure
        )
        return list(dict.fromkeys(found))

    def content(self, plan: Mapping[str, object]) -> dict[str, object]:
        """All samples, the medians, and the conditions of the run."""
        return {
            "machine": _machine(),
            "plan": dict(plan),
            "load": self.load,
            "medians": {each.name: self.medians(each) for each in self.measures()},
            "bars": [verdict.text() for each in self.measures() for verdict in self.verdicts(each)],
            "samples": [asdict(sample) for sample in self.samples],
        }


def _load() -> float:
    return round(os.getloadavg()[0], 2)


def _machine() -> dict[str, str]:
    """The machine and the versions."""
    versions = {name: metadata.version(name) for name in _LIBRARIES if _installed(name)}
    return {
        "cores": str(os.cpu_count()),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "kafka": KAFKA_VERSION,
        **versions,
    }


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def markdown(results: Results, plan: Plan, batch_bytes: int) -> str:
    """The whole report."""
    parts = [
        "# Benchmarks",
        about(),
        loads(results),
        _METHOD.format(runs=plan.runs, batch_bytes=batch_bytes, ours=CATALOGUE[OURS].title),
        *targets(results),
        "![plot](results.png)",
    ]
    sections = "\n\n".join([*parts, *tables(results), *failures(results)]) + "\n"
    figures = {**asdict(plan), "backlog_mb": plan.backlog_mb}
    return _filled_in(sections, figures)


def _filled_in(text: str, figures: Mapping[str, object]) -> str:
    """Insert the plan's figures into a description, for example at `{many:,}`."""
    for name, value in figures.items():
        text = text.replace(f"{{{name}:,}}", f"{value:,}" if isinstance(value, int) else "")
    return text


def loads(results: Results) -> str:
    """A sentence about the load of the machine."""
    averages = " at its beginning and ".join(f"{load:.2f}" for load in results.load)
    return (
        f"The machine's load average over a minute was {averages} at its end (the run itself loads "
        "it)."
    )


def targets(results: Results) -> list[str]:
    """A section with a table of all targets."""
    rows = [
        [
            *(each.title, CATALOGUE[found.bar.reader].title, found.bar.text(), found.measured),
            "met" if found.met else "**missed**",
        ]
        for each in results.measures()
        for found in results.verdicts(each)
    ]
    if not rows:
        return []
    heads = ["work", "reader", "target", "measured", ""]
    table = [row(heads), row(["---"] * len(heads)), *map(row, rows)]
    return ["## Targets", "\n".join(table)]


def about(options: str = "") -> str:
    """A sentence about the command and the machine."""
    command = f'make bench ARGS="{options}"' if options else "make bench"
    machine = "; ".join(f"{name} {value}" for name, value in _machine().items())
    return f"Made by `{command}` in one run: {machine}."


def tables(results: Results) -> list[str]:
    """A section for each measure."""
    return [
        part
        for measure in results.measures()
        for part in (
            f"## {measure.title}",
            "\n".join(table(results, measure)),
            *_verdicts(results, measure),
            measure.method,
        )
    ]


def _verdicts(results: Results, measure: Measure) -> list[str]:
    lines = [f"- {verdict.text()}" for verdict in results.verdicts(measure)]
    return ["\n".join(lines)] if lines else []


def failures(results: Results) -> list[str]:
    """A section about failures, if there are any."""
    found = results.failures()
    return ["## What failed", "\n".join(f"- {failure}" for failure in found)] if found else []


def table(results: Results, measure: Measure) -> list[str]:
    """A Markdown table, the best reader first."""
    medians = results.medians(measure)
    figures = [name for name in COLUMNS if any(name in each for each in medians.values())]
    heads = [*(COLUMNS[name][0] for name in figures), "times"]
    rows = [
        [CATALOGUE[name].title, *cells(medians[name], figures), times(medians, name, measure)]
        for name in ranked(medians, measure)
    ]
    return [
        row(["reader", *heads]),
        row(["---", *("---:" for _ in heads)]),
        *map(row, rows),
    ]


def ranked(medians: Mapping[str, Figures], measure: Measure) -> list[str]:
    """Return the readers, the best first."""
    return sorted(
        medians,
        key=lambda name: medians[name][measure.figure],
        reverse=measure.higher_is_better,
    )


def cells(found: Figures, figures: Sequence[str]) -> list[str]:
    """Return figures as the cells of a table."""
    return [COLUMNS[name][1].format(found[name]) if name in found else "-" for name in figures]


def times(medians: Mapping[str, Figures], reader: str, measure: Measure) -> str:
    """Return how many times better tandem-kafka is than a reader."""
    if OURS not in medians:
        return "-"
    ours, other = medians[OURS][measure.figure], medians[reader][measure.figure]
    above, below = (ours, other) if measure.higher_is_better else (other, ours)
    return f"{above / below:.2f}" if below else "-"


def row(texts: Iterable[str]) -> str:
    """Return a row of a Markdown table."""
    return "| " + " | ".join(texts) + " |"


def write_json(results: Results, plan: Plan, batch_bytes: int, path: Path) -> None:
    """All samples, the medians, and the conditions of the run."""
    content = results.content({**asdict(plan), "batch_bytes": batch_bytes})
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
