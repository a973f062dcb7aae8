"""Jobs on a standalone cluster with killed executors, speculation and dynamic allocation."""

from __future__ import annotations

import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make spark-test installs it")

from benchmarks.spark.processes import executor_of
from packages.spark.tests.cluster_job import ClusterJob
from packages.spark.tests.jobs import PATIENCE_S, Job, launch, until
from packages.spark.tests.session import Tables, since
from packages.spark.tests.standalone import StandaloneCluster
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record

pytestmark = [
    pytest.mark.full("takes long with Spark"),
    pytest.mark.timeout(600),
    pytest.mark.partitions(3),
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc"),
    since(4, 2, "rate limits"),
]

ROWS = 6_000


@pytest.fixture
def job(kafka: RealKafka, topic: str, standalone: StandaloneCluster, tmp_path: Path) -> ClusterJob:
    """A job over a topic with records."""
    records = [Record(b"%0200d" % n, partition=n % 3) for n in range(ROWS)]
    kafka.admin.produce(topic, records)
    target = kafka.admin.create_topic(f"{topic}-copy", 2)
    return ClusterJob(standalone.master, kafka.bootstrap(), topic, target, str(tmp_path))


def started(job: ClusterJob, jobs: list[Job]) -> Job:
    jobs.append(launch(job.command(), Path(job.folder) / "driver.log"))
    return jobs[-1]


def check_result(job: ClusterJob, running: Job, tables: Tables) -> None:
    """Check that every row exists once: in the files, and for read_committed readers."""
    log = Path(job.folder) / "driver.log"
    assert running.wait(2 * PATIENCE_S) == 0, log.read_text()[-6_000:]
    expected = [(partition, at) for partition in range(3) for at in range(ROWS // 3)]
    for step in job.steps:
        if step == "sink":
            rows = tables.read(job.target, kafka__isolation__level="read_committed").collect()
            found = Counter(int(row.value) for row in rows)
            assert (found.total(), len(found)) == (ROWS, ROWS)
        else:
            assert [(row.partition, row.offset) for row in tables.written(step)] == expected


def test_batch_query_stream_and_sink_on_two_executors(
    job: ClusterJob, tables: Tables, jobs: list[Job]
) -> None:
    check_result(job, started(job, jobs), tables)


def kill_its_executor(job: ClusterJob, running: Job, step: str) -> None:
    """Wait for the held task, and kill the JVM of its executor."""
    held = Path(job.folder) / f"{step}-held"
    assert until(running, held.exists), (Path(job.folder) / "driver.log").read_text()[-6_000:]
    os.kill(executor_of(int(held.read_text())), signal.SIGKILL)


def test_no_row_is_lost_if_executors_are_killed(
    job: ClusterJob, tables: Tables, jobs: list[Job]
) -> None:
    job = replace(job, holds=True)
    running = started(job, jobs)
    for step in job.steps:
        kill_its_executor(job, running, step)
    check_result(job, running, tables)


def test_speculative_execution_with_dynamic_allocation(
    job: ClusterJob, tables: Tables, jobs: list[Job]
) -> None:
    """A task waits until Spark has started a second attempt and has killed the first."""
    settings = {
        "spark.speculation": "true",
        "spark.task.maxFailures": "1",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.3",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.executorIdleTimeout": "3s",
        "spark.dynamicAllocation.maxExecutors": "2",
    }
    job = replace(job, steps=("stream", "sink"), holds=True, idles=True, settings=settings)
    running = started(job, jobs)
    check_result(job, running, tables)
    for step in job.steps:
        assert (Path(job.folder) / f"{step}-held").exists()
    assert (Path(job.folder) / "driver.log").read_text().count("no executors") == len(job.steps)
