"""read(): what a topic has at one moment, as Arrow record batches."""

from __future__ import annotations

import datetime as dt
import gc
import json
import os
import re
import subprocess
import sys
import textwrap
import time
import uuid
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka.errors import UnknownTopicOrPartitionError

from tandem_kafka import TopicPartition
from tandem_kafka.errors import (
    ArgumentTypeError,
    IllegalStateError,
    InvalidArgumentError,
    OffsetOutOfRangeError,
    RecordDeserializationError,
)
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.brokers import Cluster
from tests.integration.polling import Consume

pa = pytest.importorskip("pyarrow")

from tandem_kafka.tables import Avro, Json, Progress, Text, read, scan  # noqa: E402 - it imports pyarrow

pytestmark = [
    pytest.mark.both_clusters(everyday="simulated"),
    pytest.mark.usefixtures("native_extension"),
]

DAY_MS = 86_400_000
SCHEMA = pa.schema([("id", pa.int64())])


def produce(kafka: Cluster, topic: str, numbers: range, partition: int = 0) -> None:
    """Produce documents whose timestamps are a day apart, the last one of now."""
    now_ms = int(dt.datetime.now(dt.UTC).timestamp() * 1_000)
    kafka.admin.produce(
        topic,
        [
            Record(
                json.dumps({"id": n}).encode(),
                key=b"k%d" % n,
                partition=partition,
                timestamp_ms=now_ms - (numbers[-1] - n) * DAY_MS,
            )
            for n in numbers
        ],
    )


def ids(kafka: Cluster, *topics: Any, **given: Any) -> list[int]:
    with read(
        *topics,
        bootstrap_servers=kafka.bootstrap(),
        columns=[],
        value=Json(SCHEMA, flatten=True),
        **given,
    ) as reader:
        assert reader.schema.names == ["id"]
        return sorted(number for batch in reader for number in batch["id"].to_pylist())


@pytest.mark.partitions(2)
def test_a_read_ends_where_the_topic_ended_when_it_began(kafka: Cluster, topic: str) -> None:
    produce(kafka, topic, range(20), 0)
    seen: list[Progress] = []
    reader = read(topic, bootstrap_servers=kafka.bootstrap(), progress=seen.append)
    produce(kafka, topic, range(20, 40), 0)
    produce(kafka, topic, range(40, 60), 1)
    rows = reader.read_all()
    assert [json.loads(each)["id"] for each in rows["value"].to_pylist()] == [*range(20)]
    assert (seen[-1].records, seen[-1].share) == (20, 1.0)
    assert seen[-1].bytes > 0
    assert ids(kafka, topic) == [*range(60)]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("earliest", "now", range(10)),
        ("latest", "now", range(0)),
        (7, "now", range(7, 10)),
        (-2, "now", range(8, 10)),
        ("-2", "now", range(8, 10)),
        (0, -8, range(2)),
        ("-2.5d", "now", range(7, 10)),
        ("60h", "now", range(7, 10)),
        (dt.timedelta(days=2.5), dt.timedelta(days=1.5), range(7, 8)),
        (dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "-8.5d", range(1)),
        ("2020-01-01", "2021-01-01", range(0)),
    ],
)
def test_bounds(kafka: Cluster, topic: str, start: Any, end: Any, expected: range) -> None:
    produce(kafka, topic, range(10))
    assert ids(kafka, topic, start=start, end=end) == [*expected]


@pytest.mark.both_clusters
def test_bounds_by_partition_and_of_a_group(kafka: Cluster, topic: str, consume: Consume) -> None:
    produce(kafka, topic, range(10))
    tp = TopicPartition(topic, 0)
    assert ids(kafka, topic, start={tp: 3}, end={tp: 5}) == [3, 4]
    group = f"group-{uuid.uuid4().hex[:8]}"
    assert ids(kafka, topic, start="committed", group_id=group) == [*range(10)]
    consumer = consume(bootstrap_servers=kafka.bootstrap(), group_id=group)
    consumer.assign([tp])
    consumer.seek(tp, 6)
    consumer.commit()
    assert ids(kafka, topic, start="committed", group_id=group) == [*range(6, 10)]
    assert consumer.committed(tp) == 6, "a read commits nothing"
    with pytest.warns(UserWarning, match=rf"start is beyond the end: {topic}-0 at 10"):
        assert ids(kafka, topic, start={tp: 99}) == []


