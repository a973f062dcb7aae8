"""The server-side assignors of a simulated coordinator, and their selection."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import pytest
from kafka import errors

from packages.testing.tests.coordinated import GROUP, Coordinated
from packages.testing.tests.driven import Driven, subscription
from packages.testing.tests.test_client_assignors import assignor, code
from tandem_kafka import TopicPartition
from tandem_kafka_testing.coordinator.server_assignors import (
    AssignmentSpec,
    MemberSpec,
    RangeAssignor,
    ServerAssignor,
    UniformAssignor,
    most_requested,
)
from tandem_kafka_testing.coordinator.settings import GroupSettings

UNIFORM, RANGE = UniformAssignor(), RangeAssignor()


def shares(
    kind: ServerAssignor, topics: dict[str, int], **members: MemberSpec | str
) -> dict[str, str]:
    """Assign, and format partitions as `a0 a1 b0`; a member may be given by its topics."""
    specs = {
        name: each if isinstance(each, MemberSpec) else MemberSpec(topics=frozenset(each.split()))
        for name, each in members.items()
    }
    target = kind.assign(AssignmentSpec(specs, topics))
    return {
        name: " ".join(f"{tp.topic}{tp.partition}" for tp in sorted(tps))
        for name, tps in target.items()
    }


def tps(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("orders", number) for number in numbers)


# --- range ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topics", "members", "expected"),
    [
        # Runs, and the first one is longer.
        ({"a": 7}, {"x": "a", "y": "a", "z": "a"}, {"x": "a0 a1 a2", "y": "a3 a4", "z": "a5 a6"}),
        # A member has the same numbers of each topic.
        ({"a": 3, "b": 3}, {"x": "a b", "y": "a b"}, {"x": "a0 a1 b0 b1", "y": "a2 b2"}),
        # More members than partitions.
        ({"a": 2}, {"x": "a", "y": "a", "z": "a"}, {"x": "a0", "y": "a1", "z": ""}),
        # Each topic counts its own subscribers.
        (
            {"a": 3, "b": 4},
            {"x": "a", "y": "a b", "z": "b"},
            {"x": "a0 a1", "y": "a2 b0 b1", "z": "b2 b3"},
        ),
        # Static members come first, by their instance ids.
        (
            {"a": 5},
            {
                "m": "a",
                "y": MemberSpec("one", topics=frozenset("a")),
                "x": MemberSpec("two", topics=frozenset("a")),
            },
            {"y": "a0 a1", "x": "a2 a3", "m": "a4"},
        ),
        # Previous assignments do not count.
        (
            {"orders": 2},
            {"y": MemberSpec(topics=frozenset({"orders"}), target=tps(0, 1)), "x": "orders"},
            {"x": "orders0", "y": "orders1"},
        ),
    ],
)
def test_range_gives_runs_of_each_topic_in_the_order_of_members(
    topics: dict[str, int], members: dict[str, MemberSpec | str], expected: dict[str, str]
) -> None:
    assert shares(RANGE, topics, **members) == expected


@pytest.mark.parametrize("kind", [UNIFORM, RANGE])
def test_a_group_without_members_or_topics_is_assigned_nothing(kind: ServerAssignor) -> None:
    assert shares(kind, {}) == {}
    assert shares(kind, {}, x="") == {"x": ""}


# --- uniform -------------------------------------------------------------------------------------


def test_uniform_keeps_existing_assignments_where_possible() -> None:
    had = MemberSpec(topics=frozenset({"orders"}), target=tps(1, 2, 3))
    assert shares(UNIFORM, {"orders": 4}, x="orders", y=had) == {
        "x": "orders0 orders3",
        "y": "orders1 orders2",
    }


def test_uniform_balances_over_all_topics() -> None:
    assert shares(UNIFORM, {"a": 1, "b": 1}, x="a b", y="a b") == {"x": "a0", "y": "b0"}


# --- votes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choices", "name"),
    [
        ([], "uniform"),
        ([None, None], "uniform"),
        (["range", None, None], "range"),
        (["range", "range", "uniform"], "range"),
        (["range", "uniform"], "uniform"),
        (["gone", "gone", "range"], "range"),
    ],
)
def test_the_most_requested_assignor_wins_and_with_equal_votes_the_first(
    choices: list[str | None], name: str
) -> None:
    assert most_requested(choices, (UNIFORM, RANGE)).name == name


def test_without_a_request_the_first_configured_assignor_is_used() -> None:
    assert most_requested([None], (RANGE, UNIFORM)) is RANGE


# --- in a group ----------------------------------------------------------------------------------


def in_range(world: Coordinated, *members: str, **fields: Any) -> None:
    for member_id in members:
        assert world.join(member_id, server_assignor="range", **fields).error_code == 0


def test_a_heartbeat_without_an_assignor_keeps_the_request() -> None:
    world = Coordinated()
    in_range(world, "a")
    world.beat("a")
    world.join("a")
    world.join("b")
    assert world.describe().assignor_name == "range"


def test_a_leaving_member_loses_its_vote() -> None:
    world = Coordinated()
    world.join("b")
    in_range(world, "a")
    world.beat("a", -1)
    assert world.describe().assignor_name == "uniform"


@pytest.mark.design("001", "PartitionAssignor")
def test_requested_assignors_survive_a_failover() -> None:
    world = Coordinated()
    in_range(world, "a")
    world.join("b")
    world.fail_over()
    assert [m.server_assignor for m in world.group.members.values()] == ["range", None]
    assert world.describe().assignor_name == "range"
    world.join("c")
    assert world.describe().assignor_name == "range"
    assert world.targets() == {"a": [0, 1], "b": [2], "c": [3]}


def test_a_replaced_static_member_keeps_its_requested_assignor() -> None:
    world = Coordinated()
    in_range(world, "a", instance_id="one")
    world.beat("a", -2, instance_id="one")
    world.join("b", instance_id="one")
    world.join("c")
    assert world.describe().assignor_name == "range"


def test_a_member_that_becomes_classic_keeps_its_requested_assignor() -> None:
    driven = Driven()
    first = driven.results[driven.join("", subscription())].member_id
    driven.sync(first, 1)
    driven.beat("m", 0, server_assignor="range")
    members = driven.coordinator.consumer.members
    assert {name: member.server_assignor for name, member in members.items()} == {
        first: None,
        "m": "range",
    }
    driven.beat(first, 0, server_assignor="range")
    driven.join(first, subscription())
    assert members[first].classic is not None
    assert members[first].server_assignor == "range"


def test_a_rejected_member_does_not_upgrade_a_classic_group() -> None:
    driven = Driven()
    driven.sync(driven.results[driven.join("", subscription())].member_id, 1)
    driven.beat("m", 0, server_assignor="nobody")
    assert driven.coordinator.classic.members
    assert not driven.coordinator.consumer.members


def test_client_side_assignors_precede_server_side_ones() -> None:
    world = Coordinated()
    world.join("a", assignor())
    assert world.computes == "a"
    in_range(world, "b")
    assert (world.computes, world.describe().assignor_name) == (None, "range")


# --- others --------------------------------------------------------------------------------------


class Hoarding(ServerAssignor):
    """Assigns everything to the first member, and records its input."""

    name = "hoarding"

    def __init__(self, twice: bool = False) -> None:
        self.twice = twice
        self.specs: list[AssignmentSpec] = []

    def assign(self, spec: AssignmentSpec) -> Mapping[str, AbstractSet[TopicPartition]]:
        self.specs.append(spec)
        first = next(iter(spec.members))
        who = spec.members if self.twice else [first]
        return {member_id: spec.wanted(first) for member_id in who}


@pytest.mark.design("001", "PartitionAssignor")
def test_a_custom_assignor_gets_the_group() -> None:
    world, own = Coordinated(), Hoarding()
    world.cluster.configure_group(GROUP, assignors=(UNIFORM, own))
    world.join("a", instance_id="one", rack_id="east", server_assignor="hoarding")
    world.join("b", subscribed_topic_names=["orders", "more", "missing"])
    assert world.targets() == {"a": [0, 1, 2, 3], "b": []}
    assert own.specs[-1] == AssignmentSpec(
        {
            "a": MemberSpec("one", "east", frozenset({"orders"}), tps(0, 1, 2, 3)),
            "b": MemberSpec(topics=frozenset({"orders", "more"})),
        },
        {"more": 1, "orders": 4},
    )
    assert world.join("c", server_assignor="range").error_code == code(
        errors.UnsupportedAssignorError
    )


def test_an_assignor_that_assigns_a_partition_twice_is_rejected() -> None:
    world = Coordinated()
    world.cluster.configure_group(GROUP, assignors=(Hoarding(twice=True),))
    world.join("a")
    with pytest.raises(ValueError, match=r"'hoarding' is wrong: orders-. is assigned twice"):
        world.join("b")


@pytest.mark.parametrize(("assignors", "named"), [((), "\\[\\]"), ((RANGE, RANGE), "'range'")])
def test_settings_need_at_least_one_assignor_and_unique_names(assignors: Any, named: str) -> None:
    with pytest.raises(ValueError, match=f"assignors=.*{named}.*one or more"):
        GroupSettings(assignors=assignors)
