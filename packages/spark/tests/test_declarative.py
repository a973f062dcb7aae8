"""The example of a declarative pipeline: each run of the command continues."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import parquet

from packages.spark.tests.session import since  # skips all of this without pyspark
from tandem_kafka_testing.kafka import RealKafka
from tests.sources import PYTHONPATH, ROOT

pytest.importorskip("grpc", reason="grpcio is not installed: make spark-test installs it")

pytestmark = [pytest.mark.full("starts Spark"), since(4, 1, "declarative pipelines")]


def test_each_run_continues(kafka: RealKafka, topic: str, tmp_path: Path) -> None:
    example = tmp_path / "declarative"
    shutil.copytree(ROOT / "examples" / "declarative", example)
    spec = example / "spark-pipeline.yml"
    lines = spec.read_text(encoding="utf-8").splitlines(keepends=True)
    storage = f"storage: {(tmp_path / 'storage').as_uri()}\n"
    spec.write_text("".join(storage if "storage" in line else line for line in lines))
    command = Path(sys.executable).with_name("spark-pipelines")
    names = {"BOOTSTRAP_SERVERS": kafka.bootstrap(), "TOPIC": topic}
    for customers in (["ann", "bob"], ["ann"]):
        values = [b'{"customer": "%s", "amount": 2}' % name.encode() for name in customers]
        kafka.admin.produce(topic, values)
        ran = subprocess.run(
            [command, "--conf", "spark.sql.catalogImplementation=hive", "run"],
            cwd=example,
            env=os.environ | names | {"PYTHONPATH": PYTHONPATH, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
    tables = example / "spark-warehouse"
    assert parquet.read_table(tables / "orders").num_rows == 3
    totals = parquet.read_table(tables / "totals").to_pylist()
    assert sorted(tuple(row.values()) for row in totals) == [("ann", 4.0), ("bob", 2.0)]
