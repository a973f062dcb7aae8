"""Fetch responses: records, hints and errors."""

from __future__ import annotations

import pytest
from kafka import errors

from tandem_kafka.errors import (
    CorruptRecordError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)
from tandem_kafka.network.request import Purpose, ToNode, UnsentRequest
from tandem_kafka.request_managers.reactions import FETCH, Reaction
from tandem_kafka.state.partition import AssignedPartition, FetchState, Position, PreferredReplica
from tandem_kafka.types import UNKNOWN_OFFSET, Node, TopicPartition
from tests.unit.records.making import Rec, batch
from tests.unit.request_managers.fetching import (
    Found,
    chunks,
    consume,
    fetch_response,
    records,
    requested_offsets,
    send,
)
from tests.unit.request_managers.world import NODE_2, TP, TP1, World, offsets_response


def with_fetch_in_flight(**options: object) -> tuple[World, AssignedPartition, UnsentRequest]:
    world = World(leaders=(1, 1, 1), **options)
    (state,) = world.assign(TP, at=10)
    (unsent,) = send(world)
    return world, state, unsent


# --- records -----------------------------------------------------------------------------------


def test_records_go_to_the_buffer_and_the_next_fetch_continues_after_them() -> None:
    world, state, unsent = with_fetch_in_flight()
    world.respond(unsent, fetch_response({TP: Found(records(10, 5), high_watermark=42)}))
    (chunk,) = chunks(world)
    assert chunk.partition is state
    assert chunk.base is state.base
    assert [r.offset for r in chunk.reader.take(10)] == [10, 11, 12, 13, 14]
    assert (state.high_watermark, state.log_start_offset) == (42, 0)
    assert state.position.offset == 10, "poll() moves the position, not the response"
    assert requested_offsets(send(world)[0]) == {0: 15}


@pytest.mark.parametrize(("above", "expected"), [(0, True), (1, False), (1 << 24, False)])
def test_a_leader_epoch_that_metadata_contradicts_is_unknown(above: int, expected: bool) -> None:
    world, _, unsent = with_fetch_in_flight()
    known = world.metadata.snapshot.leader_epoch(TP)
    assert known >= 0
    data = batch([Rec()], 10, epoch=known + above)
    world.respond(unsent, fetch_response({TP: Found(data, high_watermark=11)}))
    (chunk,) = chunks(world)
    (record,) = chunk.reader.take(1)
    assert record.leader_epoch == chunk.reader.leader_epoch == (known if expected else -1)


@pytest.mark.parametrize(
    ("found", "throttle_ms", "end"),
    [({TP: Found(high_watermark=10)}, 0, 10), ({}, 0, 10), ({}, 300, UNKNOWN_OFFSET)],
)
def test_an_empty_response_has_the_end_unless_the_broker_may_not_have_looked(
    found: dict[TopicPartition, Found], throttle_ms: int, end: int
) -> None:
    world, state, unsent = with_fetch_in_flight()
    response = fetch_response(found)
    response.throttle_time_ms = throttle_ms
    world.respond(unsent, response)
    assert state.high_watermark == end
    assert not chunks(world)


@pytest.mark.behaviour(158)
@pytest.mark.parametrize("how", ["seek", "reset", "assign", "revoke", "overtaken"])
def test_a_stale_fetch_response_is_dropped(how: str) -> None:
    world, state, unsent = with_fetch_in_flight()
    if how == "seek":
        state.set_position(Position(10))
    elif how == "reset":
        state.await_reset(-1)
    elif how == "assign":
        world.assign(TP1)
        world.assign(TP)
    elif how == "overtaken":
        state.read_ahead = 15  # by the response to a fetch in another slot
    else:
        world.subscription.unsubscribe()
    world.respond(unsent, fetch_response({TP: Found(records(10))}))
    assert not chunks(world)
    assert not world.raised()


