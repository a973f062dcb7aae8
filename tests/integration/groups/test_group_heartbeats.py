"""Responses to unusual heartbeats, of a real and a simulated coordinator.

The simulated group tests are only as good as the simulated coordinator.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.describing import description_of
from tests.integration.groups.group_scenes import World
from tests.integration.heartbeating import HeartbeatResult, Owned, RawMember
from tests.integration.raw_worlds import RawWorld

Join = Callable[..., RawMember]


@pytest.fixture
def member(raw: RawWorld) -> Join:
    """Makes members that have not spoken yet."""
    return raw.modern


def join_empty_group(member: RawMember) -> HeartbeatResult:
    """Join an empty group and acknowledge all four partitions."""
    response = member.join()
    assert (response.error, response.count) == (None, 4)
    assert member.beat(response.epoch, response.assigned).error is None
    return response


def part(owned: Owned | None, *numbers: int) -> Owned:
    assert owned is not None
    return {topic_id: list(numbers) for topic_id in owned}


def shrunk(response: HeartbeatResult) -> bool:
    return response.assigned is not None


@pytest.mark.design("001", "Heartbeat handling 3, edge case of a lost response")
def test_a_rejoin_gets_the_assignment_again_from_any_epoch(member: Join) -> None:
    """Its response may have been lost, or it may have lost its state: neither waits."""
    first, second = member(), member()
    begun = join_empty_group(first)
    again = first.join()
    assert (again.error, again.epoch, again.assigned) == (None, begun.epoch, begun.assigned)
    second.join()
    response = first.beat_until(begun.epoch, shrunk)
    assert response.count == 2
    moved = first.beat_until(begun.epoch, lambda a: a.epoch > begun.epoch, response.assigned)
    got = second.beat_until(begun.epoch, lambda a: a.count)
    # Even if its epoch is neither the last nor the previous one:
    for each, assigned in ((first, response.assigned), (second, got.assigned)):
        again = each.join()
        assert (again.error, again.epoch, again.assigned) == (None, moved.epoch, assigned)
        assert each.beat(moved.epoch).error is None


def test_a_rejoin_completes_pending_revocations(member: Join) -> None:
    first, second = member(), member()
    begun = join_empty_group(first)
    second.join()
    response = first.beat_until(begun.epoch, shrunk)
    assert (response.epoch, response.count) == (begun.epoch, 2)
    again = first.join()
    assert again.epoch > begun.epoch
    assert again.assigned == response.assigned
    assert second.beat_until(begun.epoch, lambda a: a.count).count == 2


@pytest.mark.design("001", "INVALID_REQUEST")
def test_a_joining_member_must_own_nothing(member: Join) -> None:
    first = member()
    begun = join_empty_group(first)
    assert first.join(begun.assigned).error == "InvalidRequestError"
    assert first.beat(begun.epoch).error is None


@pytest.mark.design("001", "Heartbeat handling 4, 5")
def test_a_member_keeps_exactly_the_partitions_that_it_reports(member: Join) -> None:
    """A partition that is not reported is free at once, even without a revocation."""
    first, second = member(), member()
    begun = join_empty_group(first)
    second.join()
    response = first.beat_until(begun.epoch, shrunk)
    still = first.beat(begun.epoch, begun.assigned, full=True)
    assert (still.error, still.epoch, still.assigned) == (
        None,
        begun.epoch,
        response.assigned,
    )
    assert second.beat_until(begun.epoch, lambda a: a.epoch > begun.epoch).count == 0
    assert first.beat(begun.epoch, {}, full=True).epoch > begun.epoch
    assert second.beat_until(begun.epoch + 1, lambda a: a.count).count == 2


@pytest.mark.design(
    "001", "Heartbeat handling 2, 3", "Heartbeat handling 3, edge case of a lost response"
)
def test_the_previous_epoch_is_accepted_with_a_full_heartbeat_without_extra_partitions(
    member: Join,
) -> None:
    first, second = member(), member()
    begun = join_empty_group(first)
    second.join()
    response = first.beat_until(begun.epoch, shrunk)
    moved = first.beat_until(begun.epoch, lambda a: a.epoch > begun.epoch, response.assigned)
    late = first.beat(begun.epoch, response.assigned, full=True)
    assert (late.error, late.epoch, late.assigned) == (None, moved.epoch, response.assigned)
    assert first.beat(begun.epoch, part(response.assigned), full=True).epoch == moved.epoch
    for rejected in (
        first.beat(begun.epoch, begun.assigned, full=True),
        first.beat(begun.epoch),
        first.beat(moved.epoch + 1),
    ):
        assert rejected.error == "FencedMemberEpochError"
    assert first.beat(moved.epoch).error is None, "a rejection has no effect"


@pytest.mark.design("001", "Heartbeat handling 2, 3")
def test_an_unknown_member_id_is_rejected(member: Join) -> None:
    join_empty_group(member())
    unknown_member = member()
    assert unknown_member.beat(3).error == "UnknownMemberIdError"
    assert unknown_member.beat(-1).error == "UnknownMemberIdError"
    assert member("nobody").beat(-2).error == "UnknownMemberIdError"


@pytest.mark.design("001", "Heartbeat handling 1")
def test_a_heartbeat_to_an_unknown_group_is_rejected(member: Join) -> None:
    unknown_member = member()
    assert unknown_member.beat(3).error == "GroupIdNotFoundError"
    assert unknown_member.beat(-1).error == "GroupIdNotFoundError"
    assert member("nobody").beat(-2).error == "GroupIdNotFoundError"


def test_an_empty_group_still_exists(member: Join) -> None:
    first = member()
    join_empty_group(first)
    assert first.beat(-1).epoch == -1
    assert first.beat(-1).error == "UnknownMemberIdError"
    assert member().beat(3).error == "UnknownMemberIdError"


def test_a_join_with_an_invalid_regex_creates_no_member(member: Join) -> None:
    rejected = member()
    response = rejected.beat(0, {}, full=True, regex="orders(")
    assert response.error == "InvalidRegularExpressionError"
    assert rejected.beat(1).error == "GroupIdNotFoundError"
    first = member()
    begun = join_empty_group(first)
    response = first.beat(begun.epoch, begun.assigned, full=True, regex="orders(")
    assert response.error == "InvalidRegularExpressionError"
    assert first.beat(begun.epoch).error is None, "it keeps its assignment"


@pytest.mark.design("001", "Leaving and being removed")
def test_a_member_that_left_joins_as_a_new_one(member: Join) -> None:
    first = member()
    begun = join_empty_group(first)
    assert first.beat(-1).epoch == -1
    assert first.beat(begun.epoch).error == "UnknownMemberIdError"
    again = first.join()
    assert again.error is None
    assert first.beat_until(again.epoch, lambda a: a.count) if not again.count else True


@pytest.mark.behaviour(93, 96)
@pytest.mark.design("001", "UNRELEASED_INSTANCE_ID", "Leaving and being removed")
def test_a_static_member_rejoins_only_after_it_left(member: Join) -> None:
    """A join is rejected even from the current member, for example after a lost response."""
    first, second = member("one"), member("one")
    begun = join_empty_group(first)
    assert first.join().error == "UnreleasedInstanceIdError"
    assert second.join().error == "UnreleasedInstanceIdError"
    for epoch in (-1, -2):
        assert second.beat(epoch).error == "FencedInstanceIdError"
    assert first.beat(begun.epoch).error is None
    assert first.beat(-2).epoch == -2
    assert first.beat(begun.epoch).error == "FencedMemberEpochError"
    again = first.join()
    assert (again.error, again.epoch, again.assigned) == (None, begun.epoch, begun.assigned)
    assert first.beat(-2).epoch == -2
    taken = second.join()
    assert (taken.error, taken.epoch, taken.assigned) == (None, begun.epoch, begun.assigned)
    assert first.join().error == "UnreleasedInstanceIdError"
    assert first.beat(begun.epoch).error == "FencedInstanceIdError"


@pytest.mark.behaviour(91)
@pytest.mark.design("001", "UNSUPPORTED_ASSIGNOR")
def test_an_unknown_assignor_is_rejected_for_any_member(member: Join) -> None:
    first = member()
    assert first.join(assignor="nobody").error == "UnsupportedAssignorError"
    assert first.join(assignor="").error == "UnsupportedAssignorError"
    assert first.beat(1).error == "GroupIdNotFoundError", "it has not joined"
    epoch = join_empty_group(first).epoch
    for wrong in (epoch, 77, -1):
        assert first.beat(wrong, assignor="nobody").error == "UnsupportedAssignorError"
    assert first.beat(epoch).error is None, "it has not left"
    assert member().beat(3, assignor="nobody").error == "UnsupportedAssignorError"


def settle(*members: RawMember) -> list[list[int]]:
    """Let members reconcile until each has partitions; returns their partitions."""
    owned: list[Owned] = [{} for _ in members]
    responses = [each.join() for each in members]
    for _ in range(200):
        for at, each in enumerate(members):
            assigned = responses[at].assigned
            if assigned is not None:
                owned[at] = assigned
            responses[at] = each.beat(responses[at].epoch, owned[at])
            assert responses[at].error is None, responses[at]
        shares = [sorted(n for part in each.values() for n in part) for each in owned]
        if all(shares) and sum(map(len, shares)) == 4:
            return shares
        members[0].pause(0.05)
    raise AssertionError(f"they do not settle: {responses}")


@pytest.mark.behaviour(91)
def test_range_follows_member_ids_and_needs_one_vote(
    member: Join,
) -> None:
    first, second = member(), member()
    first.member_id, second.member_id = f"b-{first.member_id}", f"a-{second.member_id}"
    join_empty_group(first)
    second.join(assignor="range")
    assert settle(first, second) == [[2, 3], [0, 1]]


@pytest.mark.behaviour(91)
def test_a_changed_assignor_takes_effect_with_the_next_target(member: Join) -> None:
    first, second = member(), member()
    first.member_id, second.member_id = f"b-{first.member_id}", f"a-{second.member_id}"
    join_empty_group(first)
    second.join()
    before = settle(first, second)
    assert list(map(len, before)) == [2, 2]
    epoch = first.join().epoch
    assert first.beat(epoch, assignor="range").error is None
    for _ in range(30):  # longer than the time between two assignments
        response = first.beat(epoch)
        assert (response.error, response.epoch, response.assigned) == (None, epoch, None)
        first.pause(0.05)
    third = member()
    third.member_id = f"c-{third.member_id}"
    assert settle(first, second, third) == [[2], [0, 1], [3]]


@pytest.mark.behaviour(97)
def test_the_rack_reaches_the_coordinator(world: World) -> None:
    """Its assignors may heed it; those of Kafka 4.3 do not yet."""
    partitions = world.topic(2)
    members = [
        world.consumer(group_protocol="consumer", client_rack=f"rack-{number}") for number in (1, 2)
    ]
    for each in members:
        each.subscribe([partitions[0].topic])
    world.settle(partitions, *members)
    described = description_of(world.brokers.connect(), world.name).members
    assert sorted(member.rack_id for member in described) == ["rack-1", "rack-2"]
