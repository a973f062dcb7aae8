"""A job that is killed at random points, driver and all, and started again.

`make spark-kills` does it 20 times.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kafka.admin import Record
from tests.kafka.broker import KafkaCluster
from tests.spark.session import Tables, since

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("TANDEM_KAFKA_SPARK_KILLS", "2"))


def start_job(kafka: KafkaCluster, topic: str, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.writer_job", kafka.bootstrap(), topic, str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def noted(folder: Path) -> int:
    """How much the job has noted in its checkpoint."""
    kinds = ("offsets", "commits")
    return sum(len(list((folder / "out-checkpoint" / kind).glob("[0-9]*"))) for kind in kinds)


def kill_after_progress(job: subprocess.Popen[bytes], folder: Path, chance: random.Random) -> None:
    """Kill it when it has noted one to six things more, and a moment later."""
    goal = noted(folder) + chance.randint(1, 6)
    end = time.monotonic() + 90
    while noted(folder) < goal and job.poll() is None:
        assert time.monotonic() < end, "the job does not get on"
        time.sleep(0.005)
    time.sleep(chance.random() * 0.2)  # a random point is what is wanted
    if job.poll() is None:
        os.killpg(job.pid, signal.SIGKILL)
    job.wait(30)


@pytest.mark.slow
@pytest.mark.timeout(180 + 60 * KILLS)
@pytest.mark.partitions(3)
@since(4, 2, "rate limits")
def test_nothing_is_lost_and_nothing_is_doubled(
    kafka: KafkaCluster, topic: str, tables: Tables
) -> None:
    seed = int(os.environ.get("TANDEM_KAFKA_SEED", str(time.time_ns() % 100_000)))
    print(f"TANDEM_KAFKA_SEED={seed}")
    chance = random.Random(seed)  # noqa: S311 - not a secret
    total = 3_000
    kafka.admin.produce(topic, [Record(b"%d" % n, partition=n % 3) for n in range(total)])
    for _ in range(KILLS):
        kill_after_progress(start_job(kafka, topic, tables.folder), tables.folder, chance)
        kafka.admin.produce(topic, [Record(b"%d" % n, partition=n % 3) for n in range(600)])
        total += 600
    last = start_job(kafka, topic, tables.folder)
    assert last.wait(120) == 0
    found = [(row.partition, row.offset) for row in tables.written()]
    assert found == [(p, at) for p in range(3) for at in range(total // 3)]
