"""The partitions of each fetch, its broker, and the room in the buffer."""

from __future__ import annotations

import pytest
from kafka import errors

from tandem_kafka.errors import GroupAuthorizationFailedError, KafkaConnectionError
from tandem_kafka.network.request import Purpose, ToNode
from tandem_kafka.request_managers.fetching.placement import FetchPlacement
from tandem_kafka.state.fetch_buffer import CHUNK_BYTES
from tandem_kafka.state.partition import Position, PreferredReplica
from tandem_kafka.types import TopicPartition
from tests.unit.request_managers.fetching import (
    Found,
    chunks,
    consume,
    fetch_response,
    forgotten,
    iterate,
    records,
    requested_offsets,
    send,
)
from tests.unit.request_managers.world import NODE_1, NODE_2, TP, TP1, TP2, World

FOUR = [TopicPartition("orders", number) for number in range(4)]


def reading(**options: object) -> World:
    world = World(leaders=(1, 1, 1, 1), **options)
    world.assign(*FOUR, at=10)
    return world


# --- slots -------------------------------------------------------------------------------------


@pytest.mark.behaviour(154)
def test_two_fetches_per_broker_over_disjoint_halves() -> None:
    world = reading()
    first, second = send(world)
    assert [first.destination, second.destination] == [
        ToNode(NODE_1, Purpose.FETCH_0),
        ToNode(NODE_1, Purpose.FETCH_1),
    ]
    assert len(requested_offsets(first)) == len(requested_offsets(second)) == 2
    assert requested_offsets(first) | requested_offsets(second) == dict.fromkeys(range(4), 10)


@pytest.mark.behaviour(154)
def test_never_two_fetches_for_one_partition() -> None:
    world = reading()
    first, _ = send(world)
    for _ in range(10):
        assert not send(world, after_ms=1_000)
    (one, _) = requested_offsets(first)
    world.respond(first, fetch_response({TopicPartition("orders", one): Found(records(10))}))
    (again,) = send(world)
    assert requested_offsets(again).keys() <= requested_offsets(first).keys()


def test_nothing_is_fetched_from_the_end_of_a_range_on() -> None:
    world = World(leaders=(1,))
    world.assign(TP, at=10)
    state = world.subscription.assigned[TP]
    state.stop_at = 12
    (first,) = send(world)
    world.respond(first, fetch_response({TP: Found(records(10, 2))}))
    assert not send(world, after_ms=60_000)
    state.stop_at = 13
    (second,) = send(world)
    assert requested_offsets(second) == {0: 12}


def test_slots_are_checked_when_something_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(leaders=(1,))
    (state,) = world.assign(TP, at=10)
    looks: list[int] = []
    update = FetchPlacement.update

    def counted(placement: FetchPlacement, now_ms: int) -> None:
        looks.append(now_ms)
        update(placement, now_ms)

    def looked() -> bool:
        looks.clear()
        send(world)
        return bool(looks)

    monkeypatch.setattr(FetchPlacement, "update", counted)
    (first,) = send(world)
    assert not looked()
    state.paused = True
    assert looked()
    assert not looked()
    world.lead(1, epoch=4)
    assert looked()
    world.respond(first, fetch_response({}))
    state.paused = False
    (second,) = send(world, after_ms=100)
    assert not looked()
    second.future.fail(KafkaConnectionError("gone"))
    assert looked(), "the backoff allows another attempt"
    assert not looked()
    assert send(world, after_ms=1_000)


def test_each_broker_gets_fetches_of_partitions_that_it_leads() -> None:
    world = World(leaders=(1, 2, 2))
    world.assign(TP, TP1, TP2, at=0)
    requested: dict[int, set[int]] = {1: set(), 2: set()}
    for unsent in send(world):
        assert isinstance(unsent.destination, ToNode)
        requested[unsent.destination.node.node_id] |= requested_offsets(unsent).keys()
    assert requested == {1: {0}, 2: {1, 2}}


def test_a_partition_keeps_its_slot_when_others_come_and_go() -> None:
    world = reading()
    before = {state.tp: state.slot for state in world.subscription.assigned.values()}
    if send(world):
        world.assign(*FOUR[1:])
        iterate(world)
    for tp, state in world.subscription.assigned.items():
        assert state.slot in {-1, before[tp]} or before[tp] == -1


