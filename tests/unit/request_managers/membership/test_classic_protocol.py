"""Membership in a classic group, step by step."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import errors

from tandem_kafka.errors import AuthenticationError
from tandem_kafka.events.background import PartitionsAssigned, PartitionsLost, PartitionsRevoked
from tandem_kafka.network.request import Purpose, ToNode
from tandem_kafka.request_managers.membership.classic.states import State
from tandem_kafka.request_managers.reactions import MEMBERSHIP, Reaction
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
    synced_response,
)
from tests.unit.request_managers.world import (
    NODE_1,
    World,
    coordinator_response,
    has_error_code,
)

HELD = frozenset(BOTH)


def kind(unsent: Any) -> type[Any]:
    return type(unsent.message)


# --- joining -----------------------------------------------------------------------------------


@pytest.mark.behaviour(43)
def test_nothing_is_sent_before_the_application_polls() -> None:
    member = Member()
    assert member.quiet(after_ms=10_000)
    member.application_polls()
    assert kind(member.send()) is JoinGroupRequest


def test_join_sync_assign() -> None:
    member = Member(group_instance_id=None, max_poll_interval_ms=60_000)
    member.application_polls()
    join = member.send()
    assert join.destination == ToNode(NODE_1, Purpose.GROUP)
    assert [p.name for p in join.message.protocols] == ["range", "roundrobin"]
    assert join.message.rebalance_timeout_ms == 60_000
    assert join.timeout_ms > 60_000
    assert member.quiet(after_ms=1_000)
    member.respond(join, joined_response())
    assert member.state is State.COMPLETING_REBALANCE
    sync = member.send()
    assert kind(sync) is SyncGroupRequest
    assert (sync.message.generation_id, sync.message.member_id) == (4, MEMBER)
    member.respond(sync, synced_response())
    assert member.take_event() == PartitionsAssigned(HELD, HELD)
    assert member.world.identity.metadata.generation_id == 4


def test_the_leader_computes_the_assignment() -> None:
    member = Member()
    member.application_polls()
    join = member.send()
    member.respond(join, leading_response(join, MEMBER, "member-2"))
    sync = member.send()
    assert {a.member_id for a in sync.message.assignments} == {MEMBER, "member-2"}


def test_only_joining_may_take_as_long_as_the_slowest_member() -> None:
    member = Member(request_timeout_ms=20_000, max_poll_interval_ms=300_000)
    member.application_polls()
    join = member.send()
    assert join.timeout_ms == 305_000
    member.respond(join, joined_response())
    assert member.send().timeout_ms == 20_000


@pytest.mark.behaviour(98)
@pytest.mark.parametrize(("error", "reaction"), MEMBERSHIP.items())
@pytest.mark.parametrize("step", ["join", "sync"])
def test_reactions_to_join_errors(step: str, error: type[Exception], reaction: Reaction) -> None:
    member = Member()
    member.application_polls()
    unsent = member.send()
    if step == "sync":
        member.respond(unsent, joined_response())
        unsent = member.send()
    if not has_error_code(error):
        unsent.future.fail(error("lost"))
    else:
        failure = joined_response(error, "") if step == "join" else synced_response(error=error)
        member.respond(unsent, failure)
    world = member.world
    if reaction is Reaction.FAIL:
        assert [type(each) for each in world.raised()] == [error]
        for _ in range(2):
            assert isinstance(world.identity.fatal, error)  # 94: every poll raises
            assert member.quiet(after_ms=10_000)
            member.application_polls()
        member.leave()  # 95: unsubscribing and subscribing again fixes it
        while world.poll(member.manager).unsent:
            pass
        member.application_polls()
        assert kind(member.send()) is JoinGroupRequest
        return
    assert [type(each) for each in world.raised()] == [error] * (reaction is Reaction.RAISE)
    assert world.group.coordinator.known is (reaction is not Reaction.REDISCOVER)
    if reaction is Reaction.REDISCOVER:
        world.respond(world.sent(world.group.coordinator), coordinator_response(NODE_1))
    _, again = world.wait_and_send(member.manager)
    assert kind(again) is JoinGroupRequest
    if reaction is Reaction.LOST:
        # Only the generation is illegal: the coordinator still knows the member id.
        known = step == "sync" and error is errors.IllegalGenerationError
        assert again.message.member_id == ("member-1" if known else "")


def test_a_thousand_failed_joins_back_off() -> None:
    member = Member(retry_backoff_ms=0)
    began_ms = member.world.now_ms
    member.application_polls()
    for _ in range(1_000):
        _, unsent = member.world.wait_and_send(member.manager)
        member.respond(unsent, joined_response(errors.CoordinatorLoadInProgressError))
        member.application_polls()
    assert member.world.now_ms - began_ms > 100_000


def test_without_a_coordinator_it_waits() -> None:
    world = World(group_id="readers")
    world.subscription.subscribe(["orders"])
    world.application_polls()
    assert not world.poll(world.group.membership).unsent
    assert world.poll(world.group.coordinator).unsent


# --- being a member ----------------------------------------------------------------------------


def test_heartbeats_begin_after_an_interval() -> None:
    member = Member(heartbeat_interval_ms=2_000, session_timeout_ms=9_000)
    member.join()
    assert member.world.poll(member.manager).wait_ms == 2_000
    beat = member.send(after_ms=2_000)
    assert kind(beat) is HeartbeatRequest
    assert (beat.message.generation_id, beat.message.member_id) == (4, MEMBER)
    assert beat.timeout_ms == 9_000, "after the session, it is of no use"
    assert member.quiet(after_ms=2_500), "64: one heartbeat in flight"
    member.respond(beat, heartbeat_response())
    assert kind(member.send()) is HeartbeatRequest


@pytest.mark.behaviour(98)
@pytest.mark.parametrize(("error", "reaction"), MEMBERSHIP.items())
def test_reactions_of_a_heartbeat(error: type[Exception], reaction: Reaction) -> None:
    member = Member()
    member.join()
    beat = member.send(after_ms=3_000)
    if not has_error_code(error):
        beat.future.fail(error("lost"))
    else:
        member.respond(beat, heartbeat_response(error))
    world = member.world
    if reaction is Reaction.FAIL:
        assert [type(each) for each in world.raised()] == [error]
        assert member.quiet(after_ms=60_000)
    elif reaction is Reaction.LOST:
        assert member.take_event() == PartitionsLost(HELD)
        assert member.quiet(after_ms=1_000), "85: silent until the listener is done"
        member.callback_done(ValueError("84: it still rejoins"))
        assert world.subscription.assigned == {}
        assert kind(member.send()) is JoinGroupRequest
    elif reaction is Reaction.REJOIN:
        world.poll(member.manager)
        assert member.take_event() == PartitionsRevoked(HELD)
    else:
        assert member.state is State.STABLE
        assert world.group.coordinator.known is (reaction is not Reaction.REDISCOVER)
        if reaction is Reaction.REDISCOVER:
            world.respond(world.sent(world.group.coordinator), coordinator_response(NODE_1))
        waited_ms, again = world.wait_and_send(member.manager)
        assert kind(again) is HeartbeatRequest
        assert waited_ms <= 120


@pytest.mark.behaviour(76)
def test_a_listener_that_raises_is_called_again_by_the_next_poll() -> None:
    member = Member()
    member.join()
    member.manager.enforce_rebalance("because")
    member.world.poll(member.manager)
    first = member.take_numbered_event()
    member.callback_done(ValueError("no"))
    assert member.take_numbered_event() is None
    assert set(member.world.subscription.assigned) == HELD
    member.application_polls()
    assert member.take_numbered_event() == first


@pytest.mark.behaviour(44)
def test_a_changed_subscription_rejoins() -> None:
    member = Member()
    member.join()
    member.world.subscription.subscribe(["orders", "more"])
    member.world.poll(member.manager)
    assert member.take_event() == PartitionsRevoked(HELD)
    member.callback_done()
    join = member.send()
    assert b"more" in bytes(join.message.protocols[0].metadata)


@pytest.mark.behaviour(86)
def test_a_member_that_does_not_poll_leaves_the_group() -> None:
    member = Member(max_poll_interval_ms=10_000)
    member.join()
    leave = None
    while leave is None:
        _, unsent = member.world.wait_and_send(member.manager)
        if kind(unsent) is LeaveGroupRequest:
            leave = unsent
        else:
            member.respond(unsent, heartbeat_response())
    assert 11_000 <= member.world.now_ms <= 1_000 + 10_000 + 1_000
    assert member.take_event() == PartitionsLost(HELD)
    assert member.quiet(after_ms=60_000)
    member.callback_done()
    assert member.quiet(after_ms=60_000), "not before the application polls"
    member.application_polls()
    assert kind(member.send()) is JoinGroupRequest


# --- leaving -----------------------------------------------------------------------------------


def test_leaving_without_a_membership_is_done_immediately() -> None:
    assert Member().leave().done


@pytest.mark.behaviour(107)
def test_leave_is_sent_also_by_close() -> None:
    member = Member()
    member.join()
    member.leave()
    (unsent,) = member.manager.close(member.world.now_ms).unsent
    assert kind(unsent) is LeaveGroupRequest


@pytest.mark.behaviour(175)
def test_a_rejected_login_is_raised_and_retried() -> None:
    member = Member()
    member.application_polls()
    member.send().future.fail(AuthenticationError("no"))
    assert [type(each) for each in member.world.raised()] == [AuthenticationError]
    _, again = member.world.wait_and_send(member.manager)
    assert kind(again) is JoinGroupRequest
