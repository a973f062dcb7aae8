"""`api_version` of old and new releases, with a broker of Kafka 4.3."""

from __future__ import annotations

import logging

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka_testing.kafka import RealKafka
from tests.integration.polling import Consume, read_all


@pytest.mark.parametrize("release", [(0, 8, 2), (0, 9), (0, 10), (0, 11), (2, 5), (4, 0), (9, 9)])
def test_a_group_reads_and_commits(
    kafka: RealKafka,
    topic: str,
    consume: Consume,
    caplog: pytest.LogCaptureFixture,
    release: tuple[int, ...],
) -> None:
    kafka.admin.produce(topic, [b"x"] * 10)
    consumer = consume(topic, group_id=f"group-of-{topic}", api_version=release)
    assert len(read_all(consumer, 10)) == 10
    consumer.commit()
    assert consumer.committed(TopicPartition(topic, 0)) == 10
    warnings_logged = [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("tandem_kafka") and record.levelno >= logging.WARNING
        if record.name != "tandem_kafka.network.node_state"  # a busy machine has slow brokers
    ]
    assert len(warnings_logged) == (1 if release < (0, 11) else 0)
