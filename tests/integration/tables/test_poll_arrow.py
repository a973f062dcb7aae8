"""poll_arrow() on a real broker: the records of poll(), and everything else as with poll()."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem_kafka import ConsumerRecord, KafkaConsumer, TopicPartition
from tandem_kafka.errors import IllegalStateError, InvalidArgumentError
from tandem_kafka.records import ARROW_COLUMNS
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.group_members import options_of
from tests.integration.polling import Consume, partitions_of, poll_until, read_all
from tests.waiting import PATIENCE_S, until

pa = pytest.importorskip("pyarrow")

ROOT = Path(__file__).parents[3]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 3
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

Rows = list[dict[str, Any]]


def produce_all_sorts(kafka: RealKafka, topic: str) -> int:
    """Records with and without key, value and headers, in every codec and partition."""
    kinds = [
        {"value": b"value", "key": b"key", "headers": [("trace", b"\x00\xff"), ("none", None)]},
        {"value": None, "key": b"a tombstone with a longer key"},
        {"value": b"", "key": b""},
        {"value": b"a value that does not fit into a view of twelve bytes", "key": None},
    ]
    count = 0
    for codec in CODECS:
        records = [
            Record(**kinds[number % 4], partition=number % PARTITIONS, timestamp_ms=1_000 + number)
            for number in range(120)
        ]
        count += kafka.admin.produce(topic, records, {"compression.type": codec})
    return count


def as_row(record: ConsumerRecord) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": EPOCH + dt.timedelta(milliseconds=record.timestamp),
        "timestamp_type": record.timestamp_type,
        "key": record.key,
        "value": record.value,
        "headers": [{"key": key, "value": value} for key, value in record.headers],
        "leader_epoch": record.leader_epoch,
    }


def in_order(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def batches_until(
    consumer: KafkaConsumer, ready: Callable[[Rows], object], **options: Any
) -> Iterator[Any]:
    """Poll for record batches until `ready(rows)`."""
    rows: Rows = []
    for _ in until(lambda: ready(rows), lambda: f"polled in vain; {len(rows)} rows came"):
        batch = consumer.poll_arrow(timeout_ms=200, **options)
        rows.extend(batch.to_pylist())
        yield batch


def read_rows(consumer: KafkaConsumer, count: int, **options: Any) -> Rows:
    """Poll until exactly `count` rows were read."""
    batches = batches_until(consumer, lambda rows: len(rows) >= count, **options)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert len(rows) == count
    return rows


@pytest.mark.partitions(PARTITIONS)
@pytest.mark.parametrize("binary_view", [False, True])
def test_it_returns_the_records_of_poll(
    kafka: RealKafka, topic: str, consume: Consume, binary_view: bool
) -> None:
    count = produce_all_sorts(kafka, topic)
    by_rows, by_columns = consume(), consume()
    for consumer in (by_rows, by_columns):
        consumer.assign(partitions_of(topic, PARTITIONS))
    rows = read_rows(by_columns, count, binary_view=binary_view)
    assert in_order(rows) == in_order([as_row(each) for each in read_all(by_rows, count)])
    for tp in partitions_of(topic, PARTITIONS):
        assert by_columns.position(tp) == by_rows.position(tp)


@pytest.mark.partitions(PARTITIONS)
def test_a_limit_splits_batches_and_loses_nothing(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    count = produce_all_sorts(kafka, topic)
    consumer = consume()
    consumer.assign(partitions_of(topic, PARTITIONS))
    sizes, rows = [], []
    for batch in batches_until(consumer, lambda found: len(found) >= count, max_records=7):
        sizes.append(batch.num_rows)
        rows += batch.to_pylist()
    assert max(sizes) == 7
    offsets = [(row["partition"], row["offset"]) for row in in_order(rows)]
    assert offsets == [(tp, at) for tp in range(PARTITIONS) for at in range(count // PARTITIONS)]


def test_poll_and_iteration_continue_after_it(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [b"%d" % number for number in range(30)])
    consumer = consume(consumer_timeout_ms=PATIENCE_S * 1_000)
    consumer.assign(partitions_of(topic, 1))
    rows = read_rows(consumer, 10, max_records=10)
    records = [next(consumer) for _ in range(3)]
    records += read_all(consumer, 7, max_records=7)
    rows += read_rows(consumer, 10)
    values = [row["value"] for row in rows[:10]] + [each.value for each in records]
    values += [row["value"] for row in rows[10:]]
    assert values == [b"%d" % number for number in range(30)]


@pytest.mark.partitions(2)
def test_a_commit_covers_the_rows_that_it_returned(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [Record(b"x", partition=each % 2) for each in range(200)])
    group = f"g-{uuid.uuid4().hex[:8]}"
    consumer = consume(topic, group_id=group)
    rows = read_rows(consumer, 50, max_records=5)
    consumer.commit()
    read = {tp: sum(row["partition"] == tp.partition for row in rows) for tp in _both(topic)}
    assert {tp: consumer.position(tp) for tp in _both(topic)} == read
    assert {tp: consumer.committed(tp) or 0 for tp in _both(topic)} == read


def _both(topic: str) -> list[TopicPartition]:
    return partitions_of(topic, 2)


@pytest.mark.partitions(2)
def test_a_paused_partition_stays_out(kafka: RealKafka, topic: str, consume: Consume) -> None:
    kafka.admin.produce(topic, [Record(b"x", partition=each % 2) for each in range(100)])
    consumer = consume()
    first, second = partitions_of(topic, 2)
    consumer.assign([first, second])
    consumer.pause(first)
    rows = read_rows(consumer, 50)
    assert {row["partition"] for row in rows} == {1}
    assert consumer.poll_arrow(timeout_ms=100).num_rows == 0
    consumer.resume(first)
    assert {row["partition"] for row in read_rows(consumer, 50)} == {0}


@pytest.mark.partitions(4)
@pytest.mark.parametrize("protocol", ["eager", "consumer"])
def test_a_rebalance_in_between_loses_and_repeats_nothing(
    kafka: RealKafka, topic: str, consume: Consume, protocol: str
) -> None:
    kafka.admin.produce(topic, [Record(b"%d" % n, partition=n % 4) for n in range(400)])
    options = {"group_id": f"g-{uuid.uuid4().hex[:8]}", **options_of(protocol)}
    members = [consume(**options) for _ in range(2)]
    rows: Rows = []

    def read_until(ready: Callable[[], object], limit: int) -> None:
        for _ in until(ready, lambda: f"in vain; {len(rows)} of 400 rows came"):
            for member in members:
                if member.subscription():
                    batch = member.poll_arrow(timeout_ms=50, max_records=limit)
                    rows.extend(batch.to_pylist())

    members[0].subscribe([topic], listener=CommitsFirst(members[0]))
    read_until(lambda: len(rows) >= 40, limit=10)
    members[1].subscribe([topic], listener=CommitsFirst(members[1]))
    read_until(lambda: {len(each.assignment()) for each in members} == {2}, limit=1)
    read_until(lambda: len(rows) >= 400, limit=1_000)
    assert sorted(int(row["value"]) for row in rows) == list(range(400))


class CommitsFirst:
    """Commits returned rows before partitions are revoked."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer

    def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
        """Continue where the previous consumer stopped."""

    def on_partitions_revoked(self, _partitions: set[TopicPartition]) -> None:
        self._consumer.commit()


