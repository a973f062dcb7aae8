"""What the invariants of the scenarios detect, without a defective consumer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from tandem_kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from tandem_kafka.events.application import Poll
from tandem_kafka.events.completable import NO_DEADLINE_MS
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.request import ANY_NODE, UnsentRequest
from tandem_kafka.wire.messages import MetadataRequest
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.share.in_flight import RecordState, Span
from tests.scenarios import SCENARIOS, Violation
from tests.scenarios.invariants import QUEUED, WAITING
from tests.scenarios.listener import CheckingListener
from tests.scenarios.members import Members
from tests.scenarios.numbered_records import create_topic, produce, value_of
from tests.scenarios.share_ledger import ShareLedger


@pytest.fixture
def members() -> Iterator[Members]:
    """A group with one member, without faults."""
    scenario = SCENARIOS["consumer"]
    with Simulation() as simulation:
        partitions = create_topic(simulation, "orders", 2)
        options = {**scenario.options, "max_in_flight_requests_per_connection": 100}
        members = Members(simulation, scenario, options, partitions)
        members.join()
        members.settle(20_000)
        members.expects_errors = True
        yield members
        simulation.cluster.start(1)


def put(member: KafkaConsumer, count: int) -> None:
    """Queue a number of requests on the network thread."""
    for _ in range(count):
        request = UnsentRequest(MetadataRequest(), ANY_NODE, FOREVER_MS, NO_DEADLINE_MS)
        member._core.engine.loop._client.add(request)
    member._core.engine.loop._transport.wakeup()


def test_too_many_unsent_requests_are_a_violation(members: Members) -> None:
    (member,) = members.listeners
    members.simulation.cluster.stop(1)
    members.simulation.sleep(1_000)
    put(member, WAITING - 5)
    members.invariants.check()
    put(member, 6)
    members.simulation.sleep(1)  # an iteration of the network loop
    with pytest.raises(Violation, match=r"requests pile up: unsent=3\d"):
        members.invariants.check()


def test_too_many_requests_in_flight_are_a_violation(members: Members) -> None:
    (member,) = members.listeners
    put(member, 1)
    members.poll(member, 500)  # opens a connection for them
    members.simulation.network.silent.add(members.simulation.cluster.brokers[1].address)
    put(member, WAITING - 5)
    members.poll(member, 10)
    put(member, 6)
    with pytest.raises(Violation, match=r"requests pile up: unsent=0, in_flight=3\d"):
        members.poll(member, 10)


def test_too_many_commits_without_a_coordinator_are_a_violation(members: Members) -> None:
    (member,) = members.listeners
    members.simulation.cluster.stop(1)
    members.simulation.sleep(1_000)
    for _ in range(WAITING):
        member.commit_async()
        members.poll(member, 10)
    member.commit_async()
    with pytest.raises(Violation, match=f"commits={WAITING + 1}"):
        members.poll(member, 10)


def test_too_many_queued_events_are_a_violation(members: Members) -> None:
    (member,) = members.listeners
    for _ in range(QUEUED):
        member._core.engine.queue.add(Poll())
    members.invariants.check()
    member._core.engine.queue.add(Poll())
    with pytest.raises(Violation, match=f"events queued for the network thread: {QUEUED + 1}"):
        members.invariants.check()


def test_a_commit_without_membership_is_a_violation(members: Members) -> None:
    members.simulation.cluster.commit_log.append((members.partitions[0], (0, -1, ""), ""))
    with pytest.raises(Violation, match="0 committed without membership"):
        members.invariants.check()


# --- where a new owner starts --------------------------------------------------------------------


@pytest.fixture
def tp(members: Members) -> TopicPartition:
    """A partition with ten records: all are handed out, five are committed."""
    tp = members.partitions[0]
    produce(members.simulation, tp, 10)
    members.settle(20_000)
    commit(members, tp, 5)
    return tp


def commit(members: Members, tp: TopicPartition, offset: int) -> None:
    (member,) = members.listeners
    member.commit({tp: OffsetAndMetadata(offset, "", -1)})


def assign_to_new_member(members: Members, tp: TopicPartition) -> CheckingListener:
    """Assign a partition to a second member; returns its listener."""
    new_owner = CheckingListener(members, 2)
    new_owner.owned.add(tp)
    members.invariants.assigned(new_owner, frozenset([tp]))
    return new_owner


def hand_out(members: Members, owner: CheckingListener, tp: TopicPartition, offset: int) -> None:
    record = SimpleNamespace(offset=offset, value=value_of(tp, offset))
    members.invariants.handed_out(owner, tp, [record])


@pytest.mark.parametrize("offset", [3, 5])
def test_a_new_owner_starts_at_the_commit_or_before(
    members: Members, tp: TopicPartition, offset: int
) -> None:
    new_owner = assign_to_new_member(members, tp)
    hand_out(members, new_owner, tp, offset)
    with pytest.raises(Violation, match=f"{offset + 2} where {offset + 1} was due"):
        hand_out(members, new_owner, tp, offset + 2)


def test_a_new_owner_does_not_start_at_the_position_of_another(
    members: Members, tp: TopicPartition
) -> None:
    with pytest.raises(Violation, match="starts at 8, 5 was due"):
        hand_out(members, assign_to_new_member(members, tp), tp, 8)


def test_a_new_owner_starts_at_the_first_record_without_a_commit(members: Members) -> None:
    tp = members.partitions[0]
    assert members.simulation.cluster.committed(members.group_id, tp) in (None, 0)
    with pytest.raises(Violation, match="starts at 1, 0 was due"):
        hand_out(members, assign_to_new_member(members, tp), tp, 1)


def test_a_lost_commit_counts_for_an_owner_assigned_before_the_loss(
    members: Members, tp: TopicPartition
) -> None:
    commit(members, tp, 8)
    early = assign_to_new_member(members, tp)
    members.simulation.cluster.fail_over(members.group_id, 1, lost_records=1)
    assert members.simulation.cluster.committed(members.group_id, tp) == 5
    members.invariants.assigned(early, frozenset([tp]))  # a failed call is repeated
    hand_out(members, early, tp, 8)
    with pytest.raises(Violation, match="starts at 8, 5 was due"):
        hand_out(members, assign_to_new_member(members, tp), tp, 8)


def test_a_later_commit_of_another_member_counts(members: Members, tp: TopicPartition) -> None:
    new_owner = assign_to_new_member(members, tp)
    commit(members, tp, 8)
    hand_out(members, new_owner, tp, 8)


@pytest.mark.parametrize("read", [True, False])
def test_an_own_commit_counts_only_up_to_earlier_reads(
    members: Members, tp: TopicPartition, read: bool
) -> None:
    (owner,) = members.listeners.values()
    members.invariants._reached[owner.number, tp] = 8 if read else 7
    members.invariants.assigned(owner, frozenset([tp]))
    commit(members, tp, 8)
    if read:
        hand_out(members, owner, tp, 8)
        return
    with pytest.raises(Violation, match="starts at 8, 5 was due"):
        hand_out(members, owner, tp, 8)


def test_a_record_dropped_by_retention_is_not_due(members: Members, tp: TopicPartition) -> None:
    members.simulation.cluster.at(tp).log.delete_before(7)
    hand_out(members, assign_to_new_member(members, tp), tp, 7)


# --- commits of records of other members ----------------------------------------------------------


def test_a_commit_of_records_of_another_member_is_a_violation(
    members: Members, tp: TopicPartition
) -> None:
    members.simulation.cluster.produce(tp, value_of(tp, 10))
    hand_out(members, assign_to_new_member(members, tp), tp, 5)
    for offset in range(6, 11):
        members.invariants.read_to[tp] = offset + 1
    commit(members, tp, 11)
    with pytest.raises(Violation, match="11 committed, 10 read"):
        members.invariants.check()


def test_a_commit_may_repeat_that_of_another_member(members: Members, tp: TopicPartition) -> None:
    members.simulation.cluster.commit_log.append((tp, (11, -1, ""), "a closed member"))
    members.invariants.read_to[tp] = 11
    members.invariants.check()
    commit(members, tp, 11)
    members.invariants.check()


# --- transactions and retention ------------------------------------------------------------------


def test_aborted_records_are_not_due_and_undecided_ones_not_handed_out(
    members: Members, tp: TopicPartition
) -> None:
    history, new_owner = members.history, assign_to_new_member(members, tp)
    hand_out(members, new_owner, tp, 5)
    for offset in range(6, 10):
        hand_out(members, new_owner, tp, offset)
    aborted, undecided = history.begin(), history.begin()
    history.produce(tp, 2, aborted)
    history.end(aborted, commit=False)
    history.produce(tp, 2, undecided)
    assert members.simulation.cluster.at(tp).log.end_offset == 15
    with pytest.raises(Violation, match="10 where 13 was due"):
        hand_out(members, new_owner, tp, 10)
    with pytest.raises(Violation, match="13 belongs to an open transaction"):
        hand_out(members, new_owner, tp, 13)
    history.end(undecided, commit=True)
    hand_out(members, new_owner, tp, 13)
    hand_out(members, new_owner, tp, 14)
    assert members.invariants.all_read(), "only a marker follows them"


def test_only_records_dropped_by_retention_may_be_missing(
    members: Members, tp: TopicPartition
) -> None:
    new_owner = assign_to_new_member(members, tp)
    hand_out(members, new_owner, tp, 5)
    members.simulation.cluster.delete_records(tp, 8)
    with pytest.raises(Violation, match="9 where 6 was due"):
        hand_out(members, new_owner, tp, 9)
    hand_out(members, new_owner, tp, 8)


@pytest.mark.parametrize(
    ("calm", "limit", "ended", "found"),
    [
        (True, 2, False, True),
        (True, 2, True, False),
        (False, 2, False, False),
        (False, 5, False, True),
    ],
)
def test_a_share_group_archives_nothing_unseen(
    *, calm: bool, limit: int, ended: bool, found: bool
) -> None:
    """A few deliveries are lost by faults, or given back by members that end."""
    with Simulation("unseen") as simulation:
        [tp] = create_topic(simulation, "orders", 1)
        produce(simulation, tp, 1)
        simulation.cluster.configure_group("g", share_delivery_count_limit=limit)
        ledger = ShareLedger(simulation, "g", [tp], calm=calm)
        for count in range(1, limit):
            if ended:
                ledger.let_go(None)  # type: ignore[arg-type]
            ledger.written(tp, [(Span(0, 0), RecordState.AVAILABLE, count)])
        ledger.written(tp, [(Span(0, 0), RecordState.ARCHIVED, limit)])
        with pytest.raises(Violation, match="unseen") if found else nullcontext():
            ledger.check()
