"""The test broker behaves as the other tests expect."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tandem_kafka_testing.kafka.security import PASSWORD

pytestmark = pytest.mark.full("starts brokers of its own")


def read(config: dict[str, str], topic: str, partitions: int, count: int) -> list[bytes]:
    consumer = Consumer({"group.id": "broker-test", "enable.auto.commit": "false", **config})
    try:
        consumer.assign([TopicPartition(topic, part, 0) for part in range(partitions)])
        values: list[bytes] = []
        while len(values) < count:
            messages = consumer.consume(count - len(values), timeout=20.0)
            assert messages, f"only {len(values)} of {count} records came"
            values += [message.value() for message in messages if not message.error()]
        return values
    finally:
        consumer.close()


@pytest.mark.partitions(3)
def test_produced_records_are_read(kafka: RealKafka, topic: str) -> None:
    records = [Record(b"%d" % number, partition=number % 3) for number in range(300)]
    assert kafka.admin.produce(topic, records) == 300
    values = read({"bootstrap.servers": kafka.bootstrap()}, topic, 3, 300)
    assert sorted(values) == sorted(record.value for record in records if record.value)


def test_the_producer_fixture_delivers(kafka: RealKafka, producer: Producer, topic: str) -> None:
    producer.produce(topic, b"once")
    producer.flush(20.0)
    assert read({"bootstrap.servers": kafka.bootstrap()}, topic, 1, 1) == [b"once"]


def test_deleted_records_move_the_beginning(kafka: RealKafka, topic: str) -> None:
    kafka.produce(topic, *(b"%d" % number for number in range(10)))
    kafka.admin.delete_records(topic, {0: 7})
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap(), "group.id": "unused"})
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), 20.0) == (7, 10)
    consumer.close()


SASL = {"sasl.username": "alice", "sasl.password": PASSWORD}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_sasl_users_can_log_in(kafka: RealKafka, topic: str, listener: str, mechanism: str) -> None:
    kafka.admin.produce(topic, [b"secret"])
    config = {
        "bootstrap.servers": kafka.bootstrap(listener),
        "security.protocol": listener,
        "sasl.mechanism": mechanism,
        "ssl.ca.location": str(kafka.certificates.authority),
        **SASL,
    }
    assert read(config, topic, 1, 1) == [b"secret"]


def test_tls_with_and_without_a_client_certificate(kafka: RealKafka, topic: str) -> None:
    kafka.admin.produce(topic, [b"secret"])
    config = {
        "bootstrap.servers": kafka.bootstrap("SSL"),
        "security.protocol": "SSL",
        "ssl.ca.location": str(kafka.certificates.authority),
    }
    assert read(config, topic, 1, 1) == [b"secret"]
    config["ssl.certificate.location"] = str(kafka.certificates.client_certificate)
    config["ssl.key.location"] = str(kafka.certificates.client_key)
    assert read(config, topic, 1, 1) == [b"secret"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_of_both_protocols(kafka: RealKafka, topic: str, protocol: str) -> None:
    kafka.admin.produce(topic, [b"1", b"2"])
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap(),
            "group.id": f"{topic}-{protocol}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    assert [message.value() for message in consumer.consume(2, 30.0)] == [b"1", b"2"]
    consumer.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealKafka]:
    with RealKafka(brokers=3) as cluster:
        yield cluster


def test_a_restarted_broker_keeps_its_ports_and_data(cluster: RealKafka) -> None:
    topic = cluster.admin.create_topic("comes-back", 3, replicas=3)
    cluster.admin.produce(topic, [Record(b"before", partition=part) for part in range(3)])
    before = cluster.bootstrap()
    cluster.restart(2)
    cluster.kill(3)
    cluster.admin.wait_for_brokers(2)
    cluster.start_again(3)
    cluster.admin.produce(topic, [Record(b"after", partition=part) for part in range(3)])
    assert cluster.bootstrap() == before
    values = read({"bootstrap.servers": before}, topic, 3, 6)
    assert sorted(values) == [b"after"] * 3 + [b"before"] * 3


def test_paused_brokers_do_not_respond(cluster: RealKafka) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap(), "group.id": "unused"})
    consumer.list_topics(timeout=20.0)
    cluster.pause()
    with pytest.raises(KafkaException):
        consumer.list_topics(timeout=1.0)
    cluster.resume()
    consumer.list_topics(timeout=20.0)
    consumer.close()


def test_an_authorizer_checks_permissions() -> None:
    with RealKafka(authorizer=True) as cluster:
        topic = cluster.admin.create_topic("guarded")
        config = {
            "bootstrap.servers": cluster.bootstrap("SASL_PLAINTEXT"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "group.id": "unused",
            "sasl.password": PASSWORD,
        }
        assert topics(config | {"sasl.username": "admin"}) >= {topic}
        assert topics(config | {"sasl.username": "bob"}) == set()


def topics(config: dict[str, str]) -> set[str]:
    consumer = Consumer(config)
    try:
        return set(consumer.list_topics(timeout=20.0).topics)
    finally:
        consumer.close()