def test_a_number_that_is_no_offset_any_more(kafka: Cluster, topic: str) -> None:
    produce(kafka, topic, range(10))
    kafka.admin.delete_records(topic, {0: 5})
    with pytest.warns(UserWarning, match=rf"start is before the first .*: {topic}-0 at 5") as told:
        assert ids(kafka, topic, start=3) == [*range(5, 10)]
    assert [each.filename for each in told] == [__file__]


@pytest.mark.partitions(2)
def test_progress_of_partitions_that_have_nothing_to_read(kafka: Cluster, topic: str) -> None:
    produce(kafka, topic, range(100), 0)
    produce(kafka, topic, range(3), 1)
    seen: list[Progress] = []
    assert ids(kafka, topic, start=-2, end=3, progress=seen.append) == [1, 2]
    assert all(0 <= each.share <= 1 for each in seen)


@pytest.mark.partitions(2)
def test_what_is_beyond_the_end_comes_in_many_batches(kafka: Cluster, topic: str) -> None:
    filler = b" " * 3_000
    kafka.admin.produce(
        topic, [Record(b'{"id": %d}%b' % (n, filler), partition=1) for n in range(20)]
    )
    for _ in range(10):
        kafka.admin.produce(topic, [Record(b'{"id": 99}' + filler, partition=0)])
    small = {"max_partition_fetch_bytes": 1, "fetch_max_bytes": 1, "fetch_buffer_max_bytes": 5_000}
    for end in range(20):
        ends = {TopicPartition(topic, 0): 10, TopicPartition(topic, 1): end}
        assert ids(kafka, topic, end=ends, **small) == [*range(end), *[99] * 10]


def in_small_parts(kafka: Cluster, topic: str) -> Any:
    """Produce documents and begin to read them; the reader has not got far."""
    filler = " " * 50_000
    for number in range(50):
        kafka.admin.produce(topic, [f'{{"id": {number}}}{filler}'.encode()])
    return read(
        topic,
        bootstrap_servers=kafka.bootstrap(),
        value=Json(SCHEMA, flatten=True),
        columns=[],
        fetch_max_bytes=60_000,
        max_partition_fetch_bytes=60_000,
        fetch_buffer_max_bytes=60_000,
        metadata_max_age_ms=500,
    )


def test_records_that_are_deleted_during_a_read(kafka: Cluster, topic: str) -> None:
    reader = in_small_parts(kafka, topic)
    kafka.admin.delete_records(topic, {0: 40})
    read_ids = reader.read_all()["id"].to_pylist()
    assert len(read_ids) < 50, "all was fetched before the deletion: the test tests nothing"
    assert read_ids[-10:] == [*range(40, 50)]
    assert read_ids[:-10] == [*range(len(read_ids) - 10)]


def test_a_topic_that_is_recreated_during_a_read(kafka: Cluster, topic: str) -> None:
    reader = in_small_parts(kafka, topic)
    kafka.admin.delete_topic(topic)
    kafka.admin.create_topic(topic)
    produce(kafka, topic, range(100, 200))
    with pytest.raises(OffsetOutOfRangeError):
        reader.read_all()


def test_a_schema_that_is_inferred_after_tombstones(kafka: Cluster, topic: str) -> None:
    kafka.admin.produce(topic, [Record(None, key=b"k"), Record(None, key=b"k")])
    for number in range(40):
        kafka.admin.produce(topic, [f'{{"id": {number}}}{" " * 50_000}'.encode()])
    small = {"max_partition_fetch_bytes": 100, "fetch_max_bytes": 100}
    servers = {"bootstrap_servers": kafka.bootstrap(), **small}
    for flatten in (False, True):
        rows = read(topic, value=Json.infer(flatten=flatten), columns=[], **servers).read_all()
        column = rows if flatten else rows["value"].combine_chunks().flatten()[0]
        found = column["id"] if flatten else column
        assert found.to_pylist() == [None, None, *range(40)]
    kafka.admin.delete_records(topic, {0: 42})
    assert read(topic, value=Json.infer(), **servers).schema.field("value").type == pa.null()


