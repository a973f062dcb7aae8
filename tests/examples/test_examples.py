"""Each example runs as it is, through what happens to a consumer, until a signal ends it."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread

import pytest
from kafka.errors import RebalanceInProgressError, UnknownMemberIdError

from tandem_kafka_testing.kafka.admin import ClusterAdmin
from tandem_kafka_testing.kafka.ports import free_ports
from tandem_kafka_testing.served import ServedKafka
from tandem_kafka_testing.serving import order
from tests.examples.orders import Orders
from tests.examples.running import EXAMPLES, RunningExample, require
from tests.tier import sample
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def kafka() -> Iterator[ServedKafka]:
    """A simulated cluster for all tests."""
    with ServedKafka() as served:
        yield served


# --- what examples have handled ----------------------------------------------------------------

Handled = Callable[[Path, Orders], list[int]]


def printed(pattern: str) -> Handled:
    """Return a function that finds the numbers of orders in the output."""
    return lambda folder, _: [int(n) for n in re.findall(pattern, (folder / "stdout").read_text())]


def in_files(folder: Path, orders: Orders) -> list[int]:
    found = []
    for file in folder.glob(f"{orders.topic}-?.txt"):
        found += [int(n) for n in re.findall(r'"order": (\d+)', file.read_text())]
    return found


def in_parquet(folder: Path, _: Orders) -> list[int]:
    from tandem_kafka.tables import ParquetDirectory

    assert not list(folder.glob("files/*/*.tmp"))
    found: list[int] = ParquetDirectory(folder / "files").dataset().to_table()["order"].to_pylist()
    return found


def in_sqlite(query: str) -> Handled:
    """Return a function that takes the first column of a query, without the JSON around it."""

    def read(folder: Path, _: Orders) -> list[int]:
        with closing(sqlite3.connect(folder / "example.sqlite")) as database:
            rows = database.execute(query).fetchall()
        return [int(re.search(r"\d+", str(row[0]))[0]) for row in rows]  # type: ignore[index]

    return read


def in_duckdb(folder: Path, orders: Orders) -> list[int]:
    """The table has sums: they are those of all orders, or of some that nobody asks for."""
    import duckdb

    with duckdb.connect(str(folder / "example.duckdb"), read_only=True) as database:
        stored = database.execute("FROM customers ORDER BY customer").fetchall()
    count = sum(orders_of for _, orders_of, _ in stored)
    if count == orders.written:
        sums: dict[str, list[float]] = {}
        for number in range(count):
            sums.setdefault(f"customer-{number % 10}", []).append(1.5 * (number % 40))
        assert stored == [(who, len(each), sum(each)) for who, each in sorted(sums.items())]
    return list(range(count))


def spans(folder: Path, orders: Orders) -> list[int]:
    """There is a span for each record at least, but it does not say which."""
    assert (folder / "stdout").read_text().count("span process ") >= orders.written
    return list(range(orders.written))


def unknown(_: Path, orders: Orders) -> list[int]:
    """The example shows nothing of what it handles."""
    return list(range(orders.written))


def or_dead(folder: Path, orders: Orders) -> list[int]:
    """The orders without an amount become dead letters."""
    dead = [n for n in range(orders.written) if n % 40 == 0]
    assert orders.dead_letters() >= len(dead)
    return printed(r"processed order (\d+)")(folder, orders) + dead


# --- what examples need besides Kafka ----------------------------------------------------------

Surroundings = Callable[[Path], AbstractContextManager[dict[str, str]]]


class Accepting(BaseHTTPRequestHandler):
    """Accepts values by POST; every tenth request fails."""

    protocol_version = "HTTP/1.1"
    requests = count()
    accepted: Path

    def do_POST(self) -> None:
        value = self.rfile.read(int(self.headers["Content-Length"]))
        accepted = next(self.requests) % 10 != 9
        if accepted:
            with self.accepted.open("ab") as file:
                file.write(value + b"\n")
        self.send_response(204 if accepted else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@contextmanager
def a_service(folder: Path) -> Iterator[dict[str, str]]:
    Accepting.accepted = folder / "accepted.txt"
    server = ThreadingHTTPServer(("127.0.0.1", 0), Accepting)
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield {"SERVICE_URL": f"http://127.0.0.1:{server.server_port}/"}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def accepted(folder: Path, _: Orders) -> list[int]:
    return [int(n) for n in re.findall(r'"order": (\d+)', (folder / "accepted.txt").read_text())]


@contextmanager
def a_registry(_: Path) -> Iterator[dict[str, str]]:
    from pipeline.registry import SchemaRegistry

    with SchemaRegistry() as registry:
        assert registry.register("payments", {"schema": json.dumps(SCHEMA)}) == SCHEMA_ID
        yield {"REGISTRY_URL": registry.url}


SCHEMA = {"type": "record", "name": "Payment", "fields": [{"name": "id", "type": "long"}]}
SCHEMA_ID = 1


def payment(number: int) -> bytes:
    """Return a value in Avro; each 17th one is not."""
    from pipeline.registry import framed

    if number % 17 == 16:
        return b"not Avro"
    return framed(SCHEMA_ID, bytes([number * 2 % 128 + 128, number * 2 // 128]))


def decoded(folder: Path, orders: Orders) -> list[int]:
    wrong = [n for n in range(orders.written) if n % 17 == 16]
    return printed(r"'id': (\d+)")(folder, orders) + wrong


@contextmanager
def a_project(folder: Path) -> Iterator[dict[str, str]]:
    """A project of Django with the app `shop`, which has the command."""
    commands = folder / "shop" / "management" / "commands"
    commands.mkdir(parents=True)
    for package in (commands, commands.parent, folder / "shop"):
        (package / "__init__.py").touch()
    text = (EXAMPLES / "django_command.py").read_text(encoding="utf-8")
    (commands / "consume_orders.py").write_text(text)
    # The model is in the docstring of the example.
    model = re.search(r"( {4}class Order\(.*?)\n\n", text, re.DOTALL)
    assert model is not None
    lines = ["from django.db import models", *(line[4:] for line in model[1].splitlines())]
    (folder / "shop" / "models.py").write_text("\n".join(lines))
    (folder / "settings.py").write_text(
        "INSTALLED_APPS = ['shop']\n"
        "DATABASES = {'default': {'ENGINE': 'django.db.backends.sqlite3',"
        " 'NAME': 'example.sqlite'}}\n"
    )
    settings = {"DJANGO_SETTINGS_MODULE": "settings"}
    with RunningExample(
        folder, "-m", "django", "migrate", "--run-syncdb", "-v0", settings=settings
    ) as migration:
        migration.end()
    yield settings


# --- in a group --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Example:
    """An example that is a member of a group.

    Attributes:
        file: Its path in `examples`.
        handled: Returns the numbers of the orders that it has handled.
        needs: Libraries that it imports.
        once: Whether it handles no order twice, whatever happens.
        surroundings: What it needs to run; gives its settings.
        value: Returns the value of an order.
        arguments: Arguments of Python, if it is not a script.
    """

    file: str
    handled: Handled
    needs: tuple[str, ...] = ()
    once: bool = False
    surroundings: Surroundings | None = None
    value: Callable[[int], bytes] = field(default=lambda number: order(number)[1])
    arguments: tuple[str, ...] = ()

    @contextmanager
    def run(self, folder: Path, orders: Orders) -> Iterator[RunningExample]:
        """Start it in a folder."""
        own = {"FILE_SECONDS": "0.2", "PORT": "0", "PROBE_PORT": "0"}
        settings = {**orders.settings, **own}
        arguments = self.arguments or (EXAMPLES / self.file,)
        if self.surroundings is None:
            with RunningExample(folder, *arguments, settings=settings) as running:
                yield running
            return
        with self.surroundings(folder) as more:
            settings |= more
            with RunningExample(folder, *arguments, settings=settings) as running:
                yield running


JSON = printed(r'"order": (\d+)')
MEMBERS = [
    Example("at_least_once.py", JSON),
    Example("async_at_least_once.py", JSON),
    Example("per_partition.py", in_files),
    Example("keyed_workers.py", printed(r"stored order (\d+)")),
    Example("process_pool.py", printed(r"(\d+) has \d+ divisors")),
    Example("dead_letters.py", or_dead),
    Example("async_fan_out.py", accepted, ("httpx",), surroundings=a_service),
    Example("landing_duckdb.py", in_duckdb, ("pyarrow", "duckdb"), once=True),
    Example("landing_parquet.py", in_parquet, ("pyarrow",), once=True),
    Example("schema_registry.py", decoded, ("fastavro", "authlib"), False, a_registry, payment),
    Example("container/consume.py", unknown),
    Example("prometheus.py", unknown, ("prometheus_client",)),
    Example(
        "opentelemetry_traces.py",
        spans,
        ("opentelemetry.sdk",),
    ),
    Example(
        "django_command.py",
        in_sqlite("SELECT number FROM shop_order"),
        ("django",),
        once=True,
        surroundings=a_project,
        arguments=("-m", "django", "consume_orders"),
    ),
]
SIGNALS = pytest.mark.parametrize(
    "number", sample([signal.SIGTERM, signal.SIGINT], 1), ids=["SIGTERM", "Ctrl-C"]
)
EACH = pytest.mark.parametrize("example", sample(MEMBERS, 1), ids=lambda each: each.file)


@EACH
def test_an_example_survives_failed_commits_and_ends_at_sigterm(
    kafka: ServedKafka, tmp_path: Path, example: Example
) -> None:
    require(*example.needs)
    orders = Orders(kafka, example.value)
    orders.write(40)
    with example.run(tmp_path, orders) as running:
        running.wait_until(lambda: orders.committed() == 40, "the first commit")
        orders.reject_commits(RebalanceInProgressError, 1)
        orders.write(40)
        running.wait_until(lambda: orders.committed() == 80, "a commit after the rejected one")
        orders.write_and_expel(40)
        running.wait_until(lambda: orders.committed() == 120, "a commit of the new member")
        running.end(signal.SIGTERM)
    assert orders.failed_commits == 1
    check_end(orders, example.handled(tmp_path, orders), once=example.once)


@pytest.mark.parametrize(
    "example",
    sample(
        [each for each in MEMBERS if "KeyedWorkers" in (EXAMPLES / each.file).read_text("utf-8")], 1
    ),
    ids=lambda each: each.file,
)
def test_workers_end_at_sigterm_although_the_last_commit_fails(
    tmp_path: Path, example: Example
) -> None:
    require(*example.needs)
    with ServedKafka() as kafka:  # for this test alone: rejections may be left
        orders = Orders(kafka, example.value)

        def all_are_handled() -> bool:
            with suppress(AssertionError, OSError):
                return {*example.handled(tmp_path, orders)} == {*range(orders.written)}
            return False

        orders.write(40)
        with example.run(tmp_path, orders) as running:
            running.wait_until(lambda: orders.committed() == 40, "the first commit")
            orders.reject_commits(UnknownMemberIdError, 1_000)
            orders.write(40)
            running.wait_until(all_are_handled, "the work")
            running.end(signal.SIGTERM)  # usually before a commit in the background


@EACH
def test_an_example_survives_rebalances_and_ends_at_ctrl_c(
    kafka: ServedKafka, tmp_path: Path, example: Example
) -> None:
    require(*example.needs)
    orders = Orders(kafka, example.value)
    orders.write(40)
    with example.run(tmp_path, orders) as running:
        running.wait_until(lambda: orders.committed() == 40, "the first commit")
        orders.another_member_joins_and_leaves()
        orders.write(40)
        running.wait_until(lambda: orders.committed() == 80, "a commit after the rebalances")
        running.end(signal.SIGINT)
    check_end(orders, example.handled(tmp_path, orders), once=example.once)


@pytest.mark.parametrize(
    "file", sample(["per_partition.py", "landing_parquet.py", "landing_duckdb.py"], 1)
)
def test_all_that_is_stored_at_the_end_is_committed(
    kafka: ServedKafka, tmp_path: Path, file: str
) -> None:
    [example] = [each for each in MEMBERS if each.file == file]
    require(*example.needs)
    orders = Orders(kafka)
    orders.write(40)
    with example.run(tmp_path, orders) as running:
        running.wait_until(lambda: orders.committed() == 40, "the first commit")
        orders.write(40)
        running.end(signal.SIGTERM)
    assert len(example.handled(tmp_path, orders)) == orders.committed()


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_no_process_of_a_pool_outlives_a_killed_parent(kafka: ServedKafka, tmp_path: Path) -> None:
    orders = Orders(kafka)
    orders.write(40)
    [example] = [each for each in MEMBERS if each.file == "process_pool.py"]
    with example.run(tmp_path, orders) as running:
        running.wait_until(lambda: orders.committed() == 40, "the first commit")
        children = running.children
        assert children
        running.kill()
    wait_until(lambda: not any(child.exists() for child in children))


def check_end(orders: Orders, handled: list[int], *, once: bool) -> None:
    assert orders.committed() == orders.written, "what was committed stays so"
    assert orders.members() == 0, "it has left the group"
    assert set(handled) == set(range(orders.written))
    if once:
        assert len(handled) == orders.written


# --- offsets of their own ----------------------------------------------------------------------


STORED = in_sqlite("SELECT value FROM results")


def stored(folder: Path, orders: Orders) -> int:
    try:
        return len(STORED(folder, orders))
    except sqlite3.OperationalError:  # no table yet, or it is locked
        return 0


def exactly_once(folder: Path, orders: Orders) -> RunningExample:
    return RunningExample(folder, EXAMPLES / "exactly_once_sqlite.py", settings=orders.settings)


@SIGNALS
def test_exactly_once_stores_each_order_once(
    kafka: ServedKafka, tmp_path: Path, number: signal.Signals
) -> None:
    orders = Orders(kafka)
    orders.write(40)
    with exactly_once(tmp_path, orders) as running:
        running.wait_until(lambda: stored(tmp_path, orders) == 40, "the first orders")
        orders.another_member_joins_and_leaves()
        orders.write_and_expel(40)
        running.wait_until(lambda: stored(tmp_path, orders) == 80, "the others")
        running.end(number)
    assert sorted(STORED(tmp_path, orders)) == list(range(80))
    assert orders.members() == 0


def test_exactly_once_leaves_a_partition_to_its_new_owner(
    kafka: ServedKafka, tmp_path: Path
) -> None:
    orders = Orders(kafka)
    orders.write(40)
    with exactly_once(tmp_path, orders) as running:
        running.wait_until(lambda: stored(tmp_path, orders) == 40, "the first orders")
        with closing(sqlite3.connect(tmp_path / "example.sqlite")) as database, database:
            database.execute("UPDATE offsets SET next = next + 1")  # as another member would
        orders.write(40)
        running.wait_until(lambda: "another member" in running.output, "the conflict")
        running.end(signal.SIGTERM)


def test_exactly_once_begins_and_continues_where_retention_left_the_log(
    kafka: ServedKafka, tmp_path: Path
) -> None:
    orders = Orders(kafka)
    orders.write(40)
    orders.delete(20)
    with exactly_once(tmp_path, orders) as running:
        running.wait_until(lambda: stored(tmp_path, orders) == 20, "the orders that are left")
        running.end(signal.SIGTERM)
    orders.write(40)
    orders.delete(60)  # all that are left, stored or not
    orders.write(20)
    with exactly_once(tmp_path, orders) as running:
        running.wait_until(lambda: stored(tmp_path, orders) == 40, "the orders that are left now")
        running.end(signal.SIGTERM)


# --- without a group ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "needs", "expected"),
    [
        ("read_to_end.py", (), "40 records"),
        ("arrow_polars.py", ("pyarrow", "polars"), r"customer-9 ┆ 4 +┆ 144\.0"),
    ],
)
def test_a_job_ends_at_the_end_of_the_topic(
    kafka: ServedKafka, tmp_path: Path, file: str, needs: tuple[str, ...], expected: str
) -> None:
    require(*needs)
    orders = Orders(kafka)
    orders.write(40)
    with RunningExample(tmp_path, EXAMPLES / file, settings=orders.settings) as running:
        assert re.search(expected, running.end())


def test_yesterday_is_read_with_its_schemas(kafka: ServedKafka, tmp_path: Path) -> None:
    require("pyarrow", "duckdb", "authlib")
    orders = Orders(kafka, payment)
    orders.write(40)
    with (
        a_registry(tmp_path) as settings,
        RunningExample(
            tmp_path, EXAMPLES / "yesterday_duckdb.py", settings={**orders.settings, **settings}
        ) as running,
    ):
        rows = re.findall(r":00:00\+?\S* +│ +(\d+) │ +(\d+) │", running.end())
    # One row, or two in the last second of an hour.
    assert [sum(map(int, column)) for column in zip(*rows, strict=True)] == [38, 2]


@pytest.mark.skipif(sys.platform != "linux", reason="counts the threads of the job in /proc")
@SIGNALS
def test_a_signal_ends_a_job_as_unfinished(
    kafka: ServedKafka, tmp_path: Path, number: signal.Signals
) -> None:
    orders = Orders(kafka)
    orders.write(40)
    kafka.perform(lambda cluster: cluster.pause(1))  # so that it does not end before
    try:
        with RunningExample(
            tmp_path, EXAMPLES / "read_to_end.py", settings=orders.settings
        ) as running:
            running.wait_until(lambda: running.threads > 1, "the network thread")
            assert running.end(number, status=-number) == ""
    finally:
        kafka.perform(lambda cluster: cluster.resume(1))


@SIGNALS
def test_a_web_service_shows_the_newest_orders_until_a_signal(
    kafka: ServedKafka, tmp_path: Path, number: signal.Signals
) -> None:
    require("fastapi", "uvicorn")
    orders = Orders(kafka)
    orders.write(40)
    port, probe = free_ports(2)
    settings = {**orders.settings, "PORT": str(port), "PROBE_PORT": str(probe)}
    with RunningExample(tmp_path, EXAMPLES / "fastapi_service.py", settings=settings) as running:
        running.wait_until(lambda: get(port, "/customers/customer-9"), "the order")
        running.wait_until(lambda: '"order":39' in get(port, "/customers/customer-9"), "the newest")
        running.wait_until(lambda: get(probe, "/ready"), "readiness")
        assert get(probe, "/live")
        running.end(number)


def test_a_web_service_says_why_it_reads_no_longer(kafka: ServedKafka, tmp_path: Path) -> None:
    require("fastapi", "uvicorn")
    orders = Orders(kafka, lambda _: b"not JSON")
    port, probe = free_ports(2)
    settings = {**orders.settings, "PORT": str(port), "PROBE_PORT": str(probe)}
    with RunningExample(tmp_path, EXAMPLES / "fastapi_service.py", settings=settings) as running:
        running.wait_until(lambda: get(probe, "/live"), "liveness")
        orders.write(1)
        running.wait_until(lambda: not get(probe, "/live"), "the end of liveness")
        running.wait_until(lambda: "JSONDecodeError" in running.errors, "the reason")


def get(port: int, path: str) -> str:
    """Return the body; empty if there is no server yet, or it does not respond with 200."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as response:
            content: bytes = response.read()
    except OSError:
        return ""
    return content.decode()


