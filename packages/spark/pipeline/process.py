"""The job's process: it can be started, killed with its children, restarted and stopped."""

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

_PACKAGE: Final = Path(__file__).parents[1]
_ROOT: Final = _PACKAGE.parents[1]
_JOB: Final = _ROOT / "examples" / "pipeline" / "job.py"
_STOP_S: Final = 60.0
#: Where PySpark is installed. Spark's Python processes look for modules in the job's folder first,
#: then in pyspark.zip, which has no compiled ones: that costs each process a second.
_PACKAGES: Final = Path(confluent_kafka.__file__).parents[1]
#: A JVM that runs for half a minute is faster without the optimizing compiler, and starts with less
#: work if it does not verify the classes of Spark.
_JVM: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)


class Job:
    """A run of the job.

    Attributes:
        log: The file with its output.
        progress: The file with its lines about micro-batches.
    """

    def __init__(self, folder: Path, number: int, options: Sequence[str]) -> None:
        self.log = folder / f"job-{number}.log"
        self.progress = folder / f"progress-{number}.jsonl"
        environment = {
            "PYTHONPATH": os.pathsep.join((str(_ROOT), str(_PACKAGE))),
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
        """The process id of the driver, and of its process group."""
        return self._process.pid

    def check(self) -> None:
        """Raise an error if the job has ended by itself."""
        if self._process.poll() is not None:
            last = "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])
            raise RuntimeError(
                f"the job ended with {self._process.returncode}; {self.log}:\n{last}"
            )

    def kill(self) -> None:
        """Send SIGKILL to the driver and its JVM; the workers end after the JVM."""
        if self._process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(_STOP_S)

    def stop(self) -> None:
        """Send SIGTERM to the driver, which stops its queries; raises an error if it fails."""
        self._process.terminate()
        self._process.wait(_STOP_S)
        if self._process.returncode:
            self.check()


def batches_in_progress(checkpoint: Path) -> tuple[int, int]:
    """Return the numbers of micro-batches that a query has started and finished."""
    began, finished = (
        sum(name.name.isdigit() for name in (checkpoint / kind).glob("*"))
        for kind in ("offsets", "commits")
    )
    return began, finished
