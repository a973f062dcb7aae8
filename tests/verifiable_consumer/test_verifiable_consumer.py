"""The program's events, and two of the cases, on the simulated cluster."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from tandem_kafka.testing.served import ServedKafka
from tests.verifiable_consumer.cases import CASES
from tests.verifiable_consumer.group import Group, wait_until


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


def test_shares_are_not_equal_while_a_partition_moves() -> None:
    """The first of three members has yet to revoke what the last one gets."""
    group = Group("nowhere:9092", "orders", 6)
    for owned in ({0, 1, 2}, {3, 4}, {5}):
        group.members.append(SimpleNamespace(alive=True, owned=owned))
    assert not group.is_shared_by(3)
    group.members[0].owned.remove(2)
    assert not group.is_shared_by(3)
    group.members[2].owned.add(2)
    assert group.is_shared_by(3)


def test_each_case_has_a_name_of_its_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES) > 30
