"""The coordinator stops while the members read and a producer writes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from benchmarks.outages.streaming import Stream
from tandem_kafka.errors import GroupMaxSizeReachedError
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.group_members import (
    Member,
    MemberLedger,
    commit_if_possible,
    options_of,
    settled,
)
from tests.integration.polling import Consume, partitions_of, poll_until
from tests.waiting import wait_until, while_running

pytestmark = [pytest.mark.full("starts brokers of its own"), pytest.mark.timeout(400)]

PARTITIONS = 6
GROUP_MAX_SIZE = 3


@pytest.fixture(scope="module")
def three() -> Iterator[RealKafka]:
    limit = str(GROUP_MAX_SIZE)
    config = {"group.max.size": limit, "group.consumer.max.size": limit}
    with RealKafka(brokers=3, properties=config) as cluster:
        yield cluster


@pytest.fixture
def cluster(three: RealKafka) -> Iterator[RealKafka]:
    """Three brokers that may be stopped, the groups' offsets on all of them."""
    yield three
    three.start_again()


def new_topic(cluster: RealKafka) -> str:
    return cluster.admin.create_topic(f"outage-{uuid.uuid4().hex[:8]}", PARTITIONS, replicas=3)


def coordinator_of(member: Member, other_than: int | None = None) -> int:
    """Return the id of the coordinator that a member knows.

    Other brokers still name a dead coordinator until they have detected its failure.
    """
    manager = member.consumer._core.engine.loop._managers.group.coordinator
    seen: list[int] = []

    def known() -> bool:
        destination = manager.destination()
        if destination is not None and destination.node.node_id != other_than:
            seen.append(destination.node.node_id)
        return bool(seen)

    wait_until(known, "a coordinator" if other_than is None else "another coordinator")
    return seen[0]


@pytest.mark.behaviour(98, 171)
@pytest.mark.parametrize(
    ("protocol", "hard"),
    [("eager", False), ("cooperative", False), ("consumer", False), ("consumer", True)],
    ids=["eager-stopped", "cooperative-stopped", "consumer-stopped", "consumer-killed"],
)
def test_the_coordinator_moves_while_three_members_read(
    cluster: RealKafka, consume: Consume, protocol: str, hard: bool
) -> None:
    topic = new_topic(cluster)
    common = {
        "group_id": topic,
        "bootstrap_servers": cluster.bootstrap(),
        "reconnect_backoff_max_ms": 500,
    }
    ledger = MemberLedger(consume(**common), partitions_of(topic, PARTITIONS))

    def join() -> Member:
        consumer = consume(**common, **options_of(protocol))
        return Member(consumer, [topic], commit_if_possible, commit=False)

    with Stream(cluster.bootstrap(), topic, PARTITIONS, pause_s=0.05) as stream:
        ledger.members = [join() for _ in range(3)]
        settled(ledger.running, PARTITIONS)
        ledger.read_more()
        coordinator = coordinator_of(ledger.members[0])
        end = cluster.kill if hard else cluster.stop
        while_running(lambda: end(coordinator), ledger.check_commits)
        for member in ledger.members:
            coordinator_of(member, other_than=coordinator)
        ledger.read_more()  # by way of the new coordinator
        settled(ledger.running, PARTITIONS)
        while_running(lambda: cluster.start_again(coordinator), ledger.check_commits)
        ledger.read_more()
        stream.stop()
    ledger.close(stream.sent)


@pytest.mark.behaviour(90)
@pytest.mark.parametrize("protocol", ["eager", "consumer"])
def test_a_full_group_rejects_a_member_without_a_rebalance(
    cluster: RealKafka, consume: Consume, protocol: str
) -> None:
    topic = new_topic(cluster)
    options = {"bootstrap_servers": cluster.bootstrap(), "group_id": topic, **options_of(protocol)}
    members = [Member(consume(**options), [topic]) for _ in range(GROUP_MAX_SIZE)]
    settled(members, PARTITIONS)
    calls_before = [list(member.listener.calls) for member in members]
    extra = consume(topic, **options)
    for _ in range(2):
        with pytest.raises(GroupMaxSizeReachedError):
            poll_until(extra, lambda: False)
    cluster.admin.produce(topic, [Record(b"x", partition=n) for n in range(PARTITIONS)])
    wait_until(lambda: sum(len(member.records) for member in members) == PARTITIONS)
    assert [member.listener.calls for member in members] == calls_before
    members[0].stop()
    extra.unsubscribe()
    extra.subscribe([topic])  # now there is room
    poll_until(extra, extra.assignment)
    for member in members[1:]:
        member.stop()
        assert member.error is None
