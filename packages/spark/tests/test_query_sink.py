"""Rows written to a simulated cluster over real connections, by the sink's own producer."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from kafka.partitioner.default import murmur2

from packages.spark.tests.option_cases import OptionCases
from packages.spark.tests.query import write, writer
from tandem_kafka import KafkaConsumer
from tandem_kafka.errors import KafkaError
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.served import ServedKafka

from pyspark_tandem_kafka import sink  # isort: skip - needs pyspark, see session
from pyspark_tandem_kafka.options import SINK  # isort: skip

CASES: OptionCases[Served] = OptionCases()
case = CASES.of
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Served:
    """A cluster with the topics orders, of three partitions, and users."""

    def __init__(self, kafka: ServedKafka) -> None:
        self.bootstrap = kafka.bootstrap
        for name, partitions in (("orders", 3), ("users", 1)):
            kafka.create_topic(name, partitions)

    def write(self, rows: dict[str, Any] | pa.RecordBatch, **more: Any) -> None:
        batch = rows if isinstance(rows, pa.RecordBatch) else pa.RecordBatch.from_pydict(rows)
        write(self.bootstrap, batch, **more)

    def records(self, topic: str = "orders", level: str = "read_committed") -> list[Any]:
        """Return the records of a topic, by partition and offset."""
        given: dict[str, Any] = {"bootstrap_servers": self.bootstrap, "isolation_level": level}
        with KafkaConsumer(**given, auto_offset_reset="earliest") as consumer:
            partitions = [TopicPartition(topic, n) for n in consumer.partitions_for_topic(topic)]
            consumer.assign(partitions)
            ends, found = consumer.end_offsets(partitions), []
            while any(consumer.position(tp) < end for tp, end in ends.items()):
                found += [record for records in consumer.poll(100).values() for record in records]
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def values(self, topic: str = "orders", level: str = "read_committed") -> list[bytes]:
        return sorted(record.value for record in self.records(topic, level))


@pytest.fixture
def served() -> Iterator[Served]:
    with ServedKafka() as kafka:
        yield Served(kafka)


def test_every_option_has_a_case() -> None:
    assert CASES.keys() == {option.name for option in SINK}


@pytest.mark.parametrize("name", CASES)
def test_an_option(served: Served, name: str) -> None:
    CASES[name](served)


class Task:
    """A task of Spark; its properties are those that Spark sets for a stream."""

    def __init__(self, partition: int = 0, batch: int = 0) -> None:
        self.partition = partition
        self.properties = {"sql.streaming.queryId": "q", "streaming.sql.batchId": str(batch)}

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        return self.partition

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802
        return self.properties.get(name)


def run_in(task: Task, action: Callable[[], object]) -> None:
    """Run an action as Spark runs it in a task."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sink, "TaskContext", SimpleNamespace(get=lambda: task))
        action()


@case("topic")
def _(served: Served) -> None:
    """It overrides the column."""
    served.write({"value": [b"a", b"b"], "topic": ["orders", "users"]})
    assert (served.values("orders"), served.values("users")) == ([b"a"], [b"b"])
    served.write({"value": ["c"], "topic": ["elsewhere"]}, topic="users")
    assert served.values("users") == [b"b", b"c"]


@case("includeHeaders")
def _(served: Served) -> None:
    """Headers are written in any case."""
    pairs = [("h", b"1"), ("", None), ("h", b"")]
    headers = pa.array([[{"key": k, "value": v} for k, v in pairs], [], None], HEADERS)
    for given in ({}, {"includeHeaders": "true"}, {"includeHeaders": "false"}):
        served.write({"headers": headers, "value": ["a", "b", "c"]}, topic="users", **given)
    assert [list(record.headers) for record in served.records("users")] == [pairs, [], []] * 3


@case("tandem.flushTimeoutMs")
def _(served: Served) -> None:
    given = {"kafka__bootstrap__servers": "127.0.0.1:1", "tandem__flushTimeoutMs": 200}
    with pytest.raises(KafkaError) as error:
        served.write({"value": ["a"]}, topic="users", **given)
    said = str(error.value)
    assert (
        "1 rows were not delivered within 200 ms: no broker of kafka.bootstrap.servers=127" in said
    )
    assert "responds; check the addresses, kafka.security.protocol" in said


