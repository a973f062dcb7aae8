"""The fixture `kafka_broker` with a cluster of the user's, as pytest itself runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem_kafka_testing.kafka import RealKafka

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
CODE = """
    from tandem_kafka import KafkaConsumer, TopicPartition

    def test_it(kafka_broker):
        assert kafka_broker.real
        topic = kafka_broker.create_topic("{topic}", partitions=2)
        kafka_broker.produce(topic, b"paid", None, partition=1)
        with KafkaConsumer(
            topic,
            bootstrap_servers=kafka_broker.bootstrap,
            group_id=topic,
            group_protocol="consumer",  # the built-in cluster has none of these
            auto_offset_reset="earliest",
        ) as consumer:
            records = []
            while len(records) < 2:
                records += consumer.poll(500).get(TopicPartition(topic, 1), [])
        assert [record.value for record in records] == [b"paid", None]
"""


def test_kafka_broker_uses_the_address_of_the_environment(
    kafka: RealKafka, topic: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setenv("TANDEM_KAFKA_TEST_BROKERS", kafka.bootstrap())
    pytester.makepyfile(CODE.format(topic=f"{topic}-of-a-user"))
    ran = pytester.runpytest_inprocess(
        "-p", "tandem_kafka_testing.pytest_plugin", "-p", "no:cacheprovider"
    )
    ran.assert_outcomes(passed=1)
