"""Share groups (KIP-932): the same raw requests to the simulated broker and to a real one."""

from __future__ import annotations

import pytest

from tandem_kafka_testing.kafka.jars import chosen_version, release_of
from tests.integration.heartbeating import RawMember
from tests.integration.offsets import RawOffsets
from tests.integration.share.share_worlds import ShareWorld
from tests.integration.share.sharing import Beat, Fetched, RawShareMember, Shared

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
GAP = 0

UNKNOWN_SERVER_ERROR = -1
UNKNOWN_TOPIC_OR_PARTITION = 3
UNKNOWN_MEMBER_ID = 25
INVALID_REQUEST = 42
GROUP_ID_NOT_FOUND = 69
UNKNOWN_TOPIC_ID = 100
FENCED_MEMBER_EPOCH = 110
INVALID_RECORD_STATE = 121
SHARE_SESSION_NOT_FOUND = 122
INVALID_SHARE_SESSION_EPOCH = 123

#: Longer than the time between two targets of a group.
INTERVAL_S = 1.2
NOTHING = Fetched(0, {})


def acquired(fetched: Fetched, partition: int = 0) -> tuple[tuple[int, int, int], ...]:
    """Return the acquired ranges with their delivery counts."""
    return fetched.partitions.get(partition, Shared()).acquired


# --- the group -----------------------------------------------------------------------------------


def test_requests_that_do_not_fit_the_group_are_rejected(world: ShareWorld) -> None:
    member = world.member()
    assert member.beat(3) == Beat(GROUP_ID_NOT_FOUND, 0, None)
    assert member.beat(-1) == Beat(GROUP_ID_NOT_FOUND, 0, None)
    assert member.beat(0, []).error == INVALID_REQUEST
    assert member.beat(-2).error == INVALID_REQUEST
    assert member.beat(0, rack_id="").error == INVALID_REQUEST
    epoch = member.join()
    assert member.beat(epoch + 90).error == FENCED_MEMBER_EPOCH
    assert member.beat(epoch) == Beat(0, epoch, None)
    assert member.beat(epoch, [world.topic]) == Beat(0, epoch, (0, 1))
    assert member.beat(0) == Beat(0, epoch, (0, 1))
    assert member.beat(epoch - 1) == Beat(0, epoch, None)
    assert world.member().beat(epoch).error == UNKNOWN_MEMBER_ID
    assert member.beat(-1) == Beat(0, -1, None)
    assert member.beat(-1).error == UNKNOWN_MEMBER_ID


def test_partitions_are_assigned_after_their_state_was_initialized(world: ShareWorld) -> None:
    member = world.member()
    assert member.beat(0) == Beat(0, 2, ())
    world.sleep(INTERVAL_S)
    beat = member.beat(2)
    while beat.epoch == 2:  # the state topic of a new cluster may be created first
        world.sleep(0.1)
        beat = member.beat(2)
    assert beat == Beat(0, 3, (0, 1))


def test_members_share_partitions_if_there_are_more_members(world: ShareWorld) -> None:
    members = [world.member() for _ in range(4)]
    counts = []
    for number in range(1, 5):
        members[number - 1].join()
        world.sleep(INTERVAL_S)
        members[0].beat(0)
        beats = [member.beat(0) for member in members[:number]]
        counts.append(sorted(len(beat.assigned or ()) for beat in beats))
        assert {part for beat in beats for part in beat.assigned or ()} == {0, 1}
    assert counts == [[2], [1, 1], [1, 1, 2], [1, 1, 1, 1]]


def test_a_name_belongs_to_one_type_of_group(world: ShareWorld) -> None:
    epoch = world.joined().beat(0).epoch
    assert epoch > 0
    consumer = RawMember(world.connect(), world.group, world.topic)
    assert consumer.join().error == "GroupIdNotFoundError"
    offsets = RawOffsets(world.connect(), world.group, world.topic)
    assert offsets.commit("", -1, p0=1) == "GroupIdNotFoundError"
    assert offsets.commit("x", 3, p0=1) == "GroupIdNotFoundError"


@pytest.mark.parametrize("kind", ["consumer", "empty consumer", "simple"])
def test_a_share_member_does_not_join_other_groups(world: ShareWorld, kind: str) -> None:
    if kind == "simple":
        assert RawOffsets(world.connect(), world.group, world.topic).commit("", -1, p0=1) is None
    else:
        consumer = RawMember(world.connect(), world.group, world.topic)
        assert consumer.join().error is None
        if kind == "empty consumer":
            consumer.beat(-1)
    member = world.member()
    assert [member.beat(epoch).error for epoch in (0, 1, -1)] == [GROUP_ID_NOT_FOUND] * 3


