"""A process of pytest-xdist that dies fails one test, and the run ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
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


#: Of the processes gw0 to gw2, gw3 takes the place of the first that dies.
MEETINGS = """
import os, time
from pathlib import Path

HERE = Path(__file__).parent

def wait_for(files, number=1):
    deadline = time.monotonic() + 100
    while len([*HERE.glob(files)]) < number and time.monotonic() < deadline:
        time.sleep(0.01)

def pytest_testnodedown(node):
    (HERE / f"{node.gateway.id} is down").touch()

def pytest_collection():
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw3":
        (HERE / "gw3 collects").touch()
        wait_for("* is down", 3)
"""
WAITS = "from conftest import wait_for\ndef test_waits(): wait_for('gw3 collects')"


#: pytest-xdist has the report of the test before, and sends more work, when the process has died.
TELLS_LATE = """
import threading
from xdist.workermanage import Marker, WorkerController

sent = threading.Event()
process_from_remote = WorkerController.process_from_remote
send_runtest_some = WorkerController.send_runtest_some

def process_late(node, event):
    if event is Marker.END:
        sent.wait(100)
    process_from_remote(node, event)

def send(node, indices):
    try:
        send_runtest_some(node, indices)
    except OSError:
        print("sent to a dead process")
        sent.set()
        raise

WorkerController.process_from_remote = process_late
WorkerController.send_runtest_some = send

def pytest_runtest_logfinish(nodeid):
    if nodeid.endswith("test_before") and nodes:
        nodes[0].gateway._io.popen.wait()

nodes = []

def pytest_configure_node(node):  # not called in the processes
    nodes.append(node)
"""


def run(folder: Path, processes: int, files: Mapping[str, str]) -> str:
    """Run tests in processes, and return what pytest prints."""
    (folder / "pytest.ini").touch()
    for name, content in files.items():
        (folder / name).write_text(content)
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", str(processes), "--dist", "loadfile"),
            *("--no-loadscope-reorder", "-p", "no:cacheprovider", "--rootdir", folder),
            *(folder / name for name in files if name != "conftest.py"),
        ],
        cwd=ROOT,
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        check=False,
        text=True,
        timeout=150,
    )
    return ran.stdout + ran.stderr


def test_the_tests_that_it_had_not_begun_run_in_another_process(tmp_path: Path) -> None:
    files = {
        "conftest.py": PLUGIN,
        "test_done.py": "def test_done(): pass",
        "test_dies.py": DIES,
        "test_last.py": "def test_last(): pass",
    }
    printed = run(tmp_path, 1, files)
    assert "1 failed, 4 passed" in printed, printed
    assert "failed: test_dies.py::test_ends_its_process in real time: True" in printed


def test_others_end_and_die_while_the_new_process_collects(tmp_path: Path) -> None:
    files = {
        "conftest.py": PLUGIN + MEETINGS,
        "test_dies.py": DIES,
        "test_ends.py": WAITS,
        "test_dies_later.py": f"{WAITS}; import os; os._exit(1)",
    }
    printed = run(tmp_path, 3, files)
    assert "2 failed, 3 passed" in printed, printed
    assert "failed: test_dies_later.py::test_waits" in printed


def test_a_file_that_is_sent_to_a_process_that_has_just_died_runs_in_another(
    tmp_path: Path,
) -> None:
    files = {
        "conftest.py": PLUGIN + TELLS_LATE,
        "test_dies.py": DIES,
        "test_last.py": "def test_last(): pass",
    }
    printed = run(tmp_path, 1, files)
    assert "sent to a dead process" in printed
    assert "1 failed, 3 passed" in printed, printed
