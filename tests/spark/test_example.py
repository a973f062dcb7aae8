"""The example pipeline runs, is killed, goes on, and its totals are exact."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka.broker import KafkaCluster
from tests.spark.session import Tables, since

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(600)
@since(4, 2, "rate limits")
def test_orders(kafka: KafkaCluster, topic: str, tables: Tables) -> None:
    kafka.admin.create_topic(f"{topic}-totals", 2)
    command = [sys.executable, str(ROOT / "examples" / "spark_orders.py")]
    command += ["--bootstrap", kafka.bootstrap(), "--topic", topic, "--folder", str(tables.folder)]
    ran = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=560,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4_000:]
    assert "killed after" in ran.stdout
    assert "all exact" in ran.stdout