def test_metrics_are_exported_on_all_addresses(kafka: ServedKafka, tmp_path: Path) -> None:
    require("prometheus_client")
    orders = Orders(kafka)
    orders.write(40)
    (port,) = free_ports(1)
    settings = {**orders.settings, "PORT": str(port)}
    with RunningExample(tmp_path, EXAMPLES / "prometheus.py", settings=settings) as running:
        labels = f'client_id="consumer-{orders.group}-1",group_id="{orders.group}"'
        consumed = f"records_consumed_total{{{labels}}} 40.0"
        running.wait_until(lambda: consumed in get(port, "/metrics"), "the count of records")
        listening = Path("/proc/net/tcp")
        if listening.exists():
            assert f"00000000:{port:04X}" in listening.read_text()
        running.end(signal.SIGTERM)


def test_members_assign_partitions_by_their_capacity(tmp_path: Path) -> None:
    with RunningExample(tmp_path, EXAMPLES / "local_assignor.py") as running:
        lines = running.end().splitlines()
    closed = lines.index("large closes")
    for name, share, capacity in (("small", 2, 1), ("medium", 2, 1), ("large", 8, 4)):
        last = [line for line in lines[:closed] if line.startswith(f"{name}: ")][-1]
        assert last == f"{name}: {share} partitions for {capacity} of 6"