# --- sessions ------------------------------------------------------------------------------------


@pytest.mark.every_version
def test_the_epochs_of_a_session(world: ShareWorld) -> None:
    member = world.joined()
    world.produce(3)
    accept = {0: [(0, 0, [ACCEPT])]}
    assert member.fetch(1, [0]) == Fetched(SHARE_SESSION_NOT_FOUND, {})
    assert member.fetch(-1) == Fetched(SHARE_SESSION_NOT_FOUND, {})
    assert member.acknowledge(0, accept) == (INVALID_SHARE_SESSION_EPOCH, {})
    assert member.acknowledge(-1, {}) == (SHARE_SESSION_NOT_FOUND, {})
    assert member.fetch(0, accept) == Fetched(INVALID_REQUEST, {})
    assert acquired(member.fetch(0, [0])) == ((0, 2, 1),)
    assert member.fetch(7) == Fetched(INVALID_SHARE_SESSION_EPOCH, {})
    assert member.acknowledge(7, accept) == (INVALID_SHARE_SESSION_EPOCH, {})
    assert member.fetch(1, max_wait_ms=100) == NOTHING
    assert member.acknowledge(2, accept) == (0, {0: 0})
    assert member.fetch(3, max_records=0) == NOTHING
    assert member.fetch(-1) == NOTHING
    assert member.fetch(4) == Fetched(SHARE_SESSION_NOT_FOUND, {})
    assert member.fetch(0, [0], member_id="").error == INVALID_REQUEST


def test_partitions_of_a_session(world: ShareWorld) -> None:
    member = world.joined()
    assert member.fetch(0, [0], max_wait_ms=100) == Fetched(0, {0: Shared()})
    assert member.fetch(1, [], [0], max_wait_ms=100) == NOTHING
    world.produce(2)
    assert member.fetch(2, max_wait_ms=100) == NOTHING
    assert acquired(member.fetch(3, [0])) == ((0, 1, 1),)
    unknown = Fetched(0, {17: Shared(UNKNOWN_TOPIC_OR_PARTITION)})
    assert member.fetch(4, [17], max_wait_ms=100) == unknown
    assert member.fetch(5, max_wait_ms=100) == unknown
    assert member.fetch(6, [], [17], max_wait_ms=100) == NOTHING


def test_an_unknown_topic_makes_the_session_useless(
    world: ShareWorld, request: pytest.FixtureRequest
) -> None:
    """Kafka 4.3.0 fails with UNKNOWN_SERVER_ERROR; since 4.4, only the partition has an error."""
    mended = release_of(chosen_version()) >= (4, 4) and "real" in request.node.name
    fetched = (
        Fetched(0, {0: Shared(UNKNOWN_TOPIC_ID)}) if mended else Fetched(UNKNOWN_SERVER_ERROR, {})
    )
    member = world.joined()
    member.topic_id = world.unknown_id()
    assert member.fetch(0, [0]) == fetched
    assert member.fetch(1) == fetched
    assert member.acknowledge(2, {0: [(0, 0, [ACCEPT])]}) == (0, {0: UNKNOWN_TOPIC_ID})


def test_a_closed_session_releases_the_records(world: ShareWorld) -> None:
    first, second = world.joined(), world.joined()
    world.produce(4)
    assert acquired(first.fetch(0, [0])) == ((0, 3, 1),)
    assert first.fetch(-1, {0: [(1, 1, [ACCEPT])]}) == Fetched(0, {0: Shared()})
    assert acquired(second.fetch(0, [0])) == ((0, 0, 2), (2, 3, 2))
    assert second.acknowledge(-1, {0: [(2, 2, [ACCEPT])]}) == (0, {0: 0})
    assert second.acknowledge(-1, {}) == (SHARE_SESSION_NOT_FOUND, {})
    assert acquired(first.fetch(0, [0])) == ((0, 0, 3), (3, 3, 3))
    # Another session in place of it keeps the records, which the member has no more.
    assert first.fetch(0, [0], max_wait_ms=100) == Fetched(0, {0: Shared()})


def test_a_closed_connection_ends_its_session(world: ShareWorld) -> None:
    connection, waiting = world.connect(), world.joined()
    member = RawShareMember(connection, world.group, world.topic, world.topic_id)
    member.join()
    waiting.fetch(0, [0], max_wait_ms=100)
    world.produce(2)
    assert acquired(member.fetch(0, [0])) == ((0, 1, 1),)
    waiting.send_fetch(1, max_wait_ms=10_000)
    world.disconnect(connection)
    assert acquired(waiting.receive_fetch()) == ((0, 1, 2),)


