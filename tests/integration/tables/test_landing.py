"""Landing: records in a table, each exactly once, whatever happens to the process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import NoOffsetForPartitionError

from tandem_kafka import OffsetAndMetadata, SubscriptionPattern, TopicPartition
from tandem_kafka.errors import (
    ArgumentTypeError,
    IllegalStateError,
    InvalidArgumentError,
    NoGroupError,
    RecordDeserializationError,
    SinkFencedError,
)
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.brokers import Cluster
from tests.integration.polling import Consume
from tests.integration.tables.landing_kills import KINDS, made_anew, new_table
from tests.integration.tables.landing_tables import ParquetTable, Table
from tests.waiting import wait_until

pa = pytest.importorskip("pyarrow")

from tandem_kafka.tables import Avro, Json, Landing  # noqa: E402 - it imports pyarrow

pytestmark = pytest.mark.both_clusters(everyday="simulated")

COLUMNS = ["topic", "partition", "offset", "value"]
KILLS = int(os.environ.get("TANDEM_KAFKA_LANDING_KILLS", "10"))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return ParquetTable(tmp_path)


def produce(kafka: Cluster, topic: str, offsets: range, partitions: int = 1) -> None:
    kafka.admin.produce(
        topic,
        [Record(b"%d" % each, partition=p) for each in offsets for p in range(partitions)],
    )


def expected(offsets: range, partitions: int = 1) -> list[tuple[int, int, bytes]]:
    return [(p, each, b"%d" % each) for p in range(partitions) for each in offsets]


@pytest.fixture
def land(topic: str, consume: Consume) -> Any:
    """Makes a landing of the topic in a group, by default in a new one."""

    def make(sink: Any, group: str | None = None, **given: Any) -> Landing:
        options = {
            name: given.pop(name)
            for name in (
                "auto_offset_reset",
                "group_protocol",
                "assign",
                "max_poll_interval_ms",
                "metadata_max_age_ms",
                "fetch_max_wait_ms",
            )
            if name in given
        }
        assign = options.pop("assign", None)
        consumer = consume(
            *(() if assign else (topic,)), group_id=group or uuid.uuid4().hex, **options
        )
        if assign:
            consumer.assign(assign)
        defaults = {"every": timedelta(milliseconds=50), "columns": COLUMNS}
        return Landing(consumer, sink, **(defaults | given))

    return make


def filled(table: Table, count: int) -> Any:
    return lambda: len(table.rows()) >= count


@pytest.mark.partitions(2)
@pytest.mark.smoke
def test_positions_come_from_the_table(kafka: Cluster, topic: str, land: Any, table: Table) -> None:
    produce(kafka, topic, range(30), 2)
    group = uuid.uuid4().hex
    landing = land(table.open(), group)
    landing.run(filled(table, 60))
    assert table.rows() == expected(range(30), 2)
    assert landing.total == 60
    produce(kafka, topic, range(30, 40), 2)
    landing.run(filled(table, 80))  # the same object again
    assert landing.total == 80
    committed = land(table.open(), group)._consumer
    partitions = [TopicPartition(topic, each) for each in range(2)]
    wait_until(lambda: [committed.committed(tp) for tp in partitions] == [40, 40])
    produce(kafka, topic, range(40, 50), 2)
    land(table.open()).run(filled(table, 100))  # a group that has no offsets
    assert table.rows() == expected(range(50), 2)


@pytest.mark.parametrize("unnamed", [False, True])
def test_a_topic_made_anew_is_landed_from_its_first_record(
    unnamed: bool, kafka: Cluster, topic: str, land: Any, tmp_path: Path
) -> None:
    """A table whose offsets have no topics gets them at the next run."""
    table = ParquetTable(tmp_path)
    produce(kafka, topic, range(10))
    land(table.open()).run(filled(table, 10))
    if unnamed:
        for manifest in table.place.glob("*/*.json"):
            content = json.loads(manifest.read_bytes())
            del content["topic"]
            manifest.write_text(json.dumps(content))
        produce(kafka, topic, range(10, 11))
        land(table.open()).run(filled(table, 11))
    before = table.rows()
    made_anew(kafka.admin, topic)
    produce(kafka, topic, range(25))
    land(table.open()).run(filled(table, len(before) + 25))
    assert table.rows() == sorted(before + expected(range(25)))


def test_what_is_read_again_of_a_topic_made_anew_is_all_of_it(
    kafka: Cluster, topic: str, land: Any, table: Table
) -> None:
    """After an error, reading goes on behind the table's last record, but not in another topic."""
    produce(kafka, topic, range(10))
    landing = land(table.open(), every=timedelta(hours=1), metadata_max_age_ms=500)
    landing.run(lambda: landing._collected.rows == 10)
    made_anew(kafka.admin, topic)
    produce(kafka, topic, range(25))

    def fail() -> bool:
        if landing._collected.rows >= 5:
            raise ValueError("the program fails")
        return False

    with pytest.raises(ValueError, match="fails"):
        landing.run(fail)
    landing.run(lambda: landing._collected.rows == 25)
    assert table.rows() == sorted(expected(range(10)) + expected(range(25)))


