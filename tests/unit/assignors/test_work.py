"""The work of an assignment is bounded by its size, independent of the machine's speed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from tandem_kafka.assignors.group import Assignment, Member, Topics
from tandem_kafka.assignors.range import assign_range
from tandem_kafka.assignors.round_robin import assign_round_robin
from tandem_kafka.assignors.sticky import assign_cooperative_sticky, assign_sticky
from tests.unit.assignors.making import owning

ALL = [assign_range, assign_round_robin, assign_sticky, assign_cooperative_sticky]

#: Instructions, hashes and comparisons per partition, in the most expensive case below.
MOST = 6_000

_done = [0]


def _counted(operation: str) -> Callable[..., object]:
    def run(self: object, *other: object) -> object:
        _done[0] += 1
        return getattr(type(self).__mro__[1], operation)(self, *other)

    return run


_OPERATIONS = {name: _counted(name) for name in ("__eq__", "__lt__", "__gt__", "__hash__")}
#: Strings and numbers that count operations in C code, such as a search through a list.
Name = type("Name", (str,), _OPERATIONS)
Number = type("Number", (int,), _OPERATIONS)


def work(assign: Callable[..., Assignment], members: list[Member], topics: Topics) -> int:
    """The number of instructions, hashes and comparisons of an assignor."""

    def trace(frame: object, *_: object) -> object:
        frame.f_trace_opcodes = True  # type: ignore[attr-defined]
        _done[0] += 1
        return trace

    _done[0] = 0
    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        assign(members, topics)
    finally:
        sys.settrace(before)
    return _done[0]


def topics_of(partitions: int, count: int, *, racks: bool = False) -> Topics:
    """The given numbers of topics and partitions."""
    somewhere = [frozenset("xyz"[: index + 1]) for index in range(3)] if racks else [frozenset()]
    return {
        Name(f"t{topic}"): {
            Number(number): somewhere[number % len(somewhere)]
            for number in range(partitions // count)
        }
        for topic in range(count)
    }


def members_of(count: int, topics: Topics, *, racks: bool = False) -> list[Member]:
    """Members that all subscribe to all topics."""
    return [
        Member(Name(f"m{n:04}"), frozenset(topics), rack="xyz"[n % 3] if racks else "")
        for n in range(count)
    ]


def alike(partitions: int, count: int) -> tuple[list[Member], Topics]:
    topics = topics_of(partitions, 10)
    return members_of(count, topics), topics


def in_racks(partitions: int, count: int) -> tuple[list[Member], Topics]:
    topics = topics_of(partitions, 10, racks=True)
    return members_of(count, topics, racks=True), topics


def nested(partitions: int, count: int) -> tuple[list[Member], Topics]:
    """Members with one topic (the first) to all topics (the last)."""
    topics = topics_of(partitions, 10, racks=True)
    names = list(topics)
    return [
        replace(each, topics=frozenset(names[: 1 + 10 * n // count]))
        for n, each in enumerate(members_of(count, topics, racks=True))
    ], topics


def chained(partitions: int, count: int) -> tuple[list[Member], Topics]:
    """Members that share one topic each with the previous and the next member."""
    topics = topics_of(partitions, 20)
    names = list(topics)
    return [
        replace(each, topics=frozenset({names[n % 20], names[(n + 1) % 20]}))
        for n, each in enumerate(members_of(count, topics))
    ], topics


def settled(members: list[Member], topics: Topics) -> list[Member]:
    return owning(members, assign_sticky(members, topics), 1)


def one_left(members: list[Member], topics: Topics) -> list[Member]:
    return settled(members, topics)[1:]


def half_joined(members: list[Member], topics: Topics) -> list[Member]:
    """New members with all kinds of subscriptions."""
    old = settled(members[::2], topics)
    return old + members[1::2]


@pytest.mark.parametrize("event", [settled, one_left, half_joined], ids=lambda each: each.__name__)
@pytest.mark.parametrize("kind", [alike, in_racks, nested, chained], ids=lambda each: each.__name__)
@pytest.mark.parametrize("assign", ALL[:3], ids=lambda each: each.__name__)
def test_twice_the_size_is_twice_the_work(assign, kind, event):
    def measured(partitions: int, count: int) -> int:
        members, topics = kind(partitions, count)
        return work(assign, event(members, topics), topics)

    small = measured(200, 10)
    assert small <= MOST * 200
    # Four times the work would be the square.
    assert measured(400, 10) <= 3 * small, "partitions"
    assert measured(200, 20) <= 3 * small, "members"


@pytest.mark.full("takes long")
@pytest.mark.parametrize("assign", ALL, ids=lambda each: each.__name__)
def test_ten_thousand_partitions_among_a_hundred_members(assign):
    members, topics = in_racks(10_000, 101)
    assert work(assign, one_left(members, topics), topics) <= MOST * 10_000
