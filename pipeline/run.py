"""A run: orders are produced while the job runs, is killed, and is restarted."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from confluent_kafka import Producer

from pipeline.figures import Expected, Found
from pipeline.lag import largest_lag
from pipeline.orders import DELAY_MS, PER_BATCH_SHARE, WINDOW_MS
from pipeline.process import Job, batches_in_progress
from pipeline.producing import Orders
from pipeline.progress import Progress
from pipeline.report import Report
from pipeline.results import collect

__all__ = ["QUERIES", "TOPICS", "Plan", "Run"]

QUERIES: Final = ("dead-letters", "orders", "totals")
TOPICS: Final = {
    "orders": "orders",
    "customers": "customers",
    "totals": "orders-totals",
    "dead_letters": "orders-dead-letters",
}

_MINUTE_MS: Final = 60_000
#: The job is killed after each query has finished this number of micro-batches.
_BATCHES_BEFORE_KILL: Final = 2
#: The producer pauses at these shares of the orders: until the kill, and until the restart.
_BEFORE_KILL, _BEFORE_RETURN = 0.6, 0.85


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of a run.

    Attributes:
        bootstrap: The addresses of the brokers.
        folder: An empty folder for files, checkpoints and logs.
        count: The number of orders, without duplicates.
        per_second: The pace of the producer.
        registry: The URL of the schema registry, for Avro.
        limit_s: The timeout of the run in seconds.
    """

    bootstrap: str
    folder: Path
    count: int
    per_second: float
    registry: str | None = None
    limit_s: float = 600.0

    def job_options(self) -> list[str]:
        """The job's command line."""
        options = {
            "bootstrap": self.bootstrap,
            "folder": str(self.folder / "data"),
            "delay": f"{DELAY_MS // _MINUTE_MS} minutes",
            "window": f"{WINDOW_MS // _MINUTE_MS} minutes",
            "per-batch": str(round(self.count * PER_BATCH_SHARE)),
            "every": "200 milliseconds",
            "master": "local[2]",
            **{name.replace("_", "-"): topic for name, topic in TOPICS.items()},
        }
        if self.registry:
            options |= {"format": "avro", "registry": self.registry}
        return [f"--{name}={value}" for name, value in options.items()]


class Run:
    """Runs the producer, the job and the report.

    Attributes:
        progress: The micro-batches of all processes of the job.
        outage: The times of the kill and of the next micro-batch, in seconds since the epoch.
    """

    def __init__(self, plan: Plan, orders: Orders, expected: Expected, report: Report) -> None:
        self.progress = Progress(TOPICS["orders"])
        self.outage = (0.0, 0.0)
        self.orders = orders
        self._plan = plan
        self._expected = expected
        self._report = report
        self._jobs: list[Job] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for job in self._jobs:
            job.kill()

    def execute(self) -> Found:
        """Execute all steps, and return the output of the job."""
        self._start()
        self.orders.up_to(_BEFORE_KILL)
        self._until(self._ready_for_kill, "two micro-batches of each query, and one in progress")
        self._kill()
        self.orders.up_to(_BEFORE_RETURN)
        self._start()
        # A query's checkpoint may be ahead of the job's reports.
        seen = {name: self._batches_of(name) for name in QUERIES}
        self._until(
            lambda: all(self._batches_of(name) > seen[name] for name in QUERIES),
            "a micro-batch of each query after the kill",
        )
        self.outage = (self.outage[0], time.time())
        self._report.event("each query has continued from its checkpoint")
        total = self._expected.kinds.total()
        self.orders.up_to((total - 1) / total)
        self._until(lambda: self._is_processed(total - 1), "all but the last order are processed")
        # The last order moves the watermark far ahead: no other order may be read after it.
        self.orders.up_to(1)
        self._until(lambda: self._is_processed(total) and self._is_final(), "the windows are final")
        self._report.event("everything is processed, the windows are final")
        self._jobs[-1].stop()
        self._report.event("job stopped")
        return collect(self._plan.bootstrap, TOPICS, self._plan.folder / "data" / "orders")

    def lags(self) -> dict[str, int]:
        """Return the current lag of each query."""
        return {name: self.orders.written - self.progress.position(name) for name in QUERIES}

    def largest_lags(self) -> dict[str, int]:
        """Return the largest lag of each query."""
        return {
            name: largest_lag(self.orders.samples, batches)
            for name, batches in self.progress.batches.items()
        }

    def _batches_of(self, query: str) -> int:
        return len(self.progress.batches.get(query, ()))

    def _start(self) -> None:
        number = len(self._jobs) + 1
        self._jobs.append(Job(self._plan.folder, number, self._plan.job_options()))
        again = " again" if number > 1 else ""
        self._report.event(f"job started{again}, process {self._jobs[-1].pid}")

    def _kill(self) -> None:
        self._jobs[-1].kill()
        self.outage = (time.time(), 0.0)
        self.progress.update(self._jobs[-1].progress)
        states = [
            f"{name} in its batch {began}" if began > done else f"{name} after {done} batches"
            for name, (began, done) in self._batches().items()
        ]
        self._report.event(f"job killed (SIGKILL, with its JVM): {', '.join(states)}")

    def _batches(self) -> dict[str, tuple[int, int]]:
        folder = self._plan.folder / "data" / "checkpoints"
        return {name: batches_in_progress(folder / name) for name in QUERIES}

    def _ready_for_kill(self) -> bool:
        states = self._batches().values()
        return all(done >= _BATCHES_BEFORE_KILL for _, done in states) and any(
            began > done for began, done in states
        )

    def _is_processed(self, total: int) -> bool:
        return self.orders.written == total and not any(self.lags().values())

    def _is_final(self) -> bool:
        return self.progress.watermark_ms("totals") >= self._expected.final_ms

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        while not condition():
            if self._report.elapsed_s > self._plan.limit_s:
                raise TimeoutError(f"did not happen within {self._plan.limit_s:.0f} s: {what}")
            self.orders.write()
            job = self._jobs[-1]
            job.check()
            self.progress.update(job.progress)
            self._report.state(self.orders.written, self.lags())
            time.sleep(0.1)


def new_producer(bootstrap: str) -> Producer:
    """Return a producer that writes each record once."""
    return Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
