"""Kills the driver or a worker of a job at random points, and restarts the job.

`make spark-kills` does this 20 times.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.spark.processes import is_running, runs_tasks, workers
from packages.spark.tests.jobs import (
    KILLS,
    PATIENCE_S,
    Job,
    kill_driver,
    noted,
    seeded,
    start_job,
    until,
)
from packages.spark.tests.session import Tables, since
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record


def kill_in_first_batch(start: Callable[[], Job], folder: Path) -> None:
    """Kill the driver after the first batch is planned and before it is finished."""
    for _ in range(5):
        job = start()
        until(job, lambda: noted(folder, "offsets"))
        kill_driver(job)
        if noted(folder, "offsets") and not noted(folder, "commits"):
            return
        for name in ("out", "out-checkpoint"):
            shutil.rmtree(folder / name, ignore_errors=True)
    pytest.fail("the first batch was finished each time")


def kill_driver_after_progress(job: Job, folder: Path, chance: random.Random) -> str:
    """Kill the driver after one to six more checkpoint entries and a random delay."""
    goal = noted(folder, "offsets", "commits") + chance.randint(1, 6)
    until(job, lambda: noted(folder, "offsets", "commits") >= goal)
    time.sleep(chance.random() * 0.2)  # a random delay
    kill_driver(job)
    return "the driver"


def kill_a_worker(job: Job, folder: Path, chance: random.Random) -> str:
    """Kill a worker during a batch: Spark repeats the task, and the job succeeds."""
    goal = noted(folder, "commits") + chance.randint(0, 2)
    known: list[Path] = []

    def at_work() -> bool:
        if noted(folder, "commits") < goal:
            return False
        if noted(folder, "offsets") <= noted(folder, "commits"):
            return False
        if not known:
            known.extend(each for each in workers(job.pid) if runs_tasks(each))
        return any(map(is_running, known))

    if not until(job, at_work):
        assert job.returncode == 0
        return "nothing, because the job was faster"
    victim = next(filter(is_running, known), known[0])
    os.kill(int(victim.name), signal.SIGKILL)
    assert job.wait(PATIENCE_S) == 0
    return "a worker"


@pytest.mark.full("takes long with Spark")
@pytest.mark.timeout(300 + 150 * KILLS)
@pytest.mark.partitions(3)
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@since(4, 2, "rate limits")
def test_no_record_is_lost_or_duplicated(
    kafka: RealKafka, topic: str, tables: Tables, jobs: list[Job]
) -> None:
    chance = seeded()
    total = 0

    def more() -> None:
        nonlocal total
        kafka.admin.produce(topic, [Record(b"%d" % n, partition=n % 3) for n in range(3_000)])
        total += 3_000

    def start() -> Job:
        jobs.append(start_job(kafka, topic, tables.folder))
        return jobs[-1]

    more()
    kill_in_first_batch(start, tables.folder)
    print("killed: the driver, in its first batch")
    for _ in range(KILLS - 1):
        more()
        kill = chance.choice((kill_driver_after_progress, kill_a_worker))
        print(f"killed: {kill(start(), tables.folder, chance)}")
    more()
    last = start()
    assert last.wait(PATIENCE_S) == 0
    found = [(row.partition, row.offset) for row in tables.written()]
    assert found == [(p, at) for p in range(3) for at in range(total // 3)]
