"""The measures of groups, with their clients and numbers of runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks.plan import Measure
from benchmarks.readers.catalogue import JAVA, OURS

__all__ = ["BROKER", "CLIENTS", "GROUPS", "GROUPS_QUICK", "GROUP_MEASURES", "GroupPlan"]

#: The compared clients, each with its defaults.
CLIENTS: Final = (OURS, "confluent", JAVA)

#: Settings of the broker that differ from its defaults. The default delay of the first rebalance
#: would hide all differences. A KIP-848 member learns of revocations by its next heartbeat.
BROKER: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.session.timeout.ms": "45000",
}

_FIRST = (
    "From the call of `subscribe` until the application has the first record: a new group with one "
    "member, records in every partition, `poll` with a timeout of a second. “first record ms” is "
    "measured in a process that has read before, “cold ms” in a new process. “with construction "
    "ms” starts before the constructor, in a warm process: the constructor of tandem-kafka waits "
    "for the cluster, the others do not. Each process measures several times; the median is used."
)
_PAUSE = (
    "One member reads a steady stream from all partitions, and a second one joins. “pause ms” is "
    "the longest time between two polls with records of a partition that the first member keeps, "
    "from the second one's `subscribe` until both read. “before ms” is the same for the seconds "
    "before. “moved ms” is the time in which a moved partition was not read. It includes the wait "
    "for the next heartbeat, which is due every second for all clients. Auto-commit is on."
)

#: Named after the measurement and the protocol (`benchmarks.groups.member.PROTOCOLS`).
GROUP_MEASURES: Final = (
    *(
        Measure(
            f"first-{protocol}",
            f"From subscribe to the first record, {title}",
            "first_record_ms",
            higher_is_better=False,
            method=_FIRST,
        )
        for protocol, title in (("classic", "classic protocol"), ("consumer", "KIP-848"))
    ),
    *(
        Measure(
            f"pause-{protocol}",
            f"Pause of untouched partitions when a second member joins, {title}",
            "pause_ms",
            higher_is_better=False,
            method=_PAUSE,
        )
        for protocol, title in (
            ("classic", "classic protocol, range assignor (eager)"),
            ("cooperative", "classic protocol, cooperative-sticky assignor"),
            ("consumer", "KIP-848"),
        )
    ),
)


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """How much to measure.

    Attributes:
        runs: Runs of each client for the first record, for the median.
        rounds: Measurements per process; the first one is cold.
        waiting: Records in the topic before the member joins.
        pauses: Runs of each client for the pause.
        partitions: Partitions of both topics.
        per_second: Pace of the steady stream, over all partitions.
        before_s: How long the first member reads alone.

    """

    runs: int
    rounds: int
    waiting: int
    pauses: int
    partitions: int
    per_second: float
    before_s: float


GROUPS: Final = GroupPlan(
    runs=5, rounds=4, waiting=4_000, pauses=3, partitions=8, per_second=1_600.0, before_s=1.5
)
GROUPS_QUICK: Final = GroupPlan(
    runs=2, rounds=3, waiting=800, pauses=1, partitions=8, per_second=1_600.0, before_s=1.0
)
