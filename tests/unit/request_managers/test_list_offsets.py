"""Lookups of offsets by timestamp."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import errors

from tandem_kafka.errors import (
    KafkaConnectionError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
)
from tandem_kafka.events.completable import Completion
from tandem_kafka.network.request import ToNode
from tandem_kafka.request_managers.offsets_request_manager import EARLIEST, LATEST
from tandem_kafka.request_managers.reactions import LIST_OFFSETS, Reaction
from tandem_kafka.types import OffsetAndTimestamp, TopicPartition
from tests.unit.request_managers.world import NODE_1, NODE_2, TP, TP1, TP2, World, offsets_response


@pytest.fixture
def world() -> World:
    return World()


def look_up(world: World, *partitions: TopicPartition, timestamp: int = LATEST) -> Completion[Any]:
    future: Completion[Any] = Completion()
    world.managers.list_offsets.collect(dict.fromkeys(partitions or (TP,), timestamp), future)
    return future


def requested_partitions(unsent: Any) -> list[int]:
    return [p.partition_index for topic in unsent.message.topics for p in topic.partitions]


def test_each_leader_gets_a_request_for_its_partitions(world: World) -> None:
    future = look_up(world, TP2, TP1, TP)
    sent = {u.destination: u for u in world.poll(world.managers.list_offsets).unsent}
    assert requested_partitions(sent[ToNode(NODE_1)]) == [0, 1]
    assert requested_partitions(sent[ToNode(NODE_2)]) == [2]
    entry = sent[ToNode(NODE_2)].message.topics[0].partitions[0]
    assert (entry.timestamp, entry.current_leader_epoch) == (LATEST, 3)
    world.respond(sent[ToNode(NODE_1)], offsets_response({TP: 5, TP1: 6}))
    assert not future.done
    world.respond(sent[ToNode(NODE_2)], offsets_response({TP2: 7}))
    assert future.result() == {
        TP: OffsetAndTimestamp(5, -1, 3),
        TP1: OffsetAndTimestamp(6, -1, 3),
        TP2: OffsetAndTimestamp(7, -1, 3),
    }
    assert not world.poll(world.managers.list_offsets).unsent


def test_a_lookup_by_time_may_find_no_record(world: World) -> None:
    future = look_up(world, timestamp=1_000)
    world.respond(world.sent(world.managers.list_offsets), offsets_response({TP: -1}))
    assert future.result() == {TP: None}


@pytest.mark.parametrize("given", [-1, errors.UnsupportedForMessageFormatError])
@pytest.mark.parametrize("timestamp", [EARLIEST, LATEST])
def test_a_response_without_the_first_offset_or_the_end_is_asked_for_again(
    world: World, timestamp: int, given: Any
) -> None:
    future = look_up(world, timestamp=timestamp)
    pauses = []
    for _ in range(5):
        pause_ms, unsent = world.wait_and_send(world.managers.list_offsets)
        pauses.append(pause_ms)
        world.respond(unsent, offsets_response({TP: given}))
        assert not future.done
    assert pauses[0] == 0
    assert pauses[1] < pauses[2] < pauses[3] < pauses[4]
    _, unsent = world.wait_and_send(world.managers.list_offsets)
    world.respond(unsent, offsets_response({TP: 4}))
    assert future.result() == {TP: OffsetAndTimestamp(4, -1, 3)}


def test_the_last_error_of_each_partition_is_kept_until_it_has_an_offset() -> None:
    world = World(leaders=(1, 2, -1))
    found: dict[TopicPartition, Exception] = {}
    asked = dict.fromkeys([TP, TP1, TP2, TopicPartition("gone", 0)], 1_000)
    world.managers.list_offsets.collect(asked, Completion(), found)
    first, _ = world.poll(world.managers.list_offsets).unsent

    def kinds() -> dict[TopicPartition, type[Exception]]:
        return {tp: type(error) for tp, error in found.items()}

    assert kinds() == {
        TP: KafkaTimeoutError,
        TP1: KafkaTimeoutError,
        TP2: errors.LeaderNotAvailableError,
        TopicPartition("gone", 0): errors.UnknownTopicOrPartitionError,
    }
    assert "has not responded" in str(found[TP1])
    world.respond(first, offsets_response({TP: errors.NotLeaderForPartitionError}))
    assert kinds()[TP] is errors.NotLeaderForPartitionError
    _, again = world.wait_and_send(world.managers.list_offsets)
    world.respond(again, offsets_response({TP: 4}))
    assert TP not in found


def test_a_lookup_of_no_partitions_finds_nothing(world: World) -> None:
    future: Completion[Any] = Completion()
    world.managers.list_offsets.collect({}, future)
    assert future.result() == {}


@pytest.mark.behaviour(146)
@pytest.mark.parametrize(("level", "lowest"), [("read_committed", 2), ("read_uncommitted", 1)])
def test_the_end_depends_on_the_isolation_level(level: str, lowest: int) -> None:
    world = World(isolation_level=level)
    look_up(world)
    message = world.sent(world.managers.list_offsets).message
    assert message.isolation_level == (level == "read_committed")
    assert message._min_version == lowest


@pytest.mark.behaviour(148)
@pytest.mark.parametrize(("error", "reaction"), LIST_OFFSETS.items())
def test_reactions_to_errors_of_list_offsets(
    world: World, error: type[Exception], reaction: Reaction
) -> None:
    future = look_up(world, TP, TP1, timestamp=1_000)
    unsent = world.sent(world.managers.list_offsets)
    if issubclass(error, KafkaConnectionError):
        unsent.future.fail(error("lost"))
        left = [0, 1]
    else:
        world.respond(unsent, offsets_response({TP: error, TP1: 4}))
        left = [0]
    if reaction is Reaction.FAIL:
        assert isinstance(future.error, error)
    elif reaction is Reaction.NONE:
        assert future.result() == {TP: None, TP1: OffsetAndTimestamp(4, -1, 3)}
    else:
        assert world.refresh_requested()
        assert not future.done
        waited_ms, again = world.wait_and_send(world.managers.list_offsets)
        assert 80 <= waited_ms <= 120
        assert requested_partitions(again) == left
        world.respond(again, offsets_response({TP: 3, TP1: 4}))
        assert future.result()[TP] == OffsetAndTimestamp(3, -1, 3)


@pytest.mark.behaviour(135)
def test_unauthorized_topics_are_named(world: World) -> None:
    future = look_up(world)
    response = offsets_response({TP: errors.TopicAuthorizationFailedError})
    world.respond(world.sent(world.managers.list_offsets), response)
    assert isinstance(future.error, TopicAuthorizationFailedError)
    assert future.error.args[0] == {"orders"}


@pytest.mark.behaviour(148)
def test_an_unknown_leader_gets_the_request_as_soon_as_it_is_known() -> None:
    world = World(leaders=())
    look_up(world, TP, timestamp=EARLIEST)
    result = world.poll(world.managers.list_offsets)
    assert not result.unsent
    assert world.refresh_requested()
    assert "orders" in world.managers.metadata._transient
    world.lead(2)
    assert world.sent(world.managers.list_offsets).destination == ToNode(NODE_2)


def test_the_backoff_grows_without_a_leader() -> None:
    world = World(leaders=())
    look_up(world)
    pauses = []
    for _ in range(1_000):
        result = world.poll(world.managers.list_offsets)
        pauses.append(result.wait_ms)
        world.clock.advance_to(world.now_ms + result.wait_ms)
    assert pauses[0] < pauses[2] < pauses[3]
    assert min(pauses[6:]) >= 800


def test_an_abandoned_lookup_ends(world: World) -> None:
    future = look_up(world)
    unsent = world.sent(world.managers.list_offsets)
    future.fail(TimeoutError())
    world.respond(unsent, offsets_response({TP: errors.NotLeaderForPartitionError}))
    assert not world.poll(world.managers.list_offsets, after_ms=10_000).unsent
    assert not world.managers.list_offsets._lookups


@pytest.mark.behaviour(149)
def test_lag_is_looked_up_once_and_known_later() -> None:
    from tandem_kafka.engine.application_event_processor import ApplicationEventProcessor
    from tandem_kafka.events import application as events

    world = World()
    world.assign(TP, at=4)
    processor = ApplicationEventProcessor(world.context, world.managers)

    def lag() -> int | None:
        event = events.CurrentLag(partition=TP)
        processor.process(event)
        return event.future.result()

    assert lag() is None
    unsent = world.sent(world.managers.list_offsets)
    assert lag() is None
    assert not world.poll(world.managers.list_offsets).unsent
    world.respond(unsent, offsets_response({TP: 10}))
    assert lag() == 6


def test_a_leader_that_fails_delays_no_partition_of_another(world: World) -> None:
    future = look_up(world, TP, TP2)
    manager = world.managers.list_offsets
    requests = {u.destination: u for u in world.poll(manager).unsent}
    for _ in range(6):  # its backoff has grown to about a second
        requests[ToNode(NODE_2)].future.fail(KafkaConnectionError("cut"))
        _, requests[ToNode(NODE_2)] = world.wait_and_send(manager)
    requests[ToNode(NODE_2)].future.fail(KafkaConnectionError("cut"))
    failed = errors.NotLeaderForPartitionError
    world.respond(requests[ToNode(NODE_1)], offsets_response({TP: failed}))
    waited_ms, again = world.wait_and_send(manager)
    assert again.destination == ToNode(NODE_1)
    assert 80 <= waited_ms <= 120
    world.respond(again, offsets_response({TP: 5}))
    _, again = world.wait_and_send(manager)
    world.respond(again, offsets_response({TP2: 6}))
    assert future.result()[TP2].offset == 6


def test_a_partition_missing_in_the_response_is_requested_after_a_pause(
    world: World,
) -> None:
    future = look_up(world, TP, TP1)
    manager = world.managers.list_offsets
    pauses = []
    for _ in range(8):
        waited_ms, unsent = world.wait_and_send(manager)
        pauses.append(waited_ms)
        world.respond(unsent, offsets_response({TP: 5}))
        assert not future.done
    assert pauses[1] >= 80
    assert pauses[-1] >= 800, "the backoff grows"
    _, unsent = world.wait_and_send(manager)
    world.respond(unsent, offsets_response({TP: 5, TP1: 6}))
    assert future.result()[TP1].offset == 6
