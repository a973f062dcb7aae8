"""Groups for tests of assignors, in a short notation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tandem_kafka.assignors.group import Assignment, Member, Topics
from tandem_kafka.types import TopicPartition

__all__ = [
    "RACKS",
    "as_text",
    "check_racks",
    "in_racks",
    "member",
    "partitions",
    "without_racks",
]

#: The racks of Kafka's examples, in the order of brokers and members.
RACKS = ("a", "b", "c", "d", "e", "f")


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


def check_racks(
    assign: Callable[[Iterable[Member], Topics], Assignment],
    counts: Mapping[str, int],
    racks: tuple[int, Sequence[str | None], Sequence[str | None]],
    subscriptions: Sequence[str],
    expected: Sequence[str],
    mismatched: int | None = None,
    *,
    owned: Sequence[str] | None = None,
) -> None:
    """Check what members get with so many replicas, on brokers and members in these racks."""
    replicas, broker_racks, member_racks = racks
    topics = in_racks(counts, replicas, broker_racks)
    given = zip(subscriptions, owned or [""] * len(subscriptions), member_racks, strict=True)
    members = [
        member(f"consumer{index}", subscription, had, rack=rack)
        for index, (subscription, had, rack) in enumerate(given)
    ]
    assignment = assign(members, topics)
    assert [*as_text(assignment).values()] == [*expected]
    if mismatched is not None:
        assert mismatches(assignment, members, topics) == mismatched
