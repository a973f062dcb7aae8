"""poll_arrow() decodes keys and values; a record that cannot be decoded is not lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import (
    ArgumentTypeError,
    InvalidArgumentError,
    RecordDeserializationError,
    SchemaRegistryError,
)
from tandem_kafka.types import DecodeErrors
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.polling import Consume, partitions_of

pa = pytest.importorskip("pyarrow")

from tandem_kafka.tables import Avro, Json, Long, Protobuf, Text  # noqa: E402 - it imports pyarrow

PARTITIONS = 2
SCHEMA = pa.schema([("id", pa.int64()), ("user", pa.string())])


pytestmark = pytest.mark.usefixtures("native_extension")


def produce(kafka: RealKafka, topic: str, count: int, bad: tuple[int, ...] = ()) -> None:
    """Produce documents in turn to all partitions; those whose number is in `bad` are none."""
    records = [
        Record(
            value=b"{" if number in bad else json.dumps({"id": number, "user": "ü"}).encode(),
            key=b"\xff" if number in bad else b"k%d" % number,
            partition=number % PARTITIONS,
        )
        for number in range(count)
    ]
    kafka.admin.produce(topic, records)


def read(consumer: KafkaConsumer, count: int, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while len(rows) < count:
        batch = consumer.poll_arrow(10_000, **options)
        assert batch.num_rows, f"only {len(rows)} rows came"
        rows += batch.to_pylist()
    return rows


@pytest.mark.partitions(PARTITIONS)
def test_values_and_keys(kafka: RealKafka, topic: str, consume: Consume) -> None:
    produce(kafka, topic, 20)
    consumer = consume()
    consumer.assign(partitions_of(topic, PARTITIONS))
    rows = read(consumer, 20, columns=["offset"], key=Text(), value=Json(SCHEMA))
    assert sorted(rows, key=lambda row: row["value"]["id"]) == [
        {"offset": n // 2, "key": f"k{n}", "value": {"id": n, "user": "ü"}} for n in range(20)
    ]
    empty = consumer.poll_arrow(0, value=Json(SCHEMA, flatten=True), columns=["offset"])
    assert empty.schema.names == ["offset", "id", "user"]
    assert empty.num_rows == 0


@pytest.mark.parametrize("decoder", [Text(), None])
def test_a_record_batch_has_few_bytes(
    kafka: RealKafka,
    topic: str,
    consume: Consume,
    monkeypatch: pytest.MonkeyPatch,
    decoder: Text | None,
) -> None:
    """Large columns took as long for their memory as for their content."""
    monkeypatch.setattr("tandem_kafka.consumer.reading.reading._ARROW_BYTES", 1_000)
    kafka.admin.produce(topic, [Record(b"x" * 100) for _ in range(40)])
    consumer = consume()
    consumer.assign(partitions_of(topic, 1))
    counts: list[int] = []
    while sum(counts) < 20:
        counts.append(consumer.poll_arrow(1_000, value=decoder).num_rows)
    assert max(counts) == 10


@pytest.mark.partitions(PARTITIONS)
@pytest.mark.parametrize("limit", [None, 3])
def test_the_records_before_a_wrong_one_come_first(
    kafka: RealKafka, topic: str, consume: Consume, limit: int | None
) -> None:
    produce(kafka, topic, 20, bad=(11,))
    consumer = consume()
    consumer.assign(partitions_of(topic, PARTITIONS))
    wrong = TopicPartition(topic, 1)
    rows: list[int] = []
    for _ in range(40):
        try:
            batch = consumer.poll_arrow(
                1_000, limit, columns=["offset"], value=Json(SCHEMA, flatten=True)
            )
        except RecordDeserializationError as error:
            caught = error
            break
        rows += batch["id"].to_pylist()
    assert (caught.partition, caught.offset, caught.origin) == (wrong, 5, "value")
    assert (caught.key, caught.value) == (b"\xff", b"{")
    assert isinstance(caught, ValueError)
    assert f"cannot deserialize the value of {topic}-1 at offset 5 (ValueError: EOF" in str(caught)
    assert consumer.position(wrong) == 5
    assert {1, 3, 5, 7, 9} <= set(rows)
    assert not {11, 13} & set(rows)
    for _ in range(20):
        with suppress(RecordDeserializationError):
            batch = consumer.poll_arrow(100, limit, columns=[], value=Json(SCHEMA, flatten=True))
            rows += batch["id"].to_pylist()
    assert consumer.position(wrong) == 5, "it stays until a seek"
    consumer.seek(wrong, 6)
    rest = 19 - len(rows)
    rows += [row["id"] for row in read(consumer, rest, value=Json(SCHEMA, flatten=True))]
    assert sorted(rows) == [n for n in range(20) if n != 11]


@pytest.mark.partitions(PARTITIONS)
def test_a_wrong_record_can_be_null(kafka: RealKafka, topic: str, consume: Consume) -> None:
    produce(kafka, topic, 8, bad=(2, 3))
    consumer = consume()
    consumer.assign(partitions_of(topic, PARTITIONS))
    rows = read(
        consumer,
        8,
        columns=["partition", "offset"],
        key=Text(errors="null"),
        value=Json(SCHEMA, errors="null"),
    )
    wrong = [row for row in rows if row["value"] is None]
    assert sorted((row["partition"], row["offset"]) for row in wrong) == [(0, 1), (1, 1)]
    for row in wrong:
        assert row["key"] is None
        assert row["error"].startswith("key: invalid utf-8 sequence")
        assert "; value: EOF while parsing" in row["error"]
    assert all(row["error"] is None for row in rows if row["value"] is not None)


def test_keys_are_numbers(kafka: RealKafka, topic: str, consume: Consume) -> None:
    records = [Record(b"x", number.to_bytes(8)) for number in (1, 2**40)]
    kafka.admin.produce(topic, [*records, Record(b"x"), Record(b"x", b"abc")])
    consumer = consume()
    consumer.assign(partitions_of(topic, 1))
    rows = read(consumer, 4, columns=["offset"], key=Long(errors="null"))
    assert [row["key"] for row in rows] == [1, 2**40, None, None]
    assert [row["error"] for row in rows][2:] == [None, "key: 3 bytes, and Long has 8"]


@pytest.mark.partitions(PARTITIONS)
def test_a_wrong_record_can_be_dropped(kafka: RealKafka, topic: str, consume: Consume) -> None:
    produce(kafka, topic, 8, bad=(0, 1, 2, 3, 5))
    consumer = consume(group_id=None)
    consumer.assign(partitions_of(topic, PARTITIONS))
    rows = read(consumer, 3, value=Json(SCHEMA, errors="drop", flatten=True))
    assert sorted(row["id"] for row in rows) == [4, 6, 7]
    fetching = consumer.metrics()["consumer-fetch-manager-metrics"]
    assert fetching["records-dropped-total"] == 5
    assert [consumer.position(tp) for tp in partitions_of(topic, PARTITIONS)] == [4, 4]
    produce(kafka, topic, 4, bad=(0, 1, 2, 3))
    batch = consumer.poll_arrow(3_000, value=Json(SCHEMA, errors="drop"))
    assert batch.num_rows == 0
    assert [consumer.position(tp) for tp in partitions_of(topic, PARTITIONS)] == [6, 6], (
        "positions pass what was dropped"
    )


class Registry:
    """Has what was added; does not answer while it is down."""

    def __init__(self) -> None:
        self.schemas = [
            {"name": "id", "type": "long"},
            {"name": "user", "type": "string", "default": "?"},
        ]
        self.down = True
        self.asked: list[int] = []

    def get_schema(self, schema_id: int) -> Any:
        self.asked.append(schema_id)
        error = ConnectionError("no such schema")
        if not self.down and schema_id > len(self.schemas):
            error.__dict__.update(http_status_code=404, error_code=40403)
        if self.down or schema_id > len(self.schemas):
            raise error
        # The schema with an id has so many fields.
        fields = self.schemas[:schema_id]
        text = json.dumps({"type": "record", "name": "R", "fields": fields})
        return SimpleNamespace(schema_str=text, references=[])

    def get_version(self, subject_name: str, version: int, *, deleted: bool) -> Any:
        raise NotImplementedError


@pytest.mark.partitions(PARTITIONS)
def test_avro_of_a_registry(kafka: RealKafka, topic: str, consume: Consume) -> None:
    values = [b"\0\0\0\0\2\2\2a", b"\0\0\0\0\1\4", b"\0\0\0\0\7x", None, b"\0\0\0\0\2\6\2c"]
    records = [Record(value=value, partition=1) for value in values]
    kafka.admin.produce(topic, records)
    consumer, registry = consume(), Registry()
    consumer.assign(partitions_of(topic, PARTITIONS))
    decoder = Avro(registry=registry, errors="null", flatten=True, timeout_ms=200)
    for _ in range(2):
        with pytest.raises(SchemaRegistryError, match="did not return schema 2 within 200 ms"):
            consumer.poll_arrow(10_000, value=decoder)
        assert consumer.position(TopicPartition(topic, 1)) == 0
    registry.down = False
    registry.asked.clear()
    rows = read(consumer, 5, columns=["offset"], value=decoder)
    missing = (
        "value: the registry has no Avro schema 7, or lacks one that it refers to, or it refers to "
        "more than 1000"
    )
    assert rows == [
        {"offset": 0, "id": 1, "user": "a", "error": None},
        {"offset": 1, "id": 2, "user": "?", "error": None},
        {"offset": 2, "id": None, "user": None, "error": missing},
        {"offset": 3, "id": None, "user": None, "error": None},
        {"offset": 4, "id": 3, "user": "c", "error": None},
    ]
    assert registry.asked == [2, 1, 7]


@pytest.mark.partitions(PARTITIONS)
def test_records_are_dropped_beside_views(kafka: RealKafka, topic: str, consume: Consume) -> None:
    produce(kafka, topic, 12, bad=(0, 1, 4, 5, 10))
    consumer = consume()
    consumer.assign(partitions_of(topic, PARTITIONS))
    rows = read(consumer, 7, binary_view=True, value=Json(SCHEMA, errors="drop", flatten=True))
    assert sorted((row["id"], row["key"]) for row in rows) == [
        (n, b"k%d" % n) for n in (2, 3, 6, 7, 8, 9, 11)
    ]


def test_tombstones_before_a_schema_are_rows(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [Record(value=None) for _ in range(3)])
    consumer = consume(group_id=None)
    consumer.assign(partitions_of(topic, 1))
    batch = consumer.poll_arrow(10_000, columns=[], value=Json.infer(flatten=True))
    assert (batch.num_rows, batch.num_columns) == (3, 0)
    fetching = consumer.metrics()["consumer-fetch-manager-metrics"]
    assert fetching["records-dropped-total"] == 0


class Decoder:
    """Returns what it is told to."""

    flatten = False

    def __init__(self, errors: DecodeErrors, answer: Callable[[Any], Any]) -> None:
        self.errors: DecodeErrors = errors
        self.decode = answer


@pytest.mark.parametrize("errors", ["raise", "null", "drop"])
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda column: (column.slice(1), []), "value: the decoder must return 2 values, and retu"),
        (lambda column: (column, [(2, "x")]), "value: the decoder says that row 2 of 2 cannot be"),
        (lambda column: (column, [(-1, "x")]), "value: the decoder says that row -1 of 2 cannot"),
    ],
)
def test_a_decoder_that_returns_other_rows(
    kafka: RealKafka,
    topic: str,
    consume: Consume,
    errors: DecodeErrors,
    answer: Callable[[Any], Any],
    told: str,
) -> None:
    kafka.admin.produce(topic, [Record(value=b"1"), Record(value=b"2")])
    consumer = consume()
    consumer.assign(partitions_of(topic, 1))
    wrong = Decoder(errors, lambda column: answer(column) if len(column) else (column, []))
    with pytest.raises(InvalidArgumentError, match=told):
        consumer.poll_arrow(10_000, columns=[], value=wrong)
    assert consumer.poll_arrow(10_000, value=Text())["value"].to_pylist() == ["1", "2"]


@pytest.mark.partitions(PARTITIONS)
def test_protobuf(kafka: RealKafka, topic: str, consume: Consume) -> None:
    any_pb2 = pytest.importorskip("google.protobuf.any_pb2")
    head = b"\0\0\0\0\7\0"  # as Confluent's serializers write it
    good = [head + any_pb2.Any(type_url=f"ü{n}").SerializeToString() for n in range(6)]
    values = [*good[:3], head + b"\x0a\xff", None, *good[3:]]
    kafka.admin.produce(topic, [Record(value=value, partition=1) for value in values])
    consumer = consume()
    consumer.assign(partitions_of(topic, PARTITIONS))
    decoder = Protobuf(any_pb2.Any, confluent=True, errors="null", flatten=True)
    rows = read(consumer, 8, columns=["offset"], value=decoder)
    wrong = rows.pop(3)
    assert wrong.pop("error").startswith("value: $.type_url: ")
    assert wrong == {"offset": 3, "type_url": None, "value": None}
    assert rows.pop(3) == {"offset": 4, "type_url": None, "value": None, "error": None}
    assert [(row["type_url"], row["value"]) for row in rows] == [(f"ü{n}", b"") for n in range(6)]
    consumer.seek(TopicPartition(topic, 1), 3)
    with pytest.raises(RecordDeserializationError, match=r"at offset 3 .*\$\.type_url: "):
        consumer.poll_arrow(10_000, value=Protobuf(any_pb2.Any, confluent=True))
    assert consumer.position(TopicPartition(topic, 1)) == 3


def test_wrong_arguments(kafka: RealKafka, topic: str, consume: Consume) -> None:
    produce_one = Record(value=b'{"offset":1}')
    kafka.admin.produce(topic, [produce_one])
    consumer = consume()
    consumer.assign(partitions_of(topic, 1))
    with pytest.raises(ArgumentTypeError, match=r"value must be a decoder such as .*, got <class"):
        consumer.poll_arrow(value=Json)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match=r"key must be a decoder such as .*, got 'utf-8'"):
        consumer.poll_arrow(key="utf-8")  # type: ignore[arg-type]
    offsets = Json(pa.schema([("offset", pa.int64())]), flatten=True)
    with pytest.raises(InvalidArgumentError, match="the field 'offset' has the name of another"):
        consumer.poll_arrow(10_000, value=offsets)
    with pytest.raises(InvalidArgumentError, match="the field 'offset' has the name of another"):
        consumer.poll_arrow(10_000, columns=[], key=offsets, value=offsets)
    text = Text()
    text.flatten = True
    with pytest.raises(InvalidArgumentError, match="only structs can be flattened, and this one"):
        consumer.poll_arrow(10_000, value=text)
    assert consumer.poll_arrow(10_000, value=offsets, columns=["partition"]).to_pylist() == [
        {"partition": 0, "offset": 1}
    ]