def test_deserializers_are_rejected(topic: str, consume: Consume) -> None:
    consumer = consume(value_deserializer=bytes.decode)
    consumer.assign(partitions_of(topic, 1))
    with pytest.raises(IllegalStateError, match="returns bytes and cannot be used with"):
        consumer.poll_arrow()


def test_the_requested_columns_are_returned_in_order(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [b"one", b"two"])
    consumer = consume()
    consumer.assign(partitions_of(topic, 1))
    batches = batches_until(consumer, lambda rows: len(rows) == 2, columns=["value", "offset"])
    batch = pa.Table.from_batches(batches)
    assert batch.column_names == ["value", "offset"]
    assert batch.to_pydict() == {"value": [b"one", b"two"], "offset": [0, 1]}
    assert consumer.poll_arrow().schema.names == list(ARROW_COLUMNS)  # empty, and typed
    with pytest.raises(InvalidArgumentError, match="column 'valeu' does not exist"):
        consumer.poll_arrow(columns=["valeu"])


def test_views_outlive_the_consumer(kafka: RealKafka, topic: str, consume: Consume) -> None:
    values = [b"a value that is not inside of its view %d" % number for number in range(1_000)]
    kafka.admin.produce(topic, values)
    consumer = consume()
    consumer.assign(partitions_of(topic, 1))
    batches = list(batches_until(consumer, lambda rows: len(rows) == 1_000, binary_view=True))
    consumer.close()
    assert all(batch.schema.field("value").type == pa.binary_view() for batch in batches)
    assert [value for batch in batches for value in batch.column("value").to_pylist()] == values


def test_an_error_is_raised_after_the_records_before_it(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [b"%d" % number for number in range(20)])
    consumer = consume(auto_offset_reset="none")
    consumer.assign(partitions_of(topic, 1))
    consumer.seek(TopicPartition(topic, 0), 15)
    assert [row["offset"] for row in read_rows(consumer, 5)] == [15, 16, 17, 18, 19]
    assert poll_until(consumer, lambda: True) == []


def test_the_error_without_pyarrow_names_the_package_to_install(
    kafka: RealKafka, topic: str
) -> None:
    program = textwrap.dedent(
        """
        import sys

        class Blocker:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] == "pyarrow":
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, Blocker())
        from tandem_kafka import KafkaConsumer, TopicPartition

        with KafkaConsumer(bootstrap_servers=sys.argv[1]) as consumer:
            consumer.assign([TopicPartition(sys.argv[2], 0)])
            consumer.poll(timeout_ms=10)
            try:
                consumer.poll_arrow()
            except ImportError as error:
                print(error)
        """
    )
    command = [sys.executable, "-c", program, kafka.bootstrap(), topic]
    ran = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "poll_arrow() needs pyarrow; run: pip install tandem-kafka[arrow]\n"
