"""The names of the package, which are imported on first use."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, NoneType
from typing import get_type_hints

import pytest

import tandem_kafka
from tandem_kafka import assignors, config, observability, tables, workers
from tandem_kafka_testing.served import ServedKafka
from tests.sources import modules

MESSAGES = "tandem_kafka.wire.messages"
#: What a consumer does not import or define, with everything below it.
NEVER = {
    *(
        "asyncio",
        "crc32c",
        "decimal",
        "difflib",
        "email",
        "http",
        "importlib.metadata",
        "signal",
        "ssl",
    ),
    *("kafka.admin", "kafka.consumer.group", "kafka.net.manager", "kafka.producer"),
    *("kafka.protocol.admin.acl", "kafka.protocol.broker_version_data", "kafka.record"),
    *("tandem_kafka.config.typed", "tandem_kafka.consumer.diagnosis"),
    "tandem_kafka.consumer.weak_provider",
    *("tandem_kafka.network.authentication", "tandem_kafka.network.channel"),
    *("tandem_kafka.network.native_tls", "tandem_kafka.network.oidc"),
    *("tandem_kafka.network.proxies", "tandem_kafka.network.selector"),
    *("tandem_kafka.network.tls_fallback", "tandem_kafka.records.python"),
    *("tandem_kafka.records.segments", "tandem_kafka.request_managers.telemetry.otlp"),
    f"{MESSAGES}.ConsumerGroupPrepareAssignmentRequest",
    f"{MESSAGES}.GetTelemetrySubscriptionsRequest",
    f"{MESSAGES}.ShareFetchRequest",
}
GROUP = {"kafka.protocol.consumer.group", "tandem_kafka.request_managers.commit_request_manager"}
CLASSIC = {"tandem_kafka.request_managers.membership.classic", "tandem_kafka.assignors.strategies"}
KIP848 = {
    "tandem_kafka.request_managers.membership.kip848",
    f"{MESSAGES}.ConsumerGroupHeartbeatRequest",
}


@pytest.mark.parametrize("name", tandem_kafka.__all__)
def test_every_name_can_be_imported(name: str) -> None:
    assert getattr(tandem_kafka, name) is not None
    assert name in dir(tandem_kafka)


@pytest.mark.parametrize(
    "package", [tandem_kafka, assignors, config, observability, tables, workers]
)
def test_completion_shows_what_is_public(package: ModuleType) -> None:
    """With its modules in use, and not what the package itself imports."""
    names = {name for name in dir(package) if not name.startswith("__")}
    for name in names - {*package.__all__}:
        assert getattr(package, name) is sys.modules[f"{package.__name__}.{name}"]


def test_type_hints_of_the_constructor_can_be_read() -> None:
    """Tools for dependency injection ask for them."""
    assert get_type_hints(tandem_kafka.KafkaConsumer.__init__)["return"] is NoneType


def test_other_names_cannot_be_imported() -> None:
    with pytest.raises(AttributeError, match="module 'tandem_kafka' has no attribute 'Consumer'"):
        _ = tandem_kafka.Consumer  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("imported", "unused"),
    [
        # Spark starts processes for a query that only need the source.
        ("tandem_kafka.errors, tandem_kafka.types", {"asyncio", "kafka.admin", "ssl", "pyarrow"}),
        # Programs name the class where they have no consumer.
        (
            "tandem_kafka\ntandem_kafka.KafkaConsumer",
            {"kafka.metrics", "tandem_kafka.engine", "tandem_kafka.request_managers"},
        ),
        # The command line reads ranges where there is no pyarrow.
        (
            "tandem_kafka.observability, tandem_kafka.tables.reader, tandem_kafka.workers",
            {"asyncio", "deltalake", "opentelemetry", "polars", "prometheus_client", "pyarrow"}
            | {"tandem_kafka.tables.sink"},
        ),
    ],
)
def test_unused_modules_are_not_imported(imported: str, unused: set[str]) -> None:
    code = f"import sys, {imported}\nprint(sorted({unused} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert ran.stdout.strip() == "[]"


def test_an_event_loop_does_not_wait_for_the_import_of_the_network_thread() -> None:
    code = "import sys\nfrom tandem_kafka import AsyncKafkaConsumer\n"
    code += "print('tandem_kafka.engine.assembly' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert ran.stdout.strip() == "True"


def test_a_child_process_has_the_network_thread_that_another_thread_may_be_importing() -> None:
    code = """