def test_partitions_with_records_are_requested_last() -> None:
    """170, at the broker."""
    world = reading(enable_incremental_fetch_sessions=False)
    first, _ = send(world)
    busy = next(iter(requested_offsets(first)))
    world.respond(
        first, fetch_response({TopicPartition("orders", busy): Found(records(10))}, session_id=0)
    )
    (again,) = send(world)
    assert list(requested_offsets(again))[-1] == busy


def test_a_partition_without_a_valid_position_is_left_out() -> None:
    world = reading()
    world.subscription.get(TP).await_reset(-1)
    assert all(0 not in requested_offsets(unsent) for unsent in send(world))


def test_no_leader_no_fetch() -> None:
    world = World(leaders=(-1, 1, 1))
    world.assign(TP, at=0)
    assert not send(world)


# --- sessions ----------------------------------------------------------------------------------


@pytest.mark.behaviour(157)
def test_unchanged_partitions_are_not_named_again() -> None:
    world = reading()
    first, second = send(world)
    one, other = requested_offsets(first)
    assert (first.message.session_id, first.message.session_epoch) == (0, 0)
    world.respond(first, fetch_response({TopicPartition("orders", one): Found(records(10))}))
    (again,) = send(world)
    assert (again.message.session_id, again.message.session_epoch) == (77, 1)
    assert requested_offsets(again) == {one: 12}
    world.respond(again, fetch_response({TopicPartition("orders", other): Found(records(10))}))
    (third,) = send(world)
    assert third.message.session_epoch == 2
    assert requested_offsets(third) == {other: 12}
    assert not second.future.done


@pytest.mark.behaviour(157)
def test_unfetchable_partitions_are_forgotten_and_added_again_later() -> None:
    world = reading()
    first, _ = send(world)
    one, other = requested_offsets(first)
    world.respond(first, fetch_response({TopicPartition("orders", one): Found(records(10))}))
    state = world.subscription.get(TopicPartition("orders", other))
    state.paused = True
    (again,) = send(world)
    assert forgotten(again) == [other]
    world.respond(again, fetch_response({TopicPartition("orders", one): Found(records(12))}))
    state.paused = False
    (third,) = send(world)
    assert requested_offsets(third) == {one: 14, other: 10}


@pytest.mark.behaviour(157)
@pytest.mark.parametrize(
    "error", [errors.FetchSessionIdNotFoundError, errors.InvalidFetchSessionEpochError]
)
def test_an_error_of_the_session_starts_a_full_one(error: type[Exception]) -> None:
    world = reading()
    first, _ = send(world)
    one, _ = requested_offsets(first)
    world.respond(first, fetch_response({TopicPartition("orders", one): Found(records(10))}))
    (again,) = send(world)
    world.respond(again, fetch_response({}, session_id=0, error=error))
    assert world.refresh_requested()
    result = iterate(world)
    assert not result.unsent
    (full,) = send(world, after_ms=result.wait_ms)
    assert full.message.session_epoch == 0
    assert len(requested_offsets(full)) == 2


def test_a_recreated_topic_is_fetched_by_its_new_id() -> None:
    """157, replaced topic."""
    from uuid import UUID

    world = reading()
    first, second = send(world)
    for unsent in (first, second):
        one, _ = requested_offsets(unsent)
        world.respond(unsent, fetch_response({TopicPartition("orders", one): Found(records(10))}))
    consume(world)
    world.lead(1, 1, 1, 1, topic_id=UUID(int=8))
    for unsent in send(world):
        assert {topic.topic_id for topic in unsent.message.topics} == {UUID(int=8)}
        assert len(requested_offsets(unsent)) == 2
        assert len(forgotten(unsent)) == 2


@pytest.mark.behaviour(113)
def test_close_ends_the_sessions_on_another_connection() -> None:
    world = reading()
    for unsent in send(world):
        one, _ = requested_offsets(unsent)
        world.respond(unsent, fetch_response({TopicPartition("orders", one): Found(records(10))}))
    send(world)
    last = world.managers.fetch.close(world.now_ms).unsent
    assert [u.message.session_epoch for u in last] == [-1, -1]
    assert {u.destination for u in last} == {ToNode(NODE_1, Purpose.MAIN)}
    assert not world.managers.fetch.close(world.now_ms).unsent


# --- read-ahead --------------------------------------------------------------------------------


