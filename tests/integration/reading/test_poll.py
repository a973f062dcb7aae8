"""poll(): it returns available records, keeps to its timeout, and uses no CPU while it waits."""

from __future__ import annotations

import threading

import confluent_kafka
import pytest

from tandem_kafka import TopicPartition
from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.polling import (
    ENDLESS_MS,
    Clock,
    Consume,
    Listener,
    assigned,
    cpu_share,
    metric,
    partitions_of,
    poll_until,
    read_all,
    when_blocked,
)
from tests.waiting import wait_until

FETCHES = ("consumer-fetch-manager-metrics", "fetch-total")


def produce(kafka: RealKafka, topic: str, count: int, partition: int = 0) -> None:
    kafka.admin.produce(topic, [Record(b"%d" % number, None, partition) for number in range(count)])


@pytest.mark.behaviour(21)
def test_poll_0_in_a_loop_joins_and_reads(kafka: RealKafka, topic: str, consume: Consume) -> None:
    produce(kafka, topic, 10)
    consumer = consume(topic, group_id=f"group-of-{topic}")
    clock = Clock()
    values: list[bytes] = []
    while len(values) < 10:
        assert clock.seconds < 120, "poll(0) starves"
        for records in consumer.poll(0).values():
            values += [record.value for record in records]
    assert values == [b"%d" % number for number in range(10)]


@pytest.mark.full("it measures CPU time")
@pytest.mark.behaviour(22)
@pytest.mark.full("takes long on a real broker")
def test_an_idle_member_waits_without_work(topic: str, consume: Consume) -> None:
    consumer = consume(topic, group_id=f"group-of-{topic}")
    assigned(consumer, partitions_of(topic, 1))
    clock = Clock()
    share = cpu_share(lambda: consumer.poll(2_000))
    assert clock.seconds > 1.9
    assert share < 0.02


@pytest.mark.full("it measures CPU time")
@pytest.mark.behaviour(24)
@pytest.mark.full("takes long on a real broker")
@pytest.mark.parametrize("group", ["with a group", None])
def test_assigned_without_data_does_not_spin(
    topic: str, consume: Consume, group: str | None
) -> None:
    consumer = consume(group_id=group and f"group-of-{topic}")
    consumer.assign(partitions_of(topic, 1))
    consumer.position(TopicPartition(topic, 0))
    assert cpu_share(lambda: consumer.poll(2_000)) < 0.02


@pytest.mark.full("it measures CPU time")
@pytest.mark.behaviour(25)
@pytest.mark.full("takes long on a real broker")
@pytest.mark.parametrize("missing", ["topic", "partition"])
def test_a_backoff_of_0_does_not_spin(topic: str, consume: Consume, missing: str) -> None:
    """It waits for a partition that does not exist, and looks it up repeatedly."""
    name = topic if missing == "partition" else f"not-{topic}"
    no_pause = {"retry_backoff_ms": 0, "reconnect_backoff_ms": 0}
    consumer = consume(group_id=f"group-of-{topic}", allow_auto_create_topics=False, **no_pause)
    consumer.assign([TopicPartition(name, 7)])
    assert cpu_share(lambda: consumer.poll(2_000)) < 0.05