@case("tandem.transactionalIdPrefix")
def _(served: Served) -> None:
    """A repeated task of a stream writes once; other tasks and batches write theirs."""
    given = {"topic": "orders", "tandem__transactionalIdPrefix": "p", "streaming": True}

    def attempt(task: Task, *values: str) -> None:
        run_in(task, lambda: served.write({"value": list(values)}, **given))

    for _ in range(2):
        attempt(Task(0, batch=0), "a", "b")
    attempt(Task(1, batch=0), "c")
    attempt(Task(0, batch=1), "d")
    assert served.values() == [b"a", b"b", b"c", b"d"]
    with pytest.raises(KafkaError, match="is out of date: batch 1 is already written"):
        attempt(Task(0, batch=0), "a", "b")
    with pytest.raises(KafkaError, match="repeated with 2 rows, but Kafka has 1 rows of it"):
        attempt(Task(0, batch=1), "d", "e")
    with pytest.raises(ZeroDivisionError):
        run_in(Task(2), lambda: _fail_halfway(served, given))
    assert served.values() == [b"a", b"b", b"c", b"d"]


def _fail_halfway(served: Served, given: dict[str, Any]) -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["x"] * 3})

    def rows() -> Iterator[pa.RecordBatch]:
        yield batch
        raise ZeroDivisionError

    writer(served.bootstrap, batch.schema, **given).write(rows())


@case("tandem.transactionEpoch")
def _(served: Served) -> None:
    """A batch query that is run again writes again, unless the write has a name."""
    for epoch, count in ((None, 1), (None, 2), ("e", 3), ("e", 3), ("f", 4)):
        given = {"topic": "users", "tandem__transactionalIdPrefix": "p"}
        if epoch is not None:
            given["tandem__transactionEpoch"] = epoch
        run_in(Task(), partial(served.write, {"value": ["a"]}, **given))
        assert served.values("users") == [b"a"] * count


# --- rows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("streaming", [False, True])
def test_columns_in_any_order_arrive(served: Served, streaming: bool) -> None:
    """Other columns are ignored, and a null is the default of its column."""
    micros = pa.timestamp("us", "UTC")
    rows = {
        "unrelated": [1, 2, 3],
        "headers": pa.array([[{"key": "h", "value": b"x"}], None, None], HEADERS),
        "timestamp": pa.array([1_700_000_000_123_999, 1_000, None], micros),
        "partition": pa.array([1, 1, 1], pa.int32()),
        "key": ["k", None, ""],
        "topic": ["orders"] * 3,
        "value": [b"v", None, b""],
    }
    served.write(rows, streaming=streaming)
    records = served.records()
    assert [(r.key, r.value, r.partition) for r in records] == [
        (b"k", b"v", 1),
        (None, None, 1),
        (b"", b"", 1),
    ]
    assert [list(r.headers) for r in records] == [[("h", b"x")], [], []]
    first, second, third = (record.timestamp for record in records)
    assert (first, second) == (1_700_000_000_123, 1)
    assert third > first, "the time of writing"


def test_a_key_has_the_partition_of_the_java_client(served: Served) -> None:
    keys = [b"%d" % number for number in range(50)]
    served.write({"key": keys, "value": keys}, topic="orders")
    found = {record.key: record.partition for record in served.records()}
    assert found == {key: (murmur2(key) & 0x7FFFFFFF) % 3 for key in keys}


@pytest.mark.parametrize("columns", [{"value": "binary"}, {"value": "string", "key": "binary"}])
def test_a_task_without_rows_writes_nothing(served: Served, columns: dict[str, str]) -> None:
    types = {"binary": pa.binary(), "string": pa.string()}
    rows = {name: pa.array([], types[kind]) for name, kind in columns.items()}
    served.write(rows, topic="orders")
    assert served.records() == []