def fill(world: World) -> None:
    """Respond with records until nothing is fetched any more."""
    for _ in range(1_000):
        unsent = send(world)
        if not unsent:
            return
        for each in unsent:
            found = {
                TopicPartition("orders", n): Found(records(offset, 4, size=100))
                for n, offset in requested_offsets(each).items()
            }
            world.respond(each, fetch_response(found, session_id=0))
    pytest.fail("it never stops")


def test_read_ahead_is_limited_in_bytes() -> None:
    world = reading(fetch_buffer_max_bytes=2_000, max_partition_fetch_bytes=900)
    fill(world)
    assert world.buffer.starved
    assert world.buffer.held_bytes < 2_000 + 4 * (900 + CHUNK_BYTES)
    assert iterate(world).wait_ms > 1_000_000, "releasing wakes the network thread"
    consume(world)
    assert world.buffer.held_bytes == 0
    assert send(world)


def test_a_partition_that_is_given_back_leaves_half_a_buffer_to_others() -> None:
    world = reading(fetch_buffer_max_bytes=100_000, max_partition_fetch_bytes=900)
    for each in send(world):
        size = 95_000 if 0 in requested_offsets(each) else 10
        large = {FOUR[min(requested_offsets(each))]: Found(records(10, 1, size=size))}
        world.respond(each, fetch_response(large, session_id=0))
    world.subscription.get(TP).pending_revocation = True
    fill(world)
    assert 150_000 <= world.buffer.held_bytes < 160_000


def test_slots_take_turns_if_there_is_room_for_one_response() -> None:
    world = reading(fetch_buffer_max_bytes=1_000, max_partition_fetch_bytes=1_000)
    turns = []
    for _ in range(6):
        (unsent,) = send(world)
        assert isinstance(unsent.destination, ToNode)
        turns.append(unsent.destination.purpose)
        found = {
            TopicPartition("orders", n): Found(records(offset))
            for n, offset in requested_offsets(unsent).items()
        }
        world.respond(unsent, fetch_response(found, session_id=0))
        consume(world)
    assert turns == [Purpose.FETCH_0, Purpose.FETCH_1] * 3


def test_a_fetch_at_the_end_of_the_log_takes_no_room_from_others() -> None:
    world = reading(fetch_buffer_max_bytes=1_000, max_partition_fetch_bytes=1_000)
    (first,) = send(world)
    found = {
        TopicPartition("orders", n): Found(records(10), high_watermark=12)
        for n in requested_offsets(first)
    }
    world.respond(first, fetch_response(found))
    consume(world)
    purposes = [u.destination.purpose for u in send(world) if isinstance(u.destination, ToNode)]
    assert purposes == [Purpose.FETCH_1], "the expected responses exceed the free space"
    world = reading(fetch_buffer_max_bytes=1_000, max_partition_fetch_bytes=1_000)
    (first,) = send(world)
    world.respond(first, fetch_response(found))
    consume(world)
    world.subscription.get(TopicPartition("orders", 1)).paused = True
    world.subscription.get(TopicPartition("orders", 3)).paused = True
    (parked,) = send(world)
    assert requested_offsets(parked).keys() == requested_offsets(first).keys()
    world.subscription.get(TopicPartition("orders", 1)).paused = False
    (other,) = send(world)
    assert list(requested_offsets(other)) == [1]


@pytest.mark.behaviour(155)
def test_a_full_paused_partition_does_not_block_others() -> None:
    world = World(
        leaders=(1, 1, 1), fetch_buffer_max_bytes=100_000, max_partition_fetch_bytes=1_000
    )
    full, other = world.assign(TP, TP1, at=10)
    unsent = {next(iter(requested_offsets(u))): u for u in send(world)}
    world.respond(unsent[0], fetch_response({TP: Found(records(10, 1, size=60_000))}))
    full.paused = True
    world.respond(unsent[1], fetch_response({TP1: Found(records(10))}))
    for offset in range(12, 40, 2):
        (again,) = send(world)
        assert requested_offsets(again) == {1: offset}
        world.respond(again, fetch_response({TP1: Found(records(offset))}))
    assert full.held_bytes > 50_000
    assert other.held_bytes > 0


@pytest.mark.behaviour(156)
def test_buffered_records_of_a_paused_partition_are_not_fetched_again() -> None:
    world = World()
    (state,) = world.assign(TP, at=10)
    (unsent,) = send(world)
    world.respond(unsent, fetch_response({TP: Found(records(10, 5))}))
    state.paused = True
    assert not send(world)
    state.paused = False
    (again,) = send(world)
    assert requested_offsets(again) == {0: 15}
    (chunk,) = chunks(world)
    assert chunk.reader is not None


