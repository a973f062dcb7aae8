"""A small `make pipeline`: the job is killed and continues, and all figures are correct."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make spark-test installs it")
pytest.importorskip("rich", reason="rich is not installed: make spark-test installs it")

import tandem_kafka
from packages.spark.tests.session import since
from tests.sources import ROOT

_IMPLEMENTATION = "native" if tandem_kafka.native_available else "pure Python"


@pytest.mark.full("takes long with Spark")
@pytest.mark.timeout(700)
@pytest.mark.parametrize("form", ["json", "avro"])
@since(4, 2, "rate limits")
def test_every_figure_is_equal_after_a_kill(form: str, tmp_path: Path) -> None:
    options = ["--orders=2000", "--seconds=20", f"--format={form}", f"--folder={tmp_path / 'run'}"]
    ran = subprocess.run(
        [sys.executable, "-m", "pipeline", *options],
        cwd=ROOT / "packages" / "spark",
        env={**os.environ, "PYTHONWARNINGS": "ignore", "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=680,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-6_000:] + ran.stderr[-2_000:]
    assert "job killed" in ran.stdout
    assert "All figures are equal." in ran.stdout
    # The job is killed while a batch has written some of its dead letters.
    again = re.search(r"Written to Kafka again after the kill: (\d+) dead letters", ran.stdout)
    assert again is not None
    assert int(again[1]) > 0
    assert f"{tandem_kafka.__version__}, {_IMPLEMENTATION} implementation" in ran.stdout
    assert (tmp_path / "run" / "pipeline.png").stat().st_size > 10_000
