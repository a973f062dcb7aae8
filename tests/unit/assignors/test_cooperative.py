"""The two rounds of the cooperative assignor (KIP-429)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tandem_kafka.assignors.plan import Plan
from tandem_kafka.assignors.sticky import (
    assign_cooperative_sticky,
    assign_sticky,
    without_revoked,
)
from tests.unit.assignors.groups import as_text, in_racks, member, partitions, without_racks


@pytest.mark.parametrize(
    ("counts", "claims", "expected"),
    [
        pytest.param(
            {"t1": 3},
            {"c1": (1, "t1-0, t1-1, t1-2"), "c2": (-1, "")},
            {"c1": "t1-0, t1-1", "c2": ""},
            id="partitions that c1 revokes have no owner yet",
        ),
        pytest.param(
            {"t1": 3},
            {"c1": (2, "t1-0, t1-1"), "c2": (-1, "")},
            {"c1": "t1-0, t1-1", "c2": "t1-2"},
            id="partitions without an owner are assigned at once",
        ),
        pytest.param(
            {"t1": 3},
            {"c1": (1, "t1-0, t1-1"), "c2": (1, "t1-0, t1-2"), "c3": (1, "")},
            {"c1": "t1-1", "c2": "t1-2", "c3": ""},
            id="what two own in the same generation has to be revoked by both",
        ),
        pytest.param(
            {"t1": 4},
            {"c1": (1, "t1-0, t1-1"), "c2": (1, "t1-0, t1-2"), "c3": (1, "")},
            {"c1": "t1-1, t1-3", "c2": "t1-2", "c3": ""},
            id="the same with one more",
        ),
        pytest.param(
            {"t1": 3, "t2": 3},
            {"c1": (10, "t1-0, t1-2, t2-1"), "c2": (9, "t1-0, t1-2, t2-1")},
            {"c1": "t1-0, t1-2, t2-1", "c2": "t1-1, t2-0, t2-2"},
            id="an older claim holds nothing back",
        ),
        pytest.param(
            {"t1": 2},
            {"c1": (2, "t1-0, t1-1"), "c2": (1, "t1-1")},
            {"c1": "t1-0", "c2": ""},
            id="an older claim does not count for the member either",
        ),
    ],
)
def test_a_partition_is_assigned_when_no_other_member_owns_it(counts, claims, expected):
    members = [
        member(member_id, counts, owned, generation)
        for member_id, (generation, owned) in claims.items()
    ]
    assert as_text(assign_cooperative_sticky(members, without_racks(**counts))) == expected


def test_unsubscribed_partitions_are_revoked_first():
    members = [member("c1", "t2", "t1-0, t2-0", 1), member("c2", "t1", "", 1)]
    topics = without_racks(t1=1, t2=1)
    assert as_text(assign_cooperative_sticky(members, topics)) == {"c1": "t2-0", "c2": ""}
    assert as_text(assign_sticky(members, topics)) == {"c1": "t2-0", "c2": "t1-0"}


def test_a_partition_changes_racks_in_two_rounds():
    topics = in_racks({"t1": 4}, 1, ("a", "b"))
    members = [
        member("c0", "t1", "t1-0, t1-1", 1, rack="a"),
        member("c1", "t1", "t1-2, t1-3", 1, rack="b"),
    ]
    assert as_text(assign_cooperative_sticky(members, topics)) == {"c0": "t1-0", "c1": "t1-3"}
    members = [
        replace(members[0], owned=partitions("t1-0")),
        replace(members[1], owned=partitions("t1-3")),
    ]
    expected = {"c0": "t1-0, t1-2", "c1": "t1-1, t1-3"}
    assert as_text(assign_cooperative_sticky(members, topics)) == expected


# --- the second round ----------------------------------------------------------------------------

TOPICS = without_racks(t1=3)
FIRST = [member("c1", "t1", "t1-0, t1-1, t1-2", 1), member("c2", "t1")]


def after(members, assignment, generation):
    """The members as they join the next round."""
    return [
        replace(each, owned=tuple(assignment[each.member_id]), generation=generation)
        for each in members
    ]


def begun():
    """A first round in which c1 must revoke a partition."""
    target = assign_sticky(FIRST, TOPICS)
    assigned = without_revoked(target, FIRST, TOPICS)
    plan = Plan()
    plan.remember(FIRST, TOPICS, target, assigned)
    return plan, target, after(FIRST, assigned, 2)


def test_a_new_leader_has_no_plan():
    assert Plan().recall(FIRST, TOPICS) is None


def test_the_second_round_assigns_the_plan_of_the_first():
    plan, target, second = begun()
    assert plan.recall(second[::-1], TOPICS) == target
    assert without_revoked(target, second, TOPICS) == target


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda members, topics: (members[:1], topics), id="a member has left"),
        pytest.param(
            lambda members, topics: ([*members, member("c3", "t1")], topics), id="one has joined"
        ),
        pytest.param(
            lambda members, topics: ([replace(members[0], owned=()), members[1]], topics),
            id="one has lost its partitions",
        ),
        pytest.param(
            lambda members, topics: ([replace(members[0], rack="a"), members[1]], topics),
            id="a rack",
        ),
        pytest.param(
            lambda members, topics: (
                [members[0], replace(members[1], topics=frozenset({"t1", "t2"}))],
                topics,
            ),
            id="a subscription",
        ),
        pytest.param(lambda members, _: (members, without_racks(t1=4)), id="a new partition"),
        pytest.param(lambda members, _: (members, in_racks({"t1": 3}, 1, "ab")), id="replicas"),
    ],
)
def test_a_changed_group_is_balanced_again(change):
    plan, _, second = begun()
    assert plan.recall(*change(second, TOPICS)) is None


def test_an_unchanged_group_keeps_its_plan():
    plan, target, second = begun()
    plan.remember(second, TOPICS, target, target)
    assert plan.recall(after(second, target, 3), TOPICS) == target
