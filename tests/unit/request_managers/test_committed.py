"""Lookups of committed offsets."""

from __future__ import annotations

from uuid import UUID

import pytest
from kafka import errors

from tandem_kafka.errors import TopicAuthorizationFailedError, UnexpectedResponseError
from tandem_kafka.events.completable import Completion
from tandem_kafka.network.request import Purpose, ToNode
from tandem_kafka.request_managers.committed_offsets_request_manager import Committed
from tandem_kafka.request_managers.reactions import OFFSET_FETCH, Reaction
from tandem_kafka.types import ClusterSnapshot, OffsetAndMetadata, TopicPartition
from tests.unit.request_managers.world import (
    NODE_1,
    TP,
    TP1,
    World,
    committed_response,
    coordinator_response,
    has_error_code,
)

GROUP_LEVEL = {
    errors.CoordinatorNotAvailableError,
    errors.NotCoordinatorError,
    errors.CoordinatorLoadInProgressError,
    errors.StaleMemberEpochError,
    errors.GroupAuthorizationFailedError,
}


@pytest.fixture
def world() -> World:
    world = World(group_id="readers")
    world.find_coordinator()
    return world


def look_up(world: World, *partitions: TopicPartition) -> Completion[Committed]:
    future: Completion[Committed] = Completion()
    world.group.committed.look_up(frozenset(partitions or (TP, TP1)), future)
    return future


def test_offsets_are_found_or_none(world: World) -> None:
    """132, first half."""
    future = look_up(world)
    unsent = world.sent(world.group.committed)
    assert unsent.destination == ToNode(NODE_1, Purpose.MAIN)
    assert unsent.message.require_stable
    world.respond(unsent, committed_response({TP: 7, TP1: -1}))
    assert future.result() == {TP: OffsetAndMetadata(7, "", -1), TP1: None}
    assert not world.poll(world.group.committed).unsent


def test_no_partitions_no_request(world: World) -> None:
    future: Completion[Committed] = Completion()
    world.group.committed.look_up(frozenset(), future)
    assert future.result() == {}
    assert not world.poll(world.group.committed).unsent


@pytest.mark.behaviour(133)
def test_equal_lookups_share_one_request(world: World) -> None:
    first, second = look_up(world), look_up(world)
    unsent = world.sent(world.group.committed)
    third, other = look_up(world), look_up(world, TP)
    assert len(world.poll(world.group.committed).unsent) == 1, (
        "another set of partitions needs its own request"
    )
    world.respond(unsent, committed_response({TP: 7, TP1: 8}))
    for future in (first, second, third):
        assert future.result()[TP1] == OffsetAndMetadata(8, "", -1)
    assert first.result() is not second.result()
    assert not other.done


@pytest.mark.parametrize(("error", "reaction"), OFFSET_FETCH.items())
def test_reactions(world: World, error: type[Exception], reaction: Reaction) -> None:
    future = look_up(world)
    unsent = world.sent(world.group.committed)
    if not has_error_code(error):
        unsent.future.fail(error("lost"))
    elif error in GROUP_LEVEL:
        world.respond(unsent, committed_response({}, error))
    else:
        world.respond(unsent, committed_response({TP: 7, TP1: error}))
    if reaction is Reaction.FAIL:
        assert isinstance(future.error, error)
        return
    assert not future.done
    assert world.group.coordinator.known is (reaction is not Reaction.REDISCOVER)
    assert world.refresh_requested() is (reaction is Reaction.REFRESH)
    if reaction is Reaction.REDISCOVER:
        world.respond(world.sent(world.group.coordinator), coordinator_response(NODE_1))
    waited_ms, again = world.wait_and_send(world.group.committed)
    assert 80 <= waited_ms <= 120
    world.respond(again, committed_response({TP: 7, TP1: 8}))
    assert future.result()[TP1] == OffsetAndMetadata(8, "", -1)


@pytest.mark.parametrize(
    "error", [each for each in OFFSET_FETCH if has_error_code(each) and each not in GROUP_LEVEL]
)
def test_an_error_of_one_partition_does_not_hold_up_the_others(
    world: World, error: type[Exception]
) -> None:
    future: Completion[Committed] = Completion()
    failed: dict[TopicPartition, Exception] = {}
    found: Committed = {}
    world.group.committed.look_up(frozenset({TP, TP1}), future, failed, found.update)
    world.respond(world.sent(world.group.committed), committed_response({TP: 7, TP1: error}))
    assert found == {TP: OffsetAndMetadata(7, "", -1)}
    assert {tp: type(each) for tp, each in failed.items()} == {TP1: error}
    if future.done:
        assert isinstance(future.error, error)
        return
    later = look_up(world)
    world.find_coordinator_again()
    first, second = world.poll(world.group.committed, after_ms=1_000).unsent
    (group,) = first.message.groups
    assert [each.partition_indexes for each in group.topics] == [[1]]
    world.respond(first, committed_response({TP1: -1}))
    assert found == future.result() == {TP: OffsetAndMetadata(7, "", -1), TP1: None}
    assert not failed
    assert not later.done, "what was found before its call may be outdated"
    world.respond(second, committed_response({TP: 8, TP1: 9}))
    assert later.result()[TP] == OffsetAndMetadata(8, "", -1)


