"""Draws the results as a bar chart."""

from __future__ import annotations

import math
from itertools import zip_longest
from pathlib import Path
from typing import Any

import matplotlib as mpl

from benchmarks.plan import Measure
from benchmarks.readers.catalogue import CATALOGUE, OURS
from benchmarks.report import Results

__all__ = ["plot"]

_OURS_COLOUR, _OTHER_COLOUR = "#c44e52", "#8c9cb4"
_COLUMNS = 2
_UNITS = {
    "p50_ms": "p50 in ms (less is better)",
    "above_idle_mb": "MB (less is better)",
    "records_per_s": "thousand records/s (more is better)",
    "cpu_percent": "% of a core (less is better)",
}


def plot(results: Results, path: Path) -> None:
    """Draw a panel for each measure."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of a backend

    measures = results.measures()
    lines = math.ceil(len(measures) / _COLUMNS)
    figure, axes = plt.subplots(
        lines, _COLUMNS, figsize=(15, 2.6 * lines), squeeze=False, layout="constrained"
    )
    for panel, measure in zip_longest(axes.flat, measures):
        if measure is None:
            panel.set_visible(False)
        else:
            _draw(panel, results, measure)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _is_ours(name: str) -> bool:
    return CATALOGUE[name].title.startswith(CATALOGUE[OURS].title)


def _label(value: float) -> str:
    return f"{value:,.3g}" if value < 100 else f"{value:,.0f}"


def _draw(panel: Any, results: Results, measure: Measure) -> None:
    medians = results.medians(measure)
    # Bars are drawn from the bottom up, so the best comes last.
    names = sorted(
        medians,
        key=lambda name: medians[name][measure.figure],
        reverse=not measure.higher_is_better,
    )
    scale = 1000 if measure.figure == "records_per_s" else 1
    bars = panel.barh(
        [CATALOGUE[name].title for name in names],
        [medians[name][measure.figure] / scale for name in names],
        color=[_OURS_COLOUR if _is_ours(name) else _OTHER_COLOUR for name in names],
    )
    panel.bar_label(bars, fmt=_label, padding=3, fontsize=8)
    panel.margins(x=0.12)
    panel.set_title(measure.title, fontsize=10, loc="left")
    panel.set_xlabel(_UNITS[measure.figure], fontsize=8)
    panel.tick_params(labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)