def test_only_partitions_of_the_group_have_a_state(world: ShareWorld) -> None:
    world.produce(3)
    member = world.member()
    # A broker that looks at its first group of this kind takes longer than a usual fetch waits.
    fetched = member.fetch(0, [0], max_wait_ms=10_000)
    assert fetched == Fetched(0, {0: Shared(UNKNOWN_SERVER_ERROR)})
    accepted = member.acknowledge(1, {0: [(0, 0, [ACCEPT])]})
    assert accepted == (0, {0: UNKNOWN_TOPIC_OR_PARTITION})


# --- acquiring -----------------------------------------------------------------------------------


def test_a_group_begins_at_the_end_by_default(world: ShareWorld) -> None:
    world.configure(share_auto_offset_reset="latest")
    member = world.joined()
    world.produce(3)
    assert member.fetch(0, [0], max_wait_ms=100) == Fetched(0, {0: Shared()})
    world.produce(2)
    assert acquired(member.fetch(1)) == ((3, 4, 1),)


def test_a_group_without_sessions_begins_again_if_nothing_was_written(world: ShareWorld) -> None:
    world.configure(share_auto_offset_reset="latest")
    connection = world.connect()
    member = RawShareMember(connection, world.group, world.topic, world.topic_id)
    member.join()
    assert member.fetch(0, [0], max_wait_ms=100) == Fetched(0, {0: Shared()})
    world.disconnect(connection)
    world.produce(2)
    assert world.joined().fetch(0, [0], max_wait_ms=200) == Fetched(0, {0: Shared()})


def test_deleted_records_are_not_offered_again(world: ShareWorld) -> None:
    member = world.joined()
    world.produce(3, 3)
    assert acquired(member.fetch(0, [0], max_records=3)) == ((0, 2, 1),)
    world.delete_before(5)
    assert member.fetch(1, max_wait_ms=5_000) == NOTHING
    # A batch of the log is acquired as a whole.
    assert acquired(member.fetch(2)) == ((3, 5, 1),)
    assert member.fetch(-1) == NOTHING
    assert acquired(member.fetch(0, [0])) == ((5, 5, 2),)
    assert member.acknowledge(1, {0: [(0, 5, [ACCEPT])]}) == (0, {0: 0})


def test_batches_are_acquired_as_a_whole(world: ShareWorld) -> None:
    member = world.joined()
    world.produce(5, 5, 5, 5)
    assert member.fetch(0, [0], max_records=3).partitions[0] == Shared(
        acquired=((0, 4, 1),), batches=(0,)
    )
    assert acquired(member.fetch(1, max_records=6)) == ((5, 14, 1),)
    assert member.acknowledge(2, {0: [(0, 4, [RELEASE]), (5, 14, [RELEASE])]}) == (0, {0: 0})
    # They are offered again as they were, before new records.
    again = ((0, 4, 2), (5, 14, 2), (15, 19, 1))
    assert acquired(member.fetch(3, max_records=100, batch_size=4)) == again


@pytest.mark.parametrize(
    ("batch_size", "ranges"),
    [
        (4, ((0, 4, 1), (5, 9, 1), (10, 14, 1), (15, 19, 1))),
        (7, ((0, 9, 1), (10, 19, 1))),
        (100, ((0, 19, 1),)),
    ],
)
def test_the_batch_size_splits_ranges(
    world: ShareWorld, batch_size: int, ranges: tuple[tuple[int, int, int], ...]
) -> None:
    member = world.joined()
    world.produce(5, 5, 5, 5)
    assert acquired(member.fetch(0, [0], max_records=100, batch_size=batch_size)) == ranges


@pytest.mark.every_version
def test_the_record_limit_mode_splits_batches(world: ShareWorld) -> None:
    member = world.joined()
    world.produce(5, 5, 5)
    exact = {"share_acquire_mode": 1, "max_wait_ms": 100}
    assert acquired(member.fetch(0, [0], max_records=3, **exact)) == ((0, 2, 1),)
    assert acquired(member.fetch(1, max_records=4, **exact)) == ((3, 4, 1), (5, 6, 1))
    assert acquired(member.fetch(2, max_records=6, **exact)) == ((7, 9, 1), (10, 12, 1))
    assert acquired(member.fetch(3, max_records=9, **exact)) == ((13, 14, 1),)
    assert member.acknowledge(4, {0: [(0, 9, [RELEASE])]}) == (0, {0: 0})
    assert acquired(member.fetch(5, max_records=7, **exact)) == ((0, 4, 2), (5, 6, 2))
    assert member.fetch(6, max_records=1, share_acquire_mode=2) == Fetched(UNKNOWN_SERVER_ERROR, {})
    assert acquired(member.fetch(7, max_records=1)) == ((7, 9, 2),)


