"""The daemon that imports everything before it forks."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from packages.spark.tests.jobs import ROOT, environment
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record

pytest.importorskip("pyspark", reason="pyspark is not installed: make spark-test installs it")


def test_imports_before_a_fork_start_no_threads_and_open_no_sockets() -> None:
    program = (
        "import importlib, os, threading\n"
        "from pyspark_tandem_kafka.daemon import BEFORE_FORK\n"
        "for name in BEFORE_FORK: importlib.import_module(name)\n"
        "def target(number):\n"
        "    try: return os.readlink(f'/proc/self/fd/{number}')\n"
        "    except OSError: return ''\n"
        "sockets = [n for n in os.listdir('/proc/self/fd') if target(n).startswith('socket')]\n"
        "print(threading.active_count(), len(sockets))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout.split() == ["1", "0"]


@pytest.mark.full("starts Spark")
def test_a_job_reads_with_the_daemon(kafka: RealKafka) -> None:
    kafka.admin.create_topic("daemon", 3)
    kafka.admin.produce("daemon", [Record(b"value", partition=n % 3) for n in range(90)])
    done = subprocess.run(
        [sys.executable, "-m", "packages.spark.tests.daemon_job", kafka.bootstrap(), "daemon"],
        check=True,
        capture_output=True,
        text=True,
        timeout=240,
        cwd=ROOT,
        env=environment(),
    )
    output = json.loads(done.stdout.splitlines()[-1])
    assert output["counts"] == [90, 90]
    # Spark plans with its own daemon, regardless of the setting (see docs/reference/spark.md).
    tasks = [daemon for daemon, worker in output["daemons"] if worker == "pyspark.worker"]
    assert tasks == ["pyspark_tandem_kafka.daemon"]
