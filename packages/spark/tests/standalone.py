"""A standalone cluster of Spark on this machine: a master and workers, each a process."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

import pyspark

from tandem_kafka_testing.kafka.ports import free_ports
from tests.waiting import wait_until

__all__ = ["HOME", "QUICK_START", "StandaloneCluster"]

#: Options for JVMs that run for seconds.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

#: Spark's home, with the scripts that start a cluster.
HOME = Path(pyspark.__file__).parent
_DEPLOY = "org.apache.spark.deploy"
#: Variables that executors would inherit, and find this package even if the job does not ship it.
_LEFT_OUT = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_CONF_DIR")


class StandaloneCluster:
    """A master, and workers of one core and one GB, whose Python does not have the package.

    Each worker has a separate address, because Spark runs no second attempt of a task at the
    address of a running attempt.

    Attributes:
        folder: The folder for logs; `work` in it has the folders of executors with their stderr.
        master: The URL of the master.
    """

    def __init__(self, folder: Path, *, workers: int = 2) -> None:
        self.folder = folder
        self._workers = workers
        self._port, self._page, *self._pages = free_ports(2 + workers)
        self.master = f"spark://127.0.0.1:{self._port}"
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self._start("master.Master", self._port, self._page)
            wait_until(lambda: self._state() is not None, "a response of the master")
            of_worker = ("--cores", "1", "--memory", "1g", "--work-dir", str(self.work))
            for number, page in enumerate(self._pages, 1):
                at = f"127.0.0.{number}"
                self._start("worker.Worker", 0, page, *of_worker, self.master, host=at)
            wait_until(self._is_complete, "the start of all workers")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def work(self) -> Path:
        """The folder of the workers, with <application>/<executor>/stderr."""
        return self.folder / "work"

    def stop(self) -> None:
        """Stop the workers, which stop their executors, and then the master."""
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)
        self._processes.clear()

    def _start(self, kind: str, port: int, page: int, *more: str, host: str = "127.0.0.1") -> None:
        at = ("--host", host, "--port", str(port), "--webui-port", str(page))
        environment = {name: text for name, text in os.environ.items() if name not in _LEFT_OUT}
        with (self.folder / f"{len(self._processes)}-{kind}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(HOME / "bin" / "spark-class"), f"{_DEPLOY}.{kind}", *at, *more],
                cwd=self.folder,
                env=environment
                | {
                    "SPARKHOME": str(HOME),
                    "SPARK_DAEMON_MEMORY": "256m",
                    "SPARK_DAEMON_JAVA_OPTS": QUICK_START,
                    "SPARK_LAUNCHER_OPTS": QUICK_START,
                    "SPARK_LOCAL_IP": host,
                    "SPARK_LOCAL_DIRS": str(self.folder / "local"),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._processes.append(process)

    def _state(self) -> dict[str, object] | None:
        """Return the status from the master's page, or None if it is not ready."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=5) as page:
                state: dict[str, object] = json.load(page)
                return state
        except (OSError, urllib.error.URLError, json.JSONDecodeError):
            return None  # a starting master first responds with an HTML page

    def _is_complete(self) -> bool:
        state = self._state()
        return state is not None and state["aliveworkers"] == self._workers
