"""The measures of the usual ways of reading, and their targets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from benchmarks.plan import FULL, QUICK, Measure
from benchmarks.ways.columns import BYTES
from benchmarks.ways.documents import ENCODINGS, SIZES
from benchmarks.ways.readers import WAYS

__all__ = ["COLUMN_MEASURES", "GOALS", "WAYS_PLAN", "WAYS_QUICK", "WAY_MEASURES", "Goal"]

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


_FIELDS: Final = {
    80: "Five fields, one of them a list.",
    1000: "Six fields; one of them is a list of ten records of three fields.",
}

#: Libraries that are measured if they are installed.
_FAST: Final = tuple(name for name in ("orjson", "msgspec") if f"way-{name}" in WAYS)

#: From documents to Arrow columns, with a file of results of their own.
COLUMN_MEASURES: Final = tuple(
    Measure(
        f"columns-{encoding}-{size}",
        f"{title} of {size:,} bytes, to Arrow columns",
        "records_per_s",
        higher_is_better=True,
        method=f"{_FIELDS[size]} {_METHOD}",
        readers=(BYTES, *(way for way in WAYS if way.startswith(f"way-columns-{encoding}-{size}"))),
    )
    for encoding, title in (("json", "JSON"), ("avro", "Avro"), ("protobuf", "Protobuf"))
    for size in SIZES
)

WAY_MEASURES: Final = (
    _measure("plain", "Values of 100 bytes", "No keys, no compression."),
    _measure("json", "JSON documents of 80 bytes", "The values are decoded by json.loads."),
    *(
        _measure(library, f"JSON documents of 80 bytes, {library}", f"Decoded by {library}.")
        for library in _FAST
    ),
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
    Goal("ways-plain", "way-same", 0.8, "way-poll"),
    Goal("ways-plain", "way-lists", 0.5, "way-poll"),
    *(
        Goal(f"ways-{library}", way, factor, f"way-{library}-{other}")
        for library in ("json", *_FAST)
        for way in (f"way-{library}", f"way-{library}-loop")
        for factor, other in ((0.95, "inside"), (1.0, "consume"))
    ),
    *(
        Goal(
            f"columns-{encoding}-{size}",
            way := f"way-columns-{encoding}-{size}",
            factor,
            f"{way}-{other}",
        )
        for size in SIZES
        for encoding, factor, other in (
            ("json", 15, "loads"),
            ("json", 3, "polars"),
            ("avro", 20, "confluent"),
            ("avro", 5, "fastavro"),
        )
    ),
    *(
        Goal(f"columns-{encoding}-80", f"way-columns-{encoding}-80", 0.25, BYTES)
        for encoding in ENCODINGS
    ),
    Goal("ways-both", "way-both", 0.9, "way-both-inside"),
    Goal("ways-both", "way-both", 1.2, "way-both-consume"),
    Goal("ways-both", "way-both-loop", 0.9, "way-both-inside"),
    Goal("ways-both", "way-both-loop", 1.2, "way-both-consume"),
)
