"""The results as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.spark.measuring import Cost
from benchmarks.spark.steady import Steady
from benchmarks.spark.tables import NOTHING, OURS

__all__ = ["Report"]


class Report:
    """Prints the results, and keeps them for a file."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def say(self, line: str = "") -> None:
        """Print one line, and keep it."""
        print(line, flush=True)
        self._lines.append(line)

    def costs(self, work: str, found: Mapping[str, Cost], count: int | None = None) -> None:
        """Add a table with medians; `count` is the number of records, if the work reads them."""
        self.say(f"\n## {work}\n")
        self.say(
            "| source | seconds | million records/s | times | CPU s: JVM | children | CPU times |"
        )
        self.say("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        for source, cost in found.items():
            read = None if source == NOTHING else count
            rate = "-" if read is None else f"{read / cost.wall / 1e6:.2f}"
            times = cost.wall / found[OURS].wall
            cpu = "- | - | -"
            if cost.processors:
                less = cost.processors / found[OURS].processors
                cpu = f"{cost.jvm:.2f} | {cost.children:.2f} | {less:.2f}"
            self.say(f"| {source} | {cost.wall:.2f} | {rate} | {times:.2f} | {cpu} |")

    def steady(self, work: str, found: Mapping[str, Steady]) -> None:
        """Add a table of streams."""
        self.say(f"\n## {work}\n")
        self.say(
            "| source | batches | p50 s | p95 s | CPU s of a batch | JVM | children "
            "| record to sink, median s | oldest of a batch, p95 s |"
        )
        self.say("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
        for source, each in found.items():
            self.say(f"| {source} | {' | '.join(each.row())} |")

    def sizing(self, measured: Mapping[int, float], count: int, size: int, cores: int) -> None:
        """Fit the model of `docs/reference/spark.md`, and check it against other runs."""
        few, many = min(measured), max(measured)
        per_range = (measured[many] - measured[few]) / (many - few)
        reading = measured[few] - few * per_range
        self.say(f"\n## {count:,} records of {size} bytes in ranges\n")
        self.say(
            f"A range costs a core {per_range * cores * 1_000:.0f} ms, regardless of its size; a "
            f"core reads {count * size / reading / cores / 1e6:.0f} MB/s.\n"
        )
        self.say("| ranges | seconds | by the model |")
        self.say("| ---: | ---: | ---: |")
        for ranges, seconds in measured.items():
            predicted = "fitted" if ranges in {few, many} else f"{ranges * per_range + reading:.2f}"
            self.say(f"| {ranges} | {seconds:.2f} | {predicted} |")

    def write(self, file: Path) -> None:
        """Write all lines to a file."""
        file.write_text("\n".join(self._lines) + "\n", encoding="utf-8")
