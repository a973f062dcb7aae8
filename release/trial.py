"""Installs the wheels in dist/ that run on this system, and tests them: `python -m release.trial`.

Each wheel gets an empty environment, in which it is first alone, and a folder with the tests, but
without the sources of the packages. The PATH has no compiler and no Rust.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Final

from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

from release.wheels import DIST, DISTRIBUTIONS, ROOT, tracked

#: Programs of the system that pip, pytest and the tests start.
PROGRAMS: Final = ("env", "git", "ldconfig", "sh", "sleep", "uname")
#: Seeds of the tests that draw one; .ci/run tries many more.
SEEDS: Final = "0-20"
#: These tests compare the sources of the package with docs and rules.
OF_THE_SOURCES: Final = "not sources"
#: Those without a broker.
TESTS: Final = (
    *("tests/unit", "tests/simulation", "packages/testing", "packages/cli"),
    *("--ignore", "packages/cli/tests/integration"),
)


def main() -> int:
    """Test the wheels; returns the exit code."""
    wheels = [each for each in sorted(DIST.glob("tandem_kafka-*.whl")) if _runs_here(each)]
    if not wheels:
        print("no wheel in dist/ runs on this system: run make wheels", file=sys.stderr)
        return 1
    for wheel in wheels:
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            _try(wheel, Path(folder))
        print(f"{wheel.name}: passed in {time.monotonic() - started:.0f} s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        _try_spark(wheels[0], Path(folder))
    return 0


def _runs_here(wheel: Path) -> bool:
    *_, tags = parse_wheel_filename(wheel.name)
    return not tags.isdisjoint(sys_tags())


def _try(wheel: Path, folder: Path) -> None:
    tree = folder / "tree"
    _copy_tests(tree)
    venv.create(folder / "environment", with_pip=True)
    binaries = folder / "environment" / "bin"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TANDEM_")},
        "PATH": f"{binaries}{os.pathsep}{_programs(folder / 'programs')}",
        "TANDEM_KAFKA_SEEDS": SEEDS,
    }
    if wheel.name.endswith("-none-any.whl"):
        environment["TANDEM_KAFKA_NATIVE"] = "off"

    def run(*arguments: str) -> None:
        print("+", wheel.name, *arguments, flush=True)
        command = [str(binaries / "python"), *arguments]
        subprocess.run(command, cwd=tree, env=environment, check=True)

    pip = ("-m", "pip", "install", "-q", "--disable-pip-version-check")
    run(*pip, "pip>=25.1")
    run(*pip, str(wheel), "pytest>=8")
    run("-c", _ALONE)
    others = map(str, DIST.glob("tandem_kafka_*.whl"))
    run(*pip, f"{wheel}[demo]", *others, "--group", "test")
    run("-c", _INSTALLED, "pure" if "TANDEM_KAFKA_NATIVE" in environment else "native")
    run("-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-m", OF_THE_SOURCES, *TESTS)
    run("-m", "tandem_kafka_cli", "demo")


#: The wheel alone brings nothing for tests, and pytest loads no plugin.
_ALONE: Final = """
from importlib.metadata import entry_points
from importlib.util import find_spec
assert find_spec("tandem_kafka_testing") is None and find_spec("tandem_kafka_cli") is None
assert not [each for each in entry_points(group="pytest11") if "kafka" in each.value]
from tandem_kafka import AsyncKafkaConsumer, KafkaConsumer, ShareConsumer
"""


def _try_spark(wheel: Path, folder: Path) -> None:
    """Install the extra for Spark; with paths, pip asks no index for our names."""
    venv.create(folder / "environment", with_pip=True)
    python = str(folder / "environment" / "bin" / "python")
    pip = (python, "-m", "pip", "install", "-q", "--disable-pip-version-check")
    (spark,) = DIST.glob("pyspark_tandem_kafka-*.whl")
    for command in (
        (*pip, f"{wheel}[spark-avro,spark-protobuf]", str(spark)),
        (python, "-c", _FOUND_BY_SPARK),
        (python, "-m", "pyspark_tandem_kafka", "warm"),
    ):
        print("+", spark.name, *command[1:], flush=True)
        subprocess.run(command, cwd=folder, check=True)


#: Every module can be imported, and Spark finds the source by the name of the package.
_FOUND_BY_SPARK: Final = """
import importlib, pkgutil, pyspark, pyspark_tandem_kafka as found
assert "site-packages" in found.__file__, found.__file__
for each in pkgutil.walk_packages(found.__path__, "pyspark_tandem_kafka."):
    if not each.name.endswith("__main__"):
        importlib.import_module(each.name)
assert found.DefaultSource.name() == "tandem_kafka"
print(f"PySpark {pyspark.__version__} and {found.DefaultSource.__module__}")
"""

#: The package comes from the wheel, with the extension if the wheel has one.
_INSTALLED: Final = """
import sys, tandem_kafka
assert "site-packages" in tandem_kafka.__file__, tandem_kafka.__file__
assert tandem_kafka.native_available == (sys.argv[1] == "native"), tandem_kafka.native_available
print(f"tandem-kafka {tandem_kafka.__version__}, {sys.argv[1]}")
"""


def _copy_tests(tree: Path) -> None:
    """Copy what git tracks, without the packages, the extension and its build."""
    packages = tuple(
        (Path(folder) / each).as_posix() + "/"
        for folder, names in DISTRIBUTIONS.values()
        for each in names
    )
    for name in tracked():
        if not name.startswith((*packages, "rust/", "setup.py")):
            target = tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)


def _programs(folder: Path) -> Path:
    """Make a folder for the PATH that has no compiler."""
    folder.mkdir()
    for name in PROGRAMS:
        found = shutil.which(name)
        if found is not None:
            (folder / name).symlink_to(found)
    return folder


if __name__ == "__main__":
    sys.exit(main())
