"""Every example runs as it is."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.admin import Record
from tests.kafka.broker import KafkaCluster

ROOT = Path(__file__).parents[2]


def _run(folder: Path, example: str, bootstrap: str, topic: str, count: int) -> str:
    command = [
        *(sys.executable, str(ROOT / "examples" / example), "--bootstrap", bootstrap),
        *("--topic", topic, "--group", f"g{uuid.uuid4().hex[:8]}", "--stop-after", str(count)),
    ]
    ran = subprocess.run(
        command,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def demo_broker() -> Iterator[str]:
    """The cluster of the demo, serving."""
    server = subprocess.Popen(
        [sys.executable, "-m", "demo.serve"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait(10)
        server.stdout.close()


@pytest.mark.parametrize(
    ("example", "said"),
    [
        ("at_least_once.py", "processed 1000"),
        ("per_partition.py", "processed 1000"),
        ("exactly_once_sqlite.py", "stored 1000"),
    ],
)
def test_an_example_runs_against_the_demo_broker(
    demo_broker: str, tmp_path: Path, example: str, said: str
) -> None:
    assert said in _run(tmp_path, example, demo_broker, "numbers", 1_000)


@pytest.mark.partitions(4)
@pytest.mark.parametrize(
    ("example", "count"),
    [
        ("at_least_once.py", 400),
        ("per_partition.py", 400),
        ("exactly_once_sqlite.py", 400),
        ("migrate_to_kip848.py", 400),
        ("slow_handler.py", 1),
    ],
)
def test_an_example_runs_against_a_real_broker(
    kafka: KafkaCluster, topic: str, tmp_path: Path, example: str, count: int
) -> None:
    kafka.admin.produce(topic, [Record(b"%d" % n, partition=n % 4) for n in range(400)])
    output = _run(tmp_path, example, kafka.bootstrap(), topic, count)
    assert output.endswith(f" {count}\n")
