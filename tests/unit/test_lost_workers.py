"""A process of pytest-xdist that dies fails one test, and the run ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.sources import ROOT

PLUGIN = """
from tests.lost_workers import LostWorkers

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(LostWorkers(lambda path: path.name == "test_dies.py"))

def pytest_runtest_logreport(report):
    if report.failed:
        print("failed:", report.nodeid, "in real time:", "real_time" in report.keywords)
"""
DIES = """
import os

def test_before(): pass
def test_ends_its_process(): os._exit(1)
def test_after(): pass
"""


def test_the_tests_that_it_had_not_begun_run_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(PLUGIN)
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_done.py").write_text("def test_done(): pass")
    (tmp_path / "test_dies.py").write_text(DIES)
    (tmp_path / "test_last.py").write_text("def test_last(): pass")
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", "1", "--dist", "loadfile"),
            *("--no-loadscope-reorder", "-p", "no:cacheprovider", "--rootdir", tmp_path),
            *(tmp_path / f"test_{name}.py" for name in ("done", "dies", "last")),
        ],
        cwd=ROOT,
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert "1 failed, 4 passed" in run.stdout, run.stdout + run.stderr
    assert "failed: test_dies.py::test_ends_its_process in real time: True" in run.stdout
