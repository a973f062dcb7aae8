"""The plot: records over time, and the lag of each query."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

from pipeline.lag import Samples, lag_over_time
from pipeline.progress import Progress

__all__ = ["draw"]

_COLOURS: Final = {"dead-letters": "#dd8452", "orders": "#4c72b0", "totals": "#55a868"}
_THOUSAND: Final = 1_000


def draw(path: Path, produced: Samples, progress: Progress, outage: tuple[float, float]) -> None:
    """Draw a PNG file; `outage` is the time from the kill to the next batch, in seconds."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of a backend

    begin_s = produced[0][0]
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(9, 7), sharex=True, layout="constrained", height_ratios=(3, 2)
    )
    above.plot(*_points(produced, begin_s), color="black", label="produced")
    for name, batches in progress.batches.items():
        colour = _COLOURS.get(name)
        done = [(begin_s, 0), *((batch.end_s, batch.position) for batch in batches)]
        above.step(*_points(done, begin_s), where="post", color=colour, label=f"query {name}")
        lag = lag_over_time(produced, batches)
        below.plot(*_points(lag, begin_s), color=colour, label=f"query {name}")
    for panel in (above, below):
        _decorate(panel, outage[0] - begin_s, outage[1] - begin_s)
    text, top = " job killed,\n started again", above.get_xaxis_transform()
    above.text(outage[0] - begin_s, 0.04, text, transform=top, color="#c44e52")
    above.set_title("Orders produced, and processed by each query of the job")
    above.set_ylabel("records, in thousands")
    above.legend(loc="upper left")
    below.set_title("Lag: produced and not yet processed")
    below.set_ylabel("records, in thousands")
    below.set_xlabel("seconds since the first order was produced")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _points(samples: Samples, begin_s: float) -> tuple[list[float], list[float]]:
    return [at_s - begin_s for at_s, _ in samples], [count / _THOUSAND for _, count in samples]


def _decorate(panel: Any, killed_s: float, back_s: float) -> None:
    panel.axvspan(killed_s, back_s, color="#c44e52", alpha=0.15, linewidth=0)
    panel.axvline(killed_s, color="#c44e52", linestyle="--")
    panel.margins(x=0.01)
    panel.set_ylim(bottom=0)
    panel.grid(alpha=0.3)
    panel.spines[["top", "right"]].set_visible(False)
