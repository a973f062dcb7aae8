"""The only broker restarts, or another cluster replaces it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from benchmarks.outages.streaming import Stream
from tandem_kafka import TopicPartition
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.proxy import Proxy
from tests.histories.ledger import Ledger
from tests.integration.group_members import (
    Member,
    MemberLedger,
    commit_if_possible,
    options_of,
    settled,
)
from tests.integration.polling import Clock, Consume, cpu_share, partitions_of, read_all
from tests.waiting import wait_until, while_running

pytestmark = [pytest.mark.full("starts brokers of its own"), pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def restartable() -> Iterator[RealKafka]:
    with RealKafka() as cluster:
        yield cluster


@pytest.fixture
def cluster(restartable: RealKafka) -> Iterator[RealKafka]:
    """A cluster of one broker that may be stopped; it runs again for the next test."""
    yield restartable
    restartable.start_again()


def new_topic(cluster: RealKafka, partitions: int = 1) -> str:
    return cluster.admin.create_topic(f"restarts-{uuid.uuid4().hex[:8]}", partitions)


@pytest.mark.behaviour(171)
@pytest.mark.parametrize("hard", [False, True], ids=["stopped", "killed"])
def test_a_restart_in_the_middle_of_a_stream(
    cluster: RealKafka, consume: Consume, hard: bool
) -> None:
    topic = new_topic(cluster, 3)
    partitions = partitions_of(topic, 3)
    group = f"group-of-{topic}"
    options = {"bootstrap_servers": cluster.bootstrap(), "group_id": group}
    consumer = consume(**options)
    consumer.assign(partitions)
    ledger = Ledger(consumer, partitions, Stream.value_of)
    with Stream(cluster.bootstrap(), topic, 3) as stream:
        ledger.read_more()
        (cluster.kill if hard else cluster.stop)()
        while_running(cluster.start_again, ledger.poll)
        ledger.read_more()
        consumer.commit()
        committed = dict(ledger.next)
        second = consume(**options)
        stream.stop()
        ledger.read_to(lambda _: stream.sent)
        assert not ledger.poll()
    assert {tp: consumer.committed(tp) for tp in partitions} == committed
    second.assign(partitions)
    for tp in partitions:
        assert second.position(tp) == committed[tp]


@pytest.mark.behaviour(171)
def test_an_outage_of_the_broker_neither_hangs_nor_spins(
    cluster: RealKafka, consume: Consume
) -> None:
    """Nothing hangs or spins; positions set during the outage hold afterwards."""
    topic = new_topic(cluster)
    cluster.admin.produce(topic, [b"%d" % number for number in range(100)])
    (tp,) = partitions_of(topic, 1)
    options = {"bootstrap_servers": cluster.bootstrap(), "reconnect_backoff_max_ms": 500}
    consumer = consume(**options)
    consumer.assign([tp])
    read_all(consumer, 100)
    cluster.kill()
    clock = Clock()
    assert cpu_share(lambda: consumer.poll(timeout_ms=2_000)) < 0.2
    assert clock.seconds >= 1.99
    assert clock.within(10)
    consumer.seek_to_end(tp)
    clock.start()
    assert consumer.position(tp, timeout_ms=300) is None
    assert clock.seconds >= 0.29
    assert clock.within(10)
    consumer.seek(tp, 40)
    assert consumer.poll(timeout_ms=100) == {}
    assert consumer.position(tp) == 40
    new_member = consume(bootstrap_timeout_ms=0, **options)
    new_member.assign([tp])
    assert new_member.poll(timeout_ms=100) == {}
    cluster.start_again()
    assert [record.offset for record in read_all(consumer, 60)] == list(range(40, 100))
    assert [record.offset for record in read_all(new_member, 100)] == list(range(100))


@pytest.mark.behaviour(171)
@pytest.mark.parametrize("protocol", ["cooperative", "consumer"])
def test_a_restart_under_a_group(cluster: RealKafka, consume: Consume, protocol: str) -> None:
    partitions = partitions_of(new_topic(cluster, 4), 4)
    topic = partitions[0].topic
    common = {
        "bootstrap_servers": cluster.bootstrap(),
        "group_id": f"group-of-{topic}",
        "reconnect_backoff_max_ms": 500,
    }
    ledger = MemberLedger(consume(**common), partitions)
    with Stream(cluster.bootstrap(), topic, 4, pause_s=0.05) as stream:
        ledger.members = [
            Member(
                consume(**common, **options_of(protocol)),
                [topic],
                commit_if_possible,
                commit=False,
            )
            for _ in range(2)
        ]
        settled(ledger.running, 4)
        ledger.read_more()
        while_running(cluster.restart, ledger.check_commits)
        ledger.read_more()
        stream.stop()
    ledger.close(stream.sent)


@pytest.fixture
def doorway(cluster: RealKafka) -> Iterator[Proxy]:
    """A fixed address in front of a cluster, which may be exchanged for another one."""
    door = Proxy(cluster.bootstrap())
    yield door
    door.close()


@pytest.mark.behaviour(172)
def test_all_known_brokers_are_replaced_behind_the_bootstrap_address(
    kafka: RealKafka, cluster: RealKafka, doorway: Proxy, consume: Consume
) -> None:
    topic = new_topic(cluster)
    cluster.admin.produce(topic, [b"%d" % number for number in range(10)])
    kafka.admin.create_topic(topic)
    kafka.admin.produce(topic, [b"%d" % number for number in range(20)])
    consumer = consume(bootstrap_servers=doorway.address, reconnect_backoff_max_ms=200)
    (tp,) = partitions_of(topic, 1)
    consumer.assign([tp])
    assert [int(record.value) for record in read_all(consumer, 10)] == list(range(10))
    known = consumer._core.engine.metadata.snapshot.nodes[1].port
    assert known == cluster.addresses[0].ports["PLAINTEXT"]
    cluster.kill()
    doorway.lead_to(kafka.bootstrap())
    clock = Clock()
    assert [int(record.value) for record in read_all(consumer, 10)] == list(range(10, 20))
    assert clock.within(60)
    assert consumer._core.engine.metadata.rebootstraps >= 1


@pytest.mark.behaviour(172)
def test_without_rebootstrap_the_consumer_waits_for_the_old_brokers(
    kafka: RealKafka, cluster: RealKafka, doorway: Proxy, consume: Consume
) -> None:
    topic = new_topic(cluster)
    cluster.admin.produce(topic, [b"1"])
    kafka.admin.create_topic(topic)
    kafka.admin.produce(topic, [b"1", b"elsewhere"])
    consumer = consume(
        bootstrap_servers=doorway.address,
        reconnect_backoff_max_ms=100,
        metadata_recovery_strategy="none",
    )
    consumer.assign([TopicPartition(topic, 0)])
    read_all(consumer, 1)
    cluster.kill()
    doorway.lead_to(kafka.bootstrap())
    failed = consumer.metrics()["consumer-metrics"]["failed-connection-total"]
    wait_until(
        lambda: consumer.metrics()["consumer-metrics"]["failed-connection-total"] >= failed + 5
    )
    assert consumer.poll(timeout_ms=200) == {}
    cluster.start_again()
    cluster.admin.produce(topic, [b"here"])
    assert [record.value for record in read_all(consumer, 1)] == [b"here"]
