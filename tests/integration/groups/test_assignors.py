"""Our assignors beside Kafka's own, on thousands of groups."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tandem_kafka.assignors import uneven
from tandem_kafka.assignors.group import Assignment, Member, Topics
from tandem_kafka.assignors.range import assign_range
from tandem_kafka.assignors.round_robin import assign_round_robin
from tandem_kafka.assignors.sticky import assign_cooperative_sticky, assign_sticky
from tandem_kafka.assignors.uneven import Moves
from tandem_kafka.types import TopicPartition
from tests.kafka.assignors import assigned_by_kafka

pytestmark = pytest.mark.full("takes long on a real broker")

Group = tuple[list[Member], Topics]

GROUPS = 1_500
#: Kafka iterates over a hash map of members. For these ids, its order is alphabetical.
MEMBER_IDS = "abcdefghijkl"
ASSIGNORS: dict[str, Callable[..., Assignment]] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
    "sticky": assign_sticky,
    "cooperative-sticky": assign_cooperative_sticky,
}


def topics_of(chance: random.Random) -> Topics:
    """Topics, of one size or not, in one rack, in several or in none."""
    racks = "xyz"[: chance.choice([0, 0, 1, 2, 3])]
    largest = chance.choice([3, 8, 20])
    usual = chance.randint(1, largest) if chance.random() < 0.4 else None
    return {
        f"t{index}": {
            number: frozenset(chance.sample(racks, chance.randint(0, len(racks))))
            for number in range(usual or chance.randint(1, largest))
        }
        for index in range(chance.randint(1, 6))
    }


def members_of(chance: random.Random, topics: Topics, *, alike: bool) -> list[Member]:
    """Members that subscribe to the same topics, or to different ones."""
    names = [*topics, "unknown"] if chance.random() < 0.1 else list(topics)
    instances = list("qwertyuiopas")
    chance.shuffle(instances)
    generations = chance.choice([[5], [3, 4, 5, 5, 5]])
    return [
        Member(
            member_id,
            frozenset(names if alike else chance.sample(names, chance.randint(1, len(names)))),
            instance_id=instances.pop() if chance.random() < 0.3 else None,
            rack=chance.choice(["", "w", "x", "y", "z"]),
            generation=chance.choice(generations),
        )
        for member_id in sorted(chance.sample(MEMBER_IDS, chance.randint(1, 12)))
    ]


def group_of(seed: str, *, alike: bool, contradict: bool) -> Group:
    """A group whose members own nothing, something or everything.

    Args:
        seed: Determines the group.
        alike: All members subscribe to the same topics.
        contradict: Some partitions are claimed from an older generation too.
    """
    chance = random.Random(seed)  # noqa: S311 - it makes groups, no secrets
    topics = topics_of(chance)
    members = members_of(chance, topics, alike=alike)
    owned: dict[str, list[TopicPartition]] = {each.member_id: [] for each in members}
    owners = members[: chance.choice([0, len(members), 1 + len(members) // 2])]
    known = chance.choice([0.5, 1])
    for name, partitions in topics.items():
        subscribers = [each for each in owners if name in each.topics]
        for number in partitions:
            if subscribers and chance.random() <= known:
                owner = chance.choice(subscribers)
                owned[owner.member_id].append(TopicPartition(name, number))
                stale = [each for each in subscribers if each.generation < owner.generation]
                if contradict and stale and chance.random() < 0.2:
                    owned[chance.choice(stale).member_id].append(TopicPartition(name, number))
    return [
        Member(m.member_id, m.topics, m.instance_id, m.rack, owned[m.member_id], m.generation)
        for m in members
    ], topics


def as_sets(assignment: Assignment) -> dict[str, set[TopicPartition]]:
    return {member_id: set(found) for member_id, found in assignment.items()}


@pytest.mark.parametrize("alike", [True, False], ids=["alike", "different"])
@pytest.mark.parametrize("name", ASSIGNORS)
def test_assignors_match_those_of_kafka(
    name: str, alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    returned: list[TopicPartition] = []

    class Watched(Moves):
        def to(
            self, tp: TopicPartition, source: str, target: str
        ) -> list[tuple[TopicPartition, str]]:
            moves = super().to(tp, source, target)
            if moves != [(tp, target)]:
                returned.append(tp)
            return moves

    monkeypatch.setattr(uneven, "Moves", Watched)
    # Among different members, Kafka's cooperative assignor lets an older claim stand.
    contradict = alike or name != "cooperative-sticky"
    groups = [
        group_of(f"{name} {alike} {number}", alike=alike, contradict=contradict)
        for number in range(GROUPS)
    ]
    undecided = 0
    for group, expected in zip(groups, assigned_by_kafka(name, groups), strict=True):
        returned.clear()
        found = as_sets(ASSIGNORS[name](*group))
        if returned:
            # In Kafka, the order of a hash set decides which partition returns.
            undecided += 1
        else:
            assert found == expected, group
    assert undecided < GROUPS // 20
