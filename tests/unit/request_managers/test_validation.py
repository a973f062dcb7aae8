"""Truncation: validation of a position after a change of leader (KIP-320)."""

from __future__ import annotations

import pytest
from kafka import errors

from tandem_kafka.errors import (
    KafkaConnectionError,
    LogTruncationError,
    UnsupportedVersionError,
)
from tandem_kafka.events.background import ErrorEvent
from tandem_kafka.network.request import ToNode, UnsentRequest
from tandem_kafka.request_managers.reactions import LIST_OFFSETS, Reaction
from tandem_kafka.state.partition import Consumed, FetchState, Position, PreferredReplica
from tandem_kafka.types import OffsetAndMetadata
from tests.unit.request_managers.world import NODE_1, NODE_2, TP, TP1, TP2, World, epoch_response


def in_doubt(**options: object) -> tuple[World, UnsentRequest]:
    """A position at offset 10 of epoch 3, and the request for it after the start of epoch 4."""
    world = World(**options)
    world.assign(TP, at=10)
    assert not world.poll(world.managers.validation).unsent
    world.lead(2, epoch=4)
    unsent = world.sent(world.managers.validation)
    return world, unsent


def state_of(world: World) -> FetchState:
    return world.subscription.get(TP).state


@pytest.mark.behaviour(150)
def test_the_position_is_validated_at_a_new_leader_before_the_next_fetch() -> None:
    world, unsent = in_doubt()
    assert state_of(world) is FetchState.AWAIT_VALIDATION
    assert not world.subscription.get(TP).fetchable
    assert unsent.destination == ToNode(NODE_2)
    (entry,) = unsent.message.topics[0].partitions
    assert (entry.current_leader_epoch, entry.leader_epoch) == (4, 3)
    assert not world.poll(world.managers.validation, after_ms=5_000).unsent
    world.respond(unsent, epoch_response(TP, 3, 10))
    assert state_of(world) is FetchState.FETCHING
    assert world.subscription.get(TP).position.offset == 10


def test_the_same_leader_again_changes_nothing() -> None:
    world = World()
    world.assign(TP, at=10)
    world.poll(world.managers.validation)
    world.lead(1)
    assert not world.poll(world.managers.validation).unsent
    assert state_of(world) is FetchState.FETCHING


@pytest.mark.behaviour(159)
def test_a_new_leader_ends_reading_from_a_replica() -> None:
    world = World()
    (state,) = world.assign(TP, at=10)
    world.poll(world.managers.validation)
    state.preferred_replica = PreferredReplica(2, 10**9)
    world.lead(2, epoch=4)
    world.sent(world.managers.validation)
    assert state.preferred_replica is None


def test_a_position_without_an_epoch_follows_the_leader() -> None:
    world = World()
    (state,) = world.assign(TP, at=10)
    state.set_position(Position(10))
    world.lead(2, epoch=4)
    assert not world.poll(world.managers.validation).unsent
    assert state.fetchable


def test_a_validated_position_keeps_progress_made_meanwhile() -> None:
    world, unsent = in_doubt()
    state = world.subscription.get(TP)
    base = state.base
    assert base is not None
    world.respond(unsent, epoch_response(TP, 3, 10))
    state.consumed = Consumed(base, Position(12, 3))
    assert state.position.offset == 12


@pytest.mark.behaviour(150)
def test_truncation_goes_back_to_the_point_of_divergence() -> None:
    world, unsent = in_doubt(auto_offset_reset="earliest")
    world.respond(unsent, epoch_response(TP, 2, 6))
    position = world.subscription.get(TP).position
    assert (position.offset, position.leader_epoch) == (6, 2)
    assert state_of(world) is FetchState.FETCHING


@pytest.mark.behaviour(150)
def test_truncation_without_a_known_end_applies_the_policy() -> None:
    world, unsent = in_doubt(auto_offset_reset="earliest")
    world.respond(unsent, epoch_response(TP, -1, -1))
    assert state_of(world) is FetchState.AWAIT_RESET
    world.poll(world.managers.positions)
    world.sent(world.managers.list_offsets)


@pytest.mark.behaviour(150)
@pytest.mark.parametrize(
    ("epoch", "end", "divergent"), [(2, 6, OffsetAndMetadata(6, "", 2)), (-1, -1, None)]
)
def test_truncation_without_a_policy_is_raised_by_every_poll_until_a_seek(
    epoch: int, end: int, divergent: OffsetAndMetadata | None
) -> None:
    world, unsent = in_doubt(auto_offset_reset="none")
    for _ in range(2):
        world.context.polls.event_needed = False
        world.respond(unsent, epoch_response(TP, epoch, end))
        assert world.context.polls.event_needed
        (error,) = world.raised()
        assert isinstance(error, LogTruncationError)
        assert error.divergent_offsets == {TP: divergent}
        assert not world.poll(world.managers.validation, after_ms=10_000).unsent
        world.managers.validation.application_polled()
        unsent = world.sent(world.managers.validation)
    world.managers.positions.seek(TP, 6, -1)
    world.respond(unsent, epoch_response(TP, epoch, end))
    assert not world.raised()
    assert world.subscription.get(TP).fetchable


@pytest.mark.behaviour(150)
def test_an_error_made_obsolete_by_a_seek_is_not_raised() -> None:
    world, unsent = in_doubt(auto_offset_reset="none")
    world.respond(unsent, epoch_response(TP, 2, 6))
    event = world.background.take()
    assert isinstance(event, ErrorEvent)
    assert not event.outdated
    world.managers.positions.seek(TP, 6, -1)
    assert event.outdated


