"""Partitions that move into a slot whose fetch stands, on a real broker."""

from __future__ import annotations

import pytest

from tandem_kafka.request_managers.fetching import standing
from tandem_kafka.runtime.native import native_available
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.polling import ENDLESS_MS, Consume, partitions_of, read_all

pytestmark = [
    pytest.mark.full("takes long on a real broker"),
    pytest.mark.skipif(not native_available, reason="the native transport repeats them"),
]

PARTITIONS = 110
BACKLOG = 1_500


@pytest.mark.partitions(PARTITIONS)
def test_a_partition_that_wakes_up_is_read_while_the_fetches_of_others_stand(
    kafka: RealKafka, topic: str, consume: Consume, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The orders are made during the backlog, so that they expect data and not a parked fetch."""
    # An order may stand for a minute: longer than the test may take.
    monkeypatch.setattr(standing, "_LASTS_MS", ENDLESS_MS)
    first, second, woken = (partitions_of(topic, PARTITIONS)[number] for number in (0, 1, 77))
    busy = [first.partition, second.partition]
    backlog = [Record(b"z" * 4_000, partition=part) for _ in range(BACKLOG) for part in busy]
    kafka.admin.produce(topic, backlog, {"batch.size": 4_500})
    consumer = consume(max_partition_fetch_bytes=5_000)
    consumer.assign(partitions_of(topic, PARTITIONS))
    read_all(consumer, len(backlog))
    buffer = consumer._core.engine.buffer
    for number in range(4):
        kafka.admin.produce(topic, [Record(b"t", partition=part) for part in busy])
        read_all(consumer, 2)
        kafka.admin.produce(topic, [Record(b"woken", partition=woken.partition)])
        (record,) = read_all(consumer, 1)
        assert (record.partition, record.offset) == (woken.partition, number)
    assert buffer.queue.repeated[0] > 100, "the fetches stood"
