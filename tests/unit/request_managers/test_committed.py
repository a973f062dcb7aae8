"""Looking committed offsets up."""

from __future__ import annotations

import pytest
from kafka import errors

from tandem_kafka.errors import KafkaConnectionError, TopicAuthorizationFailedError
from tandem_kafka.events.completable import Completion
from tandem_kafka.network.request import Purpose, ToNode
from tandem_kafka.request_managers.committed_offsets import Committed
from tandem_kafka.request_managers.reactions import OFFSET_FETCH, Reaction
from tandem_kafka.types import OffsetAndMetadata, TopicPartition
from tests.unit.request_managers.world import (
    NODE_1,
    TP,
    TP1,
    World,
    committed_answer,
    coordinator_answer,
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


def ask(
    world: World, *partitions: TopicPartition, deadline_ms: int = 60_000
) -> Completion[Committed]:
    future: Completion[Committed] = Completion()
    chosen = frozenset(partitions or (TP, TP1))
    world.group.committed.look_up(chosen, world.now_ms + deadline_ms, future)
    return future


def test_offsets_come_back_and_none_where_there_is_none(world: World) -> None:
    """132, first half."""
    future = ask(world)
    unsent = world.sent(world.group.committed)
    assert unsent.destination == ToNode(NODE_1, Purpose.GROUP)
    assert unsent.message.require_stable
    world.answer(unsent, committed_answer({TP: 7, TP1: -1}))
    assert future.result() == {TP: OffsetAndMetadata(7, "", -1), TP1: None}
    assert not world.poll(world.group.committed).unsent


def test_no_partitions_no_request(world: World) -> None:
    future: Completion[Committed] = Completion()
    world.group.committed.look_up(frozenset(), world.now_ms + 1, future)
    assert future.result() == {}
    assert not world.poll(world.group.committed).unsent


def test_133_equal_look_ups_share_one_request(world: World) -> None:
    first, second = ask(world), ask(world)
    unsent = world.sent(world.group.committed)
    third, other = ask(world), ask(world, TP)
    assert len(world.poll(world.group.committed).unsent) == 1, "the other set has its own"
    world.answer(unsent, committed_answer({TP: 7, TP1: 8}))
    for future in (first, second, third):
        assert future.result()[TP1] == OffsetAndMetadata(8, "", -1)
    assert first.result() is not second.result()
    assert not other.done


@pytest.mark.parametrize(("error", "reaction"), OFFSET_FETCH.items())
def test_reactions(world: World, error: type[Exception], reaction: Reaction) -> None:
    future = ask(world)
    unsent = world.sent(world.group.committed)
    if issubclass(error, KafkaConnectionError | errors.RequestTimedOutError):
        unsent.future.fail(error("lost"))
    elif error in GROUP_LEVEL:
        world.answer(unsent, committed_answer({}, error))
    else:
        world.answer(unsent, committed_answer({TP: 7, TP1: error}))
    if reaction is Reaction.FAIL:
        assert isinstance(future.error, error)
        return
    assert not future.done
    assert world.group.coordinator.known is (reaction is not Reaction.REDISCOVER)
    assert world.refresh_wanted() is (reaction is Reaction.REFRESH)
    if reaction is Reaction.REDISCOVER:
        world.answer(world.sent(world.group.coordinator), coordinator_answer(NODE_1))
    waited_ms, again = world.wait_and_send(world.group.committed)
    assert 80 <= waited_ms <= 120
    world.answer(again, committed_answer({TP: 7, TP1: 8}))
    assert future.result()[TP1] == OffsetAndMetadata(8, "", -1)


def test_135_unauthorized_topics_are_named(world: World) -> None:
    future = ask(world)
    answer = committed_answer({TP: 7, TP1: errors.TopicAuthorizationFailedError})
    world.answer(world.sent(world.group.committed), answer)
    assert isinstance(future.error, TopicAuthorizationFailedError)
    assert future.error.args[0] == {"orders"}


@pytest.mark.parametrize("error", [errors.UnknownTopicOrPartitionError, errors.UnknownTopicIdError])
def test_132_an_unknown_topic_is_none_in_the_end_not_an_error(
    world: World, error: type[Exception]
) -> None:
    future = ask(world, deadline_ms=3_000)
    deadline_ms = world.now_ms + 3_000
    while not future.done:
        result = world.poll(world.group.committed)
        for unsent in result.unsent:
            world.answer(unsent, committed_answer({TP: 7, TP1: error}))
        if not result.unsent and not future.done:
            world.clock.advance_to(world.now_ms + result.wait_ms)
        assert world.now_ms < deadline_ms
    assert future.result() == {TP: OffsetAndMetadata(7, "", -1), TP1: None}


def test_134_unstable_offsets_are_waited_for_until_nobody_waits(world: World) -> None:
    future = ask(world)
    pauses = []
    for _ in range(1_000):
        waited_ms, unsent = world.wait_and_send(world.group.committed)
        pauses.append(waited_ms)
        answer = committed_answer({TP: errors.UnstableOffsetCommitError})
        world.answer(unsent, answer)
        if future.done:
            break
    assert len(pauses) == 1_000
    assert pauses[1] < pauses[3]
    future.fail(TimeoutError())
    assert not world.poll(world.group.committed, after_ms=10_000).unsent


def test_without_topic_ids_an_old_version_carries_names(world: World) -> None:
    ask(world, TopicPartition("unknown", 0))
    unsent = world.sent(world.group.committed)
    assert unsent.message._max_version == 9


def test_a_listener_that_runs_during_close_may_ask(world: World) -> None:
    """112."""
    ask(world)
    assert len(world.group.committed.close(world.now_ms).unsent) == 1