def test_a_partition_with_too_many_records_in_flight_offers_released_ones_only(
    world: ShareWorld,
) -> None:
    world.configure(share_partition_max_record_locks="100")
    member = world.joined()
    world.produce(60, 60, 60)
    assert acquired(member.fetch(0, [0], max_records=50)) == ((0, 59, 1),)
    assert acquired(member.fetch(1)) == ((60, 119, 1),)
    assert member.fetch(2, max_wait_ms=100) == NOTHING
    assert member.acknowledge(3, {0: [(10, 10, [RELEASE])]}) == (0, {0: 0})
    assert acquired(member.fetch(4)) == ((10, 10, 2),)
    assert member.acknowledge(5, {0: [(0, 59, [ACCEPT])]}) == (0, {0: 0})
    assert acquired(member.fetch(6)) == ((120, 179, 1),)


def test_parked_fetches_are_woken(world: ShareWorld) -> None:
    first, second = world.joined(), world.joined()
    first.fetch(0, [0], max_wait_ms=100)
    second.fetch(0, [0], max_wait_ms=100)
    first.send_fetch(1, max_wait_ms=10_000)
    world.sleep(0.2)
    world.produce(2)
    assert acquired(first.receive_fetch()) == ((0, 1, 1),)
    second.send_fetch(1, max_wait_ms=10_000)
    world.sleep(0.2)
    first.acknowledge(2, {0: [(0, 1, [RELEASE])]})
    assert acquired(second.receive_fetch()) == ((0, 1, 2),)
    first.send_fetch(3, max_wait_ms=10_000)
    world.sleep(0.2)
    second.fetch(-1)
    assert acquired(first.receive_fetch()) == ((0, 1, 3),)
    world.produce(1)
    later = first.fetch(4, max_wait_ms=200, min_bytes=100_000)
    assert acquired(later) == ((2, 2, 1),)


def test_max_records_is_for_all_partitions(world: ShareWorld) -> None:
    member = world.joined()
    member.fetch(0, [0, 1], max_wait_ms=100)
    world.produce(3)
    world.produce(3, partition=1)
    epochs = iter(range(1, 9))
    found = [member.fetch(next(epochs), max_records=3) for _ in range(2)]
    assert [len(fetched.partitions) for fetched in found] == [1, 1]
    assert {part for fetched in found for part in fetched.partitions} == {0, 1}


# --- acknowledging -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ranges",
    [
        [(3, 2, [ACCEPT])],
        [(0, 0, [])],
        [(0, 0, [ACCEPT, ACCEPT])],
        [(0, 0, [5])],
        [(0, 0, [-1])],
        [(0, 0, [RENEW])],
        [(0, 2, [ACCEPT]), (0, 2, [ACCEPT])],
        [(8, 12, [ACCEPT])],
        [(0, 1, [ACCEPT]), (9, 10, [ACCEPT])],
    ],
)
def test_invalid_ranges_acknowledge_nothing(
    world: ShareWorld, ranges: list[tuple[int, int, list[int]]]
) -> None:
    member = world.joined()
    world.produce(10)
    assert acquired(member.fetch(0, [0])) == ((0, 9, 1),)
    assert member.acknowledge(1, {0: ranges}) == (0, {0: INVALID_REQUEST})
    assert member.acknowledge(2, {0: [(0, 9, [ACCEPT])]}) == (0, {0: 0})


def test_acknowledgements_of_records_in_other_states(world: ShareWorld) -> None:
    member, other = world.joined(), world.joined()
    world.produce(10)
    assert acquired(member.fetch(0, [0])) == ((0, 9, 1),)
    other.fetch(0, [0], max_wait_ms=100)
    assert other.acknowledge(1, {0: [(9, 9, [ACCEPT])]}) == (0, {0: INVALID_RECORD_STATE})
    mixed = [(0, 3, [ACCEPT, RELEASE, REJECT, GAP])]
    assert member.acknowledge(1, {0: mixed}) == (0, {0: 0})
    released = {0: [(1, 1, [ACCEPT])]}
    assert member.acknowledge(2, released) == (0, {0: INVALID_RECORD_STATE})
    accepted_and_others = {0: [(2, 5, [ACCEPT])]}
    assert member.acknowledge(3, accepted_and_others) == (0, {0: INVALID_RECORD_STATE})
    assert member.acknowledge(4, {0: [(0, 0, [RELEASE])]}) == (0, {0: 0})  # before the start
    assert member.acknowledge(5, {0: []}) == (0, {})
    assert member.acknowledge(6, {17: [(0, 0, [ACCEPT])]}) == (0, {17: UNKNOWN_TOPIC_OR_PARTITION})
    fetched = member.fetch(7, {0: [(4, 4, [ACCEPT]), (0, 9, [RELEASE])]}, max_wait_ms=100)
    assert fetched.partitions[0].acknowledge_error == INVALID_REQUEST
    fetched = member.fetch(8, {0: [(4, 9, [ACCEPT])]}, max_wait_ms=100)
    assert fetched == Fetched(0, {0: Shared()})


