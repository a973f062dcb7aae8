"""What a process needs to run the source, checked before Spark itself fails without it."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tandem_kafka.spark.failures import MistakeError

__all__ = ["MissingPackageError", "check_pyspark", "check_workers_python", "require"]


class MissingPackageError(MistakeError, ImportError):
    """A package is not installed where it is needed."""


def check_pyspark() -> None:
    """Check that PySpark is there, and new enough for data sources in Python.

    Raises:
        MissingPackageError: It is not.
    """
    try:
        version = str(import_module("pyspark").__version__)
    except ImportError:
        raise MissingPackageError(
            f"tandem_kafka.spark needs PySpark: run {_install('tandem-kafka[spark]')}"
        ) from None
    if int(version.partition(".")[0]) < 4:
        raise MissingPackageError(
            f"tandem_kafka.spark needs Spark 4.0 or newer, this is PySpark {version}, which has no "
            f"data sources in Python: run {_install('pyspark>=4.0')}, on a cluster of that version"
        )


def require(*packages: str) -> None:
    """Check that packages can be imported here; without them Spark's own worker would crash.

    Raises:
        MissingPackageError: One cannot.
    """
    for package in packages:
        try:
            found = find_spec(package)
        except ImportError:
            found = None
        if found is None:
            raise MissingPackageError(
                f"{package} is not installed for {sys.executable}, which Spark runs as its worker: "
                f"run {_install('tandem-kafka[spark]')}, or set PYSPARK_PYTHON to a Python that "
                "has it"
            )


def check_workers_python(context: Any) -> None:
    """Warn on the driver if workers will run another Python, because nobody said which."""
    if "PYSPARK_PYTHON" in os.environ or getattr(context, "pythonExec", None) != "python3":
        return
    found = shutil.which("python3")
    if found is None or Path(found).parent != Path(sys.executable).parent:
        warnings.warn(
            f"Spark's workers will run {found or 'python3'}, this job runs {sys.executable}: where "
            "tandem_kafka is not installed for the former, the source is not found. Before the "
            "session is made, set os.environ['PYSPARK_PYTHON'] = sys.executable",
            RuntimeWarning,
            stacklevel=4,
        )


def _install(package: str) -> str:
    return f"{sys.executable} -m pip install '{package}'"
