"""The results: medians, ratios, and tables of them."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from statistics import median

from benchmarks.measures import Figures
from benchmarks.plan import MEASURES, Measure, Plan
from benchmarks.readers.catalogue import CATALOGUE, OURS
from benchmarks.suite import Sample
from tests.kafka.jars import KAFKA_VERSION

__all__ = ["Results", "machine", "markdown", "write_json"]

_COLUMNS = {
    "records_per_s": ("records/s", "{:,.0f}"),
    "cpu_s_per_million": ("CPU s / million", "{:.2f}"),
    "peak_memory_mb": ("peak MB", "{:.0f}"),
    "first_batch_ms": ("first batch after ms", "{:.0f}"),
    "p50_ms": ("p50 ms", "{:.2f}"),
    "p99_ms": ("p99 ms", "{:.2f}"),
    "max_ms": ("max ms", "{:.1f}"),
    "cpu_percent": ("CPU %", "{:.2f}"),
    "memory_mb": ("memory MB", "{:.0f}"),
}
_METHOD = (
    "One broker and one reader at a time share the machine. Medians of {runs} runs, the readers "
    "in turns. Every reader has a process of its own and reads four partitions without a group, "
    "with the defaults of its client. Records are uncompressed, in batches of up to "
    "{batch_bytes:,} bytes. “times” compares the deciding figure with that of {ours}: above 1, "
    "{ours} is so many times ahead. confluent-kafka does not check the CRC of batches unless told "
    "to; all the others do."
)
_LIBRARIES = ("tandem-kafka", "kafka-python", "confluent-kafka", "aiokafka", "crc32c")


@dataclass(slots=True)
class Results:
    """Everything measured in one run."""

    samples: list[Sample]

    def measures(self) -> list[Measure]:
        """The measures that have samples."""
        names = {sample.measure for sample in self.samples}
        return [measure for measure in MEASURES if measure.name in names]

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

    def failures(self) -> list[str]:
        """What went wrong, once each."""
        told = (
            f"{sample.measure}, {sample.reader}: {sample.failure}"
            for sample in self.samples
            if sample.failure
        )
        return list(dict.fromkeys(told))


def machine() -> dict[str, str]:
    """What the figures depend on."""
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
    about = ", ".join(f"{name} {value}" for name, value in machine().items())
    parts = [
        "# Benchmarks",
        f"Made by `make bench` in one run: {about}.",
        _METHOD.format(runs=plan.runs, batch_bytes=batch_bytes, ours=CATALOGUE[OURS].title),
        "![plot](results.png)",
    ]
    for measure in results.measures():
        parts += [f"## {measure.title}", "\n".join(table(results, measure)), measure.method]
    if failures := results.failures():
        parts += ["## What failed", "\n".join(f"- {failure}" for failure in failures)]
    return "\n\n".join(parts) + "\n"


def table(results: Results, measure: Measure) -> list[str]:
    """A Markdown table, the best reader first."""
    medians = results.medians(measure)
    figures = [name for name in _COLUMNS if any(name in each for each in medians.values())]
    heads = [*(_COLUMNS[name][0] for name in figures), "times"]
    ordered = sorted(
        medians.items(),
        key=lambda item: item[1][measure.figure],
        reverse=measure.higher_is_better,
    )
    rows = [
        [CATALOGUE[name].title, *_cells(found, figures), _times(medians, name, measure)]
        for name, found in ordered
    ]
    return [
        _row(["reader", *heads]),
        _row(["---", *("---:" for _ in heads)]),
        *(_row(row) for row in rows),
    ]


def _cells(found: Figures, figures: Sequence[str]) -> list[str]:
    return [_COLUMNS[name][1].format(found[name]) if name in found else "-" for name in figures]


def _times(medians: dict[str, Figures], reader: str, measure: Measure) -> str:
    if OURS not in medians:
        return "-"
    ours, other = medians[OURS][measure.figure], medians[reader][measure.figure]
    above, below = (ours, other) if measure.higher_is_better else (other, ours)
    return f"{above / below:.2f}" if below else "-"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def write_json(results: Results, plan: Plan, batch_bytes: int, path: Path) -> None:
    """Every sample, the medians, and what they depend on."""
    content = {
        "machine": machine(),
        "plan": {**asdict(plan), "batch_bytes": batch_bytes},
        "medians": {each.name: results.medians(each) for each in results.measures()},
        "samples": [asdict(sample) for sample in results.samples],
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
