"""Spark Connect: the client has no JVM, and the server plans and reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: make spark-test installs it")

from tandem_kafka_testing.kafka import RealKafka
from tests.sources import PYTHONPATH

pytestmark = pytest.mark.full("starts Spark")


@pytest.mark.parametrize(
    "register", [(), pytest.param(("register",), marks=pytest.mark.full("takes long with Spark"))]
)
def test_a_client_reads_streams_and_writes(
    kafka: RealKafka, topic: str, tmp_path: Path, register: tuple[str, ...]
) -> None:
    kafka.admin.produce(topic, [b"%d" % number for number in range(20)])
    target = kafka.admin.create_topic(f"{topic}-copy")
    job = [str(Path(__file__).with_name("connect_job.py")), kafka.bootstrap(), topic, target]
    settings = {"PYTHONPATH": PYTHONPATH, "PYSPARK_PYTHON": sys.executable}
    ran = subprocess.run(
        [sys.executable, *job, str(tmp_path), *register],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    lines = ran.stdout.splitlines()
    assert lines[-4:-1] == ["read: 20", "streamed: 20", "written: 45"], ran.stdout + ran.stderr
    assert "tandem_kafka: subscribe: there is no no-such-topic-0" in lines[-1]
