"""Puts the figures of `benchmarks/results` into the README: `python -m benchmarks.publish`.

They are the overview between two comments, and the charts. The manual gets its figures when it is
built. A page of it says in a comment which ones:

    <!-- figures of results.json: throughput-100: records_per_s cpu_us_per_record times -->
    <!-- figures of results.json: tandem confluent-tuned: records_per_s: tls handler -->

The first is a table with a row for each client, the second has a row for each measure and a column
for each client.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from benchmarks.aio.plan import AIO_MEASURES
from benchmarks.groups.plan import GROUP_MEASURES
from benchmarks.measures import Figures
from benchmarks.options.plan import OPTION_MEASURES
from benchmarks.plan import MEASURES, Measure
from benchmarks.readers.catalogue import ARROW, CATALOGUE, DRAIN, JAVA, OURS, TUNED
from benchmarks.report import COLUMNS, cells, ranked, row, times
from benchmarks.share.plan import SHARE_MEASURES
from benchmarks.start.plan import START_MEASURES
from benchmarks.ways.plan import COLUMN_MEASURES, WAY_MEASURES
from benchmarks.workers.plan import WORKERS_MEASURES

__all__ = ["figures", "two_digits"]

_ROOT: Final = Path(__file__).parents[1]
_RESULTS: Final = Path(__file__).with_name("results")
_README: Final = _ROOT / "README.md"
#: The files of the chart, and their colours: text, our bars, other bars.
_CHARTS: Final = {
    _ROOT / "docs" / "_static" / "throughput-light.svg": ("#24292f", "#b3363b", "#9aa7b8"),
    _ROOT / "docs" / "_static" / "throughput-dark.svg": ("#e6edf3", "#e06c70", "#5b6b80"),
}
_KNOWN: Final = (
    *(*MEASURES, *WAY_MEASURES, *COLUMN_MEASURES, *AIO_MEASURES, *WORKERS_MEASURES),
    *(*GROUP_MEASURES, *SHARE_MEASURES, *START_MEASURES, *OPTION_MEASURES),
)
_TABLE: Final = re.compile(r"(?<=<!-- overview -->\n).*(?=<!-- end -->)", re.DOTALL)
_VERSION: Final = re.compile(r"(?<=of version )[\d.]+(?= on two cores)")
_CRC32C: Final = "kafka-python-crc32c"
#: The rows of the overview: work, file, measure, and the readers of its columns.
_OVERVIEW: Final = (
    ("`for record in consumer`, values of 100 bytes", "ways", "ways-plain",
     ("way-loop", "way-consume", "way-kafka-loop")),
    ("`poll()`, values of 100 bytes", "results", "throughput-100", (OURS, TUNED, _CRC32C)),
    ("`poll()`, values of 1,000 bytes", "results", "throughput-1000", (OURS, TUNED, _CRC32C)),
    ("`poll()` with `value_deserializer=json.loads`, 80 bytes", "ways", "ways-json",
     ("way-json", "way-json-consume", "way-json-kafka")),
    ("`poll_arrow()`, values of 100 bytes", "results", "throughput-100", (ARROW, "", "")),
)  # fmt: skip
_CHART: Final = (OURS, JAVA, TUNED, "aiokafka", _CRC32C)


def main() -> None:
    """Write the overview and the charts."""
    text = _README.read_text(encoding="utf-8")
    text = _TABLE.sub("\n" + "\n".join(_overview()) + "\n\n", text)
    text = _VERSION.sub(_content("results.json")["machine"]["tandem-kafka"], text)
    _README.write_text(text, encoding="utf-8")
    for path, colours in _CHARTS.items():
        path.write_text(_chart(*colours), encoding="utf-8")


def figures(file: str, chosen: str) -> str:
    """Return the table of figures that a comment in a page asks for."""
    return "\n".join(_table(file, chosen)) + "\n"


@cache
def _content(file: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((_RESULTS / file).read_text(encoding="utf-8"))
    return content


def _medians(file: str) -> dict[str, dict[str, Figures]]:
    medians: dict[str, dict[str, Figures]] = _content(file)["medians"]
    return medians


def _table(file: str, chosen: str) -> Iterator[str]:
    first, figures, *measures = (part.split() for part in chosen.split(":"))
    if measures:
        return _by_measure(file, first, figures[0], measures[0])
    return _by_client(file, _measure(first[0]), figures)


def _measure(name: str) -> Measure:
    return next(measure for measure in _KNOWN if measure.name == name)


def _by_client(file: str, measure: Measure, figures: Sequence[str]) -> Iterator[str]:
    medians = _medians(file)[measure.name]
    yield row(["client", *map(_heading, figures)])
    yield row(["---", *("---:" for _ in figures)])
    for name in ranked(medians, measure):
        if name != DRAIN:
            title = CATALOGUE[name].title
            shown = f"**{title}**" if title.startswith(CATALOGUE[OURS].title) else title
            yield row([shown, *(_cell(medians, name, figure, measure) for figure in figures)])


def _by_measure(
    file: str, clients: Sequence[str], figure: str, measures: Sequence[str]
) -> Iterator[str]:
    yield row([_heading(figure), *(CATALOGUE[name].title for name in clients)])
    yield row(["---", *("---:" for _ in clients)])
    for name in measures:
        measure, medians = _measure(name), _medians(file)[name]
        yield row([measure.title, *(_cell(medians, each, figure, measure) for each in clients)])


def _heading(figure: str) -> str:
    return "times" if figure == "times" else COLUMNS[figure][0]


def _cell(medians: dict[str, Figures], reader: str, figure: str, measure: Measure) -> str:
    if figure == "times":
        return times(medians, reader, measure)
    [shown] = cells(medians.get(reader, {}), [figure])
    return shown


def _overview() -> Iterator[str]:
    yield row(["records per second", *(CATALOGUE[name].title for name in (OURS, TUNED, _CRC32C))])
    yield row(["---", "---:", "---:", "---:"])
    for work, file, measure, readers in _OVERVIEW:
        medians = _medians(f"{file}.json")[measure]
        yield row(
            [
                work,
                *(two_digits(medians[name]["records_per_s"]) if name else "-" for name in readers),
            ]
        )


def two_digits(rate: float) -> str:
    """Return a rate with two digits: the runs differ by more than what follows."""
    rounded = float(f"{rate:.2g}")
    if rounded < 1_000_000:
        return f"{rounded:,.0f}"
    return f"{rounded / 1_000_000:.{1 if rounded < 10_000_000 else 0}f} M"


def _chart(text: str, ours: str, others: str) -> str:
    """Return the throughput of some clients as an SVG bar chart in these colours."""
    left, width, line, y = 190, 440, 24, 0
    parts: list[str] = []
    for size in (100, 1000):
        medians = _medians("results.json")[f"throughput-{size}"]
        rates = {name: medians[name]["records_per_s"] for name in _CHART}
        y += 22
        parts.append(
            f'<text x="0" y="{y}" font-weight="600">Values of {size:,} bytes, records/s</text>'
        )
        for name in sorted(rates, key=lambda name: -rates[name]):
            y += line
            long = max(2, round(width * rates[name] / max(rates.values())))
            colour = ours if name == OURS else others
            parts += [
                f'<text x="{left - 8}" y="{y}" text-anchor="end">{CATALOGUE[name].title}</text>',
                f'<rect x="{left}" y="{y - 13}" width="{long}" height="16" fill="{colour}"/>',
                f'<text x="{left + long + 6}" y="{y}">{two_digits(rates[name])}</text>',
            ]
        y += 18
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 {y}" width="700" height="{y}" '
        f'role="img" fill="{text}" font-family="system-ui, sans-serif" font-size="14">'
    )
    return "\n".join([head, "<title>Records per second by client</title>", *parts, "</svg>", ""])


if __name__ == "__main__":
    main()
