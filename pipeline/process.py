"""The job's process: started, killed with all that belongs to it, started again, stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import confluent_kafka

__all__ = ["Job", "batches_in_progress"]

ROOT: Final = Path(__file__).parents[1]
_JOB: Final = ROOT / "examples" / "pipeline" / "job.py"
_STOP_S: Final = 60.0
#: Where PySpark is installed. Spark's Python processes look for modules in the job's folder first,
#: then in pyspark.zip, which has no compiled ones: that costs each process a second.
_PACKAGES: Final = Path(confluent_kafka.__file__).parents[1]
#: A JVM that lives for half a minute starts sooner without the compiler for long lives.
_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Job:
    """A run of the job.

    Attributes:
        log: What it printed.
        progress: Its lines about micro-batches.
    """

    def __init__(self, folder: Path, number: int, options: Sequence[str]) -> None:
        self.log = folder / f"job-{number}.log"
        self.progress = folder / f"progress-{number}.jsonl"
        environment = {
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "JDK_JAVA_OPTIONS": _JVM,
        }
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(_JOB), *options, "--progress", str(self.progress)],
                cwd=_PACKAGES,
                env={**os.environ, **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a process group, so that the JVM dies with it
            )

    @property
    def pid(self) -> int:
        """The driver's process, and its group."""
        return self._process.pid

    def check(self) -> None:
        """Raise if it ended by itself."""
        if self._process.poll() is not None:
            last = "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])
            raise RuntimeError(
                f"the job ended with {self._process.returncode}; {self.log}:\n{last}"
            )

    def kill(self) -> None:
        """SIGKILL to the driver and its JVM; workers end when the JVM is gone."""
        if self._process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(_STOP_S)

    def stop(self) -> None:
        """SIGTERM to the driver, which stops its queries; raises if that did not end well."""
        self._process.terminate()
        self._process.wait(_STOP_S)
        if self._process.returncode:
            self.check()


def batches_in_progress(checkpoint: Path) -> tuple[int, int]:
    """Return how many micro-batches of a query began, and how many were finished."""
    began, finished = (
        sum(name.name.isdigit() for name in (checkpoint / kind).glob("*"))
        for kind in ("offsets", "commits")
    )
    return began, finished
