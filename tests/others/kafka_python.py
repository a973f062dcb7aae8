"""kafka-python's own tests with this consumer, on a real Kafka.

They come from the source distribution of the installed release, which pip downloads. They run with
kafka-python's consumer first, twice if they fail: a test that does not pass there says nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tests.others.suite import LeftOut, Suite, results

__all__ = ["SUITE", "run", "unpack_tests"]

_CONSUMER: Final = "test/integration/test_consumer_integration.py"
_PRODUCER: Final = "test/integration/test_producer_integration.py"
_ADMIN: Final = "test/integration/test_admin_integration.py"
_SASL: Final = "test/integration/test_sasl_integration.py"

SUITE: Final = Suite(
    "kafka-python",
    "with kafka-python's consumer",
    {_CONSUMER: 17, _PRODUCER: 9, _ADMIN: 4, _SASL: 3},
    {
        f"{_CONSUMER}::test_kafka_consumer_unsupported_encoding": LeftOut(
            "expects an error if the library for gzip is missing, which is not needed here"
        ),
        f"{_CONSUMER}::test_group": LeftOut(
            "reads `_coordinator.heartbeat`, after its checks of the assignment"
        ),
        f"{_CONSUMER}::test_heartbeat_thread": LeftOut(
            "reads `_coordinator.state` and `_coordinator.heartbeat`"
        ),
        f"{_CONSUMER}::test_kafka_consumer_offsets_for_time_old": LeftOut(
            "is for brokers before 0.10.1, and skipped"
        ),
        f"{_ADMIN}::test_delete_records": LeftOut(
            "expects the records of six partitions from the first `poll()`", sometimes=True
        ),
    },
)

_REPOSITORY: Final = Path(__file__).parents[2]
_PLUGIN: Final = "tests.others.kafka_python_plugin"
#: A test that takes longer hangs.
_TIMEOUT_S: Final = 120


def run() -> tuple[dict[str, str], dict[str, str]]:
    """Fetch the tests; returns their results with kafka-python's consumer, and with this one.

    Raises:
        CalledProcessError: They cannot be fetched.
        RuntimeError: They have not begun.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _fetch(SUITE.package, folder)
        original = _run(folder, "--original", *SUITE.tests)
        failed = [test for test in original if original[test] == "failed"]
        if failed:
            original |= _run(folder, "--original", *failed)
        return original, _run(folder, *SUITE.tests)


def _fetch(package: str, into: Path) -> None:
    """Download the tests of the release that is installed."""
    release = f"{package}=={version(package)}"
    print(f"fetching the source distribution of {release}", flush=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(into)]
    # Only of this package: what builds it may be a wheel.
    subprocess.run([*pip, "--no-binary", package, release], check=True)
    (archive,) = into.glob("*.tar.gz")
    unpack_tests(archive, into)


def unpack_tests(archive: Path, into: Path) -> None:
    """Unpack the folder `test` of a source distribution, and nothing else of it."""
    with tarfile.open(archive) as content:
        for member in content:
            _, _, path = member.name.partition("/")
            if path.startswith("test/"):
                content.extract(member.replace(name=path), into, filter="data")
    # Or Python's own package `test` is found.
    (into / "test/__init__.py").touch()


def _run(folder: Path, *arguments: str) -> dict[str, str]:
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    path = os.pathsep.join(filter(None, [str(_REPOSITORY), os.environ.get("PYTHONPATH")]))
    pytest = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(folder)]
    pytest += ["-p", "no:cacheprovider", "-p", "no:logging", "-p", "pytest_timeout", "-p", _PLUGIN]
    pytest += [f"--timeout={_TIMEOUT_S}", "--tb=short", "-Wignore", f"--junit-xml={report.name}"]
    subprocess.run(
        [*pytest, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
    )
    if not report.exists():
        raise RuntimeError(f"the tests of {SUITE.package} have not begun")
    return results(report)
