"""The program of the manual that forks first works, and ends well at a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tandem_kafka_testing.served import ServedKafka
from tests.docs.conftest import PARTITIONS, orders_arrive
from tests.docs.pages import ROOT, blocks
from tests.waiting import wait_until

PAGE = "docs/how-to/django-celery.md"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_both_processes_read_until_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    (program,) = (block.code for block in blocks(PAGE) if "PROCESSES = 2" in block.code)
    output = tmp_path / "output"
    with ServedKafka() as kafka:
        kafka.create_topic("orders", PARTITIONS)
        kafka.create_topic("payments", PARTITIONS)
        code = program.replace("localhost:9092", kafka.bootstrap)
        with orders_arrive(kafka.bootstrap), output.open("w") as stream:
            process = subprocess.Popen(
                [sys.executable, "-u", "-c", code],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                wait_until(
                    lambda: {"ForkProcess-1", "ForkProcess-2"} <= {*output.read_text().split()},
                    "records in both processes",
                )
                # A terminal sends Ctrl-C to all processes, a supervisor SIGTERM to the first one.
                send = os.killpg if number is signal.SIGINT else os.kill
                send(process.pid, number)
                assert process.wait(30) == 0
            finally:
                process.kill()
                process.wait()
    assert "Traceback" not in output.read_text()
    assert not _group_exists(process.pid)


def _group_exists(number: int) -> bool:
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True
