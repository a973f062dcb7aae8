"""Groups of all kinds, for Hypothesis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tandem_kafka.assignors.group import Assignment, Member, Topics
from tandem_kafka.types import TopicPartition

__all__ = ["groups", "owning"]

_NAMES = ("t0", "t1", "t2", "t3")
_RACKS = ("x", "y", "z")


@st.composite
def topics(draw: Any, racks: tuple[str, ...]) -> Topics:
    """Up to four topics, perhaps with racks."""
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, unique=True))
    somewhere = st.frozensets(st.sampled_from(racks)) if racks else st.just(frozenset[str]())
    return {
        name: dict(enumerate(draw(st.lists(somewhere, min_size=1, max_size=6))))
        for name in sorted(names)
    }


@st.composite
def groups(
    draw: Any, *, alike: bool = False, racks: bool = True, owned: bool = True
) -> tuple[list[Member], Topics]:
    """A group and its topics.

    Args:
        draw: Given by Hypothesis.
        alike: All members subscribe to the same topics.
        racks: Members and replicas may have racks.
        owned: Members may own partitions, of any generation and subscription, also each other's.
    """
    known = draw(topics(_RACKS[: draw(st.integers(0, 3))] if racks else ()))
    count = draw(st.integers(1, 6))
    every = sorted(known) if alike else [*sorted(known), "unknown"]
    subscriptions = st.frozensets(st.sampled_from(every), min_size=1)
    claims = st.lists(
        st.builds(TopicPartition, st.sampled_from([*_NAMES, "gone"]), st.integers(0, 7)),
        max_size=8 if owned else 0,
    )
    instances = draw(st.permutations([None, None, None, "i1", "i2", "i3"]))
    members = [
        Member(
            member_id=f"m{index}",
            topics=frozenset(every) if alike else draw(subscriptions),
            instance_id=instances[index],
            rack=draw(st.sampled_from(["", "w", *_RACKS])) if racks else "",
            owned=tuple(draw(claims)),
            generation=draw(st.integers(-1, 3)),
        )
        for index in range(count)
    ]
    return members, known


def owning(members: list[Member], assignment: Assignment, generation: int) -> list[Member]:
    """The same members after a round of the group."""
    return [
        replace(each, owned=tuple(assignment[each.member_id]), generation=generation)
        for each in members
    ]