def test_a_schema_that_is_inferred_after_nulls(kafka: Cluster, topic: str) -> None:
    for value in ("null", "null", '{"id": 2}'):
        kafka.admin.produce(topic, [value.encode() + b" " * 50_000])
    small = {"max_partition_fetch_bytes": 60_000, "fetch_buffer_max_bytes": 100_000}
    servers = {"bootstrap_servers": kafka.bootstrap(), **small}
    table = read(topic, columns=[], value=Json.infer(), **servers).read_all()
    assert table["value"].to_pylist() == [None, None, {"id": 2}]


def test_records_that_are_dropped_are_progress(
    kafka: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow:
        errors = "drop"
        flatten = False

        def decode(self, column: Any) -> Any:
            time.sleep(0.2)
            return pa.nulls(len(column)), [(row, "none fits") for row in range(len(column))]

    monkeypatch.setattr("tandem_kafka.tables.reader.PATIENCE_MS", 500)
    for _ in range(20):
        kafka.admin.produce(topic, [b" " * 50_000])
    small = {
        "max_partition_fetch_bytes": 100,
        "fetch_max_bytes": 100,
        "fetch_buffer_max_bytes": 100,
    }
    servers = {"bootstrap_servers": kafka.bootstrap(), **small}
    assert read(topic, value=Slow(), **servers).read_all().num_rows == 0  # type: ignore[arg-type]


def test_no_column(kafka: Cluster, topic: str) -> None:
    produce(kafka, topic, range(10))
    reader = read(topic, columns=[], bootstrap_servers=kafka.bootstrap())
    assert sum(batch.num_rows for batch in reader) == 10


@pytest.mark.both_clusters
def test_several_topics_and_patterns(kafka: Cluster, topic: str) -> None:
    names = [f"{topic}.{each}" for each in ("a", "b")]
    for number, name in enumerate(names):
        kafka.admin.create_topic(name, partitions=2)
        produce(kafka, name, range(10 * number, 10 * number + 5), partition=1)
    both = [*range(5), *range(10, 15)]
    assert ids(kafka, *names) == both
    assert ids(kafka, re.compile(rf"{re.escape(topic)}\..*")) == both
    assert ids(kafka, re.compile(rf"{re.escape(topic)}\.b"), names[0]) == both
    assert ids(kafka, *names, partitions=[0]) == []
    assert ids(kafka, *names, partitions=[1]) == both


@pytest.mark.both_clusters
def test_transactions(kafka: Cluster, topic: str) -> None:
    settings = {"bootstrap.servers": kafka.bootstrap(), "transactional.id": f"writer-{topic}"}
    producer = Producer(settings)
    producer.init_transactions(30)
    for first, end in ((0, "commit"), (10, "abort"), (20, "commit")):
        producer.begin_transaction()
        for number in range(first, first + 5):
            producer.produce(topic, json.dumps({"id": number}).encode(), partition=0)
        producer.flush(30)  # an abort forgets what was not sent
        getattr(producer, f"{end}_transaction")(30)
    assert ids(kafka, topic) == [*range(5), *range(20, 25)]
    every = [*range(5), *range(10, 15), *range(20, 25)]
    assert ids(kafka, topic, isolation_level="read_uncommitted") == every
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(30)
    assert ids(kafka, topic) == [*range(5), *range(20, 25)], "an open transaction is not waited for"
    producer.abort_transaction(30)


def test_what_is_beyond_the_end_is_not_decoded(kafka: Cluster, topic: str) -> None:
    produce(kafka, topic, range(5))
    kafka.admin.produce(topic, [b"{"])
    produce(kafka, topic, range(6, 8))
    assert ids(kafka, topic, end=5) == [*range(5)]
    assert ids(kafka, topic, start=6) == [6, 7]
    with pytest.raises(RecordDeserializationError, match="at offset 5"):
        ids(kafka, topic)


def test_a_wrong_record_behind_markers_is_beyond_the_end(kafka: Cluster, topic: str) -> None:
    settings = {"bootstrap.servers": kafka.bootstrap(), "transactional.id": f"writer-{topic}"}
    producer = Producer(settings)
    producer.init_transactions(30)
    # Offsets: a record and its marker, aborted records and their marker, a wrong one at 5; then
    # aborted ones until 8, a record and a wrong one.
    script = (
        ([b'{"id": 0}'], "commit"),
        ([b'{"id": 9}'] * 2, "abort"),
        ([b"{"], "commit"),
        ([b'{"id": 9}'], "abort"),
        ([b'{"id": 9}', b"{"], "commit"),
    )
    for values, end in script:
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        producer.flush(30)
        getattr(producer, f"{end}_transaction")(30)
    for end in (2, 3, 5):
        assert ids(kafka, topic, end=end) == [0]
    assert ids(kafka, topic, start=7, end=8) == [], "only aborted ones"
    with pytest.raises(RecordDeserializationError, match="at offset 5"):
        ids(kafka, topic, end=6)


def test_threads_take_batches_in_turn(kafka: Cluster, topic: str) -> None:
    reader = in_small_parts(kafka, topic)
    found: list[int] = []

    def take() -> None:
        for batch in reader:
            found.extend(batch["id"].to_pylist())

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(take) for _ in range(4)]:
            future.result()
    assert sorted(found) == [*range(50)]