import os, sys, tandem_kafka
tandem_kafka.KafkaConsumer
assert "tandem_kafka.engine.assembly" not in sys.modules
child = os.fork()
if not child:
    os._exit("tandem_kafka.engine.assembly" not in sys.modules)
print(os.waitpid(child, 0)[1])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert (ran.stdout.strip(), ran.stderr) == ("0", "")


@pytest.mark.parametrize(
    ("name", "missing", "extra"),
    [
        ("observability.ConsumerCollector", "prometheus_client", "prometheus"),
        ("observability.TracedKafkaConsumer", "opentelemetry", "otel"),
        ("tables.DeltaLake", "deltalake", "delta"),
        ("tables.Landing", "pyarrow", "arrow"),
        ("tables.Long", "pyarrow", "arrow"),
    ],
)
def test_an_extra_that_is_missing_is_named(name: str, missing: str, extra: str) -> None:
    package = name.partition(".")[0]
    code = (
        f"import sys, tandem_kafka.{package}\nsys.modules[{missing!r}] = None\ntandem_kafka.{name}"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    told = f"tandem_kafka.{name} needs {missing}; run: pip install 'tandem-kafka[{extra}]'"
    assert ran.stderr.splitlines()[-1] == f"ImportError: {told}"


@pytest.mark.sources
@pytest.mark.parametrize("package", [assignors, config, observability, tables, workers])
def test_type_checkers_find_names_where_programs_do(package: ModuleType) -> None:
    seen = {
        alias.name: node.module
        for node in ast.walk(ast.parse(inspect.getsource(package)))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = {name: f"{package.__name__}.{home}" for name, home in package._HOMES.items()}
    assert homes.keys() == {*package.__all__}
    assert homes.items() <= seen.items()
    assert homes.keys() <= {*dir(package)}


READS_ONE_RECORD = """
import sys
from tandem_kafka import KafkaConsumer, TopicPartition
address, options, never = eval(sys.argv[1])
consumer = KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest", **options)
if options:
    consumer.subscribe(["orders"])
else:
    consumer.assign([TopicPartition("orders", 0)])
while not consumer.poll(1000):
    pass
consumer.close()
below = tuple(f"{name}." for name in never)
ran = [name for name, module in sys.modules.items() if type(module).__name__ != "_LazyModule"]
messages = "tandem_kafka.wire.messages"
ran += [f"{messages}.{name}" for name in vars(sys.modules[messages])]
print([name for name in ran if name in never or name.startswith(below)])
"""


@pytest.mark.parametrize("name", sorted(NEVER | GROUP | CLASSIC | KIP848))
def test_what_is_not_imported_exists(name: str) -> None:
    module, _, member = name.rpartition(".")
    assert hasattr(import_module(module), member) if module == MESSAGES else find_spec(name)


@pytest.mark.skipif(not tandem_kafka.native_available, reason="Python code for all of it")
@pytest.mark.parametrize(
    ("options", "never"),
    [
        ({}, NEVER | GROUP | CLASSIC | KIP848),
        ({"group_id": "readers"}, NEVER | KIP848),
        ({"group_id": "readers", "group_protocol": "consumer"}, NEVER | CLASSIC),
    ],
    ids=["no group", "classic", "KIP-848"],
)
def test_a_consumer_imports_only_what_it_uses(options: dict[str, str], never: set[str]) -> None:
    """From the import to the end of `close()`, with a record in between."""
    with ServedKafka() as kafka:
        kafka.create_topic("orders")
        kafka.produce("orders", b"0")
        given = repr((kafka.bootstrap, options, never))
        command = [sys.executable, "-c", READS_ONE_RECORD, given]
        ran = subprocess.run(command, capture_output=True, check=False, text=True, timeout=60)
    assert (ran.stdout.strip(), ran.stderr) == ("[]", "")


NETWORK_THREAD = """
import sys
from tandem_kafka import KafkaConsumer, TopicPartition
import tandem_kafka.engine.assembly
before = set(sys.modules)
consumer = KafkaConsumer(bootstrap_servers=sys.argv[1], auto_offset_reset="earliest")
consumer.assign([TopicPartition("orders", 0)])
while not consumer.poll(1000):
    pass
print(set(sys.modules) - before)
"""


@pytest.mark.skipif(not tandem_kafka.native_available, reason="imports its own selector")
def test_the_network_thread_imports_nothing_until_the_first_record() -> None:
    """A child process that another thread forks meanwhile could not import that."""
    with ServedKafka() as kafka:
        kafka.create_topic("orders")
        kafka.produce("orders", b"0")
        command = [sys.executable, "-c", NETWORK_THREAD, kafka.bootstrap]
        ran = subprocess.run(command, capture_output=True, check=False, text=True, timeout=60)
    assert ran.stdout.strip() == "set()", ran.stderr


@pytest.mark.parametrize(
    "statement",
    [
        "from tandem_kafka import KafkaConsumer",
        "from tandem_kafka import KafkaProducer",
        "from tandem_kafka.errors import CommitFailedError",
        "from tandem_kafka.types import TopicPartition",
        "from tandem_kafka.metrics import Metrics",
        "from tandem_kafka.confluent import Consumer",
        "from tandem_kafka_testing.laboratory import SimulatedKafka",
        "from tandem_kafka_testing.served import ServedKafka",
        "import tandem_kafka; tandem_kafka.install()",
    ],
)
def test_imports_cause_no_warnings(statement: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", statement],
        capture_output=True,
        check=False,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr


def test_fixtures_cause_no_warnings(tmp_path: Path) -> None:
    test = tmp_path / "test_of_a_user.py"
    test.write_text(
        "def test_simulated(kafka_cluster): kafka_cluster.create_topic('orders')\n"
        "def test_served(kafka_broker): kafka_broker.create_topic('orders')\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*command, str(test)], cwd=tmp_path, capture_output=True, check=False, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout


def _imports_kafka_python(statements: list[ast.stmt]) -> bool:
    """Whether a module imports kafka-python when it is imported."""
    for statement in statements:
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            names = [statement.module or ""]
        elif isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            if _imports_kafka_python(statement.orelse):
                return True
            continue
        else:
            continue
        if any(name.split(".")[0] == "kafka" for name in names):
            return True
    return False


#: Not the name alone: the package itself has it in a table of modules.
_FIRST = re.compile(r"^(?:import|from) tandem_kafka\.runtime\.kafka_python\b", re.MULTILINE)


def _imports_without_warnings(module: Path) -> bool:
    """Whether `kafka_python` is imported first: by the module, or by a package around it."""
    packages = (folder / "__init__.py" for folder in module.parents)
    return any(
        _FIRST.search(source.read_text(encoding="utf-8"))
        for source in (module, *packages)
        if source.is_file()
    )


@pytest.mark.sources
def test_kafka_python_is_imported_without_its_warnings() -> None:
    found = [
        module
        for module in modules()
        if module.name != "kafka_python.py"
        and _imports_kafka_python(ast.parse(module.read_text(encoding="utf-8")).body)
    ]
    assert len(found) > 80
    assert [module for module in found if not _imports_without_warnings(module)] == []
