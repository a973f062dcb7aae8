"""The states of classic groups by DescribeGroups, with both coordinators."""

from __future__ import annotations

import pytest

from tests.integration.describing import classic_description_of
from tests.integration.joining import name_of
from tests.integration.pairs import Pair, form_group
from tests.integration.raw_worlds import RawWorld
from tests.integration.subscriptions import subscription_metadata

NOT_FOUND = "GroupIdNotFoundError"


def state(raw: RawWorld, version: int = 6) -> tuple[str | None, str]:
    group = classic_description_of(raw.connect(), raw.group, version)
    return name_of(group.error_code), group.group_state


def members(raw: RawWorld) -> dict[str, tuple[str | None, bytes, bytes]]:
    """Return the instance id, metadata and assignment of each member."""
    group = classic_description_of(raw.connect(), raw.group).members
    return {
        each.member_id: (each.group_instance_id, each.member_metadata, each.member_assignment)
        for each in group
    }


def test_a_classic_group_goes_through_its_states(raw: RawWorld) -> None:
    assert state(raw) == (NOT_FOUND, "Dead")
    pair = Pair(raw)
    leader, follower, new_member = pair.leader, pair.follower, pair.new_members[0]
    assert state(raw) == (None, "Stable")
    group = classic_description_of(raw.connect(), raw.group)
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    assert members(raw) == {
        leader.member_id: (None, b"said", b"one"),
        follower.member_id: (None, b"said", b"two"),
    }
    pair.join_new(new_member)
    assert state(raw) == (None, "PreparingRebalance")
    group = classic_description_of(raw.connect(), raw.group)
    assert (group.protocol_type, group.protocol_data) == ("consumer", "")
    assert members(raw) == {
        leader.member_id: (None, b"", b"one"),
        follower.member_id: (None, b"", b"two"),
        new_member.member_id: (None, b"", b""),
    }
    pair.join_again(new_member)
    assert state(raw) == (None, "CompletingRebalance")
    assert {what for _, what, _ in members(raw).values()} == {b""}
    pair.sync_leader(3)
    assert state(raw) == (None, "Stable")
    assert members(raw)[new_member.member_id] == (None, b"said", b"")
    assert leader.leave(follower, new_member) == [None, None, None]
    assert state(raw) == (None, "Empty")


def test_a_static_member_is_described_with_its_instance_id(raw: RawWorld) -> None:
    static = raw.classic("one")
    form_group(static)
    assert members(raw) == {static.member_id: ("one", b"said", b"all")}


def test_a_pending_member_is_not_described(raw: RawWorld) -> None:
    idle = raw.classic()
    idle.send_join()
    assert name_of(idle.receive_join().error_code) == "MemberIdRequiredError"
    assert (state(raw), members(raw)) == ((None, "Empty"), {})


@pytest.mark.design("001", "Describe")
@pytest.mark.parametrize(("version", "error"), [(6, NOT_FOUND), (5, None)])
def test_a_kip_848_group_classic_description_of_is_dead(
    raw: RawWorld, version: int, error: str | None
) -> None:
    modern, classic = raw.modern(), raw.classic()
    assert modern.join().error is None
    classic.protocols = {"range": subscription_metadata([raw.topic])}
    assert classic.join().error_code == 0
    assert state(raw, version) == (error, "Dead")
    assert modern.beat(-1).error is None
    assert state(raw, version) == (None, "PreparingRebalance"), "the group has become classic"
    assert raw.error_and_state()[0] == NOT_FOUND