ONE = {"value": ["v"]}
TO: dict[str, Any] = {"topic": "users"}
#: Rows, options, and what is said.
MISTAKES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no value": (
        {"id": [1]},
        TO,
        (
            "a column value (binary or string) is needed to write to Kafka; the columns are "
            "id: rename one"
        ),
    ),
    "value of another type": (
        {"value": [1]},
        TO,
        (
            "the column value must be binary or string, not bigint: cast it with "
            "col('value').cast('string'), or convert a struct to JSON"
        ),
    ),
    "key of another type": (
        {**ONE, "key": [1.5]},
        TO,
        "the column key must be binary or string, not double",
    ),
    "partition of another type": (
        {**ONE, "partition": [1]},
        TO,
        (
            "the column partition must be int, not bigint: cast it with "
            "col('partition').cast('int'), or drop it"
        ),
    ),
    "topic of another type": (
        {**ONE, "topic": [1]},
        {},
        ("the column topic must be string, not bigint: cast it with col('topic').cast('string')"),
    ),
    "no topic": (
        ONE,
        {},
        "no topic to write to: set the option topic, or add a column topic of type string",
    ),
    "a row without topic": (
        {**ONE, "topic": pa.array([None], pa.string())},
        {},
        "a row has no topic: its column topic is null, and the option topic is not set",
    ),
    "a negative partition": (
        {**ONE, "partition": pa.array([-1], pa.int32())},
        TO,
        "a row has the partition -1; give 0 or more, or null to let the producer choose",
    ),
    "too early a timestamp": (
        {**ONE, "timestamp": pa.array([999], pa.timestamp("us", "UTC"))},
        TO,
        "a row has the timestamp 999 us since 1970; the earliest allowed is 1 ms",
    ),
    "overwrite": (
        ONE,
        {**TO, "overwrite": True},
        (
            'a topic cannot be overwritten: use mode("append"), or for a stream '
            'outputMode("append") or outputMode("update")'
        ),
    ),
    "an option like ours": (
        ONE,
        {**TO, "topics": "x"},
        "there is no option 'topics' (did you mean topic?)",
    ),
    "no servers": (
        ONE,
        {**TO, "kafka__bootstrap__servers": ""},
        "the option kafka.bootstrap.servers is missing",
    ),
    "an epoch without prefix": (
        ONE,
        {**TO, "tandem__transactionEpoch": "e"},
        ("tandem.transactionEpoch requires transactions: also set tandem.transactionalIdPrefix"),
    ),
    "a transactional id": (
        ONE,
        {**TO, "kafka__transactional__id": "t"},
        (
            "kafka.transactional.id cannot be set, because tasks would fence each other: set "
            "tandem.transactionalIdPrefix instead"
        ),
    ),
    "weaker acks": (
        ONE,
        {**TO, "kafka__acks": "1"},
        "kafka.acks=1 is not allowed: the sink requires idempotent writes and acks=all",
    ),
    "an unknown option of the client": (
        ONE,
        {**TO, "kafka__nonsense": "1"},
        'the producer rejects an option kafka.*: No such configuration property: "nonsense"',
    ),
    "an unknown option of the client, in transactions": (
        ONE,
        {**TO, "kafka__nonsense": "1", "tandem__transactionalIdPrefix": "p"},
        'the producer rejects an option kafka.*: No such configuration property: "nonsense"',
    ),
    "an unknown protocol, in transactions": (
        ONE,
        {**TO, "kafka__security__protocol": "tls", "tandem__transactionalIdPrefix": "p"},
        'Invalid value "tls" for configuration property "security.protocol"',
    ),
    "a size with a unit": (
        ONE,
        {**TO, "kafka__buffer__memory": "64m"},
        "kafka.buffer.memory must be a whole number, got '64m'",
    ),
    "not a number": (
        ONE,
        {**TO, "tandem__flushTimeoutMs": "soon"},
        "tandem.flushTimeoutMs must be a whole number of at least 1, got 'soon'",
    ),
    "an unknown partition": (
        {**ONE, "key": ["k"], "partition": pa.array([7], pa.int32())},
        TO,
        "1 rows were not delivered: users-7 key b'k': ",
    ),
    "too large a row": ({"value": [b"x" * 2_000_000]}, TO, "users key null: "),
}


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake(served: Served, name: str, streaming: bool) -> None:
    """The message comes before the traceback, and nothing is written."""
    rows, options, said = MISTAKES[name]
    with pytest.raises(KafkaError) as error:
        run_in(Task(), lambda: served.write(rows, streaming=streaming, **options))
    assert said in traceback.format_exception(error.value)[0]
    assert served.records("users") == []


@pytest.mark.parametrize("lacking", ["sql.streaming.queryId", "streaming.sql.batchId"])
def test_a_stream_without_the_number_of_its_batch(served: Served, lacking: str) -> None:
    task = Task()
    del task.properties[lacking]
    given = {**TO, "tandem__transactionalIdPrefix": "p", "streaming": True}
    with pytest.raises(KafkaError, match=r"rows cannot be written exactly once: remove tandem\.tr"):
        run_in(task, lambda: served.write(ONE, **given))


@pytest.mark.parametrize("streaming", [False, True])
def test_an_abort_withdraws_nothing(served: Served, streaming: bool) -> None:
    served.write(ONE, **TO)
    made = writer(served.bootstrap, pa.schema([("value", pa.string())]), streaming=streaming, **TO)
    made.abort([None], *([3] if streaming else []))
    assert served.values("users") == [b"v"]
