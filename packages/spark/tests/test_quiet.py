"""A healthy stream prints nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import packages.spark.tests.session  # noqa: F401 - skips all of this without pyspark
from packages.spark.tests.jobs import environment
from packages.spark.tests.mistakes import run_script
from packages.spark.tests.session import since
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record

#: Lines of Spark: its log, its setup, and PySpark's warnings about other packages.
SPARKS = re.compile(
    r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (INFO|WARN) |WARNING: Using incubator modules|"
    r"Using Spark's default log4j profile|Setting default log level|To adjust logging level|"
    r".*/pyspark/\S+: \w+Warning: |  require_minimum_\w+_version\(\)$"
)


@pytest.mark.full("takes long with Spark")
@pytest.mark.partitions(2)
@since(4, 2, "rate limits")
def test_a_stream_of_twenty_batches(kafka: RealKafka, topic: str, tmp_path: Path) -> None:
    kafka.admin.produce(topic, [Record(b"%d" % n, partition=n % 2) for n in range(10_000)])
    job = Path(__file__).with_name("writer_job.py")
    ran = run_script(job, kafka.bootstrap(), topic, str(tmp_path), environment=environment())
    assert ran.returncode == 0, ran.stderr[-4_000:]
    assert len(list((tmp_path / "out-checkpoint" / "commits").glob("[0-9]*"))) == 20
    ours = [line for line in ran.stderr.splitlines() if line and not SPARKS.match(line)]
    assert not ours
