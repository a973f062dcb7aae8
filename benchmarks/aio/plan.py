"""The measures of clients for asyncio, and their targets."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from benchmarks.aio.applications import APPLICATIONS
from benchmarks.plan import FULL, QUICK, SIZES, Measure

__all__ = ["AIO_MEASURES", "AIO_PLAN", "AIO_QUICK"]

AIO_PLAN: Final = replace(FULL, runs=5, records={100: 2_000_000, 1000: 600_000})
AIO_QUICK: Final = replace(QUICK, runs=1, records={100: 500_000, 1000: 200_000})

_CLOCK: Final = (
    "The lengths of all values are summed, in one task. The clock starts with the first record or "
    "batch, which is not counted. CPU is that of the whole process."
)
_EACH: Final = (
    "AIOConsumer has no `async for`: its application awaits `poll()`, which returns one message."
)
_BATCHES: Final = (
    "The application awaits one batch after the other: `batches()`, with 500 records by default; "
    "`getmany()` without a limit; `consume(5000)`."
)
_LATENCY: Final = (
    "A separate process writes at an even pace, without lingering. The time runs from before "
    "`produce()` until the application has the record. CPU is that of the reader's process."
)


def _readers(kind: str) -> tuple[str, ...]:
    return tuple(name for name in APPLICATIONS if name.endswith(f"-{kind}"))


def _throughput(kind: str, title: str, method: str, size: int) -> Measure:
    title = f"{title}, values of {size} bytes"
    return Measure(
        f"aio-{kind}-{size}", title, "records_per_s", True, f"{method} {_CLOCK}", _readers(kind)
    )


AIO_MEASURES: Final = (
    *(_throughput("each", "Record by record", _EACH, size) for size in SIZES),
    *(_throughput("batches", "In batches", _BATCHES, size) for size in SIZES),
    Measure(
        "aio-latency",
        "End-to-end latency at 500 records a second",
        "p50_ms",
        higher_is_better=False,
        method=_LATENCY,
        readers=_readers("latency"),
    ),
)
