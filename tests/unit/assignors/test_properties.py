"""Properties of every assignment, for groups of all kinds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_kafka.assignors import CooperativeStickyAssignor
from tandem_kafka.assignors.group import NO_GENERATION, Member
from tandem_kafka.assignors.range import assign_range
from tandem_kafka.assignors.round_robin import assign_round_robin
from tandem_kafka.assignors.sticky import assign_cooperative_sticky, assign_sticky
from tandem_kafka.types import TopicPartition
from tests.unit.assignors.making import groups, owning

ALL = [assign_range, assign_round_robin, assign_sticky, assign_cooperative_sticky]
BALANCED = [assign_round_robin, assign_sticky]


def wanted(members, topics):
    """The partitions that a member subscribes to, each once."""
    names = {name for each in members for name in each.topics if name in topics}
    return Counter(TopicPartition(name, number) for name in names for number in topics[name])


def claimants(members):
    """The members that claim each partition."""
    found = {}
    for each in members:
        for tp in each.owned:
            found.setdefault(tp, set()).add(each.member_id)
    return found


def valid_owners(members, topics):
    """The owners by consistent newest claims of topics that are still subscribed."""
    owners = {}
    for tp in wanted(members, topics):
        claims = [(m.generation, m) for m in members if tp in m.owned]
        newest = [m for generation, m in claims if generation == max(claims, key=first)[0]]
        if len(newest) == 1 and tp.topic in newest[0].topics:
            owners[tp] = newest[0]
    return owners


def first(pair):
    return pair[0]


@pytest.mark.parametrize("assign", ALL[:3])
@given(group=groups())
def test_every_partition_goes_to_one_subscriber(assign, group):
    members, topics = group
    assignment = assign(members, topics)
    assert set(assignment) == {each.member_id for each in members}
    assert Counter(tp for each in assignment.values() for tp in each) == wanted(members, topics)
    for each in members:
        assert {tp.topic for tp in assignment[each.member_id]} <= each.topics


@pytest.mark.parametrize("assign", ALL)
@given(group=groups(), data=st.data())
def test_the_order_of_members_and_topics_does_not_matter(assign, group, data):
    members, topics = group
    shuffled = data.draw(st.permutations(members))
    again = dict(data.draw(st.permutations(list(topics.items()))))
    assert assign(shuffled, again) == assign(members, topics)


@pytest.mark.parametrize("assign", BALANCED)
@given(group=groups(alike=True))
def test_members_with_equal_subscriptions_have_equal_shares(assign, group):
    counts = [len(each) for each in assign(*group).values()]
    assert max(counts) - min(counts) <= 1


@given(group=groups(alike=True))
def test_range_divides_each_topic_equally(group):
    members, topics = group
    assignment = assign_range(members, topics)
    for name in topics:
        counts = [sum(tp.topic == name for tp in each) for each in assignment.values()]
        assert max(counts) - min(counts) <= 1


@given(group=groups(alike=True))
def test_range_keeps_topics_of_one_size_together(group):
    members, topics = group
    assignment = assign_range(members, topics)
    for each in assignment.values():
        for name, other in ((n, o) for n in topics for o in topics):
            if len(topics[name]) == len(topics[other]):
                assert {tp.partition for tp in each if tp.topic == name} == {
                    tp.partition for tp in each if tp.topic == other
                }


@given(group=groups())
def test_sticky_shares_are_as_equal_as_subscriptions_allow(group):
    members, topics = group
    assignment = assign_sticky(members, topics)
    for source in members:
        for tp in assignment[source.member_id]:
            for target in members:
                if tp.topic in target.topics:
                    assert len(assignment[source.member_id]) <= (
                        len(assignment[target.member_id]) + 1
                    )


@given(group=groups(alike=True, racks=False))
def test_members_with_equal_subscriptions_lose_only_surplus_partitions(group):
    """A member that loses partitions has at most its share, and no new ones."""
    members, topics = group
    assignment = assign_sticky(members, topics)
    share = sum(map(len, topics.values())) // len(members)
    owners = valid_owners(members, topics)
    for each in members:
        had = {tp for tp, owner in owners.items() if owner is each}
        has = set(assignment[each.member_id])
        if had - has:
            assert has <= had
            assert len(has) >= share


@given(group=groups(racks=False))
def test_a_balanced_group_keeps_everything(group):
    members, topics = group
    settled = owning(members, assign_sticky(members, topics), 5)
    expected = {each.member_id: set(each.owned) for each in settled}
    for assign in (assign_sticky, assign_cooperative_sticky):
        assert as_sets(assign(settled, topics)) == expected


@given(group=groups(alike=True))
def test_members_with_equal_subscriptions_keep_everything_despite_racks(group):
    members, topics = group
    once = owning(members, assign_sticky(members, topics), 5)
    twice = owning(members, assign_sticky(once, topics), 6)
    assert sizes(twice) == sizes(owning(twice, assign_sticky(twice, topics), 7))
    for each in twice:
        near = {tp for tp in each.owned if each.rack in topics[tp.topic][tp.partition]}
        assert near <= set(assign_sticky(twice, topics)[each.member_id])


@given(group=groups(racks=False, owned=False))
def test_only_the_partitions_of_a_leaving_member_move(group):
    members, topics = group
    settled = owning(members, assign_sticky(members, topics), 5)
    for index in range(len(settled)):
        left = settled[:index] + settled[index + 1 :]
        if left and len({each.topics for each in left}) == 1:
            assignment = assign_sticky(left, topics)
            for each in left:
                assert set(each.owned) <= set(assignment[each.member_id])


def as_sets(assignment):
    return {member_id: set(found) for member_id, found in assignment.items()}


def sizes(members):
    return {each.member_id: len(each.owned) for each in members}


# --- two rounds (KIP-429) ------------------------------------------------------------------------


@given(group=groups())
def test_no_member_gets_a_partition_that_another_still_owns(group):
    members, topics = group
    assignment = assign_cooperative_sticky(members, topics)
    claimed, owners = claimants(members), valid_owners(members, topics)
    for member_id, found in assignment.items():
        for tp in found:
            rightful = tp in owners and owners[tp].member_id == member_id
            assert rightful or not claimed.get(tp), f"{member_id} gets {tp}"


@given(group=groups())
def test_two_rounds_give_the_whole_assignment(group):
    members, topics = group
    assignor = CooperativeStickyAssignor()
    target = assign_sticky(members, topics)
    for generation in (4, 5, 6):
        members = owning(members, assignor._assign(members, topics), generation)
        if generation > 4:
            assert {each.member_id: set(each.owned) for each in members} == as_sets(target)


@given(group=groups(owned=False))
def test_a_group_without_owners_needs_one_round(group):
    members, topics = group
    assert assign_cooperative_sticky(members, topics) == assign_sticky(members, topics)


# --- racks (KIP-881) -----------------------------------------------------------------------------


@pytest.mark.parametrize("assign", ALL)
@given(group=groups())
def test_racks_without_members_or_replicas_change_nothing(assign, group):
    members, topics = group
    nowhere = {name: dict.fromkeys(each, frozenset()) for name, each in topics.items()}
    everywhere = {name: dict.fromkeys(each, frozenset("xyz")) for name, each in topics.items()}
    homeless = [replace(each, rack="") for each in members]
    expected = assign(homeless, nowhere)
    assert assign(members, nowhere) == expected
    assert assign(homeless, topics) == expected
    assert assign(members, everywhere) == expected


@pytest.mark.parametrize("assign", [assign_range, assign_sticky])
@given(st.data())
def test_all_members_get_partitions_of_their_racks_if_balanced(assign, data):
    """As many partitions in each rack as its members must get."""
    racks = ("x", "y", "z")[: data.draw(st.integers(1, 3))]
    each, share = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    members = [
        Member(f"m{number}", frozenset({"t"}), rack=rack)
        for number, rack in enumerate(data.draw(st.permutations(racks * each)))
    ]
    replicas = data.draw(st.permutations(racks * each * share))
    topics = {"t": {number: frozenset({rack}) for number, rack in enumerate(replicas)}}
    assignment = assign(members, topics)
    for member in members:
        nearby = [topics[tp.topic][tp.partition] for tp in assignment[member.member_id]]
        assert nearby == [frozenset({member.rack})] * share


@given(group=groups(owned=False))
def test_generations_without_partitions_do_not_matter(group):
    members, topics = group
    fresh = [replace(each, generation=NO_GENERATION) for each in members]
    assert assign_sticky(members, topics) == assign_sticky(fresh, topics)