def test_a_read_that_has_failed_does_not_look_complete(kafka: Cluster, topic: str) -> None:
    produce(kafka, topic, range(3))
    kafka.admin.produce(topic, [b"{"])
    schema = Json(SCHEMA, flatten=True)
    reader = read(topic, value=schema, columns=[], bootstrap_servers=kafka.bootstrap())
    assert reader.read_next_batch().num_rows == 3
    with pytest.raises(RecordDeserializationError, match="at offset 3"):
        reader.read_next_batch()
    with pytest.raises(IllegalStateError, match=r"call read\(\) again: Record.*at offset 3"):
        reader.read_next_batch()


def test_a_read_that_has_failed_is_freed(kafka: Cluster, topic: str) -> None:
    """Its exception has frames that refer to it."""
    kafka.admin.produce(topic, [b"{}", b"{"])

    def fail() -> weakref.ref[pa.RecordBatchReader]:
        servers = {"bootstrap_servers": kafka.bootstrap()}
        reader = read(topic, value=Json(pa.schema([])), max_poll_records=1, **servers)
        with pytest.raises(RecordDeserializationError, match="at offset 1"):
            reader.read_all()
        return weakref.ref(reader)

    reader = fail()
    gc.collect()
    assert reader() is None


@pytest.mark.partitions(3)
def test_wrong_arguments(kafka: Cluster, topic: str) -> None:
    servers = {"bootstrap_servers": kafka.bootstrap()}
    with pytest.raises(UnknownTopicOrPartitionError, match="the topic 'nowhere' does not exist"):
        read("nowhere", **servers)
    with pytest.raises(InvalidArgumentError, match=r"no topic is named: write read\('orders'"):
        read(**servers)
    for wrong in ([topic], None, re.compile(b"orders")):
        with pytest.raises(InvalidArgumentError, match="topics are names and compiled regular"):
            read(wrong, **servers)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=f"the topic '{topic}' has no partition 3"):
        read(topic, partitions=[0, 3], **servers)
    with pytest.raises(ArgumentTypeError, match=r"partitions must be a collection .*, got 0"):
        read(topic, partitions=0, **servers)  # type: ignore[arg-type]
    for wrong_decoder in ("json", json.loads, Json):
        for reads in (read, scan):
            with pytest.raises(ArgumentTypeError, match="value must be a decoder such as"):
                reads(topic, value=wrong_decoder, **servers)  # type: ignore[operator]
    with pytest.raises(InvalidArgumentError, match="start 'yesterday' is no position: write beg"):
        read(topic, start="yesterday", **servers)
    with pytest.raises(InvalidArgumentError, match=f"end has no offset of {topic}-1; name all"):
        read(topic, end={TopicPartition(topic, 0): 1, TopicPartition(topic, 2): 1}, **servers)
    with pytest.raises(InvalidArgumentError, match="column 'nothing' does not exist"):
        read(topic, columns=["nothing"], **servers)
    with pytest.raises(InvalidArgumentError, match="columns names 'offset' twice"):
        read(topic, columns=["offset", "offset"], **servers)
    produce(kafka, topic, range(1))
    offsets = Json(pa.schema([("offset", pa.int64())]), flatten=True)
    with pytest.raises(InvalidArgumentError, match="the field 'offset' has the name of another"):
        read(topic, value=offsets, **servers)
    assert read(topic, value=offsets, columns=["partition"], **servers).read_all().to_pylist() == [
        {"partition": 0, "offset": None}
    ]


