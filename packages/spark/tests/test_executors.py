"""Separate executors, as in a cluster: they must receive the driver's settings."""

from __future__ import annotations

import subprocess
import sys

import pytest

from packages.spark.tests.jobs import environment
from packages.spark.tests.session import Tables, since
from packages.spark.tests.standalone import HOME
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record


@pytest.mark.full("takes long with Spark")
@pytest.mark.timeout(360)
@pytest.mark.partitions(4)
@since(4, 2, "rate limits")
def test_a_stream_on_two_executors(kafka: RealKafka, topic: str, tables: Tables) -> None:
    kafka.admin.produce(topic, [Record(b"%d" % n, partition=n % 4) for n in range(2_000)])
    command = [sys.executable, "-m", "packages.spark.tests.writer_job", kafka.bootstrap(), topic]
    ran = subprocess.run(
        [*command, str(tables.folder), "local-cluster[2,1,1024]"],
        cwd=tables.folder,
        env=environment(SPARK_HOME=str(HOME)),
        capture_output=True,
        text=True,
        timeout=340,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4_000:]
    found = [(row.partition, row.offset) for row in tables.written()]
    assert found == [(p, at) for p in range(4) for at in range(500)]