def test_different_errors_of_partitions_are_all_reacted_to(world: World) -> None:
    future = look_up(world)
    errors_of = {TP: errors.UnknownTopicOrPartitionError, TP1: errors.NotCoordinatorError}
    world.respond(world.sent(world.group.committed), committed_response(errors_of))
    assert not future.done
    assert not world.group.coordinator.known
    assert world.refresh_requested()


@pytest.mark.behaviour(135)
def test_unauthorized_topics_are_named(world: World) -> None:
    future = look_up(world)
    response = committed_response({TP: 7, TP1: errors.TopicAuthorizationFailedError})
    world.respond(world.sent(world.group.committed), response)
    assert isinstance(future.error, TopicAuthorizationFailedError)
    assert future.error.args[0] == {"orders"}


@pytest.mark.parametrize("error", [errors.UnknownTopicOrPartitionError, errors.UnknownTopicIdError])
def test_an_unknown_topic_does_not_mean_no_committed_offset(
    world: World, error: type[Exception]
) -> None:
    future = look_up(world)
    begin_ms = world.now_ms
    while world.now_ms < begin_ms + 120_000:
        _, unsent = world.wait_and_send(world.group.committed)
        world.respond(unsent, committed_response({TP: 7, TP1: error}))
        assert not future.done
    _, unsent = world.wait_and_send(world.group.committed)
    world.respond(unsent, committed_response({TP: 7, TP1: 8}))
    assert future.result()[TP1] == OffsetAndMetadata(8, "", -1)


def test_offsets_are_found_by_the_requested_names(world: World) -> None:
    """The topic leaves the metadata while the request is in flight."""
    future = look_up(world)
    unsent = world.sent(world.group.committed)
    world.metadata.update(ClusterSnapshot(nodes={1: NODE_1}), partial=False)
    world.respond(unsent, committed_response({TP: 7, TP1: 8}))
    assert future.result() == {
        TP: OffsetAndMetadata(7, "", -1),
        TP1: OffsetAndMetadata(8, "", -1),
    }


def test_an_unrequested_topic_id_is_an_error_that_is_retried(world: World) -> None:
    future = look_up(world)
    unsent = world.sent(world.group.committed)
    response = committed_response({TP: 7, TP1: 8})
    response.groups[0].topics[0].topic_id = UUID(int=99)
    world.respond(unsent, response)
    assert not future.done
    assert world.refresh_requested()
    waited_ms, again = world.wait_and_send(world.group.committed)
    assert waited_ms >= 80
    world.respond(again, committed_response({TP: 7, TP1: 8}))
    assert future.result()[TP] == OffsetAndMetadata(7, "", -1)


def test_a_missing_partition_is_requested_again(world: World) -> None:
    future = look_up(world)
    world.respond(world.sent(world.group.committed), committed_response({TP: 7}))
    assert not future.done
    waited_ms, again = world.wait_and_send(world.group.committed)
    assert waited_ms >= 80
    world.respond(again, committed_response({TP: 7, TP1: -1}))
    assert future.result() == {TP: OffsetAndMetadata(7, "", -1), TP1: None}


def test_a_response_without_the_group_fails_the_lookup(world: World) -> None:
    future = look_up(world)
    response = committed_response({})
    response.groups = []
    world.respond(world.sent(world.group.committed), response)
    assert isinstance(future.error, UnexpectedResponseError)
    assert isinstance(future.error.__cause__, IndexError)
    again = look_up(world)
    world.respond(world.sent(world.group.committed), committed_response({TP: 7, TP1: 8}))
    assert again.error is None


@pytest.mark.behaviour(134)
def test_unstable_offsets_are_retried_while_a_caller_waits(world: World) -> None:
    future = look_up(world)
    pauses = []
    for _ in range(1_000):
        waited_ms, unsent = world.wait_and_send(world.group.committed)
        pauses.append(waited_ms)
        response = committed_response({TP: errors.UnstableOffsetCommitError})
        world.respond(unsent, response)
        if future.done:
            break
    assert len(pauses) == 1_000
    assert pauses[1] < pauses[3]
    future.fail(TimeoutError())
    assert not world.poll(world.group.committed, after_ms=10_000).unsent


def test_a_lookup_continues_for_remaining_callers(world: World) -> None:
    first, second = look_up(world), look_up(world)
    unsent = world.sent(world.group.committed)
    first.fail(TimeoutError())
    world.respond(unsent, committed_response({TP: errors.UnstableOffsetCommitError}))
    _, again = world.wait_and_send(world.group.committed)
    world.respond(again, committed_response({TP: 7, TP1: 8}))
    assert second.result()[TP] == OffsetAndMetadata(7, "", -1)


def test_without_topic_ids_an_old_version_carries_names(world: World) -> None:
    look_up(world, TopicPartition("unknown", 0))
    unsent = world.sent(world.group.committed)
    assert unsent.message._max_version == 9


@pytest.mark.behaviour(112)
def test_a_listener_may_look_up_offsets_during_close(world: World) -> None:
    look_up(world)
    assert len(world.group.committed.close(world.now_ms).unsent) == 1
