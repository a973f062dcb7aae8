"""ConsumerGroupHeartbeat: fields, timing and errors."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import errors

from tandem_kafka.errors import AuthenticationError, InvalidRegularExpressionError
from tandem_kafka.events.background import PartitionsLost
from tandem_kafka.network.request import Purpose, ToNode
from tandem_kafka.request_managers.membership.kip848.states import State
from tandem_kafka.request_managers.reactions import GROUP_HEARTBEAT, Reaction
from tests.unit.request_managers.membership.kip848_member import (
    HELD,
    INTERVAL_MS,
    ConsumerMember,
    beat_response,
    owned,
)
from tests.unit.request_managers.world import NODE_1, TOPIC_ID, World, coordinator_response

#: The fields that a heartbeat only has if necessary.
OPTIONAL = (
    "rack_id",
    "rebalance_timeout_ms",
    "subscribed_topic_names",
    "subscribed_topic_regex",
    "server_assignor",
    "topic_partitions",
)
UNSAID: dict[str, Any] = {**dict.fromkeys(OPTIONAL), "rebalance_timeout_ms": -1}


def optional_fields(message: Any) -> dict[str, Any]:
    return {name: getattr(message, name) for name in OPTIONAL}


# --- fields ------------------------------------------------------------------------------------


@pytest.mark.behaviour(61)
@pytest.mark.design("003", "JOINING, ASSIGNING")
def test_only_the_first_heartbeat_has_all_fields() -> None:
    member = ConsumerMember(
        "orders", "more", client_rack="b", group_remote_assignor="range", group_instance_id="one"
    )
    assert member.quiet(after_ms=60_000), "43: not before the application polls"
    member.polls()
    join = member.send()
    assert join.destination == ToNode(NODE_1, Purpose.GROUP)
    assert optional_fields(join.message) == {
        "rack_id": "b",
        "rebalance_timeout_ms": 300_000,
        "subscribed_topic_names": ["more", "orders"],
        "subscribed_topic_regex": "",
        "server_assignor": "range",
        "topic_partitions": [],
    }
    assert (join.message.member_epoch, join.message.instance_id) == (0, "one")
    assert len(join.message.member_id) == 22
    member.respond(join, beat_response(1, ()))
    member.respond(member.send(after_ms=INTERVAL_MS), beat_response(4))
    beat = member.send(after_ms=INTERVAL_MS)
    assert optional_fields(beat.message) == UNSAID
    assert beat.message.group_id == "readers"
    assert beat.message.member_id == join.message.member_id
    assert (beat.message.member_epoch, beat.message.instance_id) == (4, "one")


@pytest.mark.behaviour(60)
def test_every_member_has_a_unique_id_and_keeps_it() -> None:
    ids = {ConsumerMember(seed=seed).chosen.member_id for seed in range(20)}
    assert len(ids) == 20
    member = ConsumerMember()
    member.settle()
    before = member.chosen.member_id
    member.leaves()
    member.respond(member.send(), beat_response(-1))
    member.polls()
    assert member.send().message.member_id == before


@pytest.mark.behaviour(62)
@pytest.mark.design("001", "Heartbeat handling 3, edge case of a lost response")
@pytest.mark.parametrize(
    "error", [errors.KafkaConnectionError, errors.CoordinatorLoadInProgressError]
)
def test_after_a_failure_all_fields_are_sent_again(error: type[Exception]) -> None:
    member = ConsumerMember()
    lost = member.join()
    assert owned(lost) == {TOPIC_ID: [0, 1]}
    member.fail(lost, error)
    if not member.world.group.coordinator.known:
        found = coordinator_response(NODE_1)
        member.world.respond(member.world.sent(member.world.group.coordinator), found)
    _, again = member.world.wait_and_send(member.manager)
    assert owned(again) == {TOPIC_ID: [0, 1]}, "a lost acknowledgement is sent again"
    assert again.message.subscribed_topic_names == ["orders"]
    assert again.message.rebalance_timeout_ms == 300_000
    assert again.message.member_epoch == 1
    member.respond(again, beat_response(1))
    assert optional_fields(member.send(after_ms=INTERVAL_MS).message) == UNSAID


@pytest.mark.behaviour(63)
def test_a_regular_expression_is_cancelled() -> None:
    member = ConsumerMember()
    member.world.subscription.unsubscribe()
    member.world.subscription.subscribe_regex("o.*")
    member.polls()
    join = member.send()
    assert join.message.subscribed_topic_regex == "o.*"
    assert join.message._min_version == 1
    member.respond(join, beat_response(1, ()))
    member.respond(member.send(after_ms=INTERVAL_MS), beat_response(1))
    member.world.subscription.unsubscribe()
    member.world.subscription.subscribe(["orders"])
    member.manager.subscription_changed()
    changed = member.send()
    assert changed.message.subscribed_topic_regex == ""
    assert changed.message.subscribed_topic_names == ["orders"]


@pytest.mark.behaviour(44)
@pytest.mark.design("001", "Heartbeat handling 4, 5")
def test_a_changed_subscription_is_sent_immediately() -> None:
    member = ConsumerMember()
    member.settle()
    member.world.subscription.subscribe(["orders", "more"])
    member.manager.subscription_changed()
    assert member.send().message.subscribed_topic_names == ["more", "orders"]
    assert member.state is State.STABLE


# --- timing ------------------------------------------------------------------------------------


@pytest.mark.behaviour(64)
def test_only_the_final_heartbeat_may_be_second_in_flight() -> None:
    member = ConsumerMember()
    member.settle()
    member.send(after_ms=INTERVAL_MS)
    assert member.quiet(after_ms=20_000)
    member.leaves()
    assert member.send().message.member_epoch == -1


@pytest.mark.behaviour(65)
@pytest.mark.design("000", "Failure detection protocol 1")
@pytest.mark.design("001", "Broker Configurations")
def test_the_coordinator_sets_the_interval() -> None:
    member = ConsumerMember()
    member.settle()
    assert member.world.poll(member.manager).wait_ms == INTERVAL_MS
    member.respond(member.send(after_ms=INTERVAL_MS), beat_response(1, interval_ms=700))
    assert member.world.poll(member.manager).wait_ms == 700
    assert member.quiet(after_ms=699)
    member.respond(member.send(after_ms=1), beat_response(1, interval_ms=0))
    assert member.world.poll(member.manager).wait_ms >= 1


def test_without_a_coordinator_it_waits() -> None:
    world = World(group_id="readers", group_protocol="consumer")
    world.subscription.subscribe(["orders"])
    world.application_polls()
    assert not world.poll(world.group.membership).unsent
    assert world.poll(world.group.coordinator).unsent


# --- errors ------------------------------------------------------------------------------------


@pytest.mark.behaviour(98)
@pytest.mark.design("001", "Heartbeat handling 2, 3")
@pytest.mark.parametrize(("error", "reaction"), GROUP_HEARTBEAT.items())
@pytest.mark.parametrize("joined", [False, True])
def test_reactions_to_heartbeat_errors(
    joined: bool, error: type[Exception], reaction: Reaction
) -> None:
    member = ConsumerMember()
    world = member.world
    if joined:
        member.settle()
        beat = member.send(after_ms=INTERVAL_MS)
    else:
        member.polls()
        beat = member.send()
    before = member.state
    member.fail(beat, error)
    if error is errors.UnreleasedInstanceIdError and not joined:
        member.fail(world.wait_and_send(member.manager)[1], errors.FencedInstanceIdError)
    assert world.group.coordinator.known is (reaction is not Reaction.REDISCOVER)
    match reaction:
        case Reaction.REDISCOVER:
            assert member.quiet()
            world.respond(world.sent(world.group.coordinator), coordinator_response(NODE_1))
            assert member.send().message.rebalance_timeout_ms == 300_000
            assert member.state is before
        case Reaction.RETRY:
            assert member.quiet(), "the retry waits for the backoff"
            waited_ms, _ = world.wait_and_send(member.manager)
            assert 1 <= waited_ms <= 120
            assert member.state is before
        case Reaction.LOST:
            if joined:
                assert member.state is State.FENCED
                assert member.take_event() == PartitionsLost(HELD)
                assert member.quiet(after_ms=60_000), "85"
                member.done()
            assert member.send().message.member_epoch == 0
        case Reaction.RAISE:
            assert [isinstance(each, error) for each in world.raised()] == [True]
            assert member.state is before
            world.wait_and_send(member.manager)
        case _:
            assert reaction is Reaction.FAIL
            assert member.state is State.FATAL
            assert member.quiet(after_ms=600_000)
            assert [type(each) for each in world.raised()] == [error]


def test_the_error_of_a_denied_topic_names_it_although_the_response_does_not() -> None:
    member = ConsumerMember()
    member.settle()
    member.fail(member.send(after_ms=INTERVAL_MS), errors.TopicAuthorizationFailedError)
    [raised] = member.world.raised()
    assert raised.args == ({"orders"},)
    assert "--topic orders" in str(raised)


@pytest.mark.behaviour(93)
@pytest.mark.design("001", "UNRELEASED_INSTANCE_ID")
def test_a_static_member_recognises_its_own_instance_id() -> None:
    """The response to its join was lost; a known static member cannot join again."""
    member = ConsumerMember(group_instance_id="one")
    world = member.world
    member.polls()
    member.fail(member.send(), errors.CoordinatorLoadInProgressError)
    _, again = world.wait_and_send(member.manager)
    member.fail(again, errors.UnreleasedInstanceIdError)
    waited_ms, left = world.wait_and_send(member.manager)
    assert waited_ms >= 1
    assert (left.message.member_epoch, left.message.instance_id) == (-2, "one")
    member.respond(left, beat_response(-2))
    join = member.send()
    assert join.message.member_epoch == 0
    assert join.message.subscribed_topic_names == ["orders"]
    member.respond(join, beat_response(3, (0, 1)))
    assert member.state is State.RECONCILING


@pytest.mark.behaviour(175)
def test_a_rejected_login_is_raised_and_retried() -> None:
    member = ConsumerMember()
    member.polls()
    member.send().future.fail(AuthenticationError("no"))
    assert [type(each) for each in member.world.raised()] == [AuthenticationError]
    world_ms, again = member.world.wait_and_send(member.manager)
    assert again.message.member_epoch == 0
    assert world_ms >= 1


@pytest.mark.parametrize(
    "error", [errors.CoordinatorLoadInProgressError, errors.TopicAuthorizationFailedError]
)
def test_a_thousand_failures_back_off(error: type[Exception]) -> None:
    member = ConsumerMember(retry_backoff_ms=0)
    began_ms = member.world.now_ms
    for _ in range(1_000):
        member.polls()
        _, unsent = member.world.wait_and_send(member.manager)
        member.fail(unsent, error)
        member.world.raised()
    assert member.world.now_ms - began_ms > 100_000


def test_a_wrong_coordinator_does_not_cause_spinning() -> None:
    member = ConsumerMember()
    world = member.world
    began_ms = world.now_ms
    member.polls()
    for _ in range(200):
        _, unsent = world.wait_and_send(member.manager)
        member.fail(unsent, errors.NotCoordinatorError)
        member.polls()
        _, lookup = world.wait_and_send(world.group.coordinator)
        world.respond(lookup, coordinator_response(NODE_1))
    assert world.now_ms - began_ms > 20_000


@pytest.mark.behaviour(53, 92)
@pytest.mark.parametrize(
    ("regex", "advice"), [(None, "group_protocol='classic'"), ("o.*", "SubscriptionPattern")]
)
def test_an_unsupported_protocol_error_has_the_next_step(regex: str | None, advice: str) -> None:
    member = ConsumerMember()
    if regex is not None:
        member.world.subscription.unsubscribe()
        member.world.subscription.subscribe_regex(regex)
    member.polls()
    member.send().future.fail(errors.UnsupportedVersionError("no such request"))
    (error,) = member.world.raised()
    assert isinstance(error, errors.UnsupportedVersionError)
    assert advice in str(error)
    assert error.__cause__ is not None


@pytest.mark.behaviour(91)
def test_errors_have_the_coordinators_message() -> None:
    member = ConsumerMember(group_remote_assignor="what")
    member.polls()
    refusal = beat_response(-1, error=errors.UnsupportedAssignorError, text="only uniform, range")
    member.respond(member.send(), refusal)
    (error,) = member.world.raised()
    assert "only uniform, range" in str(error)


def test_an_invalid_regular_expression_is_fatal() -> None:
    member = ConsumerMember()
    member.polls()
    member.respond(
        member.send(), beat_response(-1, error=InvalidRegularExpressionError, text="missing )")
    )
    (error,) = member.world.raised()
    assert isinstance(error, InvalidRegularExpressionError)
    assert "missing )" in str(error)
    assert member.state is State.FATAL
