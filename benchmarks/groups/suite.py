"""Runs the measures of groups for every client, in turns."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from statistics import median
from typing import Any, Final

from benchmarks.groups.plan import GroupPlan
from benchmarks.groups.process import MemberProcess
from benchmarks.measures import Figures
from benchmarks.plan import Measure
from benchmarks.suite import Sample
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record

__all__ = ["GroupSuite", "pause_of"]

#: Seconds for which both members read after the first records of the second one.
_AFTER_S: Final = 1.0
_RECORD: Final = b"0" * 100

Polls = dict[int, list[int]]


class GroupSuite:
    """The measures on one cluster."""

    def __init__(self, cluster: RealKafka, plan: GroupPlan) -> None:
        self._cluster = cluster
        self._plan = plan

    def run(self, measures: Sequence[Measure], clients: Sequence[str]) -> Iterator[Sample]:
        """Yield the samples one by one."""
        first = [each for each in measures if each.name.startswith("first-")]
        pauses = [each for each in measures if each.name.startswith("pause-")]
        if first:
            topic = self._waiting_topic()
            yield from self._turns(first, clients, self._plan.runs, topic)
        if pauses:
            with self._stream() as topic:
                yield from self._turns(pauses, clients, self._plan.pauses, topic)

    def _turns(
        self, measures: Sequence[Measure], clients: Sequence[str], runs: int, topic: str
    ) -> Iterator[Sample]:
        for measure in measures:
            for turn in range(runs):
                shift = turn % max(1, len(clients))
                for client in (*clients[shift:], *clients[:shift]):
                    yield self._sample(measure, client, topic)

    def _sample(self, measure: Measure, client: str, topic: str) -> Sample:
        task, protocol = measure.name.split("-")
        start = (client, self._cluster.bootstrap(), topic, protocol)
        try:
            figures = self._first(start) if task == "first" else self._pause(start)
        except (RuntimeError, TimeoutError, subprocess.TimeoutExpired) as error:
            return Sample(measure.name, client, {}, str(error))
        return Sample(measure.name, client, figures)

    # --- the first record ----------------------------------------------------------------------

    def _waiting_topic(self) -> str:
        topic = self._cluster.admin.create_topic("waiting", self._plan.partitions)
        records = (
            Record(_RECORD, partition=number % self._plan.partitions)
            for number in range(self._plan.waiting)
        )
        self._cluster.admin.produce(topic, records)
        return topic

    def _first(self, start: tuple[str, ...]) -> Figures:
        with MemberProcess(*start, "first", str(self._plan.rounds)) as process:
            cold, *warm = [process.next("first_record_ms") for _ in range(self._plan.rounds)]
            process.wait()
        names = ("first_record_ms", "with_construction_ms")
        return {
            **{name: median(each[name] for each in warm) for name in names},
            "cold_ms": cold["first_record_ms"],
        }

    # --- the pause -----------------------------------------------------------------------------

    @contextmanager
    def _stream(self) -> Iterator[str]:
        """Create a topic, and write to it at an even pace."""
        plan = self._plan
        topic = self._cluster.admin.create_topic("stream", plan.partitions)
        forever = str(sys.maxsize)
        arguments = (self._cluster.bootstrap(), topic, str(plan.partitions), forever)
        command = [sys.executable, "-m", "benchmarks.pace", *arguments, str(plan.per_second)]
        producer = subprocess.Popen(command)
        try:
            yield topic
            if producer.poll() is not None:
                raise RuntimeError("the paced producer ended")
        finally:
            producer.kill()
            producer.wait()

    def _pause(self, start: tuple[str, ...]) -> Figures:
        group = f"pause-{uuid.uuid4().hex}"
        with (
            MemberProcess(*start, "watch", group) as first,
            MemberProcess(*start, "watch", group) as second,
        ):
            for process in (first, second):
                process.next("ready")
            first.go()
            self._until_owned(first, self._plan.partitions)
            time.sleep(self._plan.before_s)  # the measurement takes place during this time
            second.go()
            self._until_owned(second, self._plan.partitions // 2)
            time.sleep(_AFTER_S)  # likewise
            entries = []
            for process in (second, first):
                process.go()
                entries.append(process.next("polls"))
                process.wait()
        return pause_of(entries[1], entries[0], self._plan.before_s)

    @staticmethod
    def _until_owned(process: MemberProcess, count: int) -> None:
        while len(process.next("owned")["owned"]) != count:
            pass


def pause_of(first: dict[str, Any], second: dict[str, Any], before_s: float) -> Figures:
    """Compute the pause from the reports of both members; see `benchmarks.groups.plan`.

    Members receive records until the end, and the second member leaves first. The window therefore
    ends with the last record of the second member.
    """
    mine, theirs = _polls(first), _polls(second)
    joined = second["subscribed"]
    end = max(max(times) for times in theirs.values())
    moved = mine.keys() & theirs.keys()
    kept = mine.keys() - theirs.keys()
    if not kept or not moved:
        raise RuntimeError(
            f"kept {sorted(kept)}, moved {sorted(moved)}: the members do not share the partitions"
        )
    return {
        "pause_ms": max(_longest_ms(mine[each], joined, end) for each in kept),
        "before_ms": max(_longest_ms(mine[each], joined - before_s * 1e9, joined) for each in kept),
        "moved_ms": max(_handed_over_ms(mine[each], theirs[each]) for each in moved),
    }


def _polls(entry: dict[str, Any]) -> Polls:
    return {int(partition): times for partition, times in entry["polls"].items()}


def _longest_ms(times: list[int], begin: float, end: float) -> float:
    """Return the longest gap that ended in a window."""
    gaps = (late - early for early, late in pairwise(times) if begin < late and early < end)
    return max(gaps, default=0) / 1e6


def _handed_over_ms(mine: list[int], theirs: list[int]) -> float:
    """Return the time from the first member's last poll to the second member's first poll.

    The first member gets the partition back later, after the second one has left.
    """
    last = max(time for time in mine if time < theirs[0])
    return (theirs[0] - last) / 1e6