@pytest.mark.behaviour(158)
@pytest.mark.parametrize("error", [errors.OffsetOutOfRangeError, errors.CorruptRecordError])
def test_a_stale_error_is_dropped_too(error: type[Exception]) -> None:
    world, state, unsent = with_fetch_in_flight(auto_offset_reset="none")
    state.set_position(Position(10))
    world.respond(unsent, fetch_response({TP: Found(error=error)}))
    assert not chunks(world)
    assert state.fetchable


def test_a_response_for_an_unrequested_partition_is_ignored() -> None:
    world, _, unsent = with_fetch_in_flight()
    world.respond(unsent, fetch_response({TP1: Found(records(10))}))
    assert not chunks(world)


@pytest.mark.behaviour(164)
def test_a_corrupt_batch_is_an_error_at_its_position() -> None:
    world, state, unsent = with_fetch_in_flight()
    good = records(10, 2)
    broken = bytearray(records(12, 2))
    broken[-1] ^= 0xFF
    world.respond(unsent, fetch_response({TP: Found(good + bytes(broken))}))
    (chunk,) = chunks(world)
    assert chunk.error is None, "the valid batch comes before the error"
    assert [r.offset for r in chunk.reader.take(2)] == [10, 11]
    with pytest.raises(CorruptRecordError):
        chunk.reader.take(1)
    assert state.read_ahead >= 12


@pytest.mark.behaviour(164)
def test_an_incomplete_batch_is_an_error_until_a_seek() -> None:
    world, state, unsent = with_fetch_in_flight()
    world.respond(unsent, fetch_response({TP: Found(records(10, 2)[:30])}))
    (chunk,) = chunks(world)
    assert chunk.error is not None
    assert chunk.sticky
    assert not state.fetchable
    state.set_position(Position(12))
    world.buffer.count(chunk, world.buffer.counts(chunk, 0))
    assert state.fetchable


# --- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("error", "reaction"), FETCH.items())
def test_reactions(error: type[Exception], reaction: Reaction) -> None:
    world, state, unsent = with_fetch_in_flight(auto_offset_reset="earliest")
    world.respond(unsent, fetch_response({TP: Found(error=error)}))
    assert world.refresh_requested() is (reaction is Reaction.REFRESH)
    taken = chunks(world)
    if reaction is Reaction.RAISE:
        (chunk,) = taken
        assert isinstance(chunk.error, error)
        assert not chunk.sticky
        assert not state.fetchable, "no fetch until poll() raises the error"
        world.buffer.count(chunk, world.buffer.counts(chunk, 0))
        assert state.fetchable
    else:
        assert not taken
    if reaction is Reaction.RESET:
        assert state.state is FetchState.FETCHING
        _, again = world.wait_and_send(world.managers.fetch)
        world.respond(again, fetch_response({TP: Found(error=error)}))
        assert state.state is FetchState.AWAIT_RESET
        return
    waited_ms, again = world.wait_and_send(world.managers.fetch)
    assert 80 <= waited_ms <= 120
    world.respond(again, fetch_response({TP: Found(records(10))}))
    assert len(chunks(world)) == 1


def test_an_error_in_no_table_is_raised() -> None:
    world, _, unsent = with_fetch_in_flight()
    world.respond(unsent, fetch_response({TP: Found(error=errors.PolicyViolationError)}))
    (chunk,) = chunks(world)
    assert isinstance(chunk.error, errors.PolicyViolationError)


@pytest.mark.behaviour(167)
def test_an_unauthorized_topic_is_named_once_per_response() -> None:
    world, _, unsent = with_fetch_in_flight()
    world.respond(unsent, fetch_response({TP: Found(error=errors.TopicAuthorizationFailedError)}))
    (chunk,) = chunks(world)
    assert isinstance(chunk.error, TopicAuthorizationFailedError)
    assert chunk.error.args[0] == {"orders"}


