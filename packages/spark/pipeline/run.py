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
from pipeline.results import collect, end_of
from tandem_kafka import KafkaConsumer

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
#: The kill waits until a batch has written at least this many dead letters, as a share of the
#: orders, so that the copies are visible in the plot.
_LETTERS_SHARE: Final = 0.0002
#: The producer pauses at these shares of the orders: until each query has finished its
#: micro-batches, until the kill, and until the restart.
_BEFORE_BATCHES, _BEFORE_KILL, _BEFORE_RETURN = 0.5, 0.7, 0.85


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
        self._letters = KafkaConsumer(bootstrap_servers=plan.bootstrap)
        #: The number of finished batches of dead letters, and of letters that they have written.
        self._seen = (-1, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._letters.close()
        for job in self._jobs:
            job.kill()

    def execute(self) -> Found:
        """Execute all steps, and return the output of the job."""
        self.orders.up_to(0)
        self._start()
        self._until(self._is_started, "the first query starts")
        self.orders.up_to(_BEFORE_BATCHES)
        self._until(self._is_running, "two micro-batches of each query")
        self.orders.up_to(_BEFORE_KILL)
        self._until(self._is_half_written, "a micro-batch with some of its dead letters in Kafka")
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

    def _is_started(self) -> bool:
        """Return whether the first query has started; it reads soon after."""
        return (self._plan.folder / "data" / "checkpoints" / QUERIES[0] / "metadata").exists()

    def _is_running(self) -> bool:
        return all(done >= _BATCHES_BEFORE_KILL for _, done in self._batches().values())

    def _is_half_written(self) -> bool:
        """Return whether a kill now has dead letters written again.

        They are in Kafka, and their batch is not finished. With nothing left to process, the
        chance has passed.
        """
        began, done = self._batches()["dead-letters"]
        written = end_of(self._letters, TOPICS["dead_letters"])
        if self._batches()["dead-letters"] != (began, done):
            return False  # some of them may be of a batch that has finished meanwhile
        if done != self._seen[0]:
            self._seen = done, written
        enough = written - self._seen[1] >= self._plan.count * _LETTERS_SHARE
        nothing_left = self.orders.written >= self.orders.limit and not any(self.lags().values())
        return (began > done and enough) or nothing_left

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
            time.sleep(0.05)


def new_producer(bootstrap: str) -> Producer:
    """Return a producer that writes each record once."""
    return Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