# --- failures ----------------------------------------------------------------------------------


def test_a_failed_fetch_backs_off_and_requests_metadata() -> None:
    world = reading()
    first, _ = send(world)
    first.future.fail(KafkaConnectionError("cut"))
    assert world.refresh_requested()
    result = iterate(world)
    assert 80 <= result.wait_ms <= 120
    (again,) = send(world, after_ms=result.wait_ms)
    assert again.message.session_epoch == 0


def test_a_fetch_error_that_cannot_be_retried_is_raised() -> None:
    world = reading()
    first, _ = send(world)
    first.future.fail(GroupAuthorizationFailedError("no"))
    assert len(world.raised()) == 1


@pytest.mark.behaviour(159)
def test_a_failed_fetch_from_a_replica_goes_back_to_the_leader() -> None:
    world = World(leaders=(1, 1, 1))
    (state,) = world.assign(TP, at=10)
    state.preferred_replica = PreferredReplica(2, 10**9)
    (unsent,) = send(world)
    assert unsent.destination == ToNode(NODE_2, Purpose.FETCH_0)
    unsent.future.fail(KafkaConnectionError("cut"))
    (again,) = send(world)
    assert again.destination == ToNode(NODE_1, Purpose.FETCH_0)


@pytest.mark.behaviour(159)
def test_the_lease_of_a_replica_ends() -> None:
    world = World(leaders=(1, 1, 1), metadata_max_age_ms=10_000)
    (state,) = world.assign(TP, at=10)
    (unsent,) = send(world)
    world.respond(unsent, fetch_response({TP: Found(replica=2)}))
    assert state.preferred_replica is not None
    (again,) = send(world)
    assert again.destination == ToNode(NODE_2, Purpose.FETCH_0)
    world.clock.advance_to(world.now_ms + 10_000)
    world.respond(again, fetch_response({TP: Found(records(10))}))
    (third,) = send(world)
    assert third.destination == ToNode(NODE_1, Purpose.FETCH_0)
    assert state.preferred_replica is None


@pytest.mark.behaviour(159)
def test_a_replica_that_is_offline_is_not_read_from() -> None:
    world = World(leaders=(1, 1, 1))
    (state,) = world.assign(TP, at=10)
    state.preferred_replica = PreferredReplica(5, 10**9)
    (unsent,) = send(world)
    assert unsent.destination == ToNode(NODE_1, Purpose.FETCH_0)


def test_a_thousand_failures_back_off() -> None:
    world = World(leaders=(1, 1, 1), retry_backoff_ms=0)
    world.assign(TP, at=10)
    began_ms = world.now_ms
    for _ in range(1_000):
        _, unsent = world.wait_and_send(world.managers.fetch)
        unsent.future.fail(KafkaConnectionError("cut"))
    assert world.now_ms - began_ms > 100_000


def test_a_thousand_empty_responses_do_not_spin() -> None:
    world = World(leaders=(1, 1, 1), fetch_max_wait_ms=0, retry_backoff_ms=0)
    world.assign(TP, at=10)
    began_ms = world.now_ms
    for _ in range(1_000):
        _, unsent = world.wait_and_send(world.managers.fetch)
        world.respond(unsent, fetch_response({}))
    assert world.now_ms - began_ms >= 9_000


def test_a_thousand_errors_of_a_partition_do_not_spin() -> None:
    world = World(leaders=(1, 1, 1), retry_backoff_ms=0)
    world.assign(TP, at=10)
    began_ms = world.now_ms
    for _ in range(1_000):
        _, unsent = world.wait_and_send(world.managers.fetch)
        world.respond(unsent, fetch_response({TP: Found(error=errors.NotLeaderForPartitionError)}))
    assert world.now_ms - began_ms >= 40_000


def test_a_seek_while_a_fetch_is_parked_is_fetched_when_that_is_over() -> None:
    world = World(leaders=(1, 1, 1))
    (state,) = world.assign(TP, at=10)
    (unsent,) = send(world)
    state.set_position(Position(50))
    assert not send(world)
    world.respond(unsent, fetch_response({TP: Found(records(10))}))
    assert not chunks(world)
    waited_ms, again = world.wait_and_send(world.managers.fetch)
    assert waited_ms <= 10
    assert requested_offsets(again) == {0: 50}
