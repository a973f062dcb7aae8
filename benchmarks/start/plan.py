"""The measures of the start, and the suite that runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
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

__all__ = [
    "START_CLIENTS",
    "START_MEASURES",
    "START_PARTITIONS",
    "START_QUICK",
    "START_RUNS",
    "StartSuite",
]

START_RUNS, START_QUICK = 15, 3
START_CLIENTS: Final = (OURS, CONFLUENT, "kafka-python", "aiokafka")
_PROCESS: Final = Path(__file__).with_name("process.py")
_LIMIT_S: Final = 60.0

_COUNTED: Final = (
    "CPU, modules and resident memory are those of the process, minus those of Python before the "
    "first import; the bytecode is there already."
)
_RECORD: Final = (
    "Import, construction, and `poll` until the first record. “first record ms” runs from the "
    "start of the process, “with construction ms” from before the constructor, and “close ms” is "
    "`close()` directly after it. "
)
#: The numbers of partitions of the topics.
START_PARTITIONS: Final = (1, 200)
#: How the two clients begin whose first record is compared.
_WAYS: Final = {
    "member": (
        "in a group",
        "`subscribe()` as the only member of a new group, from the earliest records.",
    ),
    "beginning": (
        "assigned, from the beginning",
        (
            "`assign()`, from the earliest records: `auto_offset_reset`, or `OFFSET_BEGINNING` of "
            "confluent-kafka, which waits for half a second if it does not know the leader yet."
        ),
    ),
    "offset": (
        "assigned, from an offset",
        (
            "`assign()` and `seek()` to offset 0, or `assign()` with this offset in "
            "confluent-kafka. Neither asks a broker for an offset or for a group."
        ),
    ),
}

START_MEASURES: Final = (
    *(
        Measure(
            f"start-{name}",
            title,
            "start_cpu_ms",
            higher_is_better=False,
            method=method,
            readers=START_CLIENTS,
        )
        for name, title, method in (
            ("import", "Import", f"The class of the consumer. {_COUNTED}"),
            ("assigned", "From the import to the first record, assigned", f"{_RECORD}{_COUNTED}"),
            ("member", "From the import to the first record, in a group", f"{_RECORD}{_COUNTED}"),
        )
    ),
    *(
        Measure(
            f"start-{way}-{partitions}",
            f"From the start of the process to the first record, {title}, partitions: {partitions}",
            "first_record_ms",
            higher_is_better=False,
            method=f"{method} {_RECORD}{_COUNTED}",
            readers=(OURS, CONFLUENT),
        )
        for way, (title, method) in _WAYS.items()
        for partitions in START_PARTITIONS
    ),
)


class StartSuite:
    """The measures on one cluster."""

    def __init__(self, cluster: RealKafka, runs: int) -> None:
        self._runs = runs
        self._bootstrap = cluster.bootstrap()
        self._topics = {
            partitions: cluster.admin.create_topic(f"start-{partitions}", partitions)
            for partitions in START_PARTITIONS
        }
        for partitions, topic in self._topics.items():
            cluster.admin.produce(topic, (Record(b"0" * 100) for _ in range(100 * partitions)))

    def run(self, measures: Sequence[Measure], clients: Sequence[str]) -> Iterator[Sample]:
        """Yield the samples one by one; a first turn writes the bytecode."""
        for measure in measures:
            taking_part = [client for client in clients if client in measure.readers]
            for turn in range(self._runs + 1):
                shift = turn % max(1, len(taking_part))
                for client in (*taking_part[shift:], *taking_part[:shift]):
                    sample = self._sample(measure.name, client)
                    if turn or sample.failure:
                        yield sample

    def _sample(self, measure: str, client: str) -> Sample:
        _, name, *many = measure.split("-")
        partitions = int(many[0]) if many else 1
        topic = "" if name == "import" else self._topics[partitions]
        start = {"member": uuid.uuid4().hex, "offset": "offset"}.get(name, "beginning")
        given = (self._bootstrap, topic, str(partitions), start)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        try:
            # Without `site`, whose packages of the environment are not the client's.
            command = [sys.executable, "-S", str(_PROCESS), client, str(time.monotonic_ns())]
            ran = subprocess.run(
                [*command, *given],
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
