"""The coordinator is a state machine: requests and time in, results and timers out."""

from __future__ import annotations

import pytest
from kafka import errors

from packages.testing.tests.driven import Driven, assignment_of, orders, subscription
from tandem_kafka_testing.coordinator.classic_group_member import ClassicGroupState
from tandem_kafka_testing.coordinator.records import GroupMetadata, OffsetCommit
from tandem_kafka_testing.coordinator.requests import Expel, ForgetTopic, LeaveGroup


def two(driven: Driven) -> tuple[str, str]:
    """Two classic members with two partitions each; the first is the leader."""
    first = driven.alone(0, 1, 2, 3)
    request = driven.join("")
    driven.join(first)
    second = driven.results[request].member_id
    assigned = {first: assignment_of(0, 1), second: assignment_of(2, 3)}
    driven.sync(second, 2)
    driven.sync(first, 2, **assigned)
    return first, second


# --- classic groups ------------------------------------------------------------------------------


def test_an_expelled_member_gets_responses_to_its_parked_requests() -> None:
    driven = Driven()
    driven.alone()
    new_member = driven.join("n1", new_id="", protocols={"range": b""})
    assert driven.results[new_member].error is errors.UnknownMemberIdError
    new_member = driven.join("", new_id="n1")
    assert driven.ask(Expel(member_id="n1")) is True
    assert driven.results[new_member].error is errors.UnknownMemberIdError
    assert driven.ask(Expel(member_id="n1")) is False


def test_a_member_without_a_common_protocol_is_rejected() -> None:
    driven = Driven()
    driven.alone()
    other = driven.join("", protocols={"sticky": b""})
    assert driven.results[other].error is errors.InconsistentGroupProtocolError
    other = driven.join("", protocol_type="connect")
    assert driven.results[other].error is errors.InconsistentGroupProtocolError
    assert driven.coordinator.classic.state is ClassicGroupState.STABLE


def test_the_protocol_is_the_one_most_members_vote_for() -> None:
    driven = Driven()
    votes = [["range", "sticky"], ["sticky", "range"], ["sticky", "range", "other"]]
    joins = [driven.join("", protocols=dict.fromkeys(names, b"")) for names in votes]
    for member_id in [r.new_id for r in joins if r in driven.results]:
        names = votes[[r.new_id for r in joins].index(member_id)]
        again = driven.join(member_id, protocols=dict.fromkeys(names, b""))
    assert driven.results[again].protocol == "sticky"


# --- the log of classic groups and offsets -------------------------------------------------------


@pytest.mark.design("000", "Co-ordinator 1, 4", "Co-ordinator 2")
def test_a_classic_group_is_restored_from_its_log() -> None:
    driven = Driven()
    first, second = two(driven)
    driven.fail_over()
    assert driven.heartbeat(first, 2) is driven.heartbeat(second, 2) is None
    group = driven.coordinator.classic
    assert (group.leader, group.protocol, group.state) == (first, "range", ClassicGroupState.STABLE)
    assert [m.assignment for m in group.members.values()] == [
        assignment_of(0, 1),
        assignment_of(2, 3),
    ]
    driven.sleep(10_000)
    assert not group.members, "their sessions went on"


def test_an_incomplete_generation_is_lost_in_a_failover() -> None:
    driven = Driven()
    first, second = two(driven)
    driven.join(first, subscription(topics=["orders", "more"]))
    driven.join(second)
    assert driven.coordinator.classic.generation == 3
    driven.fail_over()
    assert driven.heartbeat(first, 3) is errors.IllegalGenerationError
    assert driven.heartbeat(first, 2) is None


def test_parked_requests_get_not_coordinator_in_a_failover() -> None:
    driven = Driven()
    driven.alone()
    new_member = driven.join("")
    outcome = driven.coordinator.take_over(driven.now_ms)
    answers = dict(outcome.responses)
    assert answers[new_member].error is errors.NotCoordinatorError


@pytest.mark.design("000", "Co-ordinator 2")
def test_a_group_that_has_lost_its_last_member_is_empty_for_the_next_coordinator() -> None:
    driven = Driven()
    member_id = driven.alone()
    assert driven.ask(LeaveGroup(member_id=member_id)) is None
    driven.fail_over()
    assert driven.coordinator.classic.state is ClassicGroupState.EMPTY
    assert driven.coordinator.log.group(GroupMetadata) == GroupMetadata(2, "consumer", since_ms=0)


def test_the_last_records_can_be_lost() -> None:
    driven = Driven()
    member_id = driven.alone()
    assert driven.commit(member_id, 1, p0=3) is None
    assert driven.commit(member_id, 1, p0=7, p1=1) is None
    assert driven.coordinator.log.newest_of(OffsetCommit) == 3
    driven.fail_over()
    assert driven.committed() == {0: 7, 1: 1}
    driven.fail_over(lost=2)
    assert driven.committed() == {0: 3}
    assert driven.heartbeat(member_id, 1) is None
    driven.fail_over(lost=2)
    assert driven.committed() == {}
    assert driven.heartbeat(member_id, 1) is errors.UnknownMemberIdError, "its generation too"
    driven.fail_over(lost=99)
    assert driven.coordinator.log.records == []


# --- KIP-848 groups ------------------------------------------------------------------------------


def test_a_member_with_missing_records_is_not_restored() -> None:
    driven = Driven()
    driven.beat("a", 0)
    driven.beat("b", 0)
    driven.fail_over(lost=1)
    assert set(driven.coordinator.consumer.members) == {"a"}
    assert driven.beat("b", 2).error is errors.UnknownMemberIdError


def test_the_next_coordinator_sends_the_loss_of_a_deleted_topic() -> None:
    driven = Driven()
    driven.beat("a", 0)
    driven.topics.clear()
    driven.ask(ForgetTopic(topic="orders"))
    driven.fail_over()
    assert driven.beat("a", 1).assigned == orders()
    driven.fail_over()
    assert driven.beat("a", 2).assigned is None, "it was sent"


@pytest.mark.design("001", "Heartbeat handling 1")
def test_a_group_exists_from_its_first_member_until_it_is_forgotten() -> None:
    driven = Driven(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=1_000)
    for epoch in (3, -1, -2):
        assert driven.beat("m", epoch).error is errors.GroupIdNotFoundError
    begun = driven.beat("m", 0)
    driven.commit("m", begun.epoch, p0=5)
    assert driven.beat("m", -1).error is None
    assert driven.beat("m", begun.epoch).error is errors.UnknownMemberIdError
    driven.fail_over()
    assert driven.beat("m", begun.epoch).error is errors.UnknownMemberIdError
    driven.sleep(2_000)
    assert driven.beat("m", begun.epoch).error is errors.GroupIdNotFoundError


def test_an_empty_classic_group_is_not_a_kip_848_group() -> None:
    driven = Driven()
    driven.ask(LeaveGroup(member_id=driven.alone()))
    assert driven.beat("m", 3).error is errors.GroupIdNotFoundError
    assert driven.beat("m", 0).error is None
