"""The plot: records over time, the lag of each query, and the dead letters written twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

from pipeline.lag import Samples, lag_over_time
from pipeline.progress import Progress

__all__ = ["draw"]

_COLOURS: Final = {"dead-letters": "#dd8452", "orders": "#4c72b0", "totals": "#55a868"}
_THOUSAND: Final = 1_000


def draw(
    path: Path,
    produced: Samples,
    progress: Progress,
    outage: tuple[float, float],
    letters: Sequence[tuple[float, str]],
) -> None:
    """Draw a PNG file.

    Args:
        path: The file.
        produced: The number of orders over time.
        progress: The micro-batches.
        outage: The time from the kill to the next batch, in seconds.
        letters: The time of each dead letter in Kafka, and its key.
    """
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of a backend

    begin_s = produced[0][0]
    figure, (above, below, last) = plt.subplots(
        3, 1, figsize=(9, 9), sharex=True, layout="constrained", height_ratios=(3, 2, 2)
    )
    above.plot(*_points(produced, begin_s), color="black", label="produced")
    for name, batches in progress.batches.items():
        colour = _COLOURS.get(name)
        done = [(begin_s, 0), *((batch.end_s, batch.position) for batch in batches)]
        above.step(*_points(done, begin_s), where="post", color=colour, label=f"query {name}")
        lag = lag_over_time(produced, batches)
        below.plot(*_points(lag, begin_s), color=colour, label=f"query {name}")
    _draw_letters(last, letters, begin_s)
    for panel in (above, below, last):
        _decorate(panel, outage[0] - begin_s, outage[1] - begin_s)
    text, top = " job killed,\n started again", above.get_xaxis_transform()
    above.text(outage[0] - begin_s, 0.04, text, transform=top, color="#c44e52")
    above.set_title("Orders produced, and processed by each query of the job")
    above.set_ylabel("records, in thousands")
    above.legend(loc="upper left")
    below.set_title("Lag: produced and not yet processed")
    below.set_ylabel("records, in thousands")
    last.set_xlabel("seconds since the first order was produced")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_letters(panel: Any, letters: Sequence[tuple[float, str]], begin_s: float) -> None:
    """Draw a point for each letter; copies are crosses at the height of the first one."""
    numbers: dict[str, int] = {}
    first: list[tuple[float, int]] = []
    again: list[tuple[float, int]] = []
    for at_s, key in letters:
        copies = again if key in numbers else first
        copies.append((at_s - begin_s, numbers.setdefault(key, len(numbers) + 1)))
    panel.scatter(*zip(*first, strict=True), s=4, color=_COLOURS["dead-letters"], label="written")
    if again:
        label = f"written again ({len(again)})"
        panel.scatter(*zip(*again, strict=True), s=40, marker="x", color="#c44e52", label=label)
    panel.set_title("Dead letters in Kafka, at least once: the killed batch is repeated")
    panel.set_ylabel("number of the letter")
    panel.legend(loc="upper left")


def _points(samples: Samples, begin_s: float) -> tuple[list[float], list[float]]:
    return [at_s - begin_s for at_s, _ in samples], [count / _THOUSAND for _, count in samples]


def _decorate(panel: Any, killed_s: float, back_s: float) -> None:
    panel.axvspan(killed_s, back_s, color="#c44e52", alpha=0.15, linewidth=0)
    panel.axvline(killed_s, color="#c44e52", linestyle="--")
    panel.margins(x=0.01)
    panel.set_ylim(bottom=0)
    panel.grid(alpha=0.3)
    panel.spines[["top", "right"]].set_visible(False)
