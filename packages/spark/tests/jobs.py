"""Runs the writer job in a separate process, observes its checkpoint, and kills it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tandem_kafka_testing.kafka import RealKafka
from tests.sources import PYTHONPATH, ROOT
from tests.waiting import wait_until

__all__ = [
    "KILLS",
    "PATIENCE_S",
    "ROOT",
    "Job",
    "environment",
    "kill_driver",
    "launch",
    "noted",
    "seeded",
    "start_job",
    "until",
]

Job = subprocess.Popen[bytes]

#: The number of times that tests kill a job. `make spark-kills` sets it.
KILLS = int(os.environ.get("TANDEM_KAFKA_SPARK_KILLS", "2"))

#: A busy machine takes long to start a JVM.
PATIENCE_S = 150


def environment(**more: str) -> dict[str, str]:
    """Return an environment in which a job and its workers import the source tree."""
    return {**os.environ, "PYTHONPATH": PYTHONPATH, "PYSPARK_PYTHON": sys.executable, **more}


def start_job(kafka: RealKafka, topic: str, folder: Path, *more: str) -> Job:
    """Start `writer_job`; `more` has its master, target and prefix."""
    arguments = (kafka.bootstrap(), topic, str(folder), *more)
    command = [sys.executable, "-m", "packages.spark.tests.writer_job", *arguments]
    return launch(command, folder / "driver.log")


def launch(command: list[str], log: Path) -> Job:
    """Start a job in a new process session, so that it can be killed with its JVM."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def seeded() -> random.Random:
    """Return a random generator with TANDEM_KAFKA_SEED, or with a new seed, which is printed."""
    seed = int(os.environ.get("TANDEM_KAFKA_SEED", str(time.time_ns() % 100_000)))
    print(f"TANDEM_KAFKA_SEED={seed}")
    return random.Random(seed)  # noqa: S311 - not a secret


def noted(folder: Path, *kinds: str) -> int:
    """Return the number of entries in the job's checkpoint."""
    return sum(len(list((folder / "out-checkpoint" / kind).glob("[0-9]*"))) for kind in kinds)


def until(job: Job, ready: Callable[[], object]) -> bool:
    """Wait for a condition; return False if the job ends before."""
    wait_until(lambda: ready() or job.poll() is not None, "the progress of the job")
    return job.poll() is None


def kill_driver(job: Job) -> None:
    """Kill the driver and its JVM; the workers end by themselves."""
    if job.poll() is None:
        os.killpg(job.pid, signal.SIGKILL)
    job.wait(30)
