"""Initial positions: committed offsets, the reset policy and seeks."""

from __future__ import annotations

from uuid import UUID

import pytest
from kafka import errors

from tandem_kafka.errors import GroupAuthorizationFailedError, NoOffsetForPartitionError
from tandem_kafka.events.application import UpdatePositions
from tandem_kafka.events.background import ErrorEvent
from tandem_kafka.network.request import UnsentRequest
from tandem_kafka.request_managers.offsets_request_manager import EARLIEST, LATEST
from tandem_kafka.state.partition import FetchState
from tandem_kafka.types import TopicPartition
from tests.unit.request_managers.world import (
    TP,
    TP1,
    World,
    committed_response,
    coordinator_response,
    offsets_response,
)


def with_group(**options: object) -> World:
    world = World(group_id="readers", **options)
    world.find_coordinator()
    return world


def start_lookups(world: World, after_ms: int = 0) -> None:
    """Start lookups, as poll() does."""
    world.managers.positions.start_lookups()
    assert not world.poll(world.managers.positions, after_ms=after_ms).unsent


def committed_request(world: World) -> UnsentRequest:
    return world.sent(world.group.committed)


def position(world: World, tp: TopicPartition = TP) -> int | None:
    found = world.subscription.get(tp).position
    return None if found is None else found.offset


def test_assign_alone_looks_nothing_up() -> None:
    world = with_group()
    world.assign(TP)
    world.poll(world.managers.positions)
    assert not world.poll(world.group.committed).unsent


@pytest.mark.behaviour(138)
def test_the_committed_offset_else_the_policy_per_partition() -> None:
    world = with_group(auto_offset_reset="earliest")
    world.assign(TP, TP1)
    start_lookups(world)
    world.respond(committed_request(world), committed_response({TP: 7, TP1: -1}))
    assert position(world) == 7
    assert world.subscription.get(TP1).state is FetchState.AWAIT_RESET
    world.poll(world.managers.positions)
    unsent = world.sent(world.managers.list_offsets)
    assert unsent.message.topics[0].partitions[0].timestamp == EARLIEST
    world.respond(unsent, offsets_response({TP1: 2}))
    assert position(world, TP1) == 2
    assert world.subscription.all_settled()


def test_a_committed_offset_of_a_recreated_topic_is_looked_up_again() -> None:
    world = with_group()
    world.assign(TP)
    start_lookups(world)
    unsent = committed_request(world)
    world.lead(1, 1, 2, topic_id=UUID(int=8))
    world.respond(unsent, committed_response({TP: 7}))
    assert position(world) is None
    world.poll(world.managers.positions)
    assert committed_request(world) is not unsent


def test_an_end_offset_of_a_recreated_topic_is_looked_up_again() -> None:
    world = World()
    world.assign(TP, at=5)
    world.managers.positions.reset([TP], LATEST)
    start_lookups(world)
    unsent = world.sent(world.managers.list_offsets)
    world.lead(1, 1, 2, topic_id=UUID(int=8))
    world.respond(unsent, offsets_response({TP: 9}))
    assert position(world) is None
    world.poll(world.managers.positions)
    world.respond(world.sent(world.managers.list_offsets), offsets_response({TP: 2}))
    assert position(world) == 2


@pytest.mark.parametrize(
    ("policy", "timestamp"), [("earliest", EARLIEST), ("latest", LATEST), ("by_duration:PT1H", 0)]
)
def test_without_a_group_the_policy_decides(policy: str, timestamp: int) -> None:
    """144 for by_duration."""
    world = World(auto_offset_reset=policy)
    world.assign(TP)
    start_lookups(world)
    requested = world.sent(world.managers.list_offsets).message.topics[0].partitions[0].timestamp
    assert requested == (timestamp or world.clock.wall_ms() - 3_600_000)


@pytest.mark.behaviour(145)
def test_without_a_record_in_the_window_the_position_is_the_end() -> None:
    world = World(auto_offset_reset="by_duration:PT1H")
    world.assign(TP)
    start_lookups(world)
    world.respond(world.sent(world.managers.list_offsets), offsets_response({TP: -1}))
    world.poll(world.managers.positions)
    unsent = world.sent(world.managers.list_offsets)
    assert unsent.message.topics[0].partitions[0].timestamp == LATEST
    world.respond(unsent, offsets_response({TP: 99}))
    assert position(world) == 99


