"""Lookups of the coordinator."""

from __future__ import annotations

import pytest
from kafka import errors

from tandem_kafka.errors import KafkaConnectionError, KafkaError, UnexpectedResponseError
from tandem_kafka.network.request import ANY_NODE, Purpose, ToNode
from tandem_kafka.request_managers.base import IDLE
from tandem_kafka.request_managers.reactions import COORDINATOR, Reaction
from tests.unit.request_managers.world import (
    NODE_1,
    NODE_2,
    World,
    coordinator_response,
    has_error_code,
)


@pytest.fixture
def world() -> World:
    return World(group_id="readers")


def test_without_a_need_nothing_is_sent(world: World) -> None:
    assert world.poll(world.group.coordinator) == IDLE


def test_the_first_need_starts_one_lookup(world: World) -> None:
    coordinator = world.group.coordinator
    assert coordinator.destination() is None
    unsent = world.sent(coordinator)
    assert unsent.destination is ANY_NODE
    assert unsent.message.coordinator_keys == ["readers"]
    assert coordinator.destination() is None
    assert not world.poll(coordinator, after_ms=5_000).unsent
    world.respond(unsent, coordinator_response(NODE_2))
    assert coordinator.destination() == ToNode(NODE_2, Purpose.GROUP)
    assert world.poll(coordinator) == IDLE


def test_the_response_of_old_versions_is_understood(world: World) -> None:
    coordinator = world.group.coordinator
    coordinator.destination()
    unsent = world.sent(coordinator)
    response = type(coordinator_response(NODE_2))(
        throttle_time_ms=0, error_code=0, error_message=None, node_id=2, host="10.0.0.2", port=9092
    )
    world.respond(unsent, response, version=3)
    assert coordinator.destination() == ToNode(NODE_2, Purpose.GROUP)


@pytest.mark.parametrize(("error", "reaction"), COORDINATOR.items())
def test_reactions(world: World, error: type[Exception], reaction: Reaction) -> None:
    coordinator = world.group.coordinator
    fatal: list[Exception] = []
    coordinator.on_fatal(fatal.append)
    coordinator.destination()
    world.context.polls.event_needed = False
    if has_error_code(error):
        world.respond(world.sent(coordinator), coordinator_response(None, error))
    else:
        world.sent(coordinator).future.fail(error("lost"))
    assert [type(each) for each in world.raised()] == [error] * (reaction is Reaction.RAISE)
    assert world.context.polls.event_needed is (reaction in (Reaction.FAIL, Reaction.RAISE))
    if reaction is Reaction.FAIL:
        assert [type(each) for each in fatal] == [error]
        assert not world.poll(coordinator, after_ms=60_000).unsent, (
            "no retry until the coordinator is needed"
        )
        coordinator.destination()
    else:
        assert not fatal
    waited_ms, unsent = world.wait_and_send(coordinator)
    assert waited_ms <= 120
    world.respond(unsent, coordinator_response(NODE_1))
    assert coordinator.known


def test_a_lost_connection_is_retried(world: World) -> None:
    coordinator = world.group.coordinator
    coordinator.destination()
    world.sent(coordinator).future.fail(KafkaConnectionError("cut"))
    waited_ms, _ = world.wait_and_send(coordinator)
    assert 80 <= waited_ms <= 120


@pytest.mark.behaviour(25)
def test_a_thousand_failures_back_off() -> None:
    world = World(group_id="readers", retry_backoff_ms=0)
    coordinator = world.group.coordinator
    coordinator.destination()
    began_ms = world.now_ms
    for _ in range(1_000):
        _, unsent = world.wait_and_send(coordinator)
        world.respond(unsent, coordinator_response(None, errors.CoordinatorNotAvailableError))
    assert world.now_ms - began_ms > 100_000


@pytest.mark.behaviour(98)
def test_a_coordinator_marked_unknown_is_looked_up_immediately(world: World) -> None:
    world.find_coordinator()
    coordinator = world.group.coordinator
    coordinator.mark_unknown("it moved")
    assert not coordinator.known
    world.respond(world.sent(coordinator), coordinator_response(NODE_2))
    assert coordinator.destination() == ToNode(NODE_2, Purpose.GROUP)


def test_closing_ends_the_lookup(world: World) -> None:
    coordinator = world.group.coordinator
    coordinator.destination()
    assert coordinator.close(world.now_ms) == IDLE
    assert world.poll(coordinator) == IDLE


def test_commits_and_lookups_fail_with_a_fatal_error(world: World) -> None:
    from tandem_kafka.events.application import CommitSync
    from tandem_kafka.events.completable import Completion
    from tandem_kafka.types import OffsetAndMetadata
    from tests.unit.request_managers.world import TP

    commit = CommitSync(offsets={TP: OffsetAndMetadata(1, "", -1)})
    world.group.commit.commit(commit)
    look_up: Completion[object] = Completion()
    world.group.committed.look_up(frozenset({TP}), look_up)
    world.poll(world.group.commit)
    world.poll(world.group.committed)
    unsent = world.sent(world.group.coordinator)
    world.respond(unsent, coordinator_response(None, errors.GroupAuthorizationFailedError))
    for future in (commit.future, look_up):
        assert isinstance(future.error, errors.GroupAuthorizationFailedError)
        assert isinstance(future.error, KafkaError)


def test_a_response_without_a_coordinator_is_raised_by_poll_and_retried(
    world: World,
) -> None:
    coordinator = world.group.coordinator
    coordinator.destination()
    response = coordinator_response(NODE_1)
    response.coordinators = []
    world.respond(world.sent(coordinator), response)
    (error,) = world.raised()
    assert isinstance(error, UnexpectedResponseError)
    assert "FindCoordinatorRequest" in str(error)
    waited_ms, unsent = world.wait_and_send(coordinator)
    assert waited_ms >= 80
    world.respond(unsent, coordinator_response(NODE_1))
    assert coordinator.known
