"""The names of the package, which are imported on first use."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tandem_kafka

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tandem_kafka"
ONLY_VALUES = {PACKAGE / "errors.py", PACKAGE / "types.py"}


@pytest.mark.parametrize("name", tandem_kafka.__all__)
def test_every_name_can_be_imported(name: str) -> None:
    assert getattr(tandem_kafka, name) is not None
    assert name in dir(tandem_kafka)


def test_other_names_cannot_be_imported() -> None:
    with pytest.raises(AttributeError, match="module 'tandem_kafka' has no attribute 'Consumer'"):
        _ = tandem_kafka.Consumer  # type: ignore[attr-defined]


def test_unused_modules_are_not_imported() -> None:
    """Spark starts processes for a query that only need the source."""
    code = (
        "import sys, tandem_kafka.errors, tandem_kafka.types\n"
        "print(sorted({'asyncio', 'kafka', 'ssl', 'pyarrow'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "statement",
    [
        "from tandem_kafka import KafkaConsumer",
        "from tandem_kafka import KafkaProducer",
        "from tandem_kafka.errors import CommitFailedError",
        "from tandem_kafka.types import TopicPartition",
        "from tandem_kafka.metrics import Metrics",
        "from tandem_kafka.confluent import Consumer",
        "from tandem_kafka.testing.laboratory import SimulatedKafka",
        "from tandem_kafka.testing.served import ServedKafka",
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


def _imports_without_warnings(module: Path) -> bool:
    """Whether `kafka_python` is imported first: by the module, or by a package around it.

    Modules that need only kafka-python's errors and structs import `kafka_values`.
    """
    packages = [
        folder / "__init__.py" for folder in module.parents if folder.is_relative_to(PACKAGE)
    ]
    first = "kafka_values" if module in ONLY_VALUES else "kafka_python"
    return any(
        f"import tandem_kafka.runtime.{first}" in source.read_text(encoding="utf-8")
        for source in (module, *packages)
    )


@pytest.mark.sources
def test_kafka_python_is_imported_without_its_warnings() -> None:
    modules = [
        module
        for module in sorted(PACKAGE.rglob("*.py"))
        if module.name != "kafka_python.py"
        and _imports_kafka_python(ast.parse(module.read_text(encoding="utf-8")).body)
    ]
    assert len(modules) > 30
    assert [module for module in modules if not _imports_without_warnings(module)] == []
