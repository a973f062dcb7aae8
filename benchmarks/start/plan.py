"""The measures of the start, and the suite that runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.measures import Figures
from benchmarks.plan import Measure
from benchmarks.readers.catalogue import CONFLUENT, OURS
from benchmarks.suite import Sample
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record

__all__ = ["START_CLIENTS", "START_MEASURES", "START_QUICK", "START_RUNS", "StartSuite"]

START_RUNS, START_QUICK = 15, 3
START_CLIENTS: Final = (OURS, CONFLUENT, "kafka-python", "aiokafka")
_PROCESS: Final = Path(__file__).with_name("process.py")
_LIMIT_S: Final = 60.0

_COUNTED: Final = (
    "CPU, modules and resident memory are those of the process, minus those of Python before the "
    "first import; the bytecode is there already."
)
_RECORD: Final = (
    "Import, construction, and `poll` until the first record. “with construction ms” runs from "
    "before the constructor to the first record, “close ms” is `close()` directly after it. "
)

START_MEASURES: Final = tuple(
    Measure(f"start-{name}", title, "start_cpu_ms", higher_is_better=False, method=method)
    for name, title, method in (
        ("import", "Import", f"The class of the consumer. {_COUNTED}"),
        ("assigned", "From the import to the first record, assigned", f"{_RECORD}{_COUNTED}"),
        ("member", "From the import to the first record, in a group", f"{_RECORD}{_COUNTED}"),
    )
)


class StartSuite:
    """The measures on one cluster."""

    def __init__(self, cluster: RealKafka, runs: int) -> None:
        self._runs = runs
        self._bootstrap = cluster.bootstrap()
        self._topic = cluster.admin.create_topic("start", 1)
        cluster.admin.produce(self._topic, (Record(b"0" * 100) for _ in range(100)))

    def run(self, measures: Sequence[Measure], clients: Sequence[str]) -> Iterator[Sample]:
        """Yield the samples one by one; a first turn writes the bytecode."""
        for measure in measures:
            for turn in range(self._runs + 1):
                shift = turn % max(1, len(clients))
                for client in (*clients[shift:], *clients[:shift]):
                    sample = self._sample(measure.name, client)
                    if turn or sample.failure:
                        yield sample

    def _sample(self, measure: str, client: str) -> Sample:
        topic = "" if measure == "start-import" else self._topic
        group = uuid.uuid4().hex if measure == "start-member" else ""
        # Without `site`, whose packages of the environment are not the client's.
        command = [sys.executable, "-S", str(_PROCESS), client, self._bootstrap, topic, group]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        try:
            ran = subprocess.run(
                command,
                capture_output=True,
                check=True,
                env=environment,
                text=True,
                timeout=_LIMIT_S,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            return Sample(measure, client, {}, f"{error}: {error.stderr!r}")
        figures: Figures = json.loads(ran.stdout.splitlines()[-1])
        return Sample(measure, client, figures)
