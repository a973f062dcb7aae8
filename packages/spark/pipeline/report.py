"""The printed output: events and status lines during the run, tables at the end."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from pipeline.compare import Line
from pipeline.progress import Batch, Progress

__all__ = ["Report"]

#: Seconds between two status lines: the minimum, and the maximum if nothing changes.
_EVERY_S, _SAME_S = 2.0, 10.0


class Report:
    """Prints to the terminal, in colour if supported."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._begin_s = time.monotonic()
        self._said_s = -_SAME_S
        self._said: object = None

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._begin_s

    def event(self, text: str) -> None:
        """Print an event."""
        self._console.print(f"{self.elapsed_s:5.1f} s  {text}", style="bold", markup=False)

    def state(self, produced: int, lags: dict[str, int]) -> None:
        """Print the status every other second, or less often while nothing changes."""
        now = (produced, *lags.values())
        if self.elapsed_s < self._said_s + (_SAME_S if now == self._said else _EVERY_S):
            return
        self._said_s, self._said = self.elapsed_s, now
        behind = "  ".join(f"{name} {lag:,}" for name, lag in lags.items())
        text = f"{self.elapsed_s:5.1f} s  produced {produced:,}  lag: {behind}"
        self._console.print(text, style="dim", markup=False)

    def figures(self, lines: Sequence[Line]) -> None:
        """Print the expected and the actual figures."""
        table = _table("Figures", "", "expected", "found")
        table.add_column("")
        for line in lines:
            verdict = "[green]equal[/]" if line.agrees else "[bold red]DIFFERENT[/]"
            table.add_row(line.name, f"{line.expected:,}", f"{line.found:,}", verdict)
        self._console.print()
        self._console.print(table)

    def speed(self, progress: Progress, lags: dict[str, int]) -> None:
        """Print a line for each query; `lags` are the largest."""
        table = _table(
            "Queries",
            "query",
            "batches",
            "median s",
            "longest s",
            "records",
            "records/s",
            "max lag",
        )
        for query, batches in progress.batches.items():
            table.add_row(query, *_speed(batches), f"{lags[query]:,}")
        self._console.print()
        self._console.print(table)

    def say(self, text: str, style: str | None = None) -> None:
        """Print a line of text."""
        self._console.print(text, style=style, markup=False, soft_wrap=True)


def _table(title: str, first: str, *numbers: str) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False
    )
    table.add_column(first, min_width=12)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _speed(batches: Sequence[Batch]) -> list[str]:
    durations = [batch.duration_s for batch in batches]
    rows = sum(batch.rows for batch in batches)
    at_work_s = sum(batch.duration_s for batch in batches if batch.rows)
    return [
        f"{len(batches):,}",
        f"{statistics.median(durations):.2f}",
        f"{max(durations):.2f}",
        f"{rows:,}",
        f"{rows / at_work_s:,.0f}" if at_work_s else "-",
    ]
