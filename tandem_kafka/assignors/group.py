"""The input and the result of a classic assignor, as plain data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from tandem_kafka.dataclass import dataclass
from tandem_kafka.types import TopicPartition

NO_GENERATION = -1

#: The partition numbers of each topic in ascending order, with the racks of their replicas.
Topics = Mapping[str, Mapping[int, frozenset[str]]]

#: The partitions of each member, by member id.
Assignment = dict[str, list[TopicPartition]]


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the group.

    Attributes:
        member_id: The member id.
        topics: The subscribed topics.
        instance_id: The `group.instance.id`, None for a dynamic member.
        rack: The rack, empty if unknown.
        owned: The partitions that the member claims to own.
        generation: The generation in which it owned them, -1 if unknown.
    """

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    rack: str = ""
    owned: Sequence[TopicPartition] = ()
    generation: int = NO_GENERATION


def by_instance(members: Iterable[Member]) -> list[Member]:
    """Return static members by instance id, then dynamic members by member id.

    A static member keeps its place after a restart, although it has a new member id.
    """
    return sorted(members, key=lambda m: (m.instance_id is None, m.instance_id or "", m.member_id))


def subscribers(members: Iterable[Member], topics: Topics) -> dict[str, list[Member]]:
    """Return the members that subscribe to each topic, in the order of `members`."""
    found: dict[str, list[Member]] = defaultdict(list)
    for member in members:
        for topic in member.topics:
            if topic in topics:
                found[topic].append(member)
    return found
