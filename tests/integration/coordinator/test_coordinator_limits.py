"""`group.max.size` and the initial rebalance delay, with a real and a simulated coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from kafka.errors import GroupMaxSizeReachedError

from tandem_kafka import ShareConsumer
from tandem_kafka_testing.kafka import RealKafka
from tests.integration.brokers import Brokers
from tests.integration.joining import RawClassicMember, name_of
from tests.integration.pairs import receive_joins
from tests.integration.raw_worlds import PARTITIONS, RawWorld

pytestmark = [pytest.mark.brokers(cluster="strict")]

DELAY_MS = 2_000
DELAY_S = DELAY_MS / 1_000
ROOM = 2
REBALANCE_MS = 3_000


@pytest.fixture(scope="module")
def strict() -> Iterator[RealKafka]:
    """A broker with small groups and an initial rebalance delay."""
    config = {
        "group.max.size": str(ROOM),
        "group.consumer.max.size": str(ROOM),
        "group.share.max.size": str(ROOM),
        "group.initial.rebalance.delay.ms": str(DELAY_MS),
    }
    with RealKafka(properties=config) as cluster:
        cluster.admin.create_topic("raw", PARTITIONS)
        yield cluster


@pytest.fixture
def raw(brokers: Brokers) -> RawWorld:
    settings = {"classic_max_size": ROOM, "consumer_max_size": ROOM}
    return RawWorld(brokers, initial_rebalance_delay_ms=DELAY_MS, **settings)


@pytest.mark.full("starts a broker of its own")
def test_a_full_share_group_rejects_another_consumer(strict: RealKafka) -> None:
    servers = strict.bootstrap()
    with ExitStack() as stack:
        *members, last = (
            stack.enter_context(ShareConsumer("raw", group_id="full", bootstrap_servers=servers))
            for _ in range(ROOM + 1)
        )
        for member in members:
            member.poll(2_000)
        with pytest.raises(GroupMaxSizeReachedError):
            last.poll(30_000)


def pending_member(raw: RawWorld, rebalance_ms: int = 60_000) -> RawClassicMember:
    """Return a member that has an id and has not joined with it."""
    member = raw.classic(session_ms=60_000, rebalance_ms=rebalance_ms)
    member.send_join()
    assert name_of(member.receive_join().error_code) == "MemberIdRequiredError"
    return member


# --- how many ------------------------------------------------------------------------------------


@pytest.mark.design("001", "GROUP_MAX_SIZE_REACHED")
def test_a_full_group_rejects_a_new_member(raw: RawWorld) -> None:
    first, second, third, classic = raw.modern(), raw.modern(), raw.modern(), raw.classic()
    assert (first.join().error, second.join().error) == (None, None)
    assert third.join().error == "GroupMaxSizeReachedError"
    classic.send_join()
    assert name_of(classic.receive_join().error_code) == "GroupMaxSizeReachedError"
    assert third.beat(1).error == "GroupMaxSizeReachedError", "whatever its metadata"
    assert third.beat(-1).error == "UnknownMemberIdError", "but that it leaves"
    assert first.join().error is None, "it is in already"
    assert second.beat(-1).error is None
    assert third.join().error is None


@pytest.mark.design("001", "GROUP_MAX_SIZE_REACHED")
def test_a_full_group_keeps_the_place_of_a_static_member(
    raw: RawWorld,
) -> None:
    first, second, another = raw.modern(), raw.modern("two"), raw.modern("two")
    assert (first.join().error, second.join().error) == (None, None)
    assert second.beat(-2).error is None
    assert another.join().error == "GroupMaxSizeReachedError", "not even with its instance id"
    assert second.join().error is None


def test_a_full_classic_group_rejects_a_new_member(raw: RawWorld) -> None:
    leader, follower, third = pending_member(raw), pending_member(raw), raw.classic()
    leader.send_join()
    follower.send_join()
    assert set(receive_joins(leader, follower).values()) == {1}
    third.send_join()
    assert name_of(third.receive_join().error_code) == "GroupMaxSizeReachedError"
    assert (leader.beat(1), follower.beat(1)) == (None, None)


def test_a_round_accepts_the_first_members_up_to_the_limit(raw: RawWorld) -> None:
    leader, follower = (pending_member(raw, REBALANCE_MS) for _ in range(2))
    leader.send_join()
    follower.send_join()
    responses = {each: each.receive_join() for each in (leader, follower)}
    assert {response.generation_id for response in responses.values()} == {1}
    if responses[follower].leader == follower.member_id:
        leader, follower = follower, leader
    leader.send_sync(1)
    assert leader.receive_sync()[0] is None
    since_s = raw.now_s()
    leader.send_join()
    follower.await_rebalance(1)
    new_member = pending_member(raw, REBALANCE_MS)
    new_member.send_join()
    raw.wait_until(lambda: new_member.member_id in raw.classic_members())
    follower.send_join()
    assert name_of(follower.receive_join().error_code) == "GroupMaxSizeReachedError"
    assert set(receive_joins(leader, new_member).values()) == {2}
    assert raw.lasted(since_s, REBALANCE_MS / 1_000), "the responses wait for the timeout"


# --- the initial delay ---------------------------------------------------------------------------


def test_an_empty_group_waits_for_more_members(raw: RawWorld) -> None:
    since_s = raw.now_s()
    leader, follower = pending_member(raw), pending_member(raw)
    leader.send_join()
    follower.send_join()
    assert set(receive_joins(leader, follower).values()) == {1}
    assert raw.lasted(since_s, 2 * DELAY_S), "once more, for the member that joined meanwhile"


def test_an_initial_rebalance_does_not_wait_for_a_pending_member(raw: RawWorld) -> None:
    since_s = raw.now_s()
    first, second = pending_member(raw), pending_member(raw)
    first.send_join()
    assert receive_joins(first) == {first.member_id: 1}
    assert raw.lasted(since_s, DELAY_S)
    second.send_join()
    first.await_rebalance(1)
    first.send_join()
    assert set(receive_joins(first, second).values()) == {2}


def test_a_member_that_leaves_does_not_end_the_initial_delay(raw: RawWorld) -> None:
    first, second, remover = pending_member(raw), pending_member(raw), raw.classic()
    since_s = raw.now_s()
    first.send_join()
    second.send_join()
    raw.wait_until(lambda: second.member_id in raw.classic_members())
    remover.member_id = second.member_id
    assert remover.leave() == [None]
    assert name_of(second.receive_join().error_code) == "UnknownMemberIdError"
    assert receive_joins(first) == {first.member_id: 1}
    assert raw.lasted(since_s, 2 * DELAY_S)


def test_the_initial_delay_continues_when_all_members_leave(raw: RawWorld) -> None:
    first, second, remover = pending_member(raw), pending_member(raw), raw.classic()
    first.send_join()
    raw.wait_until(lambda: first.member_id in raw.classic_members())
    remover.member_id = first.member_id
    assert remover.leave() == [None]
    assert name_of(first.receive_join().error_code) == "UnknownMemberIdError"
    second.send_join()
    assert receive_joins(second) == {second.member_id: 1}, "there was no generation without members"
