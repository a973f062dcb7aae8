"""The measures of workers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from benchmarks.plan import FULL, QUICK, Measure
from benchmarks.workers.crews import CREWS

__all__ = ["WORKERS_MEASURES", "WORKERS_PLAN", "WORKERS_QUICK"]

WORKERS_PLAN: Final = replace(FULL, runs=3, records={100: 1_000_000}, idle_s=4.0)
WORKERS_QUICK: Final = replace(QUICK, runs=1, records={100: 1_000_000}, idle_s=2.0)


_CLOCK: Final = (
    "A group with one member reads values of 100 bytes with 10,000 keys, and commits every five "
    "seconds. The clock runs from the first record that is done, for some seconds or until all are "
    "done. CPU is that of the process with the consumer."
)

WORKERS_MEASURES: Final = (
    Measure(
        "workers-sleep",
        "A handler that sleeps for 5 ms",
        "records_per_s",
        higher_is_better=True,
        method=_CLOCK,
        readers=tuple(name for name in CREWS if name != "workers-processes-2"),
    ),
    Measure(
        "workers-nothing",
        "A handler that does nothing",
        "records_per_s",
        higher_is_better=True,
        method=_CLOCK,
        readers=(
            *("workers-loop", "workers-threads-16", "workers-tasks-16", "workers-processes-2"),
        ),
    ),
    Measure(
        "workers-memory",
        "Memory with a million records in flight",
        "above_idle_mb",
        higher_is_better=False,
        method=(
            "`max_in_flight` is a million, and no handler returns until all are handed out. The "
            "limit of the metadata is 200,000 bytes, because the default pauses partitions "
            "earlier. “above idle” is the memory of the process minus that before the first poll. "
            "The loop keeps the same records in a list."
        ),
        readers=("workers-loop", "workers-threads-16", "workers-tasks-16"),
    ),
)
