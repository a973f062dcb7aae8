"""The measures that run inside a reader's process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.readers.base import Reader
from benchmarks.usage import cpu_s, peak_memory_mb

__all__ = ["Figures", "handler_of", "measure_idle", "measure_latency", "measure_throughput"]

Figures = dict[str, float]

_POLL_S = 1.0
_PATIENCE_S = 30.0


@dataclass(slots=True)
class _Mark:
    """Where a measurement stands."""

    seconds: float
    cpu: float
    records: int

    @classmethod
    def now(cls, records: int) -> _Mark:
        return cls(time.monotonic(), cpu_s(), records)


def handler_of(loops: int) -> Callable[[bytes], None]:
    """A handler that burns the time of `loops` empty turns for a record."""
    turns = range(loops)

    def handle(value: bytes) -> None:
        for _ in turns:
            pass
        len(value)

    return handle


def measure_throughput(
    reader: Reader, count: int, size: int, handle: Callable[[bytes], None] | None
) -> Figures:
    """Read `count` records; the clock runs from the first batch handed out to the last.

    The records of the first batch start the clock and are not counted, so that connecting, metadata
    and the first fetch are left out for every reader alike.
    """
    opened = time.monotonic()
    seen, read_bytes = _take(_next(reader), handle)
    first = _Mark.now(seen)
    while seen < count:
        records, length = _take(_next(reader), handle)
        seen += records
        read_bytes += length
    last = _Mark.now(seen)
    if read_bytes != seen * size:
        raise RuntimeError(f"{read_bytes} bytes in {seen} records of {size}")
    counted = last.records - first.records
    if not counted:
        raise RuntimeError("everything came in one batch: read more records")
    return {
        "records_per_s": counted / (last.seconds - first.seconds),
        "cpu_s_per_million": (last.cpu - first.cpu) / counted * 1_000_000,
        "peak_memory_mb": peak_memory_mb(),
        "first_batch_ms": (first.seconds - opened) * 1000,
    }


def _next(reader: Reader) -> list[bytes]:
    deadline = time.monotonic() + _PATIENCE_S
    while not (values := reader.values(_POLL_S)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no record for {_PATIENCE_S:.0f} s")
    return values


def _take(values: list[bytes], handle: Callable[[bytes], None] | None) -> tuple[int, int]:
    if handle is not None:
        for value in values:
            handle(value)
    return len(values), sum(map(len, values))


def measure_latency(reader: Reader, ready: Callable[[], None], count: int, skip: int) -> Figures:
    """Time from before `produce()` to the record in the application's hands.

    Every value is the time of its making, in nanoseconds of the clock that all processes of the
    machine share. The first `skip` records are not counted.
    """
    reader.values(_POLL_S)  # connect and find the end before anything is written
    ready()
    delays_ms: list[float] = []
    while len(delays_ms) < count:
        values = _next(reader)
        now = time.monotonic_ns()
        delays_ms += [(now - int(value)) / 1_000_000 for value in values]
    counted = sorted(delays_ms[skip:])
    return {
        "p50_ms": counted[len(counted) // 2],
        "p99_ms": counted[len(counted) * 99 // 100],
        "max_ms": counted[-1],
    }


def measure_idle(reader: Reader, settle_s: float, seconds: float) -> Figures:
    """CPU while polling with a timeout of a second and nothing comes, in percent of one core."""
    _poll_for(reader, settle_s)
    begin = _Mark.now(0)
    _poll_for(reader, seconds)
    end = _Mark.now(0)
    return {
        "cpu_percent": (end.cpu - begin.cpu) / (end.seconds - begin.seconds) * 100,
        "memory_mb": peak_memory_mb(),
    }


def _poll_for(reader: Reader, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if reader.values(_POLL_S):
            raise RuntimeError("a record came where none should")