def test_a_released_record_is_offered_in_smaller_ranges_and_then_alone(world: ShareWorld) -> None:
    member = world.joined()
    world.produce(8)
    last = acquired(member.fetch(0, [0]))
    history = [last]
    for epoch in range(1, 16):
        ranges = [(first, end, [RELEASE]) for first, end, _ in last]
        last = acquired(member.fetch(epoch, {0: ranges} if ranges else {}, max_wait_ms=200))
        history.append(last)
        if not last:
            break
    assert history == [
        ((0, 7, 1),),
        ((0, 7, 2),),
        ((0, 7, 3),),
        ((0, 3, 4),),
        # The acknowledgement in the same request is written after the fetch.
        ((4, 7, 4),),
        *(((offset, offset, 5),) for offset in range(8)),
        (),
    ]


# --- locks ---------------------------------------------------------------------------------------


@pytest.mark.every_version
def test_locks_end_and_are_renewed(world: ShareWorld) -> None:
    world.configure(share_record_lock_duration_ms="1000")
    member = world.joined()
    world.produce(4)
    assert acquired(member.fetch(0, [0])) == ((0, 3, 1),)
    assert acquired(member.fetch(1, max_wait_ms=5_000)) == ((0, 3, 2),)
    assert member.acknowledge(2, {0: [(1, 1, [ACCEPT])]}) == (0, {0: 0})
    world.sleep(0.6)
    renewed = {0: [(0, 0, [RENEW]), (2, 2, [RENEW])]}
    assert member.acknowledge(3, renewed, is_renew_ack=True) == (0, {0: 0})
    assert member.acknowledge(4, {0: [(3, 3, [RENEW])]}, version=1) == (0, {0: INVALID_REQUEST})
    assert acquired(member.fetch(5, max_wait_ms=5_000)) == ((3, 3, 3),)
    # Records with locks of their own are released one by one.
    assert acquired(member.fetch(6, max_wait_ms=5_000)) == ((0, 0, 3),)
    assert acquired(member.fetch(7, max_wait_ms=5_000)) == ((2, 2, 3),)


def test_a_fetch_that_renews_locks_acquires_nothing(world: ShareWorld) -> None:
    member = world.joined()
    world.produce(2)
    assert acquired(member.fetch(0, [0])) == ((0, 1, 1),)
    world.produce(2)
    renewed = {0: [(0, 1, [RENEW])]}
    assert member.fetch(1, renewed, is_renew_ack=True) == Fetched(INVALID_REQUEST, {})
    limits = dict.fromkeys(("max_wait_ms", "min_bytes", "max_bytes", "max_records"), 0)
    assert member.fetch(1, renewed, is_renew_ack=True, **limits) == Fetched(0, {0: Shared()})
    assert acquired(member.fetch(2)) == ((2, 3, 1),)


# --- transactions --------------------------------------------------------------------------------


def test_a_committed_isolation_level_archives_aborted_records(world: ShareWorld) -> None:
    world.configure(share_isolation_level="read_committed")
    member = world.joined()
    with world.transactions() as transact:
        world.produce(2)
        transact(3, "commit")
        transact(3, "abort")
        world.produce(2)
        found = member.fetch(0, [0]).partitions[0]
        assert found == Shared(acquired=((0, 5, 1), (9, 11, 1)), batches=(0, 2, 5, 6, 9, 10))
        transact(2, "abort")
        assert acquired(member.fetch(1)) == ((14, 14, 1),)
        commit = transact(2, None)
        world.produce(1)
        assert member.fetch(2, max_wait_ms=200) == NOTHING
        commit()
        assert acquired(member.fetch(3)) == ((15, 18, 1),)
        world.configure(share_isolation_level="read_uncommitted")
        transact(2, "abort")
        assert acquired(member.fetch(4)) == ((19, 21, 1),)
