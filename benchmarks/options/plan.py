"""The measures of options."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from benchmarks.plan import FULL, Measure
from benchmarks.readers.catalogue import OURS
from benchmarks.readers.variants import VARIANTS

__all__ = ["OPTIONS", "OPTION_MEASURES"]

#: Few records, because there are many variants and only large effects matter.
OPTIONS: Final = replace(FULL, runs=3, records={1000: 600_000}, handled=250_000)

_ROWS: Final = [name for name, variant in VARIANTS.items() if variant.arrow is None]

OPTION_MEASURES: Final = (
    Measure(
        "options-idle",
        "An application that only reads the values",
        "records_per_s",
        higher_is_better=True,
        method="Values of 1000 bytes without compression, as in “Throughput”.",
        readers=(OURS, *VARIANTS),
    ),
    Measure(
        "options-handler",
        "An application that spends about 2 µs of Python on each value",
        "records_per_s",
        higher_is_better=True,
        method="The same topic; the handler never releases the GIL by itself.",
        readers=(OURS, *_ROWS),
    ),
)
