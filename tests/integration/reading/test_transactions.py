"""Transactions: committed ones are seen, aborted and open ones are not, markers never."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import confluent_kafka
import pytest

from tandem_kafka import ConsumerRecord, KafkaConsumer, TopicPartition
from tandem_kafka.runtime.native import native_available
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.polling import Consume, partitions_of, poll_until, read_all
from tests.integration.watching import Sent
from tests.waiting import wait_until

pytestmark = pytest.mark.both_clusters


class Writer:
    """A transactional producer, which writes to partition 0 of a topic."""

    def __init__(self, kafka: RealKafka, topic: str) -> None:
        self._topic = topic
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": kafka.bootstrap(),
                "transactional.id": f"writer-{uuid.uuid4().hex[:8]}",
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        self._producer.init_transactions(30.0)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def write(self, *values: bytes) -> None:
        """Write and wait until the broker has it; one batch per value."""
        for value in values:
            self._producer.produce(self._topic, value, partition=0)
            assert self._producer.flush(30.0) == 0

    def commit(self) -> None:
        self._producer.commit_transaction(30.0)

    def abort(self) -> None:
        self._producer.abort_transaction(30.0)

    @contextmanager
    def transaction(self, *, aborted: bool = False) -> Iterator[None]:
        self.begin()
        yield
        if aborted:
            self.abort()
        else:
            self.commit()


@pytest.fixture
def writer(kafka: RealKafka, topic: str) -> Writer:
    return Writer(kafka, topic)


@pytest.fixture
def other(kafka: RealKafka, topic: str) -> Writer:
    return Writer(kafka, topic)


def reader(consume: Consume, topic: str, *, committed: bool = True) -> KafkaConsumer:
    consumer = consume(isolation_level="read_committed" if committed else "read_uncommitted")
    consumer.assign(partitions_of(topic, 1))
    return consumer


def values_of(records: Iterable[ConsumerRecord]) -> list[bytes]:
    return [record.value for record in records]


@pytest.mark.every_version
@pytest.mark.behaviour(161)
def test_aborted_transactions_and_markers_are_hidden(
    consume: Consume, topic: str, writer: Writer
) -> None:
    with writer.transaction():
        writer.write(b"a1", b"a2")  # offsets 0 and 1, the marker has 2
    with writer.transaction(aborted=True):
        writer.write(b"b1", b"b2")  # 3, 4, marker 5
    with writer.transaction():
        writer.write(b"c1")  # 6, marker 7
    tp = TopicPartition(topic, 0)
    committed = reader(consume, topic)
    records = read_all(committed, 3)
    assert [(each.offset, each.value) for each in records] == [(0, b"a1"), (1, b"a2"), (6, b"c1")]
    assert poll_until(committed, lambda: committed.position(tp) == 8) == []
    everything = reader(consume, topic, committed=False)
    assert values_of(read_all(everything, 5)) == [b"a1", b"a2", b"b1", b"b2", b"c1"]
    assert poll_until(everything, lambda: everything.position(tp) == 8) == []


@pytest.mark.every_version
@pytest.mark.behaviour(161)
def test_interleaved_transactions_and_plain_records_are_separated(
    kafka: RealKafka, consume: Consume, topic: str, writer: Writer, other: Writer
) -> None:
    writer.begin()
    other.begin()
    writer.write(b"a1")
    other.write(b"b1")
    kafka.admin.produce(topic, [b"plain 1"])
    writer.write(b"a2")
    other.write(b"b2")
    writer.abort()
    other.write(b"b3")
    with writer.transaction():
        writer.write(b"c1")  # the same producer as the aborted one
    other.commit()
    with other.transaction(aborted=True):
        other.write(b"d1")
    kafka.admin.produce(topic, [b"plain 2"])
    expected = [b"b1", b"plain 1", b"b2", b"b3", b"c1", b"plain 2"]
    assert values_of(read_all(reader(consume, topic), len(expected))) == expected
    everything = read_all(reader(consume, topic, committed=False), 9)
    assert [value for value in values_of(everything) if value in expected] == expected


@pytest.mark.behaviour(161)
@pytest.mark.parametrize("offset", range(10))
def test_a_seek_into_a_transaction_hides_aborted_records(
    consume: Consume, topic: str, writer: Writer, offset: int
) -> None:
    with writer.transaction(aborted=True):
        writer.write(b"a1", b"a2")  # offsets 0 and 1, the marker has 2
    with writer.transaction():
        writer.write(b"b1", b"b2")  # 3, 4, marker 5
    with writer.transaction(aborted=True):
        writer.write(b"c1")  # 6, marker 7
    with writer.transaction():
        writer.write(b"d1")  # 8, marker 9
    consumer = reader(consume, topic)
    tp = TopicPartition(topic, 0)
    consumer.seek(tp, offset)
    records = poll_until(consumer, lambda: consumer.position(tp) == 10)
    visible = {3: b"b1", 4: b"b2", 8: b"d1"}
    assert {each.offset: each.value for each in records} == {
        at: value for at, value in visible.items() if at >= offset
    }


@pytest.mark.every_version
@pytest.mark.behaviour(161)
def test_an_open_transaction_holds_back_later_records(
    kafka: RealKafka, consume: Consume, topic: str, writer: Writer
) -> None:
    tp = TopicPartition(topic, 0)
    kafka.admin.produce(topic, [b"first"])
    writer.begin()
    writer.write(b"open 1")
    kafka.admin.produce(topic, [b"behind"])
    consumer, everything = reader(consume, topic), reader(consume, topic, committed=False)
    assert values_of(read_all(everything, 3)) == [b"first", b"open 1", b"behind"]
    assert values_of(read_all(consumer, 1)) == [b"first"]
    assert consumer.poll(timeout_ms=300) == {}
    assert consumer.position(tp) == 1
    # The end is the last stable offset or the high watermark, by isolation level.
    assert consumer.end_offsets([tp]) == {tp: 1}
    assert everything.end_offsets([tp]) == {tp: 3}
    assert consumer.current_lag(tp) == 0
    writer.write(b"open 2")
    writer.commit()
    assert values_of(read_all(consumer, 3)) == [b"open 1", b"behind", b"open 2"]


@pytest.mark.behaviour(146)
def test_read_committed_seeks_to_the_last_stable_offset(
    kafka: RealKafka, consume: Consume, topic: str, writer: Writer
) -> None:
    tp = TopicPartition(topic, 0)
    kafka.admin.produce(topic, [b"first"])
    writer.begin()
    writer.write(b"open")
    consumer, everything = reader(consume, topic), reader(consume, topic, committed=False)
    consumer.seek_to_end(tp)
    everything.seek_to_end(tp)
    assert consumer.position(tp) == 1
    assert everything.position(tp) == 2
    writer.commit()
    assert values_of(read_all(consumer, 1)) == [b"open"]


@pytest.mark.behaviour(162)
@pytest.mark.parametrize("committed", [True, False], ids=["committed", "everything"])
def test_the_position_moves_past_hidden_records_without_a_refetch(
    consume: Consume, topic: str, writer: Writer, committed: bool
) -> None:
    with writer.transaction():
        writer.write(b"a")
    for _ in range(5):
        with writer.transaction(aborted=True):
            writer.write(*[b"x"] * 3)
    tp = TopicPartition(topic, 0)
    end = 2 + 5 * 4
    consumer = reader(consume, topic, committed=committed)
    sent = Sent(consumer)
    records = poll_until(consumer, lambda: consumer.position(tp) == end)
    assert len(records) == (1 if committed else 16)
    wait_until(lambda: sent.fetch_offsets()[0][-1] == end)
    offsets = sent.fetch_offsets()[0]
    assert offsets == sorted(set(offsets))
    assert len(offsets) <= 3


@pytest.mark.behaviour(162)
def test_a_log_of_hidden_records_is_passed(consume: Consume, topic: str, writer: Writer) -> None:
    with writer.transaction(aborted=True):
        writer.write(b"x", b"y")
    tp = TopicPartition(topic, 0)
    consumer = reader(consume, topic)
    poll_until(consumer, lambda: consumer.position(tp) == 3)
    with writer.transaction():
        writer.write(b"z")
    assert values_of(read_all(consumer, 1)) == [b"z"]


@pytest.mark.behaviour(169)
def test_next_offsets_include_moves_without_records(
    consume: Consume, topic: str, writer: Writer
) -> None:
    with writer.transaction(aborted=True):
        writer.write(b"x", b"y")
    tp = TopicPartition(topic, 0)
    consumer = reader(consume, topic)
    moved = consumer.poll(timeout_ms=10_000)
    assert moved == {}
    assert moved.next_offsets[tp].offset == consumer.position(tp) == 3


def test_a_move_without_a_record_can_be_committed(
    consume: Consume, topic: str, writer: Writer
) -> None:
    with writer.transaction(aborted=True):
        writer.write(b"x", b"y")
    tp = TopicPartition(topic, 0)
    consumer = consume(isolation_level="read_committed", group_id=f"group-of-{topic}")
    consumer.assign([tp])
    poll_until(consumer, lambda: consumer.position(tp) == 3)
    consumer.commit()
    assert consumer.committed(tp) == 3


def test_large_transactions_between_plain_records(
    kafka: RealKafka, consume: Consume, topic: str, writer: Writer
) -> None:
    """Several fetches per transaction: each knows the aborted transactions."""
    expected = []
    for turn in range(6):
        value = b"%d " % turn * 100
        with writer.transaction(aborted=turn % 2 == 0):
            writer.write(*[value] * 20)
        plain = [b"plain %d %d" % (turn, number) for number in range(5)]
        kafka.admin.produce(topic, [Record(each) for each in plain])
        expected += [*([value] * 20 if turn % 2 else []), *plain]
    consumer = consume(
        isolation_level="read_committed", max_partition_fetch_bytes=1_500, max_poll_records=3
    )
    consumer.assign(partitions_of(topic, 1))
    assert values_of(read_all(consumer, len(expected))) == expected


@pytest.mark.behaviour(161)
@pytest.mark.skipif(not native_available, reason="the native transport repeats fetches")
def test_repeated_fetches_return_committed_records_only(
    kafka: RealKafka, consume: Consume, topic: str, writer: Writer, other: Writer
) -> None:
    """In a steady stream, between which the last stable offset stands still and jumps."""
    tp = TopicPartition(topic, 0)
    consumer = reader(consume, topic)
    everything = reader(consume, topic, committed=False)
    buffer = consumer._core.engine.buffer
    expected, read = [], []
    for turn in range(40):
        value = b"%d" % turn
        other.begin()
        with writer.transaction(aborted=turn % 3 == 0):
            writer.write(b"w" + value)
        other.write(b"o" + value)
        kafka.admin.produce(topic, [b"p" + value])
        with writer.transaction(aborted=turn % 3 == 1):
            writer.write(b"v" + value)
        before = [b"w" + value] if turn % 3 else []
        read += values_of(read_all(consumer, len(before)))
        if turn % 2:
            other.commit()
        else:
            other.abort()
        behind = [b"o" + value] if turn % 2 else []
        behind += [b"p" + value] + ([b"v" + value] if turn % 3 != 1 else [])
        expected += before + behind
        read += values_of(read_all(consumer, len(behind)))
        assert read == expected
    read_all(everything, 40 * 4)
    poll_until(everything, lambda: everything.position(tp) == consumer.end_offsets([tp])[tp])
    assert poll_until(consumer, lambda: consumer.position(tp) == everything.position(tp)) == []
    assert buffer.queue.repeated[0] > 40
