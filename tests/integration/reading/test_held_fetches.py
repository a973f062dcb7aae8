"""Standing fetches that wait for room in a full buffer, on a real broker."""

from __future__ import annotations

import logging
import threading

import pytest

from tandem_kafka import ConsumerRecord, KafkaConsumer, TopicPartition
from tandem_kafka.network.link import Link
from tandem_kafka.network.native_transport import NativeTransport
from tandem_kafka.network.pool import ConnectionPool, NetworkCounters
from tandem_kafka.runtime.native import native_available
from tandem_kafka_testing.kafka import RealKafka
from tests.integration.polling import ENDLESS_MS, ENDLESS_REQUESTS, Clock, Consume, read_all
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not native_available, reason="the native transport repeats them")

RECORDS = 2_000
#: A few responses fill the buffer.
SMALL = {"fetch_buffer_max_bytes": 100_000, "max_partition_fetch_bytes": 30_000}
SESSION_MS = 6_000
#: As often, the network thread may wake up in a second, for heartbeats and metadata.
TURNS_PER_S = 20


class Reader:
    """Reads a partition with a small buffer, and checks that no record is lost or repeated."""

    def __init__(self, consumer: KafkaConsumer, tp: TopicPartition) -> None:
        self.consumer = consumer
        self._tp = tp
        self.next = 0

    @property
    def repeated(self) -> int:
        return self.consumer._core.engine.buffer.queue.repeated[0]

    @property
    def _pool(self) -> ConnectionPool:
        pool: ConnectionPool = self.consumer._core.engine.loop._client._pool  # type: ignore[attr-defined]
        return pool

    @property
    def _links(self) -> list[Link]:
        return list(self._pool.links())

    @property
    def counters(self) -> NetworkCounters:
        return self._pool.counters

    @property
    def holds(self) -> bool:
        """Whether an order waits for room."""
        busy = [link for link in self._links if link.connection.in_flight]
        orders = [link.standing_fetch for link in busy if link.standing_fetch is not None]
        return any(order.progress()[2] is not None for order in orders)

    @property
    def turns(self) -> int:
        transport = self.consumer._core.engine.transport
        assert isinstance(transport, NativeTransport)
        return transport._selector.turns

    def read(self, count: int) -> None:
        for record in read_all(self.consumer, count, max_records=count):
            self._take(record)

    def _take(self, record: ConsumerRecord) -> None:
        assert (record.partition, record.offset) == (self._tp.partition, self.next)
        assert record.value is not None
        assert int(record.value[:8]) == self.next
        self.next += 1

    def fill(self) -> None:
        """Read until an order holds its next fetch."""
        clock = Clock()
        while not self.holds:
            assert clock.seconds < 30
            self.read(5)
            wait_until(lambda: self.consumer._core.engine.buffer.held_bytes > 60_000)


@pytest.fixture
def tp(kafka: RealKafka, topic: str) -> TopicPartition:
    values = [b"%08d" % number + b"v" * 1_000 for number in range(RECORDS)]
    kafka.admin.produce(topic, values, {"batch.size": 5_000})
    return TopicPartition(topic, 0)


@pytest.fixture
def reader(consume: Consume, tp: TopicPartition) -> Reader:
    return filled(consume, tp, request_timeout_ms=SESSION_MS // 2)


def filled(consume: Consume, tp: TopicPartition, **options: int) -> Reader:
    consumer = consume(fetch_max_wait_ms=100, **SMALL, **options)
    consumer.assign([tp])
    reader = Reader(consumer, tp)
    reader.fill()
    return reader


def test_the_application_wakes_the_network_thread_when_it_has_made_room(reader: Reader) -> None:
    before = reader.repeated
    sent = reader.counters.requests_sent
    reader.read(RECORDS - reader.next)
    assert reader.repeated - before > 4 * (reader.counters.requests_sent - sent)


@pytest.mark.full("takes long on a real broker")
def test_nothing_is_overdue_and_nothing_spins_meanwhile(
    consume: Consume, tp: TopicPartition
) -> None:
    """Longer than requests may take, and than the session of a member lasts without heartbeats."""
    consumer = consume(
        tp.topic,
        group_id=f"group-of-{tp.topic}",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=SESSION_MS // 4,
        request_timeout_ms=SESSION_MS // 2,
        **SMALL,
    )
    reader = Reader(consumer, tp)
    reader.fill()
    closed, turns, clock = reader.counters.connections_closed, reader.turns, Clock()
    generation = consumer.group_metadata().generation_id
    idle = threading.Event()
    while clock.seconds < SESSION_MS / 1000 + 1:
        idle.wait(0.5)
        assert reader.holds
        assert consumer.health().not_ready == ()
    assert reader.turns - turns < clock.seconds * TURNS_PER_S
    reader.read(RECORDS - reader.next)
    assert reader.counters.connections_closed == closed
    assert consumer.group_metadata().generation_id == generation


@pytest.mark.parametrize("change", ["seek", "pause", "assign"])
def test_a_change_ends_the_order_and_leaves_nothing_in_flight(
    reader: Reader, tp: TopicPartition, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="tandem_kafka.request_managers.fetching.session")
    consumer = reader.consumer
    if change == "seek":
        reader.next = 7
        consumer.seek(tp, 7)
    elif change == "pause":
        consumer.pause(tp)
        wait_until(lambda: not reader.holds)
        consumer.resume(tp)
    else:
        consumer.assign([tp, TopicPartition(f"{tp.topic}-beside", 0)])
    reader.read(RECORDS - reader.next)
    assert not [line for line in caplog.records if line.name.endswith("session")], "it goes on"


def test_a_consumer_closes_at_once(consume: Consume, tp: TopicPartition) -> None:
    """If it waited for the order or for a response, it would not end."""
    reader = filled(consume, tp, **ENDLESS_REQUESTS)
    reader.consumer.close(timeout_ms=ENDLESS_MS)
