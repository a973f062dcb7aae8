"""`python -m tests.others`: kafka-python's own tests with this consumer, on a real Kafka.

The tests come from the source distribution of the installed release, which pip downloads. They run
with kafka-python's consumer first, twice if they fail: a test that does not pass there says nothing
about this one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path

from tests.others.kafka_python import SUITE
from tests.others.suite import problems, results

_REPOSITORY = Path(__file__).parents[2]
#: A test that takes longer hangs.
_TIMEOUT_S = 120
_PLUGIN = "tests.others.kafka_python_plugin"


def main() -> int:
    """Print the results, and what differs from the table; returns 1 if anything does."""
    argparse.ArgumentParser(prog="python -m tests.others", description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _fetch(SUITE.package, folder)
        original = _run(folder, "--original", *SUITE.tests)
        # Once in ten runs, one of them fails there.
        failed = [test for test in original if original[test] == "failed"]
        if failed:
            original |= _run(folder, "--original", *failed)
        ours = _run(folder, *SUITE.tests)
    for client, verdicts in ((SUITE.package, original), ("tandem-kafka", ours)):
        counts = ", ".join(f"{count} {kind}" for kind, count in Counter(verdicts.values()).items())
        print(f"{client}: {len(verdicts)} tests, {counts}")
    wrong = sorted(problems(SUITE, original, ours))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


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


if __name__ == "__main__":
    sys.exit(main())
