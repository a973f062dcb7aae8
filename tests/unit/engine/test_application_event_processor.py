"""The processing of application events."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest

from tandem_kafka.engine.application_event_processor import ApplicationEventProcessor
from tandem_kafka.errors import (
    IllegalStateError,
    InvalidGroupIdError,
    NotAssignedError,
)
from tandem_kafka.events import application as events
from tandem_kafka.state.subscription import SubscriptionKind
from tandem_kafka.types import OffsetAndMetadata, TopicPartition
from tests.unit.request_managers.world import TP, TP1, TP2, World

OFFSETS = {TP: OffsetAndMetadata(1, "", -1)}
EXAMPLES: dict[type[Any], Any] = {
    events.ApplyAssignment: lambda: events.ApplyAssignment(number=1, partitions=frozenset({TP})),
    events.Assign: lambda: events.Assign(partitions=(TP,)),
    events.AutoCommit: lambda: events.AutoCommit(offsets=OFFSETS),
    events.CallbackCompleted: lambda: events.CallbackCompleted(number=1, error=None),
    events.CommitAsync: lambda: events.CommitAsync(offsets=OFFSETS),
    events.CommitSync: lambda: events.CommitSync(offsets=OFFSETS),
    events.CurrentLag: lambda: events.CurrentLag(partition=TP),
    events.EnforceRebalance: lambda: events.EnforceRebalance(reason="because"),
    events.FetchCommitted: lambda: events.FetchCommitted(partitions=frozenset({TP})),
    events.LeaveGroup: lambda: events.LeaveGroup(reason="because"),
    events.ListOffsets: lambda: events.ListOffsets(timestamps={TP: -1}),
    events.PartitionsForTopic: lambda: events.PartitionsForTopic(topic="orders"),
    events.DropReadAhead: lambda: events.DropReadAhead(partitions=frozenset({TP})),
    events.Pause: lambda: events.Pause(partitions=frozenset({TP})),
    events.ResetOffsets: lambda: events.ResetOffsets(partitions=frozenset({TP}), timestamp=-1),
    events.Resume: lambda: events.Resume(partitions=frozenset({TP})),
    events.Seek: lambda: events.Seek(partition=TP, offset=1, leader_epoch=-1),
    events.StopAt: lambda: events.StopAt(partition=TP, offset=1),
    events.Subscribe: lambda: events.Subscribe(topics=frozenset({"orders"})),
    events.SubscribePattern: lambda: events.SubscribePattern(pattern=re.compile("o")),
    events.SubscribeRegex: lambda: events.SubscribeRegex(regex="o.*"),
    events.UpdatePositions: lambda: events.UpdatePositions(partition=TP),
    events.Withdraw: lambda: events.Withdraw(event=events.FetchCommitted(partitions=frozenset())),
}
ALL = list(get_args(events.ApplicationEvent))


def example(kind: type[Any]) -> Any:
    return EXAMPLES.get(kind, kind)()


def process(world: World, event: Any) -> Any:
    ApplicationEventProcessor(world.context, world.managers).process(event)
    return event.future


@pytest.mark.behaviour(42)
@pytest.mark.parametrize("kind", ALL)
def test_no_event_raises_an_exception(kind: type[Any]) -> None:
    for options in ({}, {"group_id": "readers"}):
        process(World(**options), example(kind))


ABSTRACT = {events.Event, events.Retried}


def test_every_kind_of_event_is_processed() -> None:
    kinds = {each for each in vars(events).values() if isinstance(each, type)}
    assert {each for each in kinds if issubclass(each, events.Event)} - ABSTRACT == set(ALL)


@pytest.mark.parametrize("kind", ALL)
def test_every_event_names_its_operation(kind: type[Any]) -> None:
    assert kind.operation


@pytest.mark.behaviour(17)
@pytest.mark.parametrize(
    "kind",
    [
        events.CommitSync,
        events.CommitAsync,
        events.AutoCommit,
        events.FetchCommitted,
    ],
)
def test_events_that_need_a_group_fail_without_one(kind: type[Any]) -> None:
    assert isinstance(process(World(), example(kind)).error, InvalidGroupIdError)


@pytest.mark.behaviour(15)
@pytest.mark.parametrize(
    "kind",
    [
        events.Seek,
        events.StopAt,
        events.Pause,
        events.Resume,
        events.ResetOffsets,
        events.CurrentLag,
    ],
)
def test_events_that_need_an_assigned_partition_fail_without_one(kind: type[Any]) -> None:
    assert isinstance(process(World(), example(kind)).error, NotAssignedError)


def test_pause_applies_to_all_partitions_or_none() -> None:
    world = World()
    (state,) = world.assign(TP)
    future = process(world, events.Pause(partitions=frozenset({TP, TP1})))
    assert isinstance(future.error, NotAssignedError)
    assert not state.paused


def test_pause_and_resume() -> None:
    world = World()
    (state,) = world.assign(TP, at=0)
    process(world, events.Pause(partitions=frozenset({TP})))
    assert not state.fetchable
    process(world, events.Resume(partitions=frozenset({TP})))
    assert state.fetchable


def test_assign_requests_metadata_of_new_topics_only() -> None:
    world = World()
    process(world, events.Assign(partitions=(TP, TP1)))
    assert world.refresh_requested()
    process(world, events.Assign(partitions=(TP,)))
    assert not world.refresh_requested()
    process(world, events.Assign(partitions=(TP, TopicPartition("more", 0))))
    assert world.refresh_requested()


@pytest.mark.behaviour(14)
def test_mixing_fails_the_event() -> None:
    world = World(group_id="readers")
    process(world, events.Assign(partitions=(TP,)))
    future = process(world, events.Subscribe(topics=frozenset({"orders"})))
    assert isinstance(future.error, IllegalStateError)
    assert world.subscription.kind is SubscriptionKind.USER_ASSIGNED


@pytest.mark.behaviour(45)
def test_records_of_an_unsubscribed_topic_stop_immediately() -> None:
    world = World(group_id="readers")
    process(world, events.Subscribe(topics=frozenset({"orders", "more"})))
    world.subscription.set_assigned([TP, TopicPartition("more", 0)])
    process(world, events.Subscribe(topics=frozenset({"more"})))
    assert not world.subscription.get(TP).returnable
    assert world.subscription.get(TopicPartition("more", 0)).returnable
    world.subscription.set_assigned([TP, TP1, TopicPartition("more", 0)])
    assert not world.subscription.get(TP1).returnable, (
        "its topic was unsubscribed before this assignment"
    )
    process(world, events.Subscribe(topics=frozenset({"orders", "more"})))
    assert world.subscription.get(TP).returnable
    assert world.subscription.get(TP1).returnable


@pytest.mark.behaviour(71)
def test_a_new_subscription_does_not_end_a_running_revocation() -> None:
    world = World(group_id="readers")
    process(world, events.Subscribe(topics=frozenset({"orders"})))
    world.subscription.set_assigned([TP])
    world.subscription.get(TP).pending_revocation = True
    process(world, events.Subscribe(topics=frozenset({"more"})))
    process(world, events.Subscribe(topics=frozenset({"orders"})))
    assert not world.subscription.get(TP).returnable


@pytest.mark.behaviour(69, 70)
def test_new_partitions_wait_for_the_listener() -> None:
    world = World(group_id="readers")
    process(world, events.Subscribe(topics=frozenset({"orders"})))
    world.subscription.set_assigned([TP])
    world.identity.callback = 7
    event = events.ApplyAssignment(number=7, partitions=frozenset({TP, TP1}))
    assert process(world, event).result() is True
    assert not world.subscription.get(TP).awaiting_callback
    assert world.subscription.get(TP1).awaiting_callback
    assert list(world.subscription.assigned) == [TP, TP1], "in a fixed order"


@pytest.mark.parametrize("counts", [0, 8])
def test_an_assignment_that_was_cancelled_is_not_applied(counts: int) -> None:
    world = World(group_id="readers")
    world.identity.callback = counts
    event = events.ApplyAssignment(number=7, partitions=frozenset({TP}))
    assert process(world, event).result() is False
    assert world.subscription.assigned == {}


@pytest.mark.behaviour(149)
def test_lag_needs_a_position_and_an_end() -> None:
    world = World(isolation_level="read_committed")
    (state,) = world.assign(TP)
    assert process(world, events.CurrentLag(partition=TP)).result() is None
    (state,) = world.assign(TP, at=4)
    state.high_watermark, state.last_stable_offset = 20, 9
    assert process(world, events.CurrentLag(partition=TP)).result() == 5
    state.last_stable_offset = 2
    assert process(world, events.CurrentLag(partition=TP)).result() == 0


@pytest.mark.behaviour(149)
def test_a_failed_lag_lookup_can_be_repeated() -> None:
    from tandem_kafka.errors import TopicAuthorizationFailedError
    from tests.unit.request_managers.world import offsets_response

    world = World()
    (state,) = world.assign(TP2, at=4)
    process(world, events.CurrentLag(partition=TP2))
    assert state.end_offset_asked
    response = offsets_response({TP2: TopicAuthorizationFailedError})
    world.respond(world.sent(world.managers.list_offsets), response)
    assert not state.end_offset_asked
