"""Rules of document 001 for KIP-848 members, by their sections, with both coordinators.

More of them are in `test_group_heartbeats.py`; those about room in `test_coordinator_limits.py`.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.integration.heartbeating import HeartbeatResult, Owned, RawMember
from tests.integration.raw_worlds import RawWorld
from tests.integration.subscriptions import subscription_metadata

#: `group.consumer.session.timeout.ms` of the tests' broker.
SESSION_S = 6.0


def join_empty_group(member: RawMember) -> HeartbeatResult:
    """Join an empty group and acknowledge all four partitions."""
    response = member.join()
    assert (response.error, response.count) == (None, 4)
    assert member.beat(response.epoch, response.assigned).error is None
    return response


def unknown_member_of(group: RawWorld) -> dict[str, Any]:
    """Return the fields of a joining member, with a new member id each time."""
    return {
        "member_id": uuid.uuid4().hex,
        "member_epoch": 0,
        "rebalance_timeout_ms": 30_000,
        "subscribed_topic_names": [group.topic],
        "topic_partitions": [],
    }


# --- "ConsumerGroupHeartbeat": requests that make no sense -------------------------------------


@pytest.mark.design("001", "INVALID_REQUEST")
@pytest.mark.parametrize(
    "fields",
    [
        {"group_id": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"member_id": ""},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"subscribed_topic_names": None},
        {"member_epoch": -3},
        {"member_epoch": -2},
        {"member_epoch": -1, "member_id": ""},
        {"member_epoch": 5, "member_id": ""},
    ],
    ids=repr,
)
def test_required_fields_of_a_heartbeat_are_checked(raw: RawWorld, fields: dict[str, Any]) -> None:
    response = raw.modern().send_heartbeat(**{**unknown_member_of(raw), **fields})
    assert (response.error, response.member_id) == ("InvalidRequestError", None)
    assert raw.error_and_state()[0] == "GroupIdNotFoundError", "no member has joined"


@pytest.mark.design("001", "INVALID_REQUEST")
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"rebalance_timeout_ms": 0},
        {"subscribed_topic_names": []},
        {"subscribed_topic_names": None, "subscribed_topic_regex": ""},
        {"subscribed_topic_names": ["nowhere"]},
    ],
    ids=repr,
)
def test_unusual_heartbeats_are_accepted(raw: RawWorld, fields: dict[str, Any]) -> None:
    sent_fields = {**unknown_member_of(raw), **fields}
    response = raw.modern().send_heartbeat(**sent_fields)
    assert (response.error, response.member_id) == (None, sent_fields["member_id"])
    assert response.count == (4 if sent_fields["subscribed_topic_names"] == [raw.topic] else 0)


@pytest.mark.design("001", "Heartbeat handling 1")
def test_a_heartbeat_of_version_0_without_a_member_id_gets_one(raw: RawWorld) -> None:
    member = raw.modern()
    response = member.send_heartbeat(0, **{**unknown_member_of(raw), "member_id": ""})
    assert response.error is None
    assert response.member_id
    member.member_id = response.member_id
    assert member.beat(response.epoch, response.assigned).error is None


# --- "ConsumerGroupHeartbeat" 4 and 5: changes, reconciliation -----------------------------------


@pytest.mark.design("001", "Heartbeat handling 4, 5")
def test_a_changed_subscription_raises_the_epoch_and_is_reconciled(raw: RawWorld) -> None:
    first, second = raw.modern(), raw.modern()
    begun = join_empty_group(first)
    assert second.join().error is None
    response = first.beat_until(begun.epoch, lambda a: a.assigned is not None)
    moved = first.beat_until(begun.epoch, lambda a: a.epoch > begun.epoch, response.assigned)
    share = second.beat_until(begun.epoch, lambda a: a.count)
    assert second.beat(share.epoch, share.assigned).error is None
    second.topics = ["nowhere"]
    to_revoke = second.beat(share.epoch, share.assigned, full=True)
    assert (to_revoke.error, to_revoke.epoch) == (None, share.epoch)
    assert to_revoke.assigned == {}, "it must revoke first, and gets that target first"
    newer = first.beat_until(moved.epoch, lambda a: a.epoch > moved.epoch, response.assigned)
    assert newer.epoch == moved.epoch + 1
    assert newer.count in {0, 2}, "partitions of the second member are not assigned yet"
    given = second.beat_until(share.epoch, lambda a: a.epoch > share.epoch, {})
    assert given.epoch == newer.epoch
    assert first.beat_until(newer.epoch, lambda a: a.count).count == 4


@pytest.mark.design("001", "Heartbeat handling 4, 5")
def test_owned_partitions_that_were_never_assigned_are_ignored(raw: RawWorld) -> None:
    first, second = raw.modern(), raw.modern()
    begun = join_empty_group(first)
    assert begun.assigned is not None
    more: Owned = {**{topic_id: [0, 1, 2, 3, 77] for topic_id in begun.assigned}, uuid.uuid4(): [0]}
    response = first.beat(begun.epoch, more, full=True)
    assert (response.error, response.epoch, response.assigned) == (
        None,
        begun.epoch,
        begun.assigned,
    )
    joining = second.join()
    assert joining.count == 0
    lied = second.beat(joining.epoch, begun.assigned)
    assert (lied.error, lied.count) == (None, 0)
    response = first.beat_until(begun.epoch, lambda a: a.assigned is not None)
    assert response.count == 2


# --- session and rebalance timeouts --------------------------------------------------------------


@pytest.mark.design("001", "Static members")
def test_a_member_that_is_silent_for_its_session_timeout_is_removed(raw: RawWorld) -> None:
    """One wait for a dynamic member, for a static one that is away, and for a silent one."""
    stays, silent, away, back = (raw.modern(name) for name in (None, None, "one", "two"))
    begun = join_empty_group(stays)
    since_s = raw.now_s()
    responses = {each: each.join() for each in (silent, away, back)}
    assert {response.error for response in responses.values()} == {None}
    for each in (away, back):
        assert each.beat(-2).epoch == -2
    assert back.join().error is None
    epoch, owned = begun.epoch, begun.assigned

    def alone_again() -> bool:
        nonlocal epoch, owned
        response = stays.beat(epoch, owned)
        assert response.error is None, response
        if response.assigned is not None:
            owned = response.assigned
        epoch = response.epoch
        rejoin_response = back.beat(responses[back].epoch)
        if rejoin_response.error is None:
            responses[back] = rejoin_response
        return silent_is_removed()

    def silent_is_removed() -> bool:
        # An unknown epoch fences the member, and does not extend its session.
        return silent.beat(77).error == away.beat(77).error == "UnknownMemberIdError"

    raw.wait_until(alone_again)
    assert raw.lasted(since_s, SESSION_S)
    assert back.beat(77).error == "FencedMemberEpochError", "it was away, and is back"


@pytest.mark.design("001", "Heartbeat handling 4, 5")
def test_a_member_that_does_not_revoke_in_time_is_removed(raw: RawWorld) -> None:
    slow, second = raw.modern(), raw.modern()
    slow.rebalance_ms = 1_000
    begun = join_empty_group(slow)
    since_s = raw.now_s()
    assert second.join().error is None
    response = slow.beat_until(begun.epoch, lambda a: a.assigned is not None)
    assert (response.epoch, response.count) == (begun.epoch, 2)

    def gone() -> bool:
        response = slow.beat(begun.epoch, begun.assigned)  # it still has everything
        assert response.error in {None, "UnknownMemberIdError"}
        return response.error is not None

    raw.wait_until(gone)
    assert raw.now_s() - since_s >= slow.rebalance_ms / 1_000
    assert second.beat_until(begun.epoch, lambda a: a.count == 4).count == 4
    again = slow.join()
    assert again.error is None, "it can rejoin"


# --- LeaveGroup ----------------------------------------------------------------------------------


@pytest.mark.design("001", "Leaving and being removed")
def test_members_of_either_protocol_can_be_removed_by_leave_group(raw: RawWorld) -> None:
    modern, static, stays = raw.modern(), raw.modern("one"), raw.modern()
    assert {each.join().error for each in (modern, static, stays)} == {None}
    classic, named = raw.classic(), raw.classic("two")
    for each in (classic, named):
        each.protocols = {"range": subscription_metadata([raw.topic])}
        assert each.join().error_code == 0
    by_id, by_name, unknown_member, wrong = (
        raw.classic(name) for name in (None, "one", None, "two")
    )
    by_id.member_id, unknown_member.member_id = modern.member_id, "somebody"
    wrong.member_id = classic.member_id
    response = by_id.leave(by_name, unknown_member, wrong)
    assert response == [None, None, "UnknownMemberIdError", "FencedInstanceIdError"]
    assert modern.beat(77).error == static.beat(77).error == "UnknownMemberIdError"
    assert stays.beat(77).error == "FencedMemberEpochError", "it is in"
    two = raw.classic("two")
    assert classic.leave(two) == [None, None]
    assert classic.leave(two) == ["UnknownMemberIdError"] * 2
    assert raw.error_and_state()[0] is None


@pytest.mark.design("001", "Leaving and being removed")
def test_removing_the_last_kip_848_member_leaves_a_classic_group(raw: RawWorld) -> None:
    modern, classic, remover = raw.modern(), raw.classic(), raw.classic()
    assert modern.join().error is None
    classic.protocols = {"range": subscription_metadata([raw.topic])}
    generation = classic.join().generation_id
    remover.member_id = modern.member_id
    assert remover.leave() == [None]
    assert raw.error_and_state()[0] == "GroupIdNotFoundError"
    assert raw.classic_members() == {classic.member_id}
    assert classic.join().generation_id > generation


# --- "ConsumerGroupDescribe": states --------------------------------------------------------------


@pytest.mark.design("001", "Describe")
def test_a_described_group_goes_through_its_states(raw: RawWorld) -> None:
    first, second = raw.modern(), raw.modern()
    assert raw.error_and_state() == ("GroupIdNotFoundError", "")
    begun = join_empty_group(first)
    assert raw.error_and_state() == (None, "Stable")
    assert second.join().count == 0
    before, epochs = raw.error_and_state(), raw.epochs()
    if epochs[0] > epochs[1]:  # not if the machine stood still
        assert before == (None, "Assigning")
    response = first.beat_until(begun.epoch, lambda a: a.assigned is not None)
    assert raw.error_and_state() == (None, "Reconciling")
    assert raw.epochs() == (begun.epoch + 1, begun.epoch + 1)
    assert raw.assigned_to(first) == 4, "including partitions to revoke"
    moved = first.beat_until(begun.epoch, lambda a: a.epoch > begun.epoch, response.assigned)
    assert raw.assigned_to(first) == 2
    assert raw.error_and_state() == (None, "Reconciling"), "the other member has no response yet"
    assert second.beat_until(begun.epoch, lambda a: a.count, {}).epoch == moved.epoch
    assert raw.error_and_state() == (None, "Stable")
    for each in (first, second):
        assert each.beat(-1).error is None
    assert raw.error_and_state() == (None, "Empty")
    assert raw.epochs()[0] > moved.epoch, "a member that leaves raises the epoch"
