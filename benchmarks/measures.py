"""The measures that run inside a reader's process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks.readers.base import CountingReader, GroupReader, Reader, Source
from benchmarks.usage import cpu_s, memory_mb, peak_memory_mb

__all__ = [
    "Figures",
    "Handler",
    "Mark",
    "delays",
    "handler_of",
    "measure_idle",
    "measure_latency",
    "measure_memory",
    "measure_throughput",
    "rates",
    "taking",
]

Figures = dict[str, float]
Handler = Callable[[bytes], None]
#: Polls once; returns the number of records and the bytes of their values.
Take = Callable[[float], tuple[int, int]]

_POLL_S = 1.0
_PATIENCE_S = 30.0
_ASSIGNED_S = 120.0
_LATENCY_S = 120.0


@dataclass(slots=True)
class Mark:
    """The clock, CPU time and record count at one moment of a measurement."""

    seconds: float
    cpu: float
    records: int

    @classmethod
    def now(cls, records: int) -> Mark:
        """Return the mark of this moment, at which `records` records have been read."""
        return cls(time.monotonic(), cpu_s(), records)

    def cpu_since(self, first: Mark) -> Figures:
        """Return the CPU time of each record since another mark."""
        counted = self.records - first.records
        if not counted:
            raise RuntimeError("all records arrived in one batch: read more records")
        return {"cpu_us_per_record": (self.cpu - first.cpu) / counted * 1_000_000}


def handler_of(loops: int) -> Handler:
    """Return a handler that runs `loops` empty iterations for each record."""
    turns = range(loops)

    def handle(value: bytes) -> None:
        for _ in turns:
            pass
        len(value)

    return handle


def taking(reader: Reader, handle: Handler | None) -> Take:
    """Return a function that polls once, accesses every value, and returns the counts."""
    if isinstance(reader, CountingReader):
        return reader.count

    def take(timeout_s: float) -> tuple[int, int]:
        values = reader.values(timeout_s)
        if handle is not None:
            for value in values:
                handle(value)
        return len(values), sum(map(len, values))

    return take


def measure_throughput(take: Take, count: int, size: int) -> Figures:
    """Read `count` records of `size` bytes, and measure from the first batch to the last.

    The first batch starts the clock and is not counted. This excludes connecting, metadata and the
    first fetch for every reader.
    """
    opened = time.monotonic()
    seen, read_bytes = _some(take)
    first = Mark.now(seen)
    while seen < count:
        records, length = _some(take)
        seen += records
        read_bytes += length
    last = Mark.now(seen)
    if read_bytes != seen * size:
        raise RuntimeError(f"{read_bytes} bytes in {seen} records of {size}")
    return rates(first, last, opened)


def rates(first: Mark, last: Mark, opened: float) -> Figures:
    """Return the figures of the records between two marks of a client opened at a time."""
    cpu = last.cpu_since(first)
    return {
        "records_per_s": (last.records - first.records) / (last.seconds - first.seconds),
        **cpu,
        "peak_memory_mb": peak_memory_mb(),
        "first_batch_ms": (first.seconds - opened) * 1000,
    }


def measure_memory(
    open_at: Callable[[Source], Reader], source: Source, count: int, handle: Handler
) -> Figures:
    """Measure the peak memory during a backlog, minus the memory of an idle reader.

    The idle reader runs before in the same process, at the end of the same topic.
    """
    idle = open_at(replace(source, from_end=True))
    try:
        _poll_for(idle, _POLL_S)
        idle_mb = memory_mb()
    finally:
        idle.close()
    reader = open_at(source)
    try:
        figures = measure_throughput(taking(reader, handle), count, source.size)
    finally:
        reader.close()
    return {
        "above_idle_mb": peak_memory_mb() - idle_mb,
        "peak_memory_mb": peak_memory_mb(),
        "idle_memory_mb": idle_mb,
        "records_per_s": figures["records_per_s"],
    }


def _some(take: Take) -> tuple[int, int]:
    deadline = time.monotonic() + _PATIENCE_S
    while not (taken := take(_POLL_S))[0]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no record for {_PATIENCE_S:.0f} s")
    return taken


def measure_latency(reader: Reader, ready: Callable[[], None], count: int, skip: int) -> Figures:
    """Measure the time from before `produce()` until the application has the record.

    Each value is the time at which it was created, in nanoseconds of a clock that all processes
    share. The first `skip` records are not counted. CPU is that of the reader's process.
    """
    reader.values(_POLL_S)  # connect and find the end before the first record is written
    ready()
    delays_ms: list[float] = []
    begin, first = time.monotonic(), Mark.now(0)
    while len(delays_ms) < count:
        if len(delays_ms) <= skip:
            first = Mark.now(len(delays_ms))
        values = reader.values(_POLL_S)
        if not values and time.monotonic() - begin > _LATENCY_S:
            raise TimeoutError(f"{len(delays_ms)} of {count} records after {_LATENCY_S:.0f} s")
        now = time.monotonic_ns()
        delays_ms += [(now - int(value)) / 1_000_000 for value in values]
    return {**delays(delays_ms[skip:]), **Mark.now(len(delays_ms)).cpu_since(first)}


def delays(delays_ms: list[float]) -> Figures:
    """Return percentiles of delays in milliseconds."""
    counted = sorted(delays_ms)
    return {
        "p50_ms": counted[len(counted) // 2],
        "p99_ms": counted[len(counted) * 99 // 100],
        "max_ms": counted[-1],
    }


def measure_idle(reader: Reader, partitions: int, settle_s: float, seconds: float) -> Figures:
    """Measure CPU while polls with a timeout of a second return nothing, in percent of one core."""
    _poll_until_assigned(reader, partitions)
    _poll_for(reader, settle_s)
    begin = Mark.now(0)
    _poll_for(reader, seconds)
    end = Mark.now(0)
    return {
        "cpu_percent": (end.cpu - begin.cpu) / (end.seconds - begin.seconds) * 100,
        "peak_memory_mb": peak_memory_mb(),
    }


def _poll_until_assigned(reader: Reader, partitions: int) -> None:
    if not isinstance(reader, GroupReader):
        return
    deadline = time.monotonic() + _ASSIGNED_S
    while reader.assigned() < partitions:
        reader.values(_POLL_S)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{reader.assigned()} of {partitions} partitions are assigned")


def _poll_for(reader: Reader, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if reader.values(_POLL_S):
            raise RuntimeError("an idle reader received a record")
