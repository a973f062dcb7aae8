"""The figures of the README are those of the benchmark results in the tree."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.docs.pages import ROOT

#: The cells of each row: the file of results, the measure and the reader that they come from.
_ROWS = {
    "`for record in consumer`, values of 100 bytes": (
        ("ways", "ways-plain", "way-loop"),
        ("ways", "ways-plain", "way-consume"),
        ("ways", "ways-plain", "way-kafka-loop"),
    ),
    "`poll()`, values of 100 bytes": (
        ("ways", "ways-plain", "way-poll"),
        ("ways", "ways-plain", "way-consume"),
        ("ways", "ways-plain", "way-kafka-poll"),
    ),
    "`poll()` with `json.loads`, 80 bytes": (
        ("ways", "ways-json", "way-json"),
        ("ways", "ways-json", "way-json-consume"),
        ("ways", "ways-json", "way-json-kafka"),
    ),
    "`poll()`, values of 1,000 bytes": (
        ("results", "throughput-1000", "tandem"),
        ("results", "throughput-1000", "confluent-tuned"),
        ("results", "throughput-1000", "kafka-python-crc32c"),
    ),
    "`poll_arrow()`, values of 100 bytes": (("results", "throughput-100", "tandem-arrow"),),
}


def _medians(file: str) -> dict[str, Any]:
    path = ROOT / "benchmarks/results" / f"{file}.json"
    medians: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["medians"]
    return medians


def _shown() -> dict[str, list[str]]:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    return {row[0]: [cell for cell in row[1:] if cell != "-"] for row in cells}


def test_the_readme_shows_measured_figures() -> None:
    shown = _shown()
    for row, sources in _ROWS.items():
        measured = [
            f"{_medians(file)[measure][reader]['records_per_s']:,.0f}"
            for file, measure, reader in sources
        ]
        assert shown[row] == measured, row


def test_the_readme_shows_the_measured_latency() -> None:
    medians = _medians("results")["latency"]
    ours, other = medians["tandem"]["p50_ms"], medians["confluent"]["p50_ms"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"records a second is ([\d.]+) ms beside ([\d.]+) ms", text)
    assert found is not None
    assert found.groups() == (f"{ours:.1f}", f"{other:.1f}")
