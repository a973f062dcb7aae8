"""Groups for tests of assignors, in a short notation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tandem_kafka.assignors.group import Assignment, Member, Topics
from tandem_kafka.types import TopicPartition

__all__ = [
    "RACKS",
    "as_text",
    "in_racks",
    "member",
    "mismatches",
    "partitions",
    "without_racks",
]

#: The racks of Kafka's examples, in the order of brokers and members.
RACKS = ("a", "b", "c", "d", "e", "f")

#: Examples in which range and round-robin agree: partitions by topic, topics by member, the result.
ALIKE: list[tuple[dict[str, int], dict[str, str], dict[str, str]]] = [
    ({}, {"c1": ""}, {"c1": ""}),
    ({}, {"c1": "unknown"}, {"c1": ""}),
    ({"t1": 3}, {"c1": "t1"}, {"c1": "t1-0, t1-1, t1-2"}),
    ({"t1": 3, "other": 3}, {"c1": "t1"}, {"c1": "t1-0, t1-1, t1-2"}),
    ({"t1": 1, "t2": 2}, {"c1": "t1 t2"}, {"c1": "t1-0, t2-0, t2-1"}),
    ({"t1": 1}, {"c1": "t1", "c2": "t1"}, {"c1": "t1-0", "c2": ""}),
    ({"t1": 2}, {"c1": "t1", "c2": "t1"}, {"c1": "t1-0", "c2": "t1-1"}),
    (
        {"t1": 3, "t2": 2},
        {"c1": "t1", "c2": "t1 t2", "c3": "t1"},
        {"c1": "t1-0", "c2": "t1-1, t2-0, t2-1", "c3": "t1-2"},
    ),
]


def partitions(text: str) -> tuple[TopicPartition, ...]:
    """`t1-0, t1-3` as partitions."""
    names = (each.rpartition("-") for each in text.split(", ") if each)
    return tuple(TopicPartition(topic, int(number)) for topic, _, number in names)


def as_text(assignment: Mapping[str, Iterable[TopicPartition]]) -> dict[str, str]:
    """The sorted partitions of each member, as text."""
    return {
        member_id: ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(found))
        for member_id, found in assignment.items()
    }


def member(
    member_id: str,
    topics: str | Iterable[str],
    owned: str = "",
    generation: int = -1,
    instance: str | None = None,
    rack: str | None = None,
) -> Member:
    """A member; its topics are the words of a text."""
    names = topics.split() if isinstance(topics, str) else topics
    return Member(member_id, frozenset(names), instance, rack or "", partitions(owned), generation)


def without_racks(**counts: int) -> Topics:
    """The given number of partitions of each topic."""
    return {name: dict.fromkeys(range(count), frozenset()) for name, count in counts.items()}


def in_racks(
    counts: Mapping[str, int], replicas: int, broker_racks: Sequence[str | None]
) -> Topics:
    """Partitions on the brokers in turn, topic by topic, with replicas on the next brokers."""
    topics: dict[str, dict[int, frozenset[str]]] = {}
    first = 0
    for name, count in counts.items():
        topics[name] = {}
        for number in range(count):
            brokers = (first + number + more for more in range(replicas))
            racks = (broker_racks[broker % len(broker_racks)] for broker in brokers)
            topics[name][number] = frozenset(rack for rack in racks if rack)
        first += count
    return topics


def mismatches(assignment: Assignment, members: Iterable[Member], topics: Topics) -> int:
    """The number of partitions without a replica in their member's rack."""
    return sum(
        each.rack not in topics[tp.topic][tp.partition]
        for each in members
        if each.rack
        for tp in assignment[each.member_id]
    )
