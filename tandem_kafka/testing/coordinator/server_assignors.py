"""How a coordinator assigns by itself: an interface, two of its kind, and which one is used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tandem_kafka.testing.coordinator.members import ConsumerGroupMember, Partitions
from tandem_kafka.types import TopicPartition

__all__ = [
    "AssignmentSpec",
    "MemberSpec",
    "PartitionAssignor",
    "RangeAssignor",
    "UniformAssignor",
    "flaw_of",
    "preferred",
    "spec_of",
    "target_by",
]


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member, as an assignor is told of it.

    Attributes:
        instance_id: Of a static member; None for another.
        rack: Where it stands; None if it did not say.
        topics: What it subscribes to, by name or expression, of the topics that there are.
        target: What it was to have so far.
    """

    instance_id: str | None = None
    rack: str | None = None
    topics: frozenset[str] = frozenset()
    target: Partitions = frozenset()


@dataclass(frozen=True, slots=True)
class AssignmentSpec:
    """A group that is to have a target.

    Attributes:
        members: By id, who has been in for longest first.
        topics: How many partitions each topic has that a member subscribes to.
    """

    members: Mapping[str, MemberSpec]
    topics: Mapping[str, int]

    def wanted(self, member_id: str) -> Partitions:
        """Return the partitions of a member's topics."""
        topics = self.members[member_id].topics
        return frozenset(TopicPartition(t, n) for t in topics for n in range(self.topics[t]))


class PartitionAssignor(ABC):
    """Makes the target of a group. Give such objects to `GroupSettings.assignors`.

    Attributes:
        name: What members ask for it by (`group_remote_assignor`).
    """

    name: str

    @abstractmethod
    def assign(self, spec: AssignmentSpec) -> Mapping[str, AbstractSet[TopicPartition]]:
        """Return what each member shall have; who is not named gets nothing.

        A partition goes to one member at most, and only to one that subscribes to its topic. Same
        groups must get same targets, else a seed does not give the same run.
        """


class UniformAssignor(PartitionAssignor):
    """As many for each as for any other, and what one had stays where it was if that is fair."""

    name = "uniform"

    def assign(self, spec: AssignmentSpec) -> Mapping[str, AbstractSet[TopicPartition]]:
        """See the interface."""
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
        _level(target, wanted)
        return target


def _level(
    target: dict[str, set[TopicPartition]], wanted: Mapping[str, AbstractSet[TopicPartition]]
) -> None:
    """Move one by one from who has most to who has least."""
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


class RangeAssignor(PartitionAssignor):
    """Of each topic a run of partitions for each subscriber, the first ones one longer if need be.

    Static members come first, by instance id, then the others by member id. The order is the same
    for each topic: where all subscribe to the same topics of one size, a member has the same
    numbers of each. What a member had plays no part.
    """

    name = "range"

    def assign(self, spec: AssignmentSpec) -> Mapping[str, AbstractSet[TopicPartition]]:
        """See the interface."""
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


def preferred(
    choices: Iterable[str | None], offered: Sequence[PartitionAssignor]
) -> PartitionAssignor:
    """Return the assignor that most members ask for.

    Among equals it is the one that was configured first, and so it is if nobody asks for any.
    """
    votes = Counter(choices)
    return max(offered, key=lambda assignor: votes[assignor.name])


def spec_of(
    members: Iterable[ConsumerGroupMember],
    wanted: Mapping[str, Partitions],
    target: Mapping[str, Partitions],
    topics: Mapping[str, int],
) -> AssignmentSpec:
    """Return what an assignor is told of these members.

    Args:
        members: Who has been in for longest first.
        wanted: The partitions of their topics.
        target: What they were to have so far.
        topics: How many partitions each topic has.
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


def target_by(assignor: PartitionAssignor, spec: AssignmentSpec) -> dict[str, Partitions]:
    """Have a target made.

    Raises:
        ValueError: It is none: a partition is in it twice, or goes to who does not subscribe to it.
    """
    target = {m: frozenset(partitions) for m, partitions in assignor.assign(spec).items()}
    flaw = flaw_of(target, {member_id: spec.wanted(member_id) for member_id in spec.members})
    if flaw is not None:
        msg = f"the assignor {assignor.name!r} is wrong: {flaw}"
        raise ValueError(msg)
    return target


def flaw_of(
    assignment: Mapping[str, Collection[TopicPartition]], wanted: Mapping[str, Partitions]
) -> str | None:
    """Return what is wrong with an assignment of those that want these partitions."""
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