@pytest.mark.filterwarnings("error")
def test_a_read_that_is_given_up_ends_its_consumer(
    kafka: Cluster, topic: str, network_threads: Any
) -> None:
    produce(kafka, topic, range(5))
    gc.disable()
    try:
        reader = read(topic, bootstrap_servers=kafka.bootstrap())
        assert network_threads()
        del reader
        assert not network_threads()
    finally:
        gc.enable()


def test_a_fork_that_drops_a_reader(kafka: Cluster, topic: str) -> None:
    produce(kafka, topic, range(5))
    reader = read(topic, bootstrap_servers=kafka.bootstrap())
    child = os.fork()
    if not child:
        sys.unraisablehook = sys.excepthook = lambda *_: os._exit(1)
        del reader
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert reader.read_all().num_rows == 5


def test_schemas_that_headers_name(kafka: Cluster, topic: str) -> None:
    pytest.importorskip("polars")
    guid, text = uuid.uuid4(), SimpleNamespace(schema_str='"string"', references=None)
    registry = SimpleNamespace(get_schema=lambda _: text, get_schema_by_guid=lambda _: text)
    headers = [("__value_schema_id", b"\1" + guid.bytes)]
    records = [Record(b"\2a", headers=headers), Record(b"\0\0\0\0\1\2b")]
    kafka.admin.produce(topic, records)
    decoder = Avro("string", registry=registry)
    servers = {"bootstrap_servers": kafka.bootstrap()}
    for columns in ([], ["headers"]):
        table = read(topic, columns=columns, value=decoder, **servers).read_all()
        assert table["value"].to_pylist() == ["a", "b"]
    frame = scan(topic, value=decoder, **servers).select("value").collect()
    assert frame["value"].to_list() == ["a", "b"]


def test_a_lazy_frame(kafka: Cluster, topic: str) -> None:
    pl = pytest.importorskip("polars")
    produce(kafka, topic, range(10))
    frame = scan(
        topic, bootstrap_servers=kafka.bootstrap(), key=Text(), value=Json(SCHEMA, flatten=True)
    )
    chosen = frame.filter(pl.col("id") % 2 == 1).select("key", "offset").head(3)
    assert chosen.collect().rows() == [("k1", 1), ("k3", 3), ("k5", 5)]
    assert frame.select(pl.col("id").sum()).collect().item() == 45
    limited = frame.head(4).filter(pl.col("id") % 2 == 1)
    assert limited.select("id").collect()["id"].to_list() == [1, 3], "the limit comes first"
    assert limited.select(pl.len()).collect().item() == 2
    some = scan(topic, bootstrap_servers=kafka.bootstrap(), columns=["offset"], key=Text())
    assert some.head(1).collect().to_dicts() == [{"offset": 0, "key": "k0"}]
    produce(kafka, topic, range(10, 12))
    assert frame.select(pl.len()).collect().item() == 12, "each collection reads again"
    with pytest.raises(InvalidArgumentError, match="value: scan"):
        scan(topic, bootstrap_servers=kafka.bootstrap(), value=Json.infer())


