"""Rebalances of a classic member: eager and cooperative, leadership and errors."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from kafka import errors
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from tandem_kafka.events.application import CommitSync
from tandem_kafka.events.background import PartitionsAssigned, PartitionsLost, PartitionsRevoked
from tandem_kafka.network.request import Purpose, ToNode, UnsentRequest
from tandem_kafka.request_managers.membership.classic.states import State
from tandem_kafka.request_managers.membership.member import APART_MS
from tandem_kafka.types import LeaveOperation, OffsetAndMetadata, TopicPartition
from tandem_kafka.wire.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from tests.unit.request_managers.membership.member import (
    BOTH,
    MEMBER,
    Member,
    heartbeat_response,
    joined_response,
    leading_response,
    left_response,
    synced_response,
)
from tests.unit.request_managers.world import NODE_1, TP, TP1

HELD = frozenset(BOTH)
COOPERATIVE = [CooperativeStickyAssignor]


def kind(unsent: UnsentRequest) -> type[Any]:
    return type(unsent.message)


def first_metadata(join: UnsentRequest) -> Any:
    """The metadata for the first assignor in a JoinGroup."""
    return ConsumerProtocolSubscription.decode(bytes(join.message.protocols[0].metadata))


def owned(join: UnsentRequest) -> list[tuple[str, int]]:
    return [
        (each.topic, n) for each in first_metadata(join).owned_partitions for n in each.partitions
    ]


def sent_after_revocation(member: Member, wanted: type[Any]) -> UnsentRequest:
    """Releases everything; returns the JoinGroup, or the SyncGroup after it."""
    member.take_numbered_event()
    member.callback_done()
    unsent = member.send()
    if wanted is SyncGroupRequest:
        member.respond(unsent, joined_response())
        unsent = member.send()
    assert kind(unsent) is wanted
    return unsent


def rebalance(member: Member) -> None:
    """Respond to a heartbeat with REBALANCE_IN_PROGRESS."""
    beat = member.send(after_ms=3_000)
    member.respond(beat, heartbeat_response(errors.RebalanceInProgressError))


# --- joining -----------------------------------------------------------------------------------


def test_kip_394_the_assigned_member_id_is_used_immediately_and_kept() -> None:
    member = Member()
    member.application_polls()
    first = member.send()
    assert first.message.member_id == ""
    member.respond(first, joined_response(errors.MemberIdRequiredError, "given"))
    assert member.world.identity.metadata.generation_id == -1
    second = member.send()
    assert second.message.member_id == "given"
    member.respond(second, joined_response(member_id="given"))
    assert member.send().message.member_id == "given"
    assert member.world.identity.metadata.member_id == "given"


def test_members_without_a_common_assignor_get_an_explanation() -> None:
    member = Member(partition_assignment_strategy=[RangePartitionAssignor])
    member.application_polls()
    member.respond(member.send(), joined_response(errors.InconsistentGroupProtocolError, ""))
    (error,) = member.world.raised()
    assert isinstance(error, errors.InconsistentGroupProtocolError)
    assert "'readers' has no assignor in common" in str(error)
    assert "supports range" in str(error)


def test_the_leader_waits_for_topics_it_does_not_know() -> None:
    member = Member()
    member.application_polls()
    join = member.send()
    member.world.managers.metadata._response_topics = frozenset()
    member.respond(join, leading_response(join))
    (beat,) = member.world.poll(member.manager).unsent
    assert kind(beat) is HeartbeatRequest
    member.respond(beat, heartbeat_response())
    result = member.world.poll(member.manager)
    assert not result.unsent
    assert result.wait_ms <= 5_000
    assert "orders" in member.world.managers.metadata._watched
    member.world.managers.metadata._response_topics = frozenset({"orders"})
    sync = member.send()
    assert kind(sync) is SyncGroupRequest
    assert [a.member_id for a in sync.message.assignments] == [MEMBER]


def test_the_leader_does_not_wait_forever() -> None:
    member = Member()
    member.application_polls()
    join = member.send()
    member.world.managers.metadata._response_topics = frozenset()
    member.respond(join, leading_response(join))
    began_ms = member.world.now_ms
    _, unsent = member.world.wait_and_send(member.manager)
    while kind(unsent) is HeartbeatRequest:
        member.respond(unsent, heartbeat_response())
        _, unsent = member.world.wait_and_send(member.manager)
    assert kind(unsent) is SyncGroupRequest
    assert member.world.now_ms - began_ms == 5_000


@pytest.mark.behaviour(57)
@pytest.mark.parametrize("skips", [False, True])
def test_the_leader_rebalances_when_a_topic_grows(skips: bool) -> None:
    """Also if it need not assign (KIP-814)."""
    member = Member()
    member.application_polls()
    join = member.send()
    response = leading_response(join)
    response.skip_assignment = skips
    member.respond(join, response)
    sync = member.send()
    assert bool(sync.message.assignments) is not skips
    member.respond(sync, synced_response())
    member.apply()
    member.callback_done()
    assert member.quiet()
    member.world.lead(1, 1, 2, 2)
    member.world.poll(member.manager)
    assert member.take_event() == PartitionsRevoked(HELD)


@pytest.mark.parametrize("step", [JoinGroupRequest, SyncGroupRequest])
def test_a_stale_response_is_dropped(step: type[Any]) -> None:
    member = Member()
    member.application_polls()
    old = member.send()
    response: Any = joined_response(member_id="old")
    if step is SyncGroupRequest:
        member.respond(old, joined_response())
        old, response = member.send(), synced_response()
    member.leave()
    while member.world.poll(member.manager).unsent:
        pass
    member.application_polls()
    new = member.send()
    member.respond(old, response)
    assert member.state is State.PREPARING_REBALANCE
    assert member.take_numbered_event() is None
    member.respond(new, joined_response(member_id="new"))
    assert member.world.identity.metadata.member_id == "new"


def test_a_heartbeat_of_an_older_generation_is_dropped() -> None:
    member = Member()
    member.join()
    old = member.send(after_ms=3_000)
    member.manager.enforce_rebalance("because")
    member.world.poll(member.manager)
    member.take_numbered_event()
    member.callback_done()
    response = joined_response()
    response.generation_id = 5
    member.respond(member.send(), response)
    member.respond(old, heartbeat_response(errors.UnknownMemberIdError))
    assert member.take_numbered_event() is None
    assert member.state is State.COMPLETING_REBALANCE


def test_a_join_has_the_reason_and_the_assignors_metadata() -> None:
    member = Member(partition_assignment_strategy=[StickyPartitionAssignor])
    member.application_polls()
    joined, synced = joined_response(), synced_response()
    joined.protocol_name = synced.protocol_name = StickyPartitionAssignor.name
    member.respond(member.send(), joined)
    member.respond(member.send(), synced)
    member.apply((TP, TP1))
    member.callback_done()
    member.manager.enforce_rebalance("new machine")
    member.world.poll(member.manager)
    member.take_numbered_event()
    member.callback_done()
    join = member.send()
    assert join.message.reason == "new machine"
    said = StickyPartitionAssignor.parse_member_metadata(first_metadata(join))
    assert {tuple(tp) for tp in said.partitions} == {tuple(tp) for tp in HELD}


# --- eager -------------------------------------------------------------------------------------


@pytest.mark.behaviour(71)
def test_eager_members_release_everything_before_joining() -> None:
    member = Member()
    member.join()
    rebalance(member)
    _, unsent = member.world.wait_and_send(member.manager)
    assert kind(unsent) is HeartbeatRequest, "88: a slow listener keeps the membership"
    assert all(s.pending_revocation for s in member.world.subscription.assigned.values())
    assert member.take_event() == PartitionsRevoked(HELD)
    member.callback_done()
    assert member.world.subscription.assigned == {}
    join = member.send()
    assert kind(join) is JoinGroupRequest
    assert owned(join) == []
    member.respond(join, joined_response())
    member.respond(member.send(), synced_response((TP,)))
    assert member.take_event() == PartitionsAssigned(frozenset({TP}), frozenset({TP}))


@pytest.mark.behaviour(67)
def test_the_listener_is_called_for_an_empty_assignment_too() -> None:
    member = Member()
    member.application_polls()
    member.respond(member.send(), joined_response())
    member.respond(member.send(), synced_response(()))
    assert member.take_event() == PartitionsAssigned(frozenset(), frozenset())


# --- cooperative -------------------------------------------------------------------------------


def test_cooperative_members_release_nothing_before_joining() -> None:
    member = Member(partition_assignment_strategy=COOPERATIVE)
    member.join()
    rebalance(member)
    join = member.send()
    assert kind(join) is JoinGroupRequest
    assert member.take_numbered_event() is None
    assert owned(join) == [("orders", 0), ("orders", 1)]
    assert first_metadata(join).generation_id == 4
    assert not any(s.pending_revocation for s in member.world.subscription.assigned.values())


def test_cooperative_members_release_revoked_partitions_and_rejoin() -> None:
    member = Member(partition_assignment_strategy=COOPERATIVE)
    member.join()
    rebalance(member)
    kept = member.world.subscription.assigned[TP]
    member.respond(member.send(), joined_response())
    member.respond(member.send(), synced_response((TP,)))
    assert member.take_event() == PartitionsRevoked(frozenset({TP1}))
    assert not kept.pending_revocation
    assert member.quiet(), "the listener comes first"
    member.callback_done()
    assert member.take_event() == PartitionsAssigned(frozenset({TP}), frozenset())
    member.callback_done()
    again = member.send()
    assert kind(again) is JoinGroupRequest
    assert owned(again) == [("orders", 0)]
    assert member.world.subscription.assigned[TP] is kept


def test_cooperative_members_keep_the_order_of_partitions() -> None:
    """The order of a set differs between runs of Python."""
    member = Member(partition_assignment_strategy=COOPERATIVE)
    partitions = tuple(TopicPartition("orders", number) for number in range(12))
    member.join(partitions)
    rebalance(member)
    member.respond(member.send(), joined_response())
    member.respond(member.send(), synced_response(partitions[:10]))
    member.take_numbered_event()
    member.callback_done()
    assert tuple(member.world.subscription.assigned) == partitions[:10]


def test_cooperative_members_release_unsubscribed_partitions_first() -> None:
    more = TopicPartition("more", 0)
    member = Member(partition_assignment_strategy=COOPERATIVE)
    member.world.subscription.subscribe(["orders", "more"])
    member.join()
    member.world.subscription.set_assigned([TP, TP1, more])
    member.world.subscription.subscribe(["orders"])
    member.world.poll(member.manager)
    assert member.take_event() == PartitionsRevoked(frozenset({more}))
    member.callback_done()
    assert owned(member.send()) == [("orders", 0), ("orders", 1)]


def test_cooperative_members_do_not_claim_lost_partitions() -> None:
    member = Member(partition_assignment_strategy=COOPERATIVE)
    member.join()
    member.respond(member.send(after_ms=3_000), heartbeat_response(errors.UnknownMemberIdError))
    assert member.take_event() == PartitionsLost(HELD)
    member.callback_done()
    join = member.send()
    assert owned(join) == []
    assert first_metadata(join).generation_id == -1
    assert not first_metadata(join).user_data


def test_one_eager_assignor_makes_it_eager() -> None:
    member = Member(partition_assignment_strategy=[RangePartitionAssignor, *COOPERATIVE])
    member.join()
    rebalance(member)
    member.world.poll(member.manager)
    assert member.take_event() == PartitionsRevoked(HELD)


@pytest.mark.parametrize("in_flight", [JoinGroupRequest, SyncGroupRequest])
@pytest.mark.parametrize(
    "error", [errors.RebalanceInProgressError, errors.CoordinatorLoadInProgressError]
)
def test_a_heartbeat_response_during_a_rebalance_repeats_nothing(
    in_flight: type[Any], error: type[Exception]
) -> None:
    member = Member()
    member.join()
    rebalance(member)
    _, beat = member.world.wait_and_send(member.manager)
    assert kind(beat) is HeartbeatRequest, "the listener is slow"
    unsent = sent_after_revocation(member, in_flight)
    member.respond(beat, heartbeat_response(error))
    assert member.quiet(after_ms=500)
    response: Any = joined_response() if in_flight is JoinGroupRequest else synced_response()
    member.respond(unsent, response)
    expected = State.COMPLETING_REBALANCE if in_flight is JoinGroupRequest else State.STABLE
    assert member.state is expected


@pytest.mark.parametrize("error", [errors.UnknownMemberIdError, errors.IllegalGenerationError])
def test_a_heartbeat_response_during_a_rebalance_may_end_the_membership(
    error: type[Exception],
) -> None:
    member = Member(partition_assignment_strategy=COOPERATIVE)
    member.join()
    beat = member.send(after_ms=3_000)
    member.manager.enforce_rebalance("why not")
    abandoned = member.send()
    assert kind(abandoned) is JoinGroupRequest
    member.respond(beat, heartbeat_response(error))
    assert member.take_event() == PartitionsLost(HELD)
    member.callback_done()
    known = member.send().message.member_id == MEMBER
    assert known is (error is errors.IllegalGenerationError)
    member.respond(abandoned, joined_response())
    assert member.quiet() is known, "an id is given back unless it is still the member's"


# --- leaving -----------------------------------------------------------------------------------


@pytest.mark.behaviour(108, 109)
@pytest.mark.parametrize(
    ("instance", "operation", "tells"),
    [
        (None, LeaveOperation.DEFAULT, True),
        (None, LeaveOperation.LEAVE, True),
        (None, LeaveOperation.REMAIN, False),
        ("one", LeaveOperation.DEFAULT, False),
        ("one", LeaveOperation.LEAVE, True),
        ("one", LeaveOperation.REMAIN, False),
    ],
)
def test_when_leave_group_is_sent(
    instance: str | None, operation: LeaveOperation, tells: bool
) -> None:
    member = Member(group_instance_id=instance)
    member.join()
    future = member.leave(operation)
    assert future.done is not tells
    if not tells:
        assert member.quiet(after_ms=60_000)
        return
    unsent = member.send()
    (identity,) = unsent.message.members
    assert (identity.member_id, identity.group_instance_id) == (MEMBER, instance)
    assert identity.reason == "enough"
    assert (getattr(unsent.message, "_min_version", 0) or 0) == (3 if instance else 0)
    member.respond(unsent, left_response())
    assert future.done
    assert member.world.identity.metadata.generation_id == -1
    assert member.quiet(after_ms=60_000)


@pytest.mark.parametrize("parked", [JoinGroupRequest, SyncGroupRequest])
@pytest.mark.parametrize("early", [False, True])
def test_leaving_does_not_wait_for_a_join(early: bool, parked: type[Any]) -> None:
    member = Member()
    member.join()
    rebalance(member)
    member.world.poll(member.manager)
    sent_after_revocation(member, parked)
    if early:
        member.manager.prepare_to_leave()  # like unsubscribe() and close()
    member.leave()
    unsent = member.send()
    assert kind(unsent) is LeaveGroupRequest
    assert unsent.destination == ToNode(NODE_1, Purpose.MAIN)


@pytest.mark.parametrize("leaving", [False, True])
def test_a_commit_does_not_wait_for_a_join(leaving: bool) -> None:
    member = Member(partition_assignment_strategy=[CooperativeStickyAssignor])
    member.join()
    world = member.world
    rebalance(member)
    assert kind(member.send()) is JoinGroupRequest
    if leaving:
        member.manager.prepare_to_leave()
    offsets = {TP: OffsetAndMetadata(5, "", 3)}
    world.group.commit.commit(CommitSync(offsets=offsets))
    assert world.sent(world.group.commit).destination == ToNode(NODE_1, Purpose.MAIN)


def test_heartbeats_continue_while_the_listener_runs_before_leaving() -> None:
    member = Member()
    member.join()
    member.manager.prepare_to_leave()
    beat = member.send(after_ms=3_000)
    assert kind(beat) is HeartbeatRequest
    member.respond(beat, heartbeat_response(errors.RebalanceInProgressError))
    assert member.state is State.LEAVING
    assert member.take_numbered_event() is None
    member.leave()
    assert kind(member.send()) is LeaveGroupRequest


def test_a_member_removed_while_leaving_reports_nothing() -> None:
    member = Member()
    member.join()
    member.manager.prepare_to_leave()
    member.respond(member.send(after_ms=3_000), heartbeat_response(errors.UnknownMemberIdError))
    assert member.take_numbered_event() is None
    future = member.leave()
    member.respond(member.send(), left_response())
    assert future.done


# --- member ids that come late ------------------------------------------------------------------


@pytest.mark.parametrize("error", [None, errors.MemberIdRequiredError])
@pytest.mark.parametrize("joins_again", [False, True])
def test_a_member_id_that_comes_after_the_end_of_the_membership_is_given_back(
    joins_again: bool, error: type[Exception] | None
) -> None:
    member = Member()
    member.application_polls()
    first = member.send()
    member.leave()
    if joins_again:
        member.application_polls()
        assert kind(member.send()) is JoinGroupRequest
    member.respond(first, joined_response(error, "late"))
    leave = member.send()
    assert kind(leave) is LeaveGroupRequest
    assert [each.member_id for each in leave.message.members] == ["late"]
    assert member.world.identity.metadata.member_id == ""
    assert member.quiet()


def test_a_late_error_of_join_group_gives_nothing_back() -> None:
    member = Member()
    member.application_polls()
    first = member.send()
    member.leave()
    member.respond(first, joined_response(errors.CoordinatorLoadInProgressError, "late"))
    assert member.quiet()


@pytest.mark.behaviour(108)
def test_the_id_of_a_static_member_is_not_given_back() -> None:
    member = Member(group_instance_id="one")
    member.application_polls()
    first = member.send()
    member.leave()
    member.respond(first, joined_response(member_id="late"))
    assert member.quiet()


# --- errors that do not end ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        errors.UnknownMemberIdError,
        errors.IllegalGenerationError,
        errors.MemberIdRequiredError,
        errors.RebalanceInProgressError,
    ],
)
@pytest.mark.parametrize("step", [JoinGroupRequest, SyncGroupRequest])
def test_an_error_that_stays_is_retried_once_without_a_backoff(
    step: type[Any], error: type[Exception]
) -> None:
    member = Member()
    pauses = []
    for _ in range(9):
        member.application_polls()
        pause_ms, unsent = member.world.wait_and_send(member.manager)
        pauses.append(pause_ms)
        if step is SyncGroupRequest:
            member.respond(unsent, joined_response())
            unsent = member.send()
            member.respond(unsent, synced_response((), error))
        else:
            member.respond(unsent, joined_response(error, "given"))
    free = 2 + (step is JoinGroupRequest and error is errors.MemberIdRequiredError)
    assert not any(pauses[:free])
    assert all(before < after for before, after in pairwise(pauses[free : free + 3]))
    assert min(pauses[6:]) >= 800
    member.application_polls()
    _, unsent = member.world.wait_and_send(member.manager)
    member.respond(unsent, joined_response())
    member.respond(member.send(), synced_response())
    member.apply()
    member.callback_done()
    member.respond(member.send(after_ms=APART_MS), heartbeat_response(error))
    if error in (errors.UnknownMemberIdError, errors.IllegalGenerationError):
        assert member.take_numbered_event() is not None
        member.callback_done()
    elif error is errors.RebalanceInProgressError:
        assert member.quiet()
        assert member.take_numbered_event() is not None
        member.callback_done()
    else:
        return
    member.application_polls()
    assert kind(member.send()) is JoinGroupRequest, "after a success, no backoff"