@pytest.mark.behaviour(142)
def test_without_a_policy_poll_raises_until_a_seek() -> None:
    world = World(auto_offset_reset="none")
    world.assign(TP)
    for _ in range(2):
        start_lookups(world)
        (error,) = world.raised()
        assert isinstance(error, NoOffsetForPartitionError)
        world.poll(world.managers.positions, after_ms=1_000)
        assert not world.raised(), "once per poll()"
    world.managers.positions.seek(TP, 5, -1)
    start_lookups(world)
    assert not world.raised()
    assert position(world) == 5


@pytest.mark.behaviour(142)
def test_without_a_policy_poll_raises_nothing_after_a_seek_of_all() -> None:
    """The application has called assign(), and then seek() for each partition."""
    world = World(auto_offset_reset="none")
    world.assign(TP, TP1)
    start_lookups(world)
    world.managers.positions.seek(TP, 5, -1)
    event = world.background.first
    assert isinstance(event, ErrorEvent)
    assert not event.outdated
    world.managers.positions.seek(TP1, 6, -1)
    assert event.outdated
    world.managers.positions.reset([TP, TP1], LATEST)
    world.background.add_error(ErrorEvent(event.error))
    assert len(world.raised()) == 1, "the outdated one does not stand for it"


@pytest.mark.behaviour(142)
def test_position_raises_the_error_instead_of_poll() -> None:
    world = World(auto_offset_reset="none")
    world.assign(TP)
    event = UpdatePositions(partition=TP)
    world.managers.positions.wait_for(event)
    world.poll(world.managers.positions)
    assert isinstance(event.future.error, NoOffsetForPartitionError)
    assert not world.raised()


@pytest.mark.behaviour(139)
def test_a_seek_wins_over_a_running_lookup() -> None:
    world = with_group()
    world.assign(TP)
    start_lookups(world)
    unsent = committed_request(world)
    world.managers.positions.seek(TP, 5, -1)
    world.respond(unsent, committed_response({TP: 700}))
    assert position(world) == 5


@pytest.mark.behaviour(139)
@pytest.mark.parametrize("answer", [0, errors.TopicAuthorizationFailedError])
def test_a_seek_wins_over_a_running_reset(answer: int | type[Exception]) -> None:
    world = World(auto_offset_reset="earliest")
    world.assign(TP)
    start_lookups(world)
    unsent = world.sent(world.managers.list_offsets)
    world.managers.positions.seek(TP, 5, -1)
    world.respond(unsent, offsets_response({TP: answer}))
    assert position(world) == 5
    assert not world.raised()


@pytest.mark.behaviour(139)
def test_a_new_assignment_of_the_same_partition_is_not_the_old_one() -> None:
    world = with_group()
    world.assign(TP)
    start_lookups(world)
    old = committed_request(world)
    world.assign(TP1)
    world.assign(TP)
    world.respond(old, committed_response({TP: 700}))
    assert position(world) is None
    assert world.subscription.get(TP).state is FetchState.INITIALIZING
    start_lookups(world)
    world.respond(committed_request(world), committed_response({TP: 3}))
    assert position(world) == 3


@pytest.mark.behaviour(140)
def test_a_partition_added_meanwhile_is_not_reset_before_its_own_lookup() -> None:
    world = with_group(auto_offset_reset="earliest")
    world.assign(TP)
    start_lookups(world)
    first = committed_request(world)
    world.assign(TP, TP1)
    world.respond(first, committed_response({TP: 7}))
    assert world.subscription.get(TP1).state is FetchState.INITIALIZING
    start_lookups(world)
    assert not world.poll(world.managers.list_offsets).unsent
    world.respond(committed_request(world), committed_response({TP1: 9}))
    assert (position(world), position(world, TP1)) == (7, 9)


@pytest.mark.behaviour(141)
def test_successive_polls_share_the_lookup() -> None:
    world = with_group()
    world.assign(TP)
    start_lookups(world)
    unsent = committed_request(world)
    for _ in range(50):
        start_lookups(world)
        assert not world.poll(world.group.committed, after_ms=10).unsent
    world.respond(unsent, committed_response({TP: 7}))
    assert position(world) == 7


@pytest.mark.behaviour(153)
def test_a_partition_about_to_be_revoked_is_not_looked_up() -> None:
    world = with_group()
    (state,) = world.assign(TP)
    state.pending_revocation = True
    start_lookups(world)
    assert not world.poll(world.group.committed).unsent
    state.pending_revocation = False
    world.poll(world.managers.positions)
    committed_request(world)


@pytest.mark.behaviour(146)
def test_seek_to_the_end_is_looked_up_lazily_and_the_last_one_counts() -> None:
    world = World()
    world.assign(TP, at=3)
    world.managers.positions.reset([TP], LATEST)
    assert not world.poll(world.managers.list_offsets).unsent
    start_lookups(world)
    ends = world.sent(world.managers.list_offsets)
    world.managers.positions.reset([TP], EARLIEST)
    start_lookups(world)
    beginnings = world.sent(world.managers.list_offsets)
    world.respond(ends, offsets_response({TP: 99}))
    assert position(world) is None
    world.respond(beginnings, offsets_response({TP: 1}))
    assert position(world) == 1


