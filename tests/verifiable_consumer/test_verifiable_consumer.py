"""The program's events, and two of the cases, on the simulated cluster."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from tandem_kafka_testing.served import ServedKafka
from tests.verifiable_consumer.cases import CASES
from tests.verifiable_consumer.group import Group
from tests.waiting import wait_until


@pytest.fixture
def kafka() -> ServedKafka:
    with ServedKafka() as served:
        served.create_topic("orders", 2)
        for number in range(10):
            served.produce("orders", b"%d" % number, partition=number % 2)
        yield served


def test_the_events_are_those_of_the_java_program(kafka: ServedKafka) -> None:
    begin_ms = int(time.time() * 1_000)
    with Group(kafka.bootstrap, "orders", 2, "--verbose", "--max-messages", "10") as group:
        member = group.start()
        wait_until(lambda: not member.alive, "the end")
        member.join()
    names = [event["name"] for event in member.events]
    assert (names[0], names[-1]) == ("startup_complete", "shutdown_complete")
    assert all(begin_ms <= event["timestamp"] <= time.time() * 1_000 for event in member.events)
    by_name = {event["name"]: event for event in member.events}
    both = [{"topic": "orders", "partition": number} for number in range(2)]
    assert by_name["partitions_assigned"]["partitions"] == both
    assert by_name["partitions_revoked"]["partitions"] == both
    assert names.count("record_data") == 10
    data = next(event for event in member.events if event["name"] == "record_data")
    assert set(data) == {"timestamp", "name", "key", "value", "topic", "partition", "offset"}
    summary = by_name["records_consumed"]["partitions"][0]
    assert set(summary) == {"topic", "partition", "count", "minOffset", "maxOffset"}
    committed = by_name["offsets_committed"]
    assert committed["success"]
    assert "error" not in committed
    assert group.commits() == group.positions() == {0: 5, 1: 5}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_come_and_go(kafka: ServedKafka, protocol: str) -> None:
    with Group(kafka.bootstrap, "orders", 2, "--group-protocol", protocol) as group:
        first = group.start()
        group.await_members(1)
        wait_until(lambda: group.consumed == 10, "the records")
        group.start()
        group.await_members(2)
        group.stop(first)
        group.await_members(1)
        kafka.produce("orders", b"10", partition=0)
        wait_until(lambda: group.consumed == 11, "the last record")
        group.end()
    assert group.repeated == 0


def test_each_case_has_a_name_of_its_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES) > 30


def member(owned: set[int], *batches: tuple[int, int]) -> Any:
    """Return a member that has read batches of partition 0: first and last offsets."""
    return SimpleNamespace(
        alive=True,
        owned=owned,
        consumed=sum(last - first + 1 for first, last in batches),
        positions={0: max((last + 1 for _, last in batches), default=0)},
        read={0: list(batches)},
    )


def group_of(*members: Any) -> Group:
    made = Group("nowhere", "orders", 4)
    made.members = list(members)
    return made


def test_partitions_with_two_owners_are_not_shared() -> None:
    assert group_of(member({0, 1}), member({2, 3})).is_shared_by(2)
    assert not group_of(member({0, 1}), member({0, 1})).is_shared_by(2)
    assert not group_of(member({0, 1}), member({2})).is_shared_by(2)


def test_shares_are_not_equal_while_a_partition_moves() -> None:
    """The first member has yet to revoke what the second one gets."""
    assert not group_of(member({0, 1, 2}), member({3})).is_shared_by(2)


def test_what_is_read_again_does_not_hide_what_is_skipped() -> None:
    exact = group_of(member({0}, (0, 9)), member({1}, (10, 19)))
    assert (exact.skipped, exact.repeated) == (0, 0)
    both = group_of(member({0}, (0, 9)), member({1}, (5, 9), (15, 19)))
    assert (both.skipped, both.repeated) == (5, 5)