@pytest.mark.full("processes of its own")
def test_a_program_ends_while_polars_takes_another_frame(kafka: Cluster, topic: str) -> None:
    pytest.importorskip("polars")
    for number in range(20):
        produce(kafka, topic, range(5 * number, 5 * number + 5))
    program = f"""
        import threading, time
        import polars as pl
        from tandem_kafka.tables import scan

        taking = threading.Event()

        def slowly(done):
            if done.records > 5:  # not the first frame, which has all that the query needs
                taking.set()
                time.sleep(0.5)

        frame = scan({topic!r}, bootstrap_servers={kafka.bootstrap()!r}, progress=slowly,
                     max_partition_fetch_bytes=1)
        print(len(frame.filter(pl.col("offset") >= 0).head(5).collect()))
        print(taking.wait(60))
        """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == ("5\nTrue\n", "", 0)


def test_a_lazy_frame_checks_its_range_at_once(kafka: Cluster, topic: str) -> None:
    pytest.importorskip("polars")
    servers = {"bootstrap_servers": kafka.bootstrap()}
    for wrong in ({"start": "bogus"}, {"end": "bogus"}):
        with pytest.raises(InvalidArgumentError, match="'bogus' is no position: write"):
            scan(topic, **wrong, **servers)
    with pytest.raises(InvalidArgumentError, match=f"start has no offset of {topic}-0; name all"):
        scan(topic, start={}, **servers)
    produce(kafka, topic, range(3))
    seen: list[Progress] = []
    frame = scan(topic, progress=seen.append, **servers)
    assert not seen, "nothing is read yet"
    assert len(frame.collect()) == 3
    assert [(each.records, each.share) for each in seen] == [(3, 1.0)]


@pytest.mark.parametrize("errors", ["raise", "null"])
def test_fields_with_the_names_of_other_columns(kafka: Cluster, topic: str, errors: Any) -> None:
    pytest.importorskip("polars")
    kafka.admin.produce(topic, [b'{"offset": 7, "timestamp": "noon"}'])
    schema = pa.schema([("offset", pa.int64()), ("timestamp", pa.string())])
    frame = scan(
        topic,
        columns=["partition"],
        value=Json(schema, flatten=True, errors=errors),
        bootstrap_servers=kafka.bootstrap(),
    )
    assert frame.select("offset").collect().rows() == [(7,)]
    assert frame.select("timestamp", "partition").collect().rows() == [("noon", 0)]


def test_a_query_without_columns_counts_records(kafka: Cluster, topic: str) -> None:
    pl = pytest.importorskip("polars")
    produce(kafka, topic, range(3))
    for value in (None, Json(SCHEMA), Json(SCHEMA, errors="null")):
        frame = scan(topic, value=value, bootstrap_servers=kafka.bootstrap())
        assert frame.with_row_index("row").select("row").collect()["row"].to_list() == [0, 1, 2]
    frame = scan(topic, columns=[], bootstrap_servers=kafka.bootstrap())
    assert frame.select(pl.len()).collect().item() == 3


def test_an_interrupt_of_a_finalizer_leaves_no_consumer(
    kafka: Cluster, topic: str, network_threads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while polars runs is raised where Python code runs next: in what ends the read."""
    pytest.importorskip("polars")
    produce(kafka, topic, range(3))
    frame = scan(topic, bootstrap_servers=kafka.bootstrap())
    finalize = weakref.finalize.__call__
    interrupts = iter([KeyboardInterrupt])

    def interrupted(self: Any, _: object = None) -> Any:
        for error in interrupts:
            raise error
        return finalize(self, _)

    monkeypatch.setattr(weakref.finalize, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        frame.head(1).collect()
    assert not network_threads()
