"""Three brokers: leaders move, brokers are rolled, followers are read from, logs are cut."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as AdminPartition

from benchmarks.outages.streaming import Stream
from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import LogTruncationError
from tandem_kafka.wire.messages import OffsetForLeaderEpochRequest
from tandem_kafka_testing.kafka import RealKafka
from tests.histories.ledger import Ledger
from tests.integration.polling import Consume, partitions_of, poll_until, read_all
from tests.integration.watching import Sent, partition_metrics
from tests.waiting import wait_until, while_running

pytestmark = [pytest.mark.full("starts brokers of its own"), pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def three() -> Iterator[RealKafka]:
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with RealKafka(brokers=3, properties={"replica.selector.class": selector}) as cluster:
        yield cluster


@pytest.fixture
def cluster(three: RealKafka) -> Iterator[RealKafka]:
    """Three brokers that may be stopped; they run again for the next test."""
    yield three
    three.start_again()


def new_topic(cluster: RealKafka, partitions: int = 1, **config: str) -> str:
    """A topic with a replica on every broker."""
    name = f"replicas-{uuid.uuid4().hex[:8]}"
    return cluster.admin.create_topic(name, partitions, replicas=3, config=config)


def first_partition(cluster: RealKafka, topic: str) -> Any:
    """Return partition 0 as a broker knows it; a lagging broker may not know it yet."""
    found: list[Any] = []

    def known() -> bool:
        partitions = cluster.admin.client.list_topics(topic, timeout=30.0).topics[topic].partitions
        found[:] = [each for each in partitions.values() if each.id == 0 and each.leader >= 0]
        return bool(found)

    wait_until(known, "a leader")
    return found[0]


def leader_of(cluster: RealKafka, topic: str) -> int:
    leader: int = first_partition(cluster, topic).leader
    return leader


def in_sync(cluster: RealKafka, topic: str) -> set[int]:
    return set(first_partition(cluster, topic).isrs)


def elect_preferred(cluster: RealKafka, topic: str, preferred: int) -> None:
    """Return the leadership to the first replica."""
    partition = AdminPartition(topic, 0)

    def elected() -> bool:
        cluster.admin.client.elect_leaders(ElectionType.PREFERRED, [partition]).result(30.0)
        return leader_of(cluster, topic) == preferred

    wait_until(elected, "the preferred leader's election")


def end_of(consumer: KafkaConsumer, tp: TopicPartition) -> int:
    return consumer.end_offsets([tp])[tp]


@pytest.mark.behaviour(171)
def test_every_broker_restarts_while_producers_continue(
    cluster: RealKafka, consume: Consume
) -> None:
    topic = new_topic(cluster, 3, **{"min.insync.replicas": "2"})
    partitions = partitions_of(topic, 3)
    consumer = consume(bootstrap_servers=cluster.bootstrap())
    consumer.assign(partitions)
    ledger = Ledger(consumer, partitions, Stream.value_of)
    with Stream(cluster.bootstrap(), topic, 3) as stream:
        ledger.read_more()
        for node_id in cluster.node_ids:
            before = dict(ledger.next)
            while_running(lambda node_id=node_id: cluster.restart(node_id), ledger.poll)
            assert all(ledger.next[tp] > before[tp] for tp in partitions)
        ledger.read_more()
        stream.stop()
        ledger.read_to(lambda _: stream.sent)
        assert not ledger.poll()


@pytest.mark.behaviour(152, 160)
def test_a_new_leader_is_followed_and_its_epoch_grows(cluster: RealKafka, consume: Consume) -> None:
    topic = new_topic(cluster)
    (tp,) = partitions_of(topic, 1)
    consumer = consume(bootstrap_servers=cluster.bootstrap(), auto_offset_reset="none")
    consumer.assign([tp])
    consumer.seek(tp, 0)
    cluster.admin.produce(topic, [b"1", b"2"])
    first = leader_of(cluster, topic)
    records = read_all(consumer, 2)

    cluster.kill(first)
    wait_until(lambda: leader_of(cluster, topic) != first, "an election")
    cluster.admin.produce(topic, [b"3"])
    records += read_all(consumer, 1)
    # Requests to the old leader find the new one too.
    assert end_of(consumer, tp) == 3

    cluster.start_again(first)
    wait_until(lambda: first in in_sync(cluster, topic), "the replica's return")
    sent = Sent(consumer)
    elect_preferred(cluster, topic, first)
    cluster.admin.produce(topic, [b"4"])
    records += read_all(consumer, 1)
    assert sent.of(OffsetForLeaderEpochRequest) != []  # 150: validated before the next fetch
    assert sent.fetched_from()[-1] == first

    assert [record.value for record in records] == [b"1", b"2", b"3", b"4"]
    epochs = [record.leader_epoch for record in records]
    assert epochs[0] == epochs[1] < epochs[2] < epochs[3]


@pytest.mark.behaviour(148)
def test_offsets_are_looked_up_at_the_current_leader(cluster: RealKafka, consume: Consume) -> None:
    topic = new_topic(cluster)
    (tp,) = partitions_of(topic, 1)
    cluster.admin.produce(topic, [b"1"] * 5)
    consumer = consume(bootstrap_servers=cluster.bootstrap())
    assert end_of(consumer, tp) == 5
    first = leader_of(cluster, topic)
    cluster.stop(first)
    assert end_of(consumer, tp) == 5
    assert consumer.beginning_offsets([tp]) == {tp: 0}
    cluster.start_again(first)
    wait_until(lambda: first in in_sync(cluster, topic), "the replica's return")
    elect_preferred(cluster, topic, first)  # the former leader is up and rejects the fetch
    assert end_of(consumer, tp) == 5
    consumer.assign([tp])
    assert len(read_all(consumer, 5)) == 5


@pytest.mark.behaviour(159)
def test_the_closest_replica_is_read_while_it_lives(cluster: RealKafka, consume: Consume) -> None:
    topic = new_topic(cluster)
    (tp,) = partitions_of(topic, 1)
    leader = leader_of(cluster, topic)
    follower = next(node_id for node_id in cluster.node_ids if node_id != leader)
    wait_until(lambda: in_sync(cluster, topic) == set(cluster.node_ids))
    cluster.admin.produce(topic, [b"1"] * 5)
    consumer = consume(
        bootstrap_servers=cluster.bootstrap(),
        client_rack=f"rack-{follower}",
        auto_offset_reset="none",
    )
    sent = Sent(consumer)
    consumer.assign([tp])
    consumer.seek(tp, 0)

    def most_requested() -> float:
        return partition_metrics(consumer, tp).get("preferred-read-replica", -1)

    assert len(read_all(consumer, 5)) == 5
    assert most_requested() == follower
    assert sent.fetched_from() == [leader, follower, follower][: len(sent.fetched_from())]
    cluster.admin.produce(topic, [b"2"] * 5)
    assert len(read_all(consumer, 5)) == 5
    assert sent.fetched_from()[-1] == follower

    cluster.kill(follower)
    cluster.admin.produce(topic, [b"3"] * 5)
    assert [record.value for record in read_all(consumer, 5)] == [b"3"] * 5
    assert sent.fetched_from()[-1] == leader
    assert most_requested() == -1
    cluster.start_again(follower)
    poll_until(consumer, lambda: most_requested() == follower)
    cluster.admin.produce(topic, [b"4"] * 5)
    assert [record.offset for record in read_all(consumer, 5)] == list(range(15, 20))


@pytest.mark.behaviour(150)
def test_a_truncated_log_is_detected(cluster: RealKafka, consume: Consume) -> None:
    """An unclean election loses records that both consumers have read."""
    topic = cluster.admin.create_topic(
        f"truncated-{uuid.uuid4().hex[:8]}",
        replicas=2,
        config={"unclean.leader.election.enable": "true", "min.insync.replicas": "1"},
    )
    (tp,) = partitions_of(topic, 1)
    leader = leader_of(cluster, topic)
    (follower,) = in_sync(cluster, topic) - {leader}
    options = {"bootstrap_servers": cluster.bootstrap(), "reconnect_backoff_max_ms": 200}
    forgiving = consume(**options)
    strict = consume(auto_offset_reset="none", **options)
    for consumer in (forgiving, strict):
        consumer.assign([tp])
        consumer.seek(tp, 0)
    cluster.admin.produce(topic, [b"kept"] * 10)
    wait_until(lambda: len(in_sync(cluster, topic)) == 2)
    cluster.stop(follower)
    cluster.admin.produce(topic, [b"lost"] * 5)
    for consumer in (forgiving, strict):
        assert len(read_all(consumer, 15)) == 15
    # All but the follower stay away until it leads.
    cluster.kill(leader)
    cluster.start_again(follower)
    wait_until(lambda: leader_of(cluster, topic) == follower, "an unclean election")
    cluster.admin.produce(topic, [b"new"] * 7)  # beyond where the consumers stand

    values = [record.value for record in poll_until(forgiving, lambda: at(forgiving, tp) == 17)]
    assert values == [b"new"] * 7
    for _ in range(2):
        with pytest.raises(LogTruncationError) as caught:
            poll_until(strict, lambda: False)
        diverged = caught.value.divergent_offsets[tp]
        assert diverged.offset == 10
    strict.seek(tp, diverged.offset)
    assert [record.value for record in read_all(strict, 7)] == [b"new"] * 7


def at(consumer: KafkaConsumer, tp: TopicPartition) -> int:
    """Where a consumer stands, also while the position is in doubt."""
    position = consumer._core.engine.subscription.assigned[tp].position
    return -1 if position is None else position.offset