# --- the list ----------------------------------------------------------------------------------


@SIGNALS
def test_processes_share_a_queue(
    kafka: ServedKafka, tmp_path: Path, number: signal.Signals
) -> None:
    orders = Orders(kafka)
    setting = {"share.auto.offset.reset": "earliest"}
    ClusterAdmin(kafka.bootstrap).configure_group(orders.group, setting)
    orders.write(40)
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
        (folder / "stdout").touch()

    def handled() -> list[int]:
        text = "".join((folder / "stdout").read_text() for folder in folders)
        return sorted(int(n) for n in re.findall(r"handled order (\d+) at delivery 1(?!\d)", text))

    example = EXAMPLES / "share_workers.py"
    with RunningExample(folders[0], example, settings=orders.settings) as first:
        first.wait_until(handled, "the first record")  # else the second may do all before it starts
        with RunningExample(folders[1], example, settings=orders.settings) as second:
            first.wait_until(lambda: handled() == [*range(40)], "the work")
            first.end(number)
            orders.write(40)
            second.wait_until(lambda: handled() == [*range(80)], "the rest")
            second.end(number)
    assert handled() == [*range(80)], "each once"


def test_every_example_is_tested() -> None:
    files = {path.name for path in EXAMPLES.glob("*.py")}
    here = Path(__file__).read_text(encoding="utf-8")
    secured = EXAMPLES.parent / "tests" / "integration" / "security" / "test_tls_example.py"
    named = here + secured.read_text(encoding="utf-8")
    assert not {name for name in files if f'"{name}"' not in named}


def test_the_list_of_examples_names_every_file() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([\w/]+\.py)` \|", page, re.MULTILINE))
    assert listed == {path.name for path in EXAMPLES.glob("*.py")}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_stands_alone(path: Path) -> None:
    """Copied somewhere else, it finds what it imports."""
    others = "|".join(other.stem for other in EXAMPLES.glob("*.py") if other.stem != "prometheus")
    assert not re.search(rf"^(from|import) ({others})\b", path.read_text("utf-8"), re.MULTILINE)