def test_a_denied_topic_is_a_trouble_until_a_fetch_succeeds_even_without_records() -> None:
    world, _, unsent = with_fetch_in_flight()
    troubles = world.context.topic_troubles
    world.respond(unsent, fetch_response({TP: Found(error=errors.TopicAuthorizationFailedError)}))
    assert list(troubles.of({TP.topic}, {TP.topic})) == [TP.topic]
    consume(world)
    _, again = world.wait_and_send(world.managers.fetch)
    world.respond(again, fetch_response({TP: Found(high_watermark=10)}))
    assert troubles.of({TP.topic}, {TP.topic}) == {}


# --- out of range ------------------------------------------------------------------------------


def out_of_range(world: World, unsent: UnsentRequest) -> None:
    """Respond twice with OFFSET_OUT_OF_RANGE."""
    world.respond(unsent, fetch_response({TP: Found(error=errors.OffsetOutOfRangeError)}))
    _, again = world.wait_and_send(world.managers.fetch)
    world.respond(again, fetch_response({TP: Found(error=errors.OffsetOutOfRangeError)}))


@pytest.mark.behaviour(143)
def test_out_of_range_applies_the_policy_silently() -> None:
    world, state, unsent = with_fetch_in_flight(auto_offset_reset="earliest")
    out_of_range(world, unsent)
    world.poll(world.managers.positions)
    world.respond(world.sent(world.managers.list_offsets), offsets_response({TP: 30}))
    assert state.position.offset == 30
    assert not world.raised()


@pytest.mark.behaviour(142)
def test_out_of_range_without_a_policy_is_an_error_until_a_seek() -> None:
    world, state, unsent = with_fetch_in_flight(auto_offset_reset="none")
    out_of_range(world, unsent)
    (chunk,) = chunks(world)
    assert isinstance(chunk.error, OffsetOutOfRangeError)
    assert chunk.error.args[0] == {TP: 10}
    assert chunk.sticky
    assert not send(world, after_ms=10_000)
    state.set_position(Position(3))
    assert chunk.base is not state.base
    world.buffer.count(chunk, world.buffer.counts(chunk, 0))
    assert requested_offsets(send(world)[0]) == {0: 3}


def test_out_of_range_after_buffered_records_waits_until_they_are_returned() -> None:
    world, state, unsent = with_fetch_in_flight(
        auto_offset_reset="earliest", enable_incremental_fetch_sessions=False
    )
    world.respond(unsent, fetch_response({TP: Found(records(10, 5))}))
    (again,) = send(world)
    world.respond(again, fetch_response({TP: Found(error=errors.OffsetOutOfRangeError)}))
    assert state.state is FetchState.FETCHING
    assert not send(world, after_ms=1_000)
    assert world.buffer.starved, "poll() wakes the network thread"
    consume(world)
    (third,) = send(world)
    assert requested_offsets(third) == {0: 15}
    out_of_range(world, third)
    assert state.state is FetchState.AWAIT_RESET


def test_one_out_of_range_response_skips_nothing() -> None:
    """Its error code may have been corrupted."""
    world, state, unsent = with_fetch_in_flight(auto_offset_reset="latest")
    for offset in range(10, 30, 2):
        world.respond(unsent, fetch_response({TP: Found(error=errors.OffsetOutOfRangeError)}))
        _, unsent = world.wait_and_send(world.managers.fetch)
        world.respond(unsent, fetch_response({TP: Found(records(offset))}))
        consume(world)
        _, unsent = world.wait_and_send(world.managers.fetch)
    assert state.state is FetchState.FETCHING
    assert state.read_ahead == 30


def test_a_response_counts_once_for_a_partition_however_often_it_names_it() -> None:
    """One that named it twice was believed, and records were skipped."""
    world, state, unsent = with_fetch_in_flight(auto_offset_reset="latest")
    response = fetch_response({TP: Found(error=errors.OffsetOutOfRangeError)})
    response.responses *= 2
    world.respond(unsent, response)
    assert state.state is FetchState.FETCHING
    _, unsent = world.wait_and_send(world.managers.fetch)
    response = fetch_response({TP: Found(records(10, 2))})
    response.responses *= 2
    world.respond(unsent, response)
    assert len(chunks(world)) == 1


