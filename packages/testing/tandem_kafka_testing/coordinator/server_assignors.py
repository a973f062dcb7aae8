"""Server-side assignors: the interface, two implementations, and their selection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.coordinator.members import ConsumerGroupMember, Partitions

__all__ = [
    "AssignmentSpec",
    "MemberSpec",
    "RangeAssignor",
    "ServerAssignor",
    "UniformAssignor",
    "compute_target",
    "find_flaw",
    "make_spec",
    "most_requested",
]


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member, as input of an assignor.

    Attributes:
        instance_id: The instance id of a static member; None for others.
        rack: Its rack; None if unknown.
        topics: The existing topics to which it subscribes, by name or expression.
        target: Its partitions in the previous target.
    """

    instance_id: str | None = None
    rack: str | None = None
    topics: frozenset[str] = frozenset()
    target: Partitions = frozenset()


@dataclass(frozen=True, slots=True)
class AssignmentSpec:
    """A group, as input of an assignor.

    Attributes:
        members: The members by id, oldest first.
        topics: Number of partitions of each subscribed topic.
    """

    members: Mapping[str, MemberSpec]
    topics: Mapping[str, int]

    def wanted(self, member_id: str) -> Partitions:
        """Return the partitions of a member's topics."""
        topics = self.members[member_id].topics
        return frozenset(TopicPartition(t, n) for t in topics for n in range(self.topics[t]))


class ServerAssignor(ABC):
    """Makes the target of a group. `GroupSettings.assignors` has such objects.

    Attributes:
        name: The name in requests of members (`group_remote_assignor`).
    """

    name: str

    @abstractmethod
    def assign(self, spec: AssignmentSpec) -> Mapping[str, AbstractSet[TopicPartition]]:
        """Return the partitions of each member; members without an entry get none.

        A partition is assigned to at most one member, which must subscribe to its topic. Equal
        input must give an equal result, or else a seed does not repeat its run.
        """


class UniformAssignor(ServerAssignor):
    """Balances over all topics, and keeps existing assignments where that is balanced."""

    name = "uniform"

    def assign(self, spec: AssignmentSpec) -> Mapping[str, AbstractSet[TopicPartition]]:
        """Return the partitions of each member."""
        wanted = {member_id: spec.wanted(member_id) for member_id in spec.members}
        target: dict[str, set[TopicPartition]] = {member_id: set() for member_id in wanted}
        everything = sorted(set().union(*wanted.values()))
        most = -(-len(everything) // max(1, len(wanted)))
        for tp in everything:
            having = [m for m in wanted if tp in spec.members[m].target and tp in wanted[m]]
            if having and len(target[having[0]]) < most:
                target[having[0]].add(tp)
        placed = set().union(*target.values())
        for tp in everything:
            if tp not in placed:
                candidates = [m for m in wanted if tp in wanted[m]]
                target[min(candidates, key=lambda m: (len(target[m]), m))].add(tp)
        _balance(target, wanted)
        return target


def _balance(
    target: dict[str, set[TopicPartition]], wanted: Mapping[str, AbstractSet[TopicPartition]]
) -> None:
    """Move partitions one by one from the members with the most to those with the fewest."""
    while target:
        least = min(target, key=lambda m: (len(target[m]), m))
        for rich in sorted(target, key=lambda m: (-len(target[m]), m)):
            movable = sorted(target[rich] & wanted[least])
            if len(target[rich]) - len(target[least]) > 1 and movable:
                target[rich].remove(movable[-1])
                target[least].add(movable[-1])
                break
        else:
            return


class RangeAssignor(ServerAssignor):
    """Gives each subscriber a run of partitions of each topic; the first may get one more.

    Static members come first, by instance id, then the others by member id. The order is the same
    for each topic, so that topics of equal size with the same subscribers are co-partitioned.
    Previous assignments have no effect.
    """

    name = "range"

    def assign(self, spec: AssignmentSpec) -> Mapping[str, AbstractSet[TopicPartition]]:
        """Return the partitions of each member."""
        target: dict[str, set[TopicPartition]] = {member_id: set() for member_id in spec.members}
        order = sorted(spec.members, key=lambda m: _rank(m, spec.members[m].instance_id))
        for topic, count in spec.topics.items():
            subscribers = [m for m in order if topic in spec.members[m].topics]
            begin = 0
            for at, member_id in enumerate(subscribers):
                end = begin + count // len(subscribers) + (at < count % len(subscribers))
                target[member_id] |= {TopicPartition(topic, n) for n in range(begin, end)}
                begin = end
        return target


def _rank(member_id: str, instance_id: str | None) -> tuple[bool, str]:
    static = instance_id is not None
    return not static, instance_id if instance_id is not None else member_id


def most_requested(
    choices: Iterable[str | None], offered: Sequence[ServerAssignor]
) -> ServerAssignor:
    """Return the assignor that most members request.

    With equal votes, or without any, it is the first configured one.
    """
    votes = Counter(choices)
    return max(offered, key=lambda assignor: votes[assignor.name])


def make_spec(
    members: Iterable[ConsumerGroupMember],
    wanted: Mapping[str, Partitions],
    target: Mapping[str, Partitions],
    topics: Mapping[str, int],
) -> AssignmentSpec:
    """Return the input of an assignor for these members.

    Args:
        members: The members, oldest first.
        wanted: Their subscribed partitions.
        target: The previous target.
        topics: Number of partitions of each topic.
    """
    specs = {
        member.member_id: MemberSpec(
            member.instance_id,
            member.rack,
            frozenset(tp.topic for tp in wanted[member.member_id]),
            target.get(member.member_id, frozenset()),
        )
        for member in members
    }
    names = sorted({topic for spec in specs.values() for topic in spec.topics})
    return AssignmentSpec(specs, {name: topics[name] for name in names})


def compute_target(assignor: ServerAssignor, spec: AssignmentSpec) -> dict[str, Partitions]:
    """Compute a target with an assignor.

    Raises:
        ValueError: A partition is assigned twice, or to a member that does not subscribe to it.
    """
    target = {m: frozenset(partitions) for m, partitions in assignor.assign(spec).items()}
    flaw = find_flaw(target, {member_id: spec.wanted(member_id) for member_id in spec.members})
    if flaw is not None:
        msg = f"the assignor {assignor.name!r} is wrong: {flaw}"
        raise ValueError(msg)
    return target


def find_flaw(
    assignment: Mapping[str, Collection[TopicPartition]], wanted: Mapping[str, Partitions]
) -> str | None:
    """Return the first error of an assignment, given the subscribed partitions; None if valid."""
    given: set[TopicPartition] = set()
    for member_id, partitions in assignment.items():
        if member_id not in wanted:
            return f"{member_id} is no member"
        for tp in partitions:
            if tp not in wanted[member_id]:
                return f"{member_id} cannot have {tp.topic}-{tp.partition}"
            if tp in given:
                return f"{tp.topic}-{tp.partition} is assigned twice"
            given.add(tp)
    return None
