"""The assignors with kafka-python's interface, which replace those of kafka-python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from kafka.coordinator.assignors import abstract as their_abstract
from kafka.coordinator.assignors import cooperative_sticky as their_cooperative
from kafka.coordinator.assignors import range as their_range
from kafka.coordinator.assignors import roundrobin as their_round_robin
from kafka.coordinator.assignors.sticky import sticky_assignor as their_sticky
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from tandem_kafka.assignors import (
    CooperativeStickyAssignor,
    RangePartitionAssignor,
    RoundRobinPartitionAssignor,
    StickyPartitionAssignor,
)
from tandem_kafka.assignors.classic import (
    ClassicAssignors,
    ClusterView,
    decode_assignment,
)
from tandem_kafka.types import ClusterSnapshot, Node, PartitionInfo, TopicInfo, TopicPartition
from tandem_kafka.wire.topic_partitions import numbers_by
from tests.unit.assignors.groups import as_text, partitions

#: The classes of kafka-python and of this package.
PAIRS = [
    (their_range.RangePartitionAssignor, RangePartitionAssignor),
    (their_round_robin.RoundRobinPartitionAssignor, RoundRobinPartitionAssignor),
    (their_sticky.StickyPartitionAssignor, StickyPartitionAssignor),
    (their_cooperative.CooperativeStickyAssignor, CooperativeStickyAssignor),
]
OURS = [ours for _, ours in PAIRS]


@dataclass
class Joined:
    """A member of a JoinGroup response."""

    member_id: str
    metadata: Any
    group_instance_id: str | None = None


def snapshot(counts, racks=("", "", "")):
    """A cluster with a broker for each rack; each partition has one replica, in turn."""
    nodes = {number: Node(number, "host", 9092, rack) for number, rack in enumerate(racks)}
    topics = {
        name: TopicInfo(
            name,
            partitions={
                n: PartitionInfo(n, n % len(racks), replicas=(n % len(racks),))
                for n in range(count)
            },
        )
        for name, count in counts.items()
    }
    return ClusterSnapshot(nodes=nodes, topics=topics)


def joined(assignors, member_id, topics, owned="", generation=-1, *, rack="", instance=None):
    """A member as the leader receives it."""
    (metadata,) = assignors.describe(topics, partitions(owned), generation, rack).values()
    return Joined(member_id, metadata, instance)


def takes(assignors, name, data, generation):
    """The partitions of a member's assignment, after notifying its assignor."""
    assignment = decode_assignment(data)
    assignors.on_assignment(name, assignment, generation)
    topics = numbers_by(assignment.assigned_partitions)
    return frozenset(TopicPartition(topic, each) for topic in topics for each in topics[topic])


def assigned(assignors, name, cluster, members):
    """The assignment that the leader sends, decoded by each member."""
    encoded = assignors.assign(name, cluster, members)
    return {
        member_id: {
            (topic, n)
            for topic, numbers in ConsumerProtocolAssignment.decode(data).assigned_partitions
            for n in numbers
        }
        for member_id, data in encoded.items()
    }


@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_built_in_assignors_have_kafka_pythons_interface(theirs, ours):
    assert ours.name == theirs.name
    assert ours().supported_protocols() == theirs().supported_protocols()
    assert issubclass(ours, their_abstract.AbstractPartitionAssignor)


@pytest.mark.parametrize("form", ["class", "instance"])
@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_kafka_pythons_assignors_are_replaced(theirs, ours, form):
    given = theirs if form == "class" else theirs()
    assignors = ClassicAssignors([given])
    assert type(assignors._by_name[theirs.name]) is ours
    assert assignors.cooperative == (ours is CooperativeStickyAssignor)


@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_a_users_subclass_is_not_replaced(theirs, ours):
    for base in (theirs, ours):
        own = type("Own", (base,), {"name": "own"})
        instance = own()
        assert type(ClassicAssignors([own])._by_name["own"]) is own
        assert ClassicAssignors([instance])._by_name["own"] is instance


