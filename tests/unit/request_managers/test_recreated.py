"""Deleted and recreated topics, and positions of the old topic."""

from __future__ import annotations

from uuid import UUID

import pytest

from tandem_kafka.errors import OffsetOutOfRangeError
from tandem_kafka.request_managers.offsets_request_manager import EARLIEST
from tandem_kafka.state.partition import AssignedPartition, FetchState
from tandem_kafka.types import NO_TOPIC_ID
from tests.unit.request_managers.world import TOPIC_ID, TP, TP1, World

NEW_TOPIC_ID = UUID(int=8)


def reading(**options: object) -> tuple[World, AssignedPartition]:
    """A consumer at offset 5 of a topic."""
    world = World(**{"auto_offset_reset": "earliest", **options})
    (state,) = world.assign(TP, at=5)
    follow(world)
    assert state.topic_id == TOPIC_ID
    return world, state


def follow(world: World) -> None:
    """Run an iteration of the network thread, without a request for the end of an epoch."""
    assert not world.poll(world.managers.validation, after_ms=1_000).unsent


def respond_with(world: World, topic_id: UUID) -> None:
    world.lead(1, 1, 2, topic_id=topic_id)
    follow(world)


def test_two_responses_with_another_id_mean_another_topic() -> None:
    world, state = reading()
    assert not world.refresh_requested()
    respond_with(world, NEW_TOPIC_ID)
    assert world.refresh_requested()
    assert state.position is not None, "one response may be stale"
    assert not state.fetchable
    respond_with(world, NEW_TOPIC_ID)
    assert state.position is None
    assert (state.state, state.reset_timestamp) == (FetchState.AWAIT_RESET, EARLIEST)
    assert state.topic_id == NEW_TOPIC_ID


@pytest.mark.behaviour(172)
def test_another_cluster_has_other_ids_and_positions_stay() -> None:
    world, state = reading()
    world.cluster_id = "another"
    for _ in range(3):
        respond_with(world, NEW_TOPIC_ID)
        assert state.fetchable
    assert state.position is not None
    assert state.position.offset == 5
    assert state.topic_id == NEW_TOPIC_ID
    for _ in range(2):
        respond_with(world, TOPIC_ID)
    assert state.position is None, "the topic was recreated in that cluster"


def test_a_single_response_with_another_id_is_ignored() -> None:
    world, state = reading()
    respond_with(world, NEW_TOPIC_ID)
    respond_with(world, TOPIC_ID)
    assert state.fetchable
    assert state.position is not None
    assert state.position.offset == 5
    respond_with(world, NEW_TOPIC_ID)
    assert state.position is not None, "the count starts again"


def test_leader_hints_do_not_count_as_responses() -> None:
    world, state = reading()
    respond_with(world, NEW_TOPIC_ID)
    assert world.metadata.update_leader(TP, (2, 9), ())
    world.subscription.version += 1
    follow(world)
    assert state.position is not None


def test_a_response_without_the_topic_is_ignored() -> None:
    world, state = reading()
    respond_with(world, NEW_TOPIC_ID)
    respond_with(world, NO_TOPIC_ID)
    assert not state.fetchable
    assert state.position is not None
    respond_with(world, NEW_TOPIC_ID)
    assert state.position is None


def test_all_positions_are_dropped_before_a_topic_id_changes() -> None:
    """A commit reads the topic ids first, so it never mixes old positions with new topics."""
    world = World(auto_offset_reset="earliest")
    states = world.assign(TP, TP1, at=5)
    follow(world)
    respond_with(world, NEW_TOPIC_ID)
    seen = []
    await_reset = AssignedPartition.await_reset

    def watched(state: AssignedPartition, timestamp: int) -> None:
        await_reset(state, timestamp)
        seen.append([each.topic_id for each in states])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AssignedPartition, "await_reset", watched)
        respond_with(world, NEW_TOPIC_ID)
    assert seen == [[TOPIC_ID, TOPIC_ID]] * 2
    assert [state.topic_id for state in states] == [NEW_TOPIC_ID, NEW_TOPIC_ID]


def test_a_seek_meanwhile_wins() -> None:
    world, state = reading()
    respond_with(world, NEW_TOPIC_ID)
    world.managers.positions.seek(TP, 2, -1)
    respond_with(world, NEW_TOPIC_ID)
    assert state.fetchable
    assert state.position is not None
    assert state.position.offset == 2


@pytest.mark.parametrize("recreated", [True, False])
def test_a_seek_to_an_offset_of_the_old_topic_is_in_doubt(recreated: bool) -> None:
    world, state = reading()
    respond_with(world, NEW_TOPIC_ID)
    world.managers.positions.seek(TP, 2, -1, TOPIC_ID)
    assert not state.fetchable
    follow(world)
    respond_with(world, NEW_TOPIC_ID if recreated else TOPIC_ID)
    assert state.fetchable != recreated
    position = state.position
    if recreated:
        assert position is None
        assert state.topic_id == NEW_TOPIC_ID
    else:
        assert position is not None
        assert position.offset == 2


def test_a_seek_to_an_offset_of_a_deleted_topic_changes_nothing() -> None:
    world, state = reading()
    respond_with(world, NEW_TOPIC_ID)
    respond_with(world, NEW_TOPIC_ID)
    world.managers.positions.seek(TP, 2, -1, TOPIC_ID)
    assert state.position is None
    assert state.topic_id == NEW_TOPIC_ID


def test_without_a_policy_poll_raises_until_a_seek() -> None:
    world, state = reading(auto_offset_reset="none")
    respond_with(world, NEW_TOPIC_ID)
    respond_with(world, NEW_TOPIC_ID)
    chunk = world.buffer.queue.take()
    assert chunk is not None
    assert isinstance(chunk.error, OffsetOutOfRangeError)
    assert chunk.sticky
    assert not state.fetchable
    respond_with(world, NEW_TOPIC_ID)
    assert world.buffer.queue.take() is None, "once is enough"
    world.managers.positions.seek(TP, 0, -1)
    world.buffer.count(chunk, world.buffer.counts(chunk, 0))
    follow(world)
    assert state.fetchable
    assert state.topic_id == NEW_TOPIC_ID
