"""The measures of the usual ways of reading, and their targets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from benchmarks.plan import FULL, QUICK, Measure
from benchmarks.ways.readers import WAYS

__all__ = ["GOALS", "WAYS_PLAN", "WAYS_QUICK", "WAY_MEASURES", "Goal"]

WAYS_PLAN: Final = replace(FULL, runs=5, records={100: 2_000_000}, documents=300_000)
WAYS_QUICK: Final = replace(QUICK, runs=1, records={100: 1_000_000}, documents=200_000)

_METHOD: Final = (
    "The clock runs from the first iteration of the application's loop to the last, as in "
    "“Throughput”. Every value is read."
)


def _measure(name: str, title: str, method: str) -> Measure:
    kinds = {
        "plain": {"poll", "loop", "lists", "unpacked", "same", "consume", "kafka"},
        "json": {"json"},
    }
    selected = kinds.get(name, {name})
    readers = tuple(way for way in WAYS if way.split("-")[1] in selected)
    text = f"{method} {_METHOD}"
    return Measure(f"ways-{name}", title, "records_per_s", True, text, readers)


WAY_MEASURES: Final = (
    _measure("plain", "Values of 100 bytes", "No keys, no compression."),
    _measure("json", "JSON documents of 80 bytes", "The values are decoded by json.loads."),
    _measure(
        "both",
        "JSON documents of 80 bytes, with keys",
        "Values by a function that runs json.loads(data.decode()), keys by one that decodes UTF-8.",
    ),
)


@dataclass(frozen=True, slots=True)
class Goal:
    """A target: a way must be `factor` times as fast as another one."""

    measure: str
    way: str
    factor: float
    other: str


GOALS: Final = (
    Goal("ways-plain", "way-loop", 0.5, "way-poll"),
    Goal("ways-plain", "way-same", 0.6, "way-poll"),
    Goal("ways-plain", "way-lists", 0.5, "way-poll"),
    Goal("ways-json", "way-json", 0.9, "way-json-inside"),
    Goal("ways-json", "way-json", 1.2, "way-json-consume"),
    Goal("ways-json", "way-json-loop", 0.9, "way-json-inside"),
    Goal("ways-json", "way-json-loop", 1.2, "way-json-consume"),
    Goal("ways-both", "way-both", 0.9, "way-both-inside"),
    Goal("ways-both", "way-both", 1.2, "way-both-consume"),
    Goal("ways-both", "way-both-loop", 0.9, "way-both-inside"),
    Goal("ways-both", "way-both-loop", 1.2, "way-both-consume"),
)