@pytest.mark.parametrize("ours", OURS)
def test_kafka_pythons_cluster_and_members_are_accepted(ours):
    class Cluster:
        def partitions_for_topic(self, topic):
            return {2, 0, 1} if topic == "orders" else None

    members = [
        Joined(name, ConsumerProtocolSubscription(0, ["orders", "unknown"], b"")) for name in "ba"
    ]
    found = ours().assign(Cluster(), members)
    assert set(found) == {"a", "b"}
    assert isinstance(found["a"], ConsumerProtocolAssignment)
    assert sorted(tp for each in found.values() for tp in each.partitions()) == list(
        partitions("orders-0, orders-1, orders-2")
    )
    assert found["a"].user_data == b""


@pytest.mark.parametrize("ours", OURS)
def test_a_member_without_topics_gets_an_empty_assignment(ours):
    assignors = ClassicAssignors([ours])
    members = [joined(assignors, "a", ["orders"]), joined(assignors, "b", [])]
    found = assigned(assignors, ours.name, snapshot({"orders": 1}), members)
    assert found == {"a": {("orders", 0)}, "b": set()}


@pytest.mark.parametrize(("theirs", "_"), PAIRS[:2])
def test_a_subclass_of_kafka_pythons_assignor_loses_no_member(theirs, _):
    own = type("Own", (theirs,), {})
    assignors = ClassicAssignors([own])
    members = [
        joined(assignors, name, ["orders"], instance=instance)
        for name, instance in (("a", None), ("b", "static"), ("c", None))
    ]
    found = assigned(assignors, own.name, snapshot({"orders": 3}), members)
    assert [len(found[name]) for name in "abc"] == [1, 1, 1]


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (RangePartitionAssignor, {"a": {1, 3}, "b": {0, 2}}),
        (RoundRobinPartitionAssignor, {"a": {0, 2}, "b": {1, 3}}),
        (StickyPartitionAssignor, {"a": {1, 3}, "b": {0, 2}}),
        (CooperativeStickyAssignor, {"a": {1, 3}, "b": {0, 2}}),
    ],
)
def test_members_get_partitions_of_their_racks_if_known(ours, expected):
    assignors = ClassicAssignors([ours])
    members = [
        joined(assignors, "a", ["orders"], rack="east"),
        joined(assignors, "b", ["orders"], rack="west"),
    ]
    cluster = snapshot({"orders": 4}, racks=("west", "east"))
    found = assigned(assignors, ours.name, cluster, members)
    assert {name: {n for _, n in each} for name, each in found.items()} == expected


def test_the_racks_of_replicas():
    nodes = {
        1: Node(1, "a", 9092, "east"),
        2: Node(2, "b", 9092, "west"),
        3: Node(3, "c", 9092, None),
        4: Node(4, "d", 9092, ""),
        5: Node(5, "e", 9092, "east"),
    }
    replicas = {0: (1, 2), 1: (1, 5), 2: (3, 4), 3: (9,), 4: ()}
    infos = {n: PartitionInfo(n, 1, replicas=each) for n, each in replicas.items()}
    view = ClusterView(
        ClusterSnapshot(nodes=nodes, topics={"orders": TopicInfo("orders", partitions=infos)})
    )
    nothing = frozenset()
    assert view.replica_racks("orders") == {
        0: {"east", "west"},
        1: {"east"},
        2: nothing,
        3: nothing,
        4: nothing,
    }
    assert view.replica_racks("unknown") == {}


# --- user data of sticky members -----------------------------------------------------------------


def test_a_sticky_member_gets_its_released_partitions_back():
    assignors = {name: ClassicAssignors([StickyPartitionAssignor]) for name in "ab"}
    cluster = snapshot({"orders": 4})
    before = assignors["a"].assign(
        "sticky", cluster, [joined(assignors[name], name, ["orders"]) for name in "ab"]
    )
    # The two are exchanged: their claims decide, not their ids.
    for name, other in ("ab", "ba"):
        takes(assignors[name], "sticky", before[other], 1)
    after = assignors["a"].assign(
        "sticky", cluster, [joined(assignors[name], name, ["orders"]) for name in "ab"]
    )
    assert (after["a"], after["b"]) == (before["b"], before["a"])