def test_two_equal_resets_share_one_request() -> None:
    world = World()
    world.assign(TP)
    start_lookups(world)
    unsent = world.sent(world.managers.list_offsets)
    world.managers.positions.reset([TP], LATEST)
    start_lookups(world)
    assert not world.poll(world.managers.list_offsets).unsent
    world.respond(unsent, offsets_response({TP: 8}))
    assert position(world) == 8


@pytest.mark.behaviour(146)
@pytest.mark.parametrize("partitions", [(TP,), (TP, TP1)])
def test_a_seek_between_two_equal_resets_keeps_the_second(
    partitions: tuple[TopicPartition, ...],
) -> None:
    world = World()
    world.assign(*partitions, at=3)
    positions = world.managers.positions
    positions.reset(partitions, EARLIEST)
    start_lookups(world)
    first = world.sent(world.managers.list_offsets)
    positions.seek(TP, 9, -1)
    start_lookups(world)
    world.poll(world.managers.list_offsets)
    positions.reset([TP], EARLIEST)
    start_lookups(world)
    again = world.sent(world.managers.list_offsets)
    world.respond(first, offsets_response(dict.fromkeys(partitions, 1)))
    world.respond(again, offsets_response({TP: 1}))
    assert [position(world, tp) for tp in partitions] == [1] * len(partitions)
    start_lookups(world)
    assert positions._resetting == {}


def test_an_error_of_the_lookup_is_raised_once_per_poll() -> None:
    world = with_group()
    world.assign(TP)
    for _ in range(2):
        start_lookups(world, after_ms=500)
        response = committed_response({}, errors.GroupAuthorizationFailedError)
        world.respond(committed_request(world), response)
        (error,) = world.raised()
        assert isinstance(error, GroupAuthorizationFailedError)


def test_a_failed_reset_is_retried_by_the_next_poll() -> None:
    world = World()
    world.assign(TP)
    start_lookups(world)
    unsent = world.sent(world.managers.list_offsets)
    world.respond(unsent, offsets_response({TP: errors.TopicAuthorizationFailedError}))
    assert len(world.raised()) == 1
    start_lookups(world)
    assert not world.poll(world.managers.list_offsets).unsent, "a retry has a backoff"
    start_lookups(world, after_ms=500)
    world.respond(world.sent(world.managers.list_offsets), offsets_response({TP: 4}))
    assert position(world) == 4


def test_a_committed_epoch_is_validated_first() -> None:
    world = with_group()
    world.assign(TP)
    world.managers.positions.seek(TP, 5, leader_epoch=2)
    assert world.subscription.get(TP).state is FetchState.AWAIT_VALIDATION
    world.managers.positions.seek(TP, 5, leader_epoch=-1)
    assert world.subscription.get(TP).state is FetchState.FETCHING


def test_a_thousand_iterations_without_a_coordinator_do_not_spin() -> None:
    world = World(group_id="readers", retry_backoff_ms=0)
    world.assign(TP)
    began_ms = world.now_ms
    for _ in range(1_000):
        start_lookups(world)
        waits = [world.poll(world.group.committed).wait_ms]
        result = world.poll(world.group.coordinator)
        for unsent in result.unsent:
            world.respond(unsent, coordinator_response(None, errors.CoordinatorNotAvailableError))
        waits.append(world.poll(world.group.coordinator).wait_ms)
        world.clock.advance_to(world.now_ms + min(waits))
    assert world.now_ms - began_ms > 100_000


@pytest.mark.parametrize("epoch", [-1, 2, 3])
def test_a_committed_offset_with_an_epoch_is_validated_before_it_is_read_from(epoch: int) -> None:
    world = with_group()
    world.assign(TP)
    start_lookups(world)
    response = committed_response({TP: 7})
    response.groups[0].topics[0].partitions[0].committed_leader_epoch = epoch
    world.respond(committed_request(world), response)
    state = world.subscription.get(TP)
    assert position(world) == 7
    if epoch < 0:
        assert state.state is FetchState.FETCHING, "nothing to validate without an epoch"
        return
    assert state.state is FetchState.AWAIT_VALIDATION
    unsent = world.sent(world.managers.validation)
    (requested,) = unsent.message.topics[0].partitions
    assert (requested.leader_epoch, requested.current_leader_epoch) == (epoch, 3)
