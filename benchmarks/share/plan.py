"""The measures of share groups, and the suite that runs them."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.measures import Figures
from benchmarks.plan import SIZES, Measure
from benchmarks.readers.catalogue import CONFLUENT, JAVA, LOOP, OURS
from benchmarks.share.java import measure_java_share
from benchmarks.suite import Sample
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record

__all__ = ["SHARE_MEASURES", "SHARE_PLAN", "SHARE_QUICK", "SharePlan", "ShareSuite"]

_LIMIT_S: Final = 120.0
_PARTITIONS: Final = 4

_METHOD: Final = (
    "A new group reads a topic of four partitions from its beginning; the value of each record is "
    "looked at. The clock runs from a tenth of the records on, to the last. "
)

_JAVA: Final = (
    "The Java client is measured with Kafka's ShareConsumerPerformance, which looks at no value; "
    "CPU is that of its process minus that of a run that reads one batch."
)
#: The part of the records before the clock runs.
_WARM: Final = 0.1

SHARE_MEASURES: Final = (
    *(
        Measure(
            f"share-{way}-{size}",
            f"Share group, {way} acknowledgement, values of {size} bytes",
            "records_per_s",
            higher_is_better=True,
            method=_METHOD + how,
            readers=readers,
        )
        for way, how, readers in (
            (
                "implicit",
                f"The next poll accepts the batch before. {_JAVA}",
                (OURS, LOOP, CONFLUENT, JAVA),
            ),
            ("explicit", "Each record is accepted.", (OURS, CONFLUENT)),
        )
        for size in SIZES
    ),
    Measure(
        f"share-workers-{SIZES[0]}",
        "Share group, a handler of 5 ms on 64 threads",
        "records_per_s",
        higher_is_better=True,
        method=f"{_METHOD}64 threads can handle 12,800 records in a second.",
        readers=(OURS,),
    ),
    *(
        Measure(
            f"share-{way}-{SIZES[0]}",
            f"Share group, a member is killed, {which}",
            "first_record_ms",
            higher_is_better=False,
            method=(
                "One of two members is killed (SIGKILL) with records in work; the time until the "
                f"other one has them. Locks last 10 s. {why}"
            ),
            readers=(OURS, CONFLUENT),
        )
        for way, which, why in (
            ("killed", "one partition", "Both have the partition."),
            (
                "alone",
                "four partitions",
                "Each has two of them, until the session of the member ends after 45 s.",
            ),
        )
    ),
    Measure(
        f"share-crowd-{SIZES[0]}",
        "Share group, 100 members in one process",
        "cpu_percent",
        higher_is_better=False,
        method="Eight partitions without records for ten seconds, then with records.",
        readers=(OURS, CONFLUENT),
    ),
)
#: The partitions of a topic with several members, and its records.
_OF_MEMBERS: Final = {"killed": (1, 100), "alone": (4, 100), "crowd": (8, 20_000)}


@dataclass(frozen=True, slots=True)
class SharePlan:
    """How much to measure.

    Attributes:
        runs: The number of processes for each row.
        records: The records of a topic.
        handled: Those that the handler of 5 ms gets.
    """

    runs: int
    records: int
    handled: int


SHARE_PLAN: Final = SharePlan(runs=5, records=1_000_000, handled=50_000)
SHARE_QUICK: Final = SharePlan(runs=1, records=100_000, handled=10_000)


class ShareSuite:
    """The measures on one cluster."""

    def __init__(self, cluster: RealKafka, plan: SharePlan) -> None:
        self._cluster = cluster
        self._plan = plan
        self._topics: dict[int, str] = {}

    def run(self, measures: Sequence[Measure], clients: Sequence[str]) -> Iterator[Sample]:
        """Yield the samples one by one; the clients take turns."""
        for measure in measures:
            for _ in range(self._plan.runs):
                for client in measure.readers:
                    if client in clients:
                        yield self._sample(measure.name, client)

    def _topic(self, size: int) -> str:
        if size not in self._topics:
            admin = self._cluster.admin
            self._topics[size] = topic = admin.create_topic(f"share-{size}", _PARTITIONS)
            admin.produce(
                topic,
                (
                    Record(b"0" * size, partition=number % _PARTITIONS)
                    for number in range(self._plan.records)
                ),
            )
        return self._topics[size]

    def _sample(self, measure: str, client: str) -> Sample:
        _, way, size = measure.split("-")
        group, admin, module = uuid.uuid4().hex, self._cluster.admin, "benchmarks.share.process"
        settings = {"share.auto.offset.reset": "earliest"}
        if way in _OF_MEMBERS:
            partitions, records = _OF_MEMBERS[way]
            topic, module = admin.create_topic(group, partitions), "benchmarks.share.members"
            settings["share.record.lock.duration.ms"] = "10000"
        else:
            topic = self._topic(int(size))
            records = self._plan.handled if way == "workers" else self._plan.records
        admin.configure_group(group, settings)
        if client == JAVA:
            admin.configure_group(f"{group}-few", settings)
            try:
                return Sample(measure, client, self._measure_java(topic, group, records))
            except RuntimeError as error:
                return Sample(measure, client, {}, str(error))
        arguments = [client, way, self._cluster.bootstrap(), topic, group, str(records)]
        command = [sys.executable, "-m", module, *arguments]
        try:
            ran = subprocess.run(
                command, capture_output=True, check=True, text=True, timeout=_LIMIT_S
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            return Sample(measure, client, {}, f"{error}: {error.stderr!r}")
        figures: Figures = json.loads(ran.stdout.splitlines()[-1])
        return Sample(measure, client, figures)

    def _measure_java(self, topic: str, group: str, records: int) -> Figures:
        groups, warm = (group, f"{group}-few"), int(_WARM * records)
        return measure_java_share(self._cluster.bootstrap(), topic, groups, records, warm)