def test_a_sticky_member_that_was_fenced_claims_nothing():
    assignor = StickyPartitionAssignor()
    assignors = ClassicAssignors([assignor])
    data = ConsumerProtocolAssignment(1, [("orders", [0])], b"").encode()
    takes(assignors, "sticky", bytes(data), 5)
    assert assignor.member_assignment == [TopicPartition("orders", 0)]
    assignors.lost()
    assert assignor.member_assignment == []
    assert assignor.generation == -1


def test_a_cooperative_member_sends_owned_partitions_in_kafka_pythons_consumer_too():
    assignor = CooperativeStickyAssignor()
    assignor.on_assignment(ConsumerProtocolAssignment(2, [("orders", [1, 0])], b""), 7)
    said = ConsumerProtocolSubscription.decode(bytes(assignor.metadata({"orders"}).encode()))
    assert [(each.topic, each.partitions) for each in said.owned_partitions] == [("orders", [0, 1])]
    assert said.generation_id == 7


def test_a_generation_in_the_user_data_only_is_used():
    """Subscriptions of version 1 have owned partitions but no generation."""
    assignors = ClassicAssignors([CooperativeStickyAssignor])
    entry = ConsumerProtocolSubscription.TopicPartition
    members = [
        Joined(
            name,
            bytes(
                ConsumerProtocolSubscription(
                    version=1,
                    topics=["orders"],
                    user_data=generation.to_bytes(4, "big"),
                    owned_partitions=[entry(topic="orders", partitions=[0])],
                ).encode()
            ),
        )
        for name, generation in (("a", 3), ("b", 4))
    ]
    found = assigned(assignors, "cooperative-sticky", snapshot({"orders": 1}), members)
    assert found == {"a": set(), "b": {("orders", 0)}}


def test_a_cooperative_group_becomes_stable_where_kafkas_assignor_never_does():
    """Kafka 4.3 revokes a partition in every second round, because racks and balance conflict.

    Here the second round assigns what the first one has planned.
    """
    racks = {"t0": ("xy", "xz", "yz", "y"), "t1": ("yz", "xy")}
    cluster = ClusterSnapshot(
        nodes={"xyz".index(rack): Node("xyz".index(rack), "host", 9092, rack) for rack in "xyz"},
        topics={name: topic_in(name, each) for name, each in racks.items()},
    )
    members = {"a": (["t0", "t1"], "y"), "b": (["t0"], "w"), "c": (["t0", "t1"], "x")}
    owned = {"a": "t0-3", "b": "t0-0", "c": "t0-1, t0-2, t1-0, t1-1"}
    assignors = {name: ClassicAssignors([CooperativeStickyAssignor]) for name in members}
    seen = []
    for generation in range(1, 7):
        group = [
            joined(assignors[name], name, topics, owned[name], generation, rack=rack)
            for name, (topics, rack) in members.items()
        ]
        found = assignors["a"].assign("cooperative-sticky", cluster, group)
        decoded = {
            name: takes(assignors[name], "cooperative-sticky", data, generation + 1)
            for name, data in found.items()
        }
        owned = as_text(decoded)
        seen.append(owned)
    assert seen[0] != seen[1], "the first generation only revokes"
    assert seen[1:] == seen[1:2] * 5
    assert sorted(partitions(", ".join(seen[1].values()))) == list(
        partitions("t0-0, t0-1, t0-2, t0-3, t1-0, t1-1")
    )


def topic_in(name, racks):
    """A topic whose partitions have replicas on the brokers of the racks x, y and z."""
    infos = {
        n: PartitionInfo(n, 0, replicas=tuple(map("xyz".index, each)))
        for n, each in enumerate(racks)
    }
    return TopicInfo(name, partitions=infos)
