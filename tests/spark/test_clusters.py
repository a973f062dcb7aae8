"""Jobs on a standalone cluster, whose executors are killed, run twice, and come and go."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.admin import Record
from tests.kafka.broker import KafkaCluster
from tests.spark.cluster_job import ClusterJob
from tests.spark.jobs import PATIENCE_S, ROOT, Job, environment, until
from tests.spark.processes import executor_of
from tests.spark.session import Tables, since
from tests.spark.standalone import StandaloneCluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.partitions(3),
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc"),
    since(4, 2, "rate limits"),
]

ROWS = 6_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def job(kafka: KafkaCluster, topic: str, cluster: StandaloneCluster, tmp_path: Path) -> ClusterJob:
    """A job over a topic that has something to read."""
    records = [Record(b"%0200d" % n, partition=n % 3) for n in range(ROWS)]
    kafka.admin.produce(topic, records)
    target = kafka.admin.create_topic(f"{topic}-copy", 2)
    return ClusterJob(cluster.master, kafka.bootstrap(), topic, target, str(tmp_path))


def started(job: ClusterJob, jobs: list[Job]) -> Job:
    with (Path(job.folder) / "driver.log").open("wb") as log:
        jobs.append(
            subprocess.Popen(
                job.command(),
                cwd=ROOT,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        )
    return jobs[-1]


def check_result(job: ClusterJob, running: Job, tables: Tables) -> None:
    """Every row is there once: in the files, and in the topic for readers of committed rows."""
    log = Path(job.folder) / "driver.log"
    assert running.wait(PATIENCE_S) == 0, log.read_text()[-6_000:]
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
