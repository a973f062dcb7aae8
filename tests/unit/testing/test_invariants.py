"""What the invariants of stories find, where a broken consumer would be a long story."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tandem_kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from tandem_kafka.events.application import Poll
from tandem_kafka.events.completable import NO_DEADLINE_MS
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.request import ANY_NODE, UnsentRequest
from tandem_kafka.testing import Simulation
from tandem_kafka.wire.messages import MetadataRequest
from tests.scenarios import SCENARIOS, Violation
from tests.scenarios.invariants import QUEUED, WAITING
from tests.scenarios.listener import CheckingListener as Watched
from tests.scenarios.members import Members
from tests.scenarios.numbered_records import create_topic, produce, value_of


@pytest.fixture
def members() -> Iterator[Members]:
    """One member that has joined, and no faults."""
    scenario = SCENARIOS["consumer"]
    with Simulation() as simulation:
        partitions = create_topic(simulation, "orders", 2)
        options = {**scenario.options, "max_in_flight_requests_per_connection": 100}
        members = Members(simulation, scenario, options, partitions)
        members.join()
        members.settle(20_000)
        members.hostile = True
        yield members
        simulation.cluster.start(1)


def put(member: KafkaConsumer, count: int) -> None:
    """Have a request put into the queue of the network thread so many times."""
    for _ in range(count):
        request = UnsentRequest(MetadataRequest(), ANY_NODE, FOREVER_MS, NO_DEADLINE_MS)
        member._core.engine.loop._client.add(request, 0)
    member._core.engine.loop._transport.wakeup()


def test_requests_that_cannot_be_sent_may_not_pile_up(members: Members) -> None:
    (member,) = members.listeners
    members.simulation.cluster.stop(1)
    members.simulation.sleep(1_000)
    put(member, WAITING - 5)
    members.invariants.check()
    put(member, 6)
    members.simulation.sleep(1)  # a turn of the network thread
    with pytest.raises(Violation, match=r"requests pile up: unsent=3\d"):
        members.invariants.check()


def test_requests_that_are_not_answered_may_not_pile_up(members: Members) -> None:
    (member,) = members.listeners
    put(member, 1)
    members.poll(member, 500)  # there is a connection for them
    members.simulation.network.silent.add(members.simulation.cluster.brokers[1].address)
    put(member, WAITING - 5)
    members.poll(member, 10)
    put(member, 6)
    with pytest.raises(Violation, match=r"requests pile up: unsent=0, in_flight=3\d"):
        members.poll(member, 10)


def test_commits_that_wait_for_a_coordinator_may_not_pile_up(members: Members) -> None:
    (member,) = members.listeners
    members.simulation.cluster.stop(1)
    members.simulation.sleep(1_000)
    for _ in range(WAITING):
        member.commit_async()
        members.poll(member, 10)
    member.commit_async()
    with pytest.raises(Violation, match=f"commits={WAITING + 1}"):
        members.poll(member, 10)


def test_events_that_nobody_takes_may_not_pile_up(members: Members) -> None:
    (member,) = members.listeners
    for _ in range(QUEUED):
        member._core.engine.queue.add(Poll())
    members.invariants.check()
    member._core.engine.queue.add(Poll())
    with pytest.raises(Violation, match=f"events queued for the network thread: {QUEUED + 1}"):
        members.invariants.check()


def test_who_is_no_member_may_not_commit(members: Members) -> None:
    members.simulation.cluster.commit_log.append((members.partitions[0], (0, -1, ""), ""))
    with pytest.raises(Violation, match="0 committed by none of the members"):
        members.invariants.check()


# --- where reading begins ------------------------------------------------------------------------


@pytest.fixture
def tp(members: Members) -> TopicPartition:
    """A partition of ten records, all handed out, of which five are committed."""
    tp = members.partitions[0]
    produce(members.simulation, tp, 10)
    members.settle(20_000)
    commit(members, tp, 5)
    return tp


def commit(members: Members, tp: TopicPartition, offset: int) -> None:
    (member,) = members.listeners
    member.commit({tp: OffsetAndMetadata(offset, "", -1)})


def told(members: Members, tp: TopicPartition) -> Watched:
    """Another one hears that the partition is its own."""
    newcomer = Watched(members, 2)
    newcomer.owned.add(tp)
    members.invariants.assigned(newcomer, frozenset([tp]))
    return newcomer


def hand_out(members: Members, owner: Watched, tp: TopicPartition, offset: int) -> None:
    record = SimpleNamespace(offset=offset, value=value_of(tp, offset))
    members.invariants.handed_out(owner, tp, [record])


@pytest.mark.parametrize("offset", [3, 5])
def test_reading_begins_at_the_commit_or_before(
    members: Members, tp: TopicPartition, offset: int
) -> None:
    newcomer = told(members, tp)
    hand_out(members, newcomer, tp, offset)
    with pytest.raises(Violation, match=f"{offset + 2} where {offset + 1} was due"):
        hand_out(members, newcomer, tp, offset + 2)


def test_it_does_not_begin_where_another_has_read_to(members: Members, tp: TopicPartition) -> None:
    with pytest.raises(Violation, match="begins at 8, 5 was due"):
        hand_out(members, told(members, tp), tp, 8)


def test_without_a_commit_it_begins_at_the_first_record(members: Members) -> None:
    tp = members.partitions[0]
    assert members.simulation.cluster.committed(members.group_id, tp) in (None, 0)
    with pytest.raises(Violation, match="begins at 1, 0 was due"):
        hand_out(members, told(members, tp), tp, 1)


def test_a_commit_that_was_lost_counts_for_those_who_may_know_it(
    members: Members, tp: TopicPartition
) -> None:
    commit(members, tp, 8)
    early = told(members, tp)
    members.simulation.cluster.fail_over(members.group_id, 1, lost_records=1)
    assert members.simulation.cluster.committed(members.group_id, tp) == 5
    members.invariants.assigned(early, frozenset([tp]))  # the call that failed is made again
    hand_out(members, early, tp, 8)
    with pytest.raises(Violation, match="begins at 8, 5 was due"):
        hand_out(members, told(members, tp), tp, 8)


def test_what_another_commits_meanwhile_counts(members: Members, tp: TopicPartition) -> None:
    newcomer = told(members, tp)
    commit(members, tp, 8)
    hand_out(members, newcomer, tp, 8)


@pytest.mark.parametrize("read", [True, False])
def test_what_it_commits_itself_counts_if_it_has_read_that_before(
    members: Members, tp: TopicPartition, read: bool
) -> None:
    (owner,) = members.listeners.values()
    members.invariants._reached[owner.number, tp] = 8 if read else 7
    members.invariants.assigned(owner, frozenset([tp]))
    commit(members, tp, 8)
    if read:
        hand_out(members, owner, tp, 8)
        return
    with pytest.raises(Violation, match="begins at 8, 5 was due"):
        hand_out(members, owner, tp, 8)


def test_what_is_no_more_there_is_not_due(members: Members, tp: TopicPartition) -> None:
    members.simulation.cluster.at(tp).log.delete_before(7)
    hand_out(members, told(members, tp), tp, 7)


# --- commits of one, records of another ----------------------------------------------------------


def test_nobody_commits_what_only_another_was_handed_out(
    members: Members, tp: TopicPartition
) -> None:
    members.simulation.cluster.produce(tp, value_of(tp, 10))
    hand_out(members, told(members, tp), tp, 5)
    for offset in range(6, 11):
        members.invariants.read_to[tp] = offset + 1
    commit(members, tp, 11)
    with pytest.raises(Violation, match="11 committed, 10 read"):
        members.invariants.check()


def test_what_another_has_committed_may_be_committed_again(
    members: Members, tp: TopicPartition
) -> None:
    members.simulation.cluster.commit_log.append((tp, (11, -1, ""), "one that has gone"))
    members.invariants.read_to[tp] = 11
    members.invariants.check()
    commit(members, tp, 11)
    members.invariants.check()


# --- transactions and retention ------------------------------------------------------------------


def test_what_was_aborted_is_not_due_and_what_is_open_is_not_handed_out(
    members: Members, tp: TopicPartition
) -> None:
    books, newcomer = members.books, told(members, tp)
    hand_out(members, newcomer, tp, 5)
    for offset in range(6, 10):
        hand_out(members, newcomer, tp, offset)
    aborted, undecided = books.begin(), books.begin()
    books.produce(tp, 2, aborted)
    books.end(aborted, commit=False)
    books.produce(tp, 2, undecided)
    assert members.simulation.cluster.at(tp).log.end_offset == 15
    with pytest.raises(Violation, match="10 where 13 was due"):
        hand_out(members, newcomer, tp, 10)
    with pytest.raises(Violation, match="13 is of a transaction that is not over"):
        hand_out(members, newcomer, tp, 13)
    books.end(undecided, commit=True)
    hand_out(members, newcomer, tp, 13)
    hand_out(members, newcomer, tp, 14)
    assert members.invariants.all_read(), "only a marker is behind them"


def test_records_that_retention_drops_may_be_missing_and_no_others(
    members: Members, tp: TopicPartition
) -> None:
    newcomer = told(members, tp)
    hand_out(members, newcomer, tp, 5)
    members.simulation.cluster.delete_records(tp, 8)
    with pytest.raises(Violation, match="9 where 6 was due"):
        hand_out(members, newcomer, tp, 9)
    hand_out(members, newcomer, tp, 8)