@pytest.mark.full("it measures CPU time")
@pytest.mark.behaviour(26)
@pytest.mark.full("takes long on a real broker")
@pytest.mark.partitions(2)
def test_a_poll_with_all_partitions_paused_is_idle(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    produce(kafka, topic, 5, 0)
    consumer = consume()
    consumer.assign(partitions_of(topic, 2))
    consumer.pause(*partitions_of(topic, 2))
    clock = Clock()
    returned: list[object] = []
    share = cpu_share(lambda: returned.append(consumer.poll(2_000)))
    assert returned == [{}]
    assert clock.seconds > 1.9
    assert share < 0.02
    consumer.resume(*partitions_of(topic, 2))
    read_all(consumer, 5)


@pytest.mark.full("it measures CPU time")
@pytest.mark.behaviour(26)
@pytest.mark.full("takes long on a real broker")
def test_a_paused_partition_with_buffered_records_is_idle(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    produce(kafka, topic, 50)
    consumer = consume()
    consumer.assign(partitions_of(topic, 1))
    first = read_all(consumer, 10, max_records=10)
    consumer.pause(TopicPartition(topic, 0))
    assert cpu_share(lambda: consumer.poll(1_500)) < 0.02
    assert consumer.position(TopicPartition(topic, 0)) == 10
    consumer.resume(TopicPartition(topic, 0))
    rest = read_all(consumer, 40)
    assert [record.offset for record in first + rest] == list(range(50))


@pytest.mark.behaviour(27)
def test_an_empty_fetch_does_not_delay_later_records(
    topic: str, consume: Consume, producer: confluent_kafka.Producer
) -> None:
    consumer = consume(fetch_max_wait_ms=200)
    consumer.assign(partitions_of(topic, 1))
    for number in range(3):
        fetches = metric(consumer, *FETCHES)
        poll_until(consumer, lambda before=fetches: metric(consumer, *FETCHES) > before)

        def produce_one(value: bytes = b"%d" % number) -> None:
            producer.produce(topic, value)
            producer.flush(20)

        with when_blocked(consumer, produce_one):
            records = consumer.poll(ENDLESS_MS)
        assert [record.value for record in records[TopicPartition(topic, 0)]] == [b"%d" % number]


@pytest.mark.behaviour(28)
@pytest.mark.partitions(2)
def test_max_poll_records_caps_each_poll_and_the_rest_is_kept(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    for partition in range(2):
        produce(kafka, topic, 100, partition)
    consumer = consume(max_poll_records=7)
    partitions = partitions_of(topic, 2)
    consumer.assign(partitions)
    read = read_all(consumer, 7)
    wait_until(lambda: metric(consumer, "consumer-metrics", "fetch-buffer-bytes") > 0)
    wait_until(lambda: all(s.read_ahead == 100 for s in states(consumer)), "reading ahead")
    fetched = metric(consumer, "consumer-fetch-manager-metrics", "bytes-consumed-total")
    while len(read) < 200:
        batch = consumer.poll(5_000)
        assert 0 < batch.count <= 7
        assert batch.count == 7 or len(read) + batch.count == 200
        read += [record for records in batch.values() for record in records]
    assert metric(consumer, "consumer-fetch-manager-metrics", "bytes-consumed-total") == fetched
    for tp in partitions:
        assert [r.offset for r in read if r.partition == tp.partition] == list(range(100))


def states(consumer: object) -> list[object]:
    return list(consumer._core.engine.subscription.assigned.values())  # type: ignore[attr-defined]


@pytest.mark.behaviour(28)
def test_max_records_of_one_poll_overrides_the_option(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    produce(kafka, topic, 30)
    consumer = consume(max_poll_records=7)
    consumer.assign(partitions_of(topic, 1))
    wait_until(lambda: consumer.poll(5_000, max_records=2).count == 2)
    assert consumer.poll(5_000, max_records=20).count == 20
    assert consumer.poll(5_000).count == 7
    assert consumer.poll(5_000).count == 1


@pytest.mark.behaviour(34)
def test_position_of_a_partition_that_does_not_exist(topic: str, consume: Consume) -> None:
    endless = {"default_api_timeout_ms": ENDLESS_MS}
    consumer = consume(allow_auto_create_topics=False, **endless)
    consumer.assign([TopicPartition(topic, 9), TopicPartition(f"not-{topic}", 0)])
    for tp in consumer.assignment():
        clock = Clock()
        assert consumer.position(tp, timeout_ms=500) is None
        assert clock.seconds > 0.45


@pytest.mark.behaviour(35, 36)
def test_offsets_of_partitions_that_do_not_exist_time_out(topic: str, consume: Consume) -> None:
    endless = {"default_api_timeout_ms": ENDLESS_MS}
    consumer = consume(allow_auto_create_topics=False, **endless)
    nowhere = TopicPartition(topic, 9)
    for lookup in (consumer.beginning_offsets, consumer.end_offsets):
        assert lookup([nowhere], 0) == {}
        clock = Clock()
        with pytest.raises(KafkaTimeoutError, match=f"no offsets of .*{topic}-9 in 500 ms"):
            lookup([TopicPartition(topic, 0), nowhere], 500)
        assert clock.seconds > 0.45
    assert consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 0}


@pytest.mark.behaviour(35)
def test_an_unknown_topic_has_no_partitions(topic: str, consume: Consume) -> None:
    consumer = consume(allow_auto_create_topics=False)
    assert consumer.partitions_for_topic(f"not-{topic}") == set()
    assert consumer.partitions_for_topic(topic) == {0}
    assert topic in consumer.topics()


@pytest.mark.behaviour(39)
@pytest.mark.partitions(2)
def test_poll_returns_empty_when_only_the_position_moved(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    """Records of an aborted transaction move the position, and no record is there to return."""
    tp = TopicPartition(topic, 0)
    consumer = consume(isolation_level="read_committed")
    consumer.assign([tp])
    assert consumer.position(tp) == 0
    settings = {"bootstrap.servers": kafka.bootstrap(), "transactional.id": f"writer-of-{topic}"}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(5):
        producer.produce(topic, b"never", partition=0)
    producer.flush(30)
    producer.abort_transaction(30)
    batch = consumer.poll(ENDLESS_MS)
    assert batch == {}
    assert consumer.position(tp) == 6
    assert batch.next_offsets[tp].offset == 6


def test_listeners_run_on_the_thread_that_polls(topic: str, consume: Consume) -> None:
    listener = Listener()
    consumer = consume(group_id=f"group-of-{topic}")
    consumer.subscribe([topic], listener=listener)
    assigned(consumer, partitions_of(topic, 1))
    consumer.close()
    assert listener.threads == {threading.current_thread()}
    assert [name for name, _ in listener.calls] == ["assigned", "revoked"]