def test_two_out_of_range_responses_must_be_consecutive() -> None:
    """After a response without the error in between, the second one counts as the first."""
    world, state, unsent = with_fetch_in_flight(auto_offset_reset="latest")
    world.respond(unsent, fetch_response({TP: Found(error=errors.OffsetOutOfRangeError)}))
    _, unsent = world.wait_and_send(world.managers.fetch)
    world.respond(unsent, fetch_response({TP: Found(high_watermark=10)}))
    _, unsent = world.wait_and_send(world.managers.fetch)
    world.respond(unsent, fetch_response({TP: Found(error=errors.OffsetOutOfRangeError)}))
    assert state.state is FetchState.FETCHING


def test_two_out_of_range_responses_must_be_for_one_position() -> None:
    """A seek back to the offset is another position."""
    world, state, unsent = with_fetch_in_flight(auto_offset_reset="latest")
    world.respond(unsent, fetch_response({TP: Found(error=errors.OffsetOutOfRangeError)}))
    world.managers.positions.seek(TP, 10, -1)
    _, unsent = world.wait_and_send(world.managers.fetch)
    world.respond(unsent, fetch_response({TP: Found(error=errors.OffsetOutOfRangeError)}))
    assert state.state is FetchState.FETCHING
    _, unsent = world.wait_and_send(world.managers.fetch)
    world.respond(unsent, fetch_response({TP: Found(error=errors.OffsetOutOfRangeError)}))
    assert state.state is FetchState.AWAIT_RESET


@pytest.mark.behaviour(159)
def test_out_of_range_at_a_replica_asks_the_leader() -> None:
    world = World(leaders=(1, 1, 1))
    (state,) = world.assign(TP, at=10)
    state.preferred_replica = PreferredReplica(2, 10**9)
    (unsent,) = send(world)
    world.respond(unsent, fetch_response({TP: Found(error=errors.OffsetOutOfRangeError)}))
    assert state.state is FetchState.FETCHING
    assert state.preferred_replica is None
    _, again = world.wait_and_send(world.managers.fetch)
    assert isinstance(again.destination, ToNode)
    assert again.destination.node.node_id == 1


# --- hints -------------------------------------------------------------------------------------


@pytest.mark.behaviour(160)
@pytest.mark.parametrize(
    "error", [errors.NotLeaderForPartitionError, errors.FencedLeaderEpochError]
)
def test_a_hint_saves_the_metadata_round_trip(error: type[Exception]) -> None:
    world, state, unsent = with_fetch_in_flight()
    newcomer = Node(5, "10.0.0.5", 9092)
    found = Found(error=error, leader=(5, 4))
    world.respond(unsent, fetch_response({TP: found}, nodes=(newcomer,)))
    assert not world.refresh_requested()
    question = world.sent(world.managers.validation)
    assert question.destination == ToNode(newcomer)
    state.validated()
    (again,) = send(world)
    assert again.destination == ToNode(newcomer, Purpose.FETCH_0)


@pytest.mark.behaviour(160)
def test_an_older_hint_is_not_followed() -> None:
    world, _, unsent = with_fetch_in_flight()
    found = Found(error=errors.NotLeaderForPartitionError, leader=(2, 2))
    world.respond(unsent, fetch_response({TP: found}, nodes=(NODE_2,)))
    assert world.refresh_requested()
    assert world.metadata.snapshot.leader_epoch(TP) == 3


@pytest.mark.behaviour(159)
def test_a_preferred_replica_is_followed() -> None:
    world, state, unsent = with_fetch_in_flight()
    world.respond(unsent, fetch_response({TP: Found(replica=2)}))
    assert state.preferred_replica == PreferredReplica(2, world.now_ms + 300_000)
    (again,) = send(world)
    assert again.destination == ToNode(NODE_2, Purpose.FETCH_0)
    world.respond(again, fetch_response({TP: Found(error=errors.NotLeaderForPartitionError)}))
    assert state.preferred_replica is None
