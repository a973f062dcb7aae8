"""Every example runs as it is: to its end on two kinds of clusters, and until a signal."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tandem_kafka.testing.kafka import RealKafka
from tandem_kafka.testing.kafka.admin import Record
from tests.integration.running_examples import (
    ROOT,
    RunningExample,
    new_group,
    options_of,
    require,
    run,
)

#: Examples, the libraries that they need, and the word before the count at the end.
READERS = {
    "at_least_once.py": ((), "processed"),
    "async_at_least_once.py": ((), "processed"),
    "per_partition.py": ((), "processed"),
    "exactly_once_sqlite.py": ((), "stored"),
    "worker_pool.py": ((), "processed"),
    "keyed_workers.py": ((), "stored"),
    "process_pool.py": ((), "counted"),
    "dead_letters.py": ((), "processed"),
    "read_to_end.py": ((), "read"),
    "arrow_compute.py": (("pyarrow",), "counted"),
    "arrow_polars.py": (("pyarrow", "polars"), "added up"),
    "arrow_duckdb.py": (("pyarrow", "duckdb"), "stored"),
    "arrow_pandas.py": (("pyarrow", "pandas"), "described"),
}
COMMITTING = sorted(READERS.keys() - {"exactly_once_sqlite.py", "read_to_end.py"})
REGISTRY = ("fastavro", "authlib")
#: Modules that the examples import.
SHARED_MODULES = {"arguments.py", "stopping.py"}

SIGNALS = pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"]
)
COUNT = 400


@pytest.fixture(scope="module")
def demo_broker() -> Iterator[str]:
    """A simulated cluster, with 1,000 numbers in the topic `numbers`."""
    options = ["--topic=numbers", "--values=numbers", "--records=1000", "--per-second=0"]
    server = subprocess.Popen(
        [sys.executable, "-m", "tandem_kafka.testing", "serve", *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait(30)
        server.stdout.close()


@pytest.fixture
def numbers(kafka: RealKafka, topic: str) -> str:
    """A topic of the real broker with `COUNT` numbers in four partitions."""
    kafka.admin.produce(topic, [Record(b"%d" % n, partition=n % 4) for n in range(COUNT)])
    kafka.admin.create_topic(f"{topic}.dead", 1)
    return topic


def test_every_example_is_tested() -> None:
    files = {path.name for path in (ROOT / "examples").glob("*.py")}
    named = Path(__file__).read_text(encoding="utf-8")
    assert not {name for name in files - SHARED_MODULES if f'"{name}"' not in named}


def test_the_list_of_examples_names_every_file() -> None:
    page = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    files = {path.name for path in (ROOT / "examples").glob("*.py")} - {"arguments.py"}
    assert not {name for name in files if f"`{name}`" not in page}


# --- to the end --------------------------------------------------------------------------------


@pytest.mark.parametrize("example", READERS)
def test_an_example_runs_on_the_built_in_cluster(
    demo_broker: str, tmp_path: Path, example: str
) -> None:
    libraries, word = READERS[example]
    require(*libraries)
    options = [*options_of(demo_broker, "numbers", new_group()), "--stop-after", "1000"]
    assert run(tmp_path, example, options).endswith(f"{word} 1000\n")


@pytest.mark.partitions(4)
@pytest.mark.parametrize("example", READERS)
def test_an_example_runs_on_a_real_broker(
    kafka: RealKafka, numbers: str, tmp_path: Path, example: str
) -> None:
    libraries, word = READERS[example]
    require(*libraries)
    group = new_group()
    options = [*options_of(kafka.bootstrap(), numbers, group), "--stop-after", str(COUNT)]
    assert run(tmp_path, example, options).endswith(f"{word} {COUNT}\n")
    if example in COMMITTING:
        assert kafka.admin.committed(group, numbers) == COUNT
        assert kafka.admin.members(group) == 0


@pytest.mark.partitions(4)
def test_a_group_moves_to_kip_848(kafka: RealKafka, numbers: str, tmp_path: Path) -> None:
    options = [*options_of(kafka.bootstrap(), numbers, new_group()), "--stop-after", str(COUNT)]
    output = run(tmp_path, "migrate_to_kip848.py", options)
    assert "the second member is back, with KIP-848" in output
    assert int(output.rsplit(maxsplit=1)[-1]) >= COUNT


def test_a_slow_handler_keeps_its_membership(demo_broker: str, tmp_path: Path) -> None:
    options = [*options_of(demo_broker, "numbers", new_group()), "--stop-after", "1"]
    assert run(tmp_path, "slow_handler.py", options).endswith("processed 1\n")


def test_avro_values_are_decoded(demo_broker: str, tmp_path: Path) -> None:
    require(*REGISTRY)
    options = [*options_of(demo_broker, "payments", new_group()), "--stop-after", "10"]
    output = run(tmp_path, "schema_registry.py", [*options, "--write", "10"])
    assert "{'id': 9, 'amount': 42.5}" in output
    assert output.endswith("decoded 10\n")


def test_members_assign_partitions_by_their_capacity(tmp_path: Path) -> None:
    lines = run(tmp_path, "local_assignor.py", []).splitlines()
    closed = lines.index("large closes")
    for name, share, capacity in (("small", 2, 1), ("medium", 2, 1), ("large", 8, 4)):
        last = [line for line in lines[:closed] if line.startswith(f"{name}: ")][-1]
        assert last == f"{name}: {share} partitions for {capacity} of 6"
    assert "small: 6 partitions for 1 of 2" in lines[closed:]
    assert "medium: 6 partitions for 1 of 2" in lines[closed:]
    assert lines[-1] == "processed 1000"


@pytest.mark.partitions(4)
def test_dead_letters_name_their_origin(
    kafka: RealKafka, numbers: str, consume: Any, tmp_path: Path
) -> None:
    options = [*options_of(kafka.bootstrap(), numbers, new_group()), "--stop-after", str(COUNT)]
    assert "dead letters 2\n" in run(tmp_path, "dead_letters.py", options)  # 0 and 250
    consumer = consume(f"{numbers}.dead", consumer_timeout_ms=60_000)
    records = [next(consumer), next(consumer)]
    found = {record.value: dict(record.headers)["dead-letter-source"] for record in records}
    assert found == {b"0": f"{numbers}-0@0".encode(), b"250": f"{numbers}-2@62".encode()}


@pytest.mark.partitions(4)
def test_exactly_once_begins_where_retention_left_the_log(
    kafka: RealKafka, numbers: str, tmp_path: Path
) -> None:
    kafka.admin.delete_records(numbers, dict.fromkeys(range(4), 50))
    options = [*options_of(kafka.bootstrap(), numbers, new_group()), "--stop-after", "200"]
    assert run(tmp_path, "exactly_once_sqlite.py", options).endswith("stored 200\n")


@pytest.mark.partitions(4)
def test_exactly_once_skips_what_retention_deleted(
    kafka: RealKafka, numbers: str, tmp_path: Path
) -> None:
    options = options_of(kafka.bootstrap(), numbers, new_group())
    run(tmp_path, "exactly_once_sqlite.py", [*options, "--stop-after", str(COUNT)])
    kafka.admin.produce(numbers, [Record(b"%d" % n, partition=n % 4) for n in range(COUNT)])
    kafka.admin.delete_records(numbers, dict.fromkeys(range(4), 150))  # stored: 100
    again = run(tmp_path, "exactly_once_sqlite.py", [*options, "--stop-after", "200"])
    assert again.endswith("stored 200\n")


# --- until a signal ----------------------------------------------------------------------------


@SIGNALS
@pytest.mark.partitions(4)
@pytest.mark.parametrize("example", [*COMMITTING, "migrate_to_kip848.py"])
def test_a_signal_ends_an_example_cleanly(
    kafka: RealKafka, numbers: str, tmp_path: Path, example: str, number: signal.Signals
) -> None:
    libraries, word = READERS.get(example, ((), "processed"))
    require(*libraries)
    group = new_group()
    with RunningExample(
        tmp_path, example, options_of(kafka.bootstrap(), numbers, group)
    ) as running:
        running.wait_until(lambda: kafka.admin.committed(group, numbers) == COUNT, "the commits")
        assert running.end(number).endswith(f"{word} {COUNT}\n")
    assert kafka.admin.members(group) == 0
    assert kafka.admin.committed(group, numbers) == COUNT


@SIGNALS
@pytest.mark.partitions(4)
def test_a_signal_ends_exactly_once_cleanly(
    kafka: RealKafka, numbers: str, tmp_path: Path, number: signal.Signals
) -> None:
    group = new_group()

    def stored() -> bool:
        file = tmp_path / f"{group}.sqlite"
        if not file.exists():
            return False
        database = sqlite3.connect(file)
        try:
            return bool(
                database.execute("SELECT sum(next) = ? FROM offsets", (COUNT,)).fetchone()[0]
            )
        except sqlite3.OperationalError:  # no table yet, or it is locked
            return False
        finally:
            database.close()

    options = options_of(kafka.bootstrap(), numbers, group)
    with RunningExample(tmp_path, "exactly_once_sqlite.py", options) as running:
        running.wait_until(stored, "the results")
        assert running.end(number).endswith(f"stored {COUNT}\n")
    assert kafka.admin.members(group) == 0


@SIGNALS
@pytest.mark.partitions(4)
def test_a_signal_ends_a_slow_handler_after_its_record(
    kafka: RealKafka, numbers: str, tmp_path: Path, number: signal.Signals
) -> None:
    group = new_group()
    options = options_of(kafka.bootstrap(), numbers, group)
    with RunningExample(tmp_path, "slow_handler.py", options) as running:
        running.wait_until(lambda: "generation" in running.output, "the first record")
        processed = int(running.end(number).rsplit(maxsplit=1)[-1])
    assert kafka.admin.committed(group, numbers) == processed
    assert kafka.admin.members(group) == 0


@SIGNALS
def test_a_signal_ends_the_decoding_of_avro(
    kafka: RealKafka, topic: str, tmp_path: Path, number: signal.Signals
) -> None:
    require(*REGISTRY)
    group = new_group()
    options = [*options_of(kafka.bootstrap(), topic, group), "--write", "10"]
    with RunningExample(tmp_path, "schema_registry.py", options) as running:
        running.wait_until(lambda: kafka.admin.committed(group, topic) == 10, "the commits")
        assert running.end(number).endswith("decoded 10\n")
    assert kafka.admin.members(group) == 0


@SIGNALS
@pytest.mark.partitions(4)
def test_a_signal_ends_a_container_cleanly(
    kafka: RealKafka, numbers: str, tmp_path: Path, number: signal.Signals
) -> None:
    group = new_group()
    settings = {"BOOTSTRAP_SERVERS": kafka.bootstrap(), "TOPIC": numbers, "GROUP": group}
    probe = [sys.executable, str(ROOT / "examples" / "container" / "probe.py")]
    with RunningExample(tmp_path, "container/consume.py", settings=settings) as running:
        running.wait_until(lambda: kafka.admin.committed(group, numbers) == COUNT, "the commits")
        assert subprocess.run(probe, cwd=tmp_path, check=False).returncode == 0
        running.end(number)
        assert f"stopped cleanly after {COUNT} records" in running.errors
    assert kafka.admin.members(group) == 0
    hung = subprocess.run(
        probe, cwd=tmp_path, env={"LIMIT_SECONDS": "0"}, capture_output=True, check=False
    )
    assert hung.returncode == 1
    assert b"no batch for" in hung.stderr


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as response:  # noqa: S310 - it is ours
        content: bytes = response.read()
    return content.decode()


@SIGNALS
@pytest.mark.partitions(4)
@pytest.mark.parametrize("example", ["web_service.py", "async_web_service.py"])
def test_a_web_service_shows_totals_until_a_signal(
    kafka: RealKafka, numbers: str, tmp_path: Path, example: str, number: signal.Signals
) -> None:
    if example.startswith("async"):
        require("fastapi", "uvicorn")
    group = new_group()
    options = [*options_of(kafka.bootstrap(), numbers, group), "--port", "0"]
    with RunningExample(tmp_path, example, options) as running:
        url = running.address()
        all_of_them = {str(partition): COUNT // 4 for partition in range(4)}
        running.wait_until(lambda: json.loads(_get(url)) == all_of_them, "the totals")
        assert json.loads(_get(f"{url}health")) == {"healthy": True}
        assert running.end(number).endswith(f"read {COUNT}\n")
    assert kafka.admin.members(group) == 0
    assert kafka.admin.committed(group, numbers) == COUNT


class Accepting(BaseHTTPRequestHandler):
    """Accepts values by POST; every tenth request fails."""

    protocol_version = "HTTP/1.1"
    values: Counter[bytes]
    requests: Iterator[int]

    def do_POST(self) -> None:
        value = self.rfile.read(int(self.headers["Content-Length"]))
        accepted = next(self.requests) % 10 != 9
        self.values[value] += accepted
        self.send_response(204 if accepted else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.mark.partitions(4)
def test_records_are_sent_to_a_service_that_sometimes_fails(
    kafka: RealKafka, numbers: str, tmp_path: Path
) -> None:
    require("httpx")
    Accepting.values, Accepting.requests = Counter(), count()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Accepting)
    thread = Thread(target=server.serve_forever)
    thread.start()
    group = new_group()
    url = f"http://127.0.0.1:{server.server_port}/"
    options = [*options_of(kafka.bootstrap(), numbers, group), "--stop-after", str(COUNT)]
    try:
        output = run(tmp_path, "async_fan_out.py", [*options, "--url", url])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert output.endswith(f"sent {COUNT}\n")
    assert Accepting.values == Counter(b"%d" % n for n in range(COUNT))
    assert kafka.admin.committed(group, numbers) == COUNT


@SIGNALS
@pytest.mark.partitions(4)
def test_metrics_are_exported_until_a_signal(
    kafka: RealKafka, numbers: str, tmp_path: Path, number: signal.Signals
) -> None:
    require("prometheus_client")
    group = new_group()
    options = [*options_of(kafka.bootstrap(), numbers, group), "--port", "0"]
    consumed = f'kafka_consumer_records_consumed_total{{client_id="consumer-{group}-1"}} {COUNT}.0'
    with RunningExample(tmp_path, "prometheus.py", options) as running:
        url = running.address()
        running.wait_until(lambda: consumed in _get(url), "the count of records")
        assert f'partition="3",topic="{numbers}"' in _get(url)
        assert running.end(number).endswith(f"read {COUNT}\n")
    assert kafka.admin.members(group) == 0
    assert kafka.admin.committed(group, numbers) == COUNT


@pytest.mark.partitions(4)
def test_spans_are_printed(kafka: RealKafka, numbers: str, tmp_path: Path) -> None:
    require("opentelemetry.sdk")
    options = [*options_of(kafka.bootstrap(), numbers, new_group()), "--stop-after", str(COUNT)]
    output = run(tmp_path, "opentelemetry_traces.py", options)
    assert output.count(f"span process {numbers}\n") == COUNT
    assert f"span poll {numbers}\n" in output
    assert "span commit\n" in output
    assert output.endswith(f"read {COUNT}\n")
