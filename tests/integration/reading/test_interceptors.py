"""Interceptors on a real broker."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka import OffsetAndMetadata, TopicPartition
from tandem_kafka.errors import KafkaError
from tandem_kafka_testing.kafka import RealKafka
from tests.integration.polling import Consume, poll_until, read_all
from tests.waiting import wait_until

pytestmark = pytest.mark.both_clusters


class Audit:
    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.committed: list[int] = []

    def on_consume(self, records: Any) -> None:
        self.values += [record.value for rs in records.values() for record in rs]

    def on_commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self.committed += [each.offset for each in offsets.values()]


@pytest.mark.behaviour(136, 174)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_interceptors_see_sync_async_and_automatic_commits(
    kafka: RealKafka, topic: str, consume: Consume, protocol: str
) -> None:
    class Broken:
        def on_consume(self, _: object) -> None:
            raise LookupError

        on_commit = on_consume

    kafka.admin.produce(topic, [b"%d" % number for number in range(10)])
    audit, tp = Audit(), TopicPartition(topic, 0)
    consumer = consume(
        topic,
        group_id=f"group-{topic}",
        group_protocol=protocol,
        enable_auto_commit=True,
        auto_commit_interval_ms=200,
        interceptor_classes=[Broken, audit],
    )
    assert [record.value for record in read_all(consumer, 10)] == audit.values
    poll_until(consumer, lambda: 10 in audit.committed)
    consumer.commit_sync({tp: OffsetAndMetadata(3)})
    assert audit.committed[-1] == 3
    future = consumer.commit_async({tp: OffsetAndMetadata(4)})
    poll_until(consumer, lambda: future.is_done)
    assert 4 in audit.committed
    seen = list(audit.committed)
    with pytest.raises(KafkaError):
        consumer.commit_sync({TopicPartition(topic, 77): OffsetAndMetadata(5)}, timeout_ms=1_000)
    assert 5 not in audit.committed
    consumer.close()
    wait_until(lambda: kafka.admin.committed(f"group-{topic}", topic) == 10)
    assert audit.committed[len(seen) :][-1] == 10
