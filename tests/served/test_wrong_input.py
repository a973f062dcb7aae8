"""What administrators and producers ask for in vain: the brokers reject it, and go on."""

from __future__ import annotations

import time

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewPartitions, NewTopic
from kafka.errors import InvalidConfigurationError, PolicyViolationError

from tandem_kafka import KafkaProducer, TopicPartition
from tandem_kafka_testing.served import ServedKafka
from tests.served.clients import TIMEOUT_S
from tests.waiting import until


@pytest.mark.timeout(30)
def test_a_topic_has_no_more_partitions_than_a_controller_makes_at_once(
    served: ServedKafka,
) -> None:
    admin = KafkaAdminClient(bootstrap_servers=served.bootstrap)
    try:
        with pytest.raises(PolicyViolationError):
            admin.create_topics([NewTopic("many", 2**31 - 1, 1)])
        served.create_topic("few")
        with pytest.raises(PolicyViolationError):
            admin.create_partitions({"few": NewPartitions(2**31 - 1)})
    finally:
        admin.close()


@pytest.mark.parametrize("value", ["-5", "\N{SUPERSCRIPT TWO}", "", str(2**63)])
def test_a_limit_is_an_integer(served: ServedKafka, value: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=served.bootstrap)
    try:
        topic = NewTopic("limited", 1, 1, topic_configs={"max.message.bytes": value})
        with pytest.raises(InvalidConfigurationError):
            admin.create_topics([topic])
    finally:
        admin.close()


@pytest.mark.timeout(60)
def test_a_producer_without_acks_finds_the_new_leader() -> None:
    """The former leader closes the connection, which is all that it can tell."""
    with ServedKafka(brokers=2) as kafka:
        topic = kafka.create_topic("orders")
        with KafkaProducer(
            bootstrap_servers=kafka.bootstrap, acks=0, enable_idempotence=False
        ) as producer:
            producer.send(topic, b"1").get(TIMEOUT_S)
            kafka.cause("lead", topic=topic, broker=2)
            for _ in until(lambda: _end(kafka, topic) >= 2):
                producer.send(topic, b"2").get(TIMEOUT_S)
                time.sleep(0.05)


def _end(kafka: ServedKafka, topic: str) -> int:
    return kafka.perform(lambda cluster: cluster.at(TopicPartition(topic, 0)).log.end_offset)