def test_records_that_retention_removed_are_told(
    kafka: Cluster, topic: str, land: Any, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    """While no landing runs, and while one does: it reads nothing then, in a slow commit."""
    produce(kafka, topic, range(10))
    land(table.open()).run(filled(table, 10))
    produce(kafka, topic, range(10, 30))
    kafka.admin.delete_records(topic, {0: 15})
    removed = {30: 40}

    def enough() -> bool:
        count = len(table.rows())
        if count == 25 and removed:
            landing._pause({TopicPartition(topic, 0)})
            landing._consumer.poll(300)
            produce(kafka, topic, range(30, 50))
            kafka.admin.delete_records(topic, {0: removed.pop(30)})
            landing._resume()
        return count == 35

    landing = land(table.open(), fetch_max_wait_ms=10)
    landing.run(enough)
    assert table.rows() == expected(range(10)) + expected(range(15, 30)) + expected(range(40, 50))
    told = [each for each in caplog.messages if "retention" in each]
    assert [each.partition("at offset ")[2] for each in told] == [
        "15 instead of 10, and skips 5 offsets",
        "40 instead of 30, and skips 10 offsets",
    ]


@pytest.mark.parametrize(
    ("matches", "polled"), [("client", True), ("client", False), ("coordinator", False)]
)
def test_a_pattern(
    kafka: Cluster, topic: str, consume: Consume, table: Table, matches: str, polled: bool
) -> None:
    consumer = consume(group_id=uuid.uuid4().hex, group_protocol="consumer")
    regex = f"{topic}.*"
    consumer.subscribe(pattern=SubscriptionPattern(regex) if matches == "coordinator" else regex)
    produce(kafka, topic, range(10))
    if polled:
        wait_until(lambda: consumer.poll(10).count or consumer.assignment())
    options: dict[str, Any] = {"columns": COLUMNS, "every": timedelta(milliseconds=50)}
    landing = Landing(consumer, table.open(), **options)
    landing.run(filled(table, 10))
    produce(kafka, topic, range(10, 20))
    landing.run(filled(table, 20))
    assert table.rows() == expected(range(20))


def test_each_commit_has_a_line(
    kafka: Cluster, topic: str, land: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tandem_kafka.tables")
    produce(kafka, topic, range(10))
    landing = land(Noted(), rows=5)
    landing.run(lambda: landing.total == 10)
    lines = [each for each in caplog.records if "Committed" in each.msg]
    assert [(each.records, each.partitions) for each in lines] == [(5, 1), (5, 1)]  # type: ignore[attr-defined]
    assert "Committed 5 records of 1 partitions, " in lines[0].getMessage()
    assert lines[0].size_bytes > 0  # type: ignore[attr-defined]


def test_rows_bound_a_commit(kafka: Cluster, topic: str, land: Any) -> None:
    produce(kafka, topic, range(10))
    sink = Noted()
    landing = land(sink, every=timedelta(hours=1), rows=4)
    landing.run(lambda: landing.total == 8 and landing._collected.rows)
    assert sink.sizes == [4, 4, 2]  # the end of the run commits the rest
    sink = Noted()
    landing = land(sink, every=timedelta(hours=1), size_bytes=1)
    landing.run(lambda: landing.total == 10)
    assert sum(sink.sizes) == 10


def test_an_idle_landing_waits_in_its_polls(kafka: Cluster, topic: str, land: Any) -> None:
    produce(kafka, topic, range(1))
    landing = land(Noted(), every=timedelta(0))
    landing.run(lambda: landing.total == 1)
    polls: list[float] = []

    def enough() -> bool:
        polls.append(time.monotonic())
        return polls[-1] - polls[0] > 1

    landing.run(enough)
    assert len(polls) < 50


class Noted:
    """A sink that notes how many records each commit has."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def acquire(self, partitions: Any) -> dict[TopicPartition, int | None]:
        return dict.fromkeys(partitions, 0)

    def write(self, table: Any) -> None:
        self.sizes.append(table.num_rows)

    def commit(self, offsets: Any) -> None:
        pass

    def abort(self) -> None:
        pass


@pytest.mark.full("takes long on a real broker")
@pytest.mark.partitions(4)
@pytest.mark.parametrize("group_protocol", ["consumer", "classic"])
def test_members_come_and_go(
    kafka: Cluster, topic: str, land: Any, table: Table, group_protocol: str
) -> None:
    group = uuid.uuid4().hex
    landings = [land(table.open(), group, group_protocol=group_protocol) for _ in range(2)]
    threads = [threading.Thread(target=each.run) for each in landings]
    produce(kafka, topic, range(50), 4)
    threads[0].start()
    wait_until(lambda: len(table.rows()) == 200)
    threads[1].start()
    wait_until(lambda: len(landings[1]._consumer.assignment()) == 2)
    produce(kafka, topic, range(50, 100), 4)
    wait_until(lambda: len(table.rows()) == 400)
    assert landings[1].total == 100
    landings[0].stop()
    threads[0].join()
    landings[0]._consumer.close()
    produce(kafka, topic, range(100, 150), 4)
    wait_until(lambda: len(table.rows()) == 600)
    landings[1].stop()
    threads[1].join()
    assert table.rows() == expected(range(150), 4)


@pytest.mark.partitions(2)
@pytest.mark.parametrize("group_protocol", ["consumer", "classic"])
def test_partitions_are_committed_before_they_are_given_up(
    kafka: Cluster, topic: str, land: Any, table: Table, group_protocol: str
) -> None:
    produce(kafka, topic, range(10), 2)
    given: dict[str, Any] = {"every": timedelta(hours=1), "group_protocol": group_protocol}
    first, second = (land(table.open(), "g" + topic, **given) for _ in range(2))
    thread = threading.Thread(target=first.run)
    thread.start()
    wait_until(lambda: first._collected.rows == 20)
    second.run(lambda: second._landed)
    first.stop()
    thread.join()
    assert (first.total, second.total) == (20, 0)
    assert table.rows() == expected(range(10), 2)


def test_another_group_fences(
    kafka: Cluster, topic: str, land: Any, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem_kafka.tables.landing._FENCED_MS", 500)
    produce(kafka, topic, range(10))
    old, new = land(table.open()), land(table.open())
    failed: list[BaseException] = []

    def run() -> None:
        try:
            old.run()
        except SinkFencedError as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: len(table.rows()) == 10)
    new.run(lambda: new._landed)
    produce(kafka, topic, range(10, 20))
    thread.join(30)
    assert failed[0].partitions == [TopicPartition(topic, 0)]  # type: ignore[attr-defined]
    assert not old._consumer.paused()
    assert table.rows() == expected(range(10))
    new.run(filled(table, 20))
    assert table.rows() == expected(range(20))
    produce(kafka, topic, range(20, 30))
    old.run(filled(table, 30))  # it takes the partition back
    assert table.rows() == expected(range(30))


@pytest.mark.parametrize("lost", [False, True])
def test_a_fenced_partition_that_was_given_up_is_no_longer_watched(
    kafka: Cluster, topic: str, land: Any, lost: bool
) -> None:
    produce(kafka, topic, range(10))
    tp = TopicPartition(topic, 0)

    class Fencing(Noted):
        def commit(self, _offsets: Any) -> None:
            raise SinkFencedError([tp])

    landing = land(Fencing())

    def given_up() -> bool:
        if not landing._fenced:
            return False
        late_ms = landing._clock.now_ms() + 60_000
        with pytest.raises(SinkFencedError):
            landing._check_fenced(late_ms)
        landing.give_up([tp], lost=lost)
        landing._check_fenced(late_ms)
        return True

    landing.run(given_up)


@pytest.mark.partitions(2)
@pytest.mark.parametrize("kind", ["parquet", "sqlite"])
def test_a_fenced_landing_goes_on_with_its_other_partitions(
    kafka: Cluster, topic: str, land: Any, kind: str, tmp_path: Path
) -> None:
    produce(kafka, topic, range(10), 2)
    with new_table(kind, tmp_path) as table:
        landings: list[Landing] = []

        def run() -> None:
            landings.append(land(table.open()))  # SQLite stays in its thread
            landings[0].run()

        thread = threading.Thread(target=run)
        thread.start()
        wait_until(lambda: landings and landings[0].total == 20)
        new = land(table.open(), assign=[TopicPartition(topic, 1)])
        new.run(lambda: new._landed)
        for begin in (10, 20):
            produce(kafka, topic, range(begin, begin + 10), 2)
            new.run(filled(table, 2 * begin + 20))
        landings[0].stop()
        thread.join()
        assert table.rows() == expected(range(30), 2)


@pytest.mark.parametrize("group_protocol", ["consumer", "classic"])
def test_a_run_after_the_partitions_were_lost_fences_nobody(
    kafka: Cluster,
    topic: str,
    land: Any,
    table: Table,
    group_protocol: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tandem_kafka.tables.landing._FENCED_MS", 300)
    group = uuid.uuid4().hex
    produce(kafka, topic, range(10))
    old = land(table.open(), group, group_protocol=group_protocol, max_poll_interval_ms=1_000)
    old.run(filled(table, 10))
    new = land(table.open(), group, group_protocol=group_protocol)
    threads = [threading.Thread(target=each.run) for each in (new, old)]
    threads[0].start()
    wait_until(lambda: new._landed)  # the old member has not polled for too long
    threads[1].start()
    wait_until(lambda: old._running)
    produce(kafka, topic, range(10, 20))
    wait_until(lambda: new.total == 10 or old.total == 20)
    for landing, thread in zip((new, old), threads, strict=True):
        assert landing._fence is None
        landing.stop()
        thread.join()
    assert table.rows() == expected(range(20))


def test_a_partition_begins_once(kafka: Cluster, topic: str, land: Any, table: Table) -> None:
    produce(kafka, topic, range(5))
    partitions = [TopicPartition(topic, 0)]
    first = land(table.open(), auto_offset_reset="latest", assign=partitions)
    first.run(lambda: first._landed)
    produce(kafka, topic, range(5, 8))
    land(table.open(), auto_offset_reset="latest", assign=partitions).run(filled(table, 3))
    assert table.rows() == expected(range(5, 8))
    other = ParquetTable(table.place / "other")  # type: ignore[attr-defined]
    land(other.open(), auto_offset_reset="by_duration:PT1H", assign=partitions).run(
        filled(other, 8)
    )
    assert other.rows() == expected(range(8))
    with pytest.raises(NoOffsetForPartitionError, match=f"no offset for {topic}-0, and auto_offs"):
        land(Forgetful(), auto_offset_reset="none", assign=partitions).run()


class Forgetful(Noted):
    def acquire(self, partitions: Any) -> dict[TopicPartition, int | None]:
        return dict.fromkeys(partitions, None)


def test_a_record_that_cannot_be_decoded(
    kafka: Cluster, topic: str, land: Any, table: Table
) -> None:
    kafka.admin.produce(topic, [b'{"id": 1}', b'{"id": 2}', b'{"id": ', b'{"id": 4}'])
    schema = Json(pa.schema([("id", pa.int64())]))
    landing = land(table.open(), every=timedelta(hours=1), value=schema)
    with pytest.raises(RecordDeserializationError, match="offset 2"):
        landing.run()
    assert [row[1:] for row in table.rows()] == [(0, {"id": 1}), (1, {"id": 2})]
    skipped = Json(pa.schema([("id", pa.int64())]), errors="drop")
    land(table.open(), value=skipped).run(filled(table, 3))
    assert [row[1] for row in table.rows()] == [0, 1, 3]


def test_schemas_that_headers_name(kafka: Cluster, topic: str, land: Any, table: Table) -> None:
    text = SimpleNamespace(schema_str='"string"', references=None)
    registry = SimpleNamespace(get_schema=lambda _: text, get_schema_by_guid=lambda _: text)
    headers = [("__value_schema_id", b"\1" + uuid.uuid4().bytes)]
    records = [Record(b"\2a", headers=headers), Record(b"\0\0\0\0\1\2b")]
    kafka.admin.produce(topic, records)
    land(table.open(), value=Avro(registry=registry)).run(filled(table, 2))
    assert [row[2] for row in table.rows()] == ["a", "b"]


def test_a_schema_that_records_tell_late(
    kafka: Cluster, topic: str, land: Any, table: Table
) -> None:
    consumer_reads = [b"null", b"null", b'{"id": 3}']
    for each in consumer_reads:
        kafka.admin.produce(topic, [each])
    landing = land(table.open(), every=timedelta(hours=1), rows=1, value=Json.infer())
    landing.run(lambda: landing.total == 3)
    import pyarrow.parquet as pq

    names = [pq.read_schema(file).names for file in table.open().files()]  # type: ignore[attr-defined]
    assert names == [COLUMNS[:3], COLUMNS[:3], COLUMNS]


def test_a_sink_that_fails(kafka: Cluster, topic: str, land: Any, table: Table) -> None:
    produce(kafka, topic, range(10))

    class Failing(Noted):
        def commit(self, _offsets: Any) -> None:
            raise OSError("the disk is full")

        def abort(self) -> None:
            raise OSError("and then the network")

    landing = land(Failing())
    with pytest.raises(OSError, match="the disk is full") as caught:
        landing.run()
    assert "Then the sink or the consumer failed again" in caught.value.__notes__[0]
    assert landing.total == 0
    consumer = landing._consumer
    assert consumer.position(TopicPartition(topic, 0)) == 0
    Landing(consumer, table.open(), columns=COLUMNS, every=timedelta(0)).run(filled(table, 10))
    assert table.rows() == expected(range(10))


def interrupted_once() -> None:
    raise KeyboardInterrupt


def test_ctrl_c_and_signals(kafka: Cluster, topic: str, land: Any, table: Table) -> None:
    produce(kafka, topic, range(10))
    landing = land(table.open(), every=timedelta(hours=1))

    def interrupt() -> bool:
        if landing._collected.rows:
            signal.raise_signal(signal.SIGINT)
        return False

    with pytest.raises(KeyboardInterrupt):
        landing.run(interrupt)
    assert table.rows() == []
    forget, landing._forget = landing._forget, interrupted_once
    with pytest.raises(KeyboardInterrupt):
        landing.run(interrupt)
    landing._forget = forget
    landing.run(interrupt, signals=[signal.SIGINT])
    assert table.rows() == expected(range(10))


def test_an_interrupt_leaves_nothing_paused(
    kafka: Cluster, topic: str, land: Any, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(kafka, topic, range(10))
    landing = land(table.open())
    landing.run(filled(table, 10))
    monkeypatch.setattr(landing, "_step", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        landing.run()
    consumer = landing._consumer
    assert not consumer.paused()
    produce(kafka, topic, range(10, 20))
    Landing(consumer, table.open(), columns=COLUMNS, every=timedelta(0)).run(filled(table, 20))
    assert table.rows() == expected(range(20))


@pytest.mark.usefixtures("kafka")
@pytest.mark.partitions(2)
def test_offsets_that_were_not_committed_to_kafka_are_committed_next(
    topic: str, land: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    landing = land(Noted())
    zero, one = (TopicPartition(topic, each) for each in range(2))
    landing._untold = {zero: 7}
    landing._note_told({zero: 5, one: 5}, OSError("failed"))
    assert landing._untold == {zero: 7, one: 5}
    landing._landed = {zero: 7}  # the other one was revoked
    told: list[Any] = []
    monkeypatch.setattr(landing._consumer, "commit_async", lambda given, _: told.append(given))
    landing._tell()
    landing._tell()
    assert told == [{zero: OffsetAndMetadata(7, "", -1)}]


@pytest.mark.usefixtures("kafka")
def test_wrong_arguments(topic: str, consume: Consume, table: Table) -> None:
    consumer = consume(topic, group_id="g")
    sink = table.open()
    with pytest.raises(ArgumentTypeError, match="consumer must be a KafkaConsumer of tandem_kafka"):
        Landing("c", sink)  # type: ignore[arg-type]
    with pytest.raises(NoGroupError, match="the consumer has no group_id"):
        Landing(consume(), sink)
    with pytest.raises(InvalidArgumentError, match="enable_auto_commit=True, which would commit"):
        Landing(consume(topic, group_id="g", enable_auto_commit=True), sink)
    with pytest.raises(ArgumentTypeError, match=r"sink must have the method acquire\(\), got 'x'"):
        Landing(consumer, "x")  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match=r"value must be a decoder such as .*, got 'json'"):
        Landing(consumer, sink, value="json")  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="every must be a timedelta such as"):
        Landing(consumer, sink, every=30)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="every must not be negative"):
        Landing(consumer, sink, every=timedelta(seconds=-1))
    with pytest.raises(InvalidArgumentError, match="rows must be at least 1, got 0"):
        Landing(consumer, sink, rows=0)
    with pytest.raises(ArgumentTypeError, match="size_bytes must be an int, got '1 MB'"):
        Landing(consumer, sink, size_bytes="1 MB")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=re.escape("offset; partition, offset is missi")):
        Landing(consumer, sink, columns=["topic", "value"])
    with pytest.raises(IllegalStateError, match="the consumer has no topics"):
        Landing(consume(group_id="g"), sink).run()
    with pytest.raises(InvalidArgumentError, match="column 'nothing' does not exist"):
        Landing(consumer, sink, columns=[*COLUMNS, "nothing"]).run()


@pytest.mark.full("takes long on a real broker")
@pytest.mark.real_cluster("a simulated one proves no more about tables, and costs as much time")
@pytest.mark.timeout(60 + 4 * KILLS)
@pytest.mark.parametrize("recreate", [0, 3])
@pytest.mark.parametrize("kind", [*KINDS, "postgres"])
def test_kills(kafka: Cluster, kind: str, recreate: int) -> None:
    if kind == "postgres":
        pytest.importorskip("psycopg")
    arguments = ["--table", kind, "--kills", str(KILLS), "--seed", "1", "--recreate", str(recreate)]
    command = [sys.executable, "-m", "tests.integration.tables.landing_kills", *arguments]
    done = subprocess.run(
        [*command, "--bootstrap-servers", kafka.bootstrap()],
        capture_output=True,
        text=True,
        timeout=60 + 4 * KILLS,
        check=False,
    )
    if "initdb is not in PATH" in done.stderr:
        pytest.skip("no PostgreSQL")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 lost, 0 twice" in done.stdout
