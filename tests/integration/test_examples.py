"""Every example runs as it is."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.kafka.admin import Record
from tests.kafka.broker import KafkaCluster

ROOT = Path(__file__).parents[2]

#: Examples that need a library beside the package's own, and what they say at the end.
ARROW = [
    ("arrow_compute.py", "pyarrow", "counted"),
    ("arrow_polars.py", "polars", "added up"),
    ("arrow_duckdb.py", "duckdb", "stored"),
    ("arrow_pandas.py", "pandas", "collected"),
]


def _run(folder: Path, example: str, bootstrap: str, topic: str, count: int) -> str:
    options = ["--bootstrap", bootstrap, "--topic", topic, "--group", f"g{uuid.uuid4().hex[:8]}"]
    return _run_with(folder, example, *options, "--stop-after", str(count))


def _run_with(folder: Path, example: str, *options: str) -> str:
    ran = subprocess.run(
        [sys.executable, str(ROOT / "examples" / example), *options],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=150,
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
        server.wait(30)
        server.stdout.close()


@pytest.mark.parametrize(
    ("example", "said", "count"),
    [
        ("at_least_once.py", "processed 1000", 1_000),
        ("per_partition.py", "processed 1000", 1_000),
        ("exactly_once_sqlite.py", "stored 1000", 1_000),
        ("slow_handler.py", "processed 1", 1),
    ],
)
def test_an_example_runs_against_the_demo_broker(
    demo_broker: str, tmp_path: Path, example: str, said: str, count: int
) -> None:
    assert said in _run(tmp_path, example, demo_broker, "numbers", count)


def test_the_example_of_an_assignor_of_the_members_brings_its_cluster(tmp_path: Path) -> None:
    told = _run_with(tmp_path, "local_assignor.py").splitlines()
    goes = told.index("big goes")
    shares = {"small": 2, "other": 2, "big": 8}
    for who, share in shares.items():
        last = [line for line in told[:goes] if line.startswith(f"{who}: ")][-1]
        room = 4 if who == "big" else 1
        assert last == f"{who}: {share} partitions for {room} of 6"
    assert "small: 6 partitions for 1 of 2" in told[goes:]
    assert "other: 6 partitions for 1 of 2" in told[goes:]
    assert told[-1] == "processed 1000"


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


@pytest.mark.parametrize(("example", "library", "said"), ARROW)
def test_an_example_of_columns_runs_against_the_demo_broker(
    demo_broker: str, tmp_path: Path, example: str, library: str, said: str
) -> None:
    _require(library)
    assert f"{said} 1000\n" in _run(tmp_path, example, demo_broker, "numbers", 1_000)


@pytest.mark.partitions(4)
@pytest.mark.parametrize(("example", "library", "said"), ARROW)
def test_an_example_of_columns_runs_against_a_real_broker(
    kafka: KafkaCluster, topic: str, tmp_path: Path, example: str, library: str, said: str
) -> None:
    _require(library)
    kafka.admin.produce(topic, [Record(b"%d" % n, partition=n % 4) for n in range(400)])
    output = _run(tmp_path, example, kafka.bootstrap(), topic, 400)
    assert output.endswith(f"{said} 400\n")


def _require(library: str) -> None:
    """Skip the test where a library is not installed."""
    for name in ("pyarrow", library):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed (it is in the extra `test`)")
