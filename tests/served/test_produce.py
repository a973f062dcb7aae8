"""What brokers do with batches: repeated ones, broken ones, and settings of topics."""

from __future__ import annotations

import time

import confluent_kafka
import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.errors import KafkaError, MessageSizeTooLargeError
from kafka.protocol.producer import ProduceRequest

from tandem_kafka import KafkaConsumer, KafkaProducer, TopicPartition
from tandem_kafka_testing.cluster.call import CUT, Call
from tandem_kafka_testing.served import ServedKafka
from tests.served.clients import PRODUCERS, TIMEOUT_S
from tests.served.test_matrix import numbers


def end_of(kafka: ServedKafka, topic: str) -> int:
    return kafka.perform(lambda cluster: cluster.at(TopicPartition(topic, 0)).log.end_offset)


@pytest.mark.parametrize("producer", ["confluent-kafka", "aiokafka"])
def test_a_batch_whose_response_is_lost_is_stored_once(producer: str) -> None:
    """The broker appends it and hangs up; the producer sends it again."""

    def append_and_hang_up(call: Call) -> object:
        call.default()
        return CUT

    with ServedKafka() as kafka:
        topic = kafka.create_topic("orders")
        kafka.perform(lambda cluster: cluster.script(ProduceRequest, append_and_hang_up))
        PRODUCERS[producer](kafka.bootstrap, topic, numbers(0))
        assert end_of(kafka, topic) == len(numbers(0))
        with KafkaConsumer(
            topic, bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            assert [next(consumer).value for _ in numbers(0)] == numbers(0)


def test_producers_go_on_while_leaders_move_and_brokers_restart() -> None:
    """Idempotent: each record is stored exactly once, in order within its partition."""
    with ServedKafka(brokers=3, seed=5) as kafka:
        topic = kafka.create_topic("orders")
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True, "linger.ms": 1}
        )
        for number in range(400):
            producer.produce(topic, b"%d" % number)
            producer.poll(0)
            if number % 50 == 25:
                kafka.cause("lead", topic=topic)
            if number % 100 == 60:
                kafka.cause("crash", elect=True, for_ms=300)
            time.sleep(0.002)
        assert producer.flush(TIMEOUT_S) == 0
        assert end_of(kafka, topic) == 400
        with KafkaConsumer(
            topic, bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            assert [int(next(consumer).value or b"") for _ in range(400)] == list(range(400))


def test_a_message_that_is_too_large_is_rejected(cluster: ServedKafka, topic: str) -> None:
    with (
        KafkaProducer(bootstrap_servers=cluster.bootstrap, max_request_size=3_000_000) as producer,
        pytest.raises(MessageSizeTooLargeError),
    ):
        producer.send(topic, bytes(1_100_000)).get(TIMEOUT_S)


def test_a_topic_with_the_time_of_the_log(cluster: ServedKafka, topic: str) -> None:
    name = f"{topic}-log-time"
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    config = {"message.timestamp.type": "LogAppendTime"}
    admin.create_topics([NewTopic(name, 1, 1, topic_configs=config)])
    admin.close()
    before_ms = int(time.time() * 1_000)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        sent = producer.send(name, b"1", timestamp_ms=1_000).get(TIMEOUT_S)
    with KafkaConsumer(
        name, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        record = next(consumer)
    assert record.timestamp == sent.timestamp >= before_ms
    assert record.timestamp_type == 1


def test_records_are_found_by_their_time(cluster: ServedKafka, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap, linger_ms=200) as producer:
        for number in range(10):
            producer.send(topic, b"1", partition=0, timestamp_ms=1_000_000 + 10 * number)
        producer.flush()
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap) as consumer:
        for time_ms, offset in ((0, 0), (1_000_000, 0), (1_000_031, 4), (1_000_090, 9)):
            found = consumer.offsets_for_times({tp: time_ms})[tp]
            assert found is not None
            assert (found.offset, found.timestamp) == (offset, 1_000_000 + 10 * offset)
        assert consumer.offsets_for_times({tp: 1_000_091})[tp] is None


def test_a_topic_is_created_by_its_first_use() -> None:
    with ServedKafka() as kafka:
        PRODUCERS["confluent-kafka"](kafka.bootstrap, "unknown", numbers(0))
        assert end_of(kafka, "unknown") == len(numbers(0))


def test_an_unknown_topic_is_rejected(cluster: ServedKafka) -> None:
    """If the cluster creates none by itself, as the real one of these tests."""
    if not cluster.real:
        cluster.perform(lambda simulated: setattr(simulated, "auto_create", False))
    with (
        KafkaProducer(bootstrap_servers=cluster.bootstrap, max_block_ms=1_000) as producer,
        pytest.raises(KafkaError),
    ):
        producer.send("matrix-unknown", b"1").get(TIMEOUT_S)
