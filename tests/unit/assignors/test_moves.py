"""Moves of the sticky assignor, and partitions that return instead."""

from __future__ import annotations

from hypothesis import given

from tandem_kafka.assignors.group import Member
from tandem_kafka.assignors.sticky import assign_sticky
from tandem_kafka.assignors.uneven import Moves
from tests.unit.assignors.groups import partitions
from tests.unit.assignors.making import groups, owning

A0, A1, A2, B0 = partitions("a-0, a-1, a-2, b-0")


def test_a_partition_moves():
    assert Moves().to(A0, "x", "y") == [(A0, "y")]


def test_a_partition_that_moved_the_opposite_way_returns_instead():
    moves = Moves()
    moves.to(A0, "x", "y")
    assert moves.to(A1, "y", "x") == [(A0, "x")]
    assert moves.to(A1, "y", "x") == [(A1, "x")], "A1 returned to its first owner"


def test_the_first_moved_partition_returns_first():
    moves = Moves()
    moves.to(A1, "x", "y")
    moves.to(A0, "x", "y")
    assert moves.to(A2, "y", "x") == [(A1, "x")]
    assert moves.to(A2, "y", "x") == [(A0, "x")]


def test_moves_of_topics_are_independent():
    moves = Moves()
    moves.to(B0, "x", "y")
    assert moves.to(A0, "y", "x") == [(A0, "x")]


def test_a_partition_that_moves_twice_keeps_its_first_origin():
    moves = Moves()
    moves.to(A0, "x", "y")
    assert moves.to(A0, "y", "z") == [(A0, "z")]
    assert moves.to(A1, "y", "x") == [(A1, "x")]
    assert moves.to(A2, "z", "x") == [(A0, "x")]


def test_two_partitions_return_instead_of_an_indirect_exchange():
    """a-0 moved from x to y, and a-1 from y to z. Then a-1 for x means a-1 for y and a-0 for x."""
    moves = Moves()
    moves.to(A0, "x", "y")
    moves.to(A1, "y", "z")
    assert moves.to(A1, "z", "x") == [(A1, "y"), (A0, "x")]
    assert moves.to(A0, "x", "y") == [(A0, "y")], "nothing has moved"


@given(group=groups(racks=False), other=groups(racks=False))
def test_no_two_partitions_of_a_topic_are_exchanged(group, other):
    """The owners from a group with other subscriptions and topics; each partition has one."""
    members, topics = group
    before = owning(other[0], assign_sticky(*other), 1)
    kept = {each.member_id: each.owned for each in before}
    members = [
        Member(each.member_id, each.topics, owned=kept.get(each.member_id, ()), generation=1)
        for each in members
    ]
    owners = {tp: each for each in members for tp in each.owned}
    moves = {
        (tp.topic, owners[tp].member_id, member_id)
        for member_id, found in assign_sticky(members, topics).items()
        for tp in found
        if tp in owners and tp.topic in owners[tp].topics
    }
    for topic, source, target in moves:
        assert source == target or (topic, target, source) not in moves
