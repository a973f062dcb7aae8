"""Checks that required packages are installed, before Spark fails with a less clear error."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyspark_tandem_kafka.failures import MistakeError


class MissingPackageError(MistakeError, ImportError):
    """A required package is not installed in this Python."""


def check_pyspark() -> None:
    """Check that PySpark is installed and supports Python data sources.

    Raises:
        MissingPackageError: PySpark is missing or too old.
    """
    try:
        version = str(import_module("pyspark").__version__)
    except ImportError:
        raise MissingPackageError(
            f"pyspark_tandem_kafka needs PySpark: run {_install('tandem-kafka[spark]')}"
        ) from None
    if int(version.partition(".")[0]) < 4:
        raise MissingPackageError(
            f"pyspark_tandem_kafka needs Spark 4.0 or newer; PySpark {version} has no Python data "
            f"sources: run {_install('pyspark>=4.0')}, and use a cluster of that version"
        )


def require(*packages: str) -> None:
    """Check that packages can be imported; without them, Spark's own worker would crash.

    Raises:
        MissingPackageError: A package is not installed.
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
                "has the package"
            )


def check_workers_python(context: Any) -> None:
    """Warn on the driver if workers will run a different Python because none was configured."""
    if "PYSPARK_PYTHON" in os.environ or getattr(context, "pythonExec", None) != "python3":
        return
    found = shutil.which("python3")
    if found is None or Path(found).parent != Path(sys.executable).parent:
        warnings.warn(
            f"Spark's workers will run {found or 'python3'}, but this job runs {sys.executable}. "
            "If tandem_kafka is not installed for the workers' Python, Spark does not find the "
            "source. Set os.environ['PYSPARK_PYTHON'] = sys.executable before you create the "
            "session",
            RuntimeWarning,
            stacklevel=4,
        )


def _install(package: str) -> str:
    return f"{sys.executable} -m pip install '{package}'"