@pytest.mark.behaviour(151)
@pytest.mark.parametrize("epoch", [-1, 3])
def test_the_result_is_dropped_when_a_seek_came_first(epoch: int) -> None:
    world, unsent = in_doubt(auto_offset_reset="earliest")
    world.managers.positions.seek(TP, 100, epoch)
    world.respond(unsent, epoch_response(TP, 2, 6))
    assert world.subscription.get(TP).position.offset == 100


@pytest.mark.behaviour(151)
def test_the_result_is_dropped_when_the_assignment_is_new() -> None:
    world, unsent = in_doubt(auto_offset_reset="earliest")
    world.assign(TP1)
    world.assign(TP)
    world.respond(unsent, epoch_response(TP, 2, 6))
    assert world.subscription.get(TP).position is None


# Reaction.NONE only applies to ListOffsets.
@pytest.mark.parametrize(
    ("error", "reaction"),
    [entry for entry in LIST_OFFSETS.items() if entry[1] is not Reaction.NONE],
)
def test_reactions(error: type[Exception], reaction: Reaction) -> None:
    world, unsent = in_doubt()
    world.refresh_requested()
    if error is errors.KafkaConnectionError:
        unsent.future.fail(error("lost"))
    else:
        world.respond(unsent, epoch_response(TP, -1, -1, error))
    assert state_of(world) is FetchState.AWAIT_VALIDATION
    if reaction is Reaction.FAIL:
        assert [isinstance(each, error) for each in world.raised()] == [True]
    else:
        assert not world.raised()
        assert world.refresh_requested()
    waited_ms, again = world.wait_and_send(world.managers.validation)
    assert 80 <= waited_ms <= 120
    world.respond(again, epoch_response(TP, 3, 10))
    assert state_of(world) is FetchState.FETCHING


def test_an_old_broker_is_trusted_without_validation() -> None:
    world, unsent = in_doubt()
    unsent.future.fail(UnsupportedVersionError("too old"))
    assert not world.poll(world.managers.validation).unsent
    assert state_of(world) is FetchState.FETCHING


def test_without_a_leader_it_waits_and_requests_metadata() -> None:
    world = World()
    world.assign(TP, at=10)
    world.poll(world.managers.validation)
    world.lead(-1, epoch=4)
    began_ms = world.now_ms
    for _ in range(1_000):
        result = world.poll(world.managers.validation)
        assert not result.unsent
        world.clock.advance_to(world.now_ms + result.wait_ms)
    assert world.now_ms - began_ms > 100_000
    assert world.refresh_requested()
    world.lead(2, epoch=5)
    world.wait_and_send(world.managers.validation)


def test_a_thousand_failures_do_not_spin() -> None:
    world, unsent = in_doubt(retry_backoff_ms=0)
    began_ms = world.now_ms
    for _ in range(1_000):
        world.respond(unsent, epoch_response(TP, -1, -1, errors.NotLeaderForPartitionError))
        _, unsent = world.wait_and_send(world.managers.validation)
    assert world.now_ms - began_ms > 100_000


def test_a_leader_that_is_silent_delays_no_position_of_another() -> None:
    world = World(leaders=(1, 1, 2))
    world.assign(TP, TP2, at=10)
    assert not world.poll(world.managers.validation).unsent
    world.lead(2, 1, 1, epoch=4)
    requests = {u.destination: u for u in world.poll(world.managers.validation).unsent}
    assert set(requests) == {ToNode(NODE_1), ToNode(NODE_2)}
    world.respond(requests[ToNode(NODE_1)], epoch_response(TP2, 3, 10))
    assert world.subscription.get(TP2).state is FetchState.FETCHING
    world.lead(2, 1, 2, epoch=5)
    world.lead(2, 1, 1, epoch=6)
    (again,) = world.poll(world.managers.validation, after_ms=5_000).unsent
    assert again.destination == ToNode(NODE_1), "broker 2 has not responded"
    world.respond(again, epoch_response(TP2, 3, 10))
    assert world.subscription.get(TP2).state is FetchState.FETCHING
    assert state_of(world) is FetchState.AWAIT_VALIDATION


def test_a_leader_that_fails_delays_no_position_of_another() -> None:
    world = World(leaders=(1, 1, 2))
    world.assign(TP, TP2, at=10)
    assert not world.poll(world.managers.validation).unsent
    world.lead(2, 1, 1, epoch=4)
    requests = {u.destination: u for u in world.poll(world.managers.validation).unsent}
    requests[ToNode(NODE_2)].future.fail(KafkaConnectionError("cut"))
    world.respond(requests[ToNode(NODE_1)], epoch_response(TP2, 3, 10))
    world.lead(2, 1, 1, epoch=5)
    unsent = world.poll(world.managers.validation).unsent
    assert [u.destination for u in unsent] == [ToNode(NODE_1)], "broker 2 is in backoff"


def test_a_position_missing_in_the_response_is_requested_again() -> None:
    world, unsent = in_doubt()
    world.respond(unsent, epoch_response(TP1, 3, 10))
    assert state_of(world) is FetchState.AWAIT_VALIDATION
    waited_ms, again = world.wait_and_send(world.managers.validation)
    assert 80 <= waited_ms <= 120
    world.respond(again, epoch_response(TP, 3, 10))
    assert state_of(world) is FetchState.FETCHING
