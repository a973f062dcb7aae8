"""Decoding functions in queries: records of serializers become columns."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from packages.spark.tests.session import Tables, by_offset, since
from packages.spark.tests.test_decoding_bytes import AT, EVERYTHING, ROW
from pipeline.registry import SchemaRegistry
from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record

pytest.importorskip("fastavro")

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import Row
from pyspark.sql import functions as f

from pyspark_tandem_kafka.decoding import from_avro, from_json, from_protobuf
from pyspark_tandem_kafka.decoding.functions import _decoded
from tests.unit.tables.test_storage import MOMENT, STORED, VALUES


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as server:
        yield server


@pytest.fixture
def client(registry: SchemaRegistry) -> Iterator[Any]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


def at(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def decoded(tables: Tables, topic: str, column: Any) -> list[Any]:
    return [row.found for row in by_offset(tables.read(topic).withColumn("found", column))]


@pytest.mark.full("takes long with Spark")
@pytest.mark.timeout(400)
@since(4, 1, "functions on Arrow columns")
def test_avro_of_two_versions(
    kafka: RealKafka, topic: str, tables: Tables, registry: SchemaRegistry, client: Any
) -> None:
    old = {
        "type": "record",
        "name": "Everything",
        "namespace": "shop",
        "fields": [each for each in EVERYTHING["fields"] if each["name"] != "note"],
    }
    fields = [
        {**each, "default": None} if each["name"] == "note" else each
        for each in EVERYTHING["fields"]
    ]
    new = {**EVERYTHING, "fields": fields}
    rows = [{**ROW, "id": number} for number in range(20)]
    writers = [AvroSerializer(client, json.dumps(each)) for each in (old, new)]
    values = [writers[n % 2]({**row, "note": f"n{n}"}, at(topic)) for n, row in enumerate(rows)]
    kafka.admin.produce(topic, [*values, Record(None, b"tombstone")])
    settings = {"url": registry.url, "basic.auth.user.info": "alice:hush"}
    column = from_avro("value", registry=settings, schema=new)
    registry.requests.clear()
    *found, tombstone = decoded(tables, topic, column)
    assert tombstone is None
    expected = {**ROW, "to": Row(city="Bremen"), "at": _local(AT), "at_us": _local(AT)}
    for number, each in enumerate(found):
        note = f"n{number}" if number % 2 else None
        assert each.asDict() == {**expected, "id": number, "note": note}
    assert set(registry.requests.values()) == {1}
    assert registry.credentials == {"alice:hush"}


def _local(at: dt.datetime) -> dt.datetime:
    """Return a time like Spark's for Python: naive, in the local time zone."""
    return at.astimezone().replace(tzinfo=None)


@pytest.mark.full("takes long with Spark")
@pytest.mark.timeout(400)
@since(4, 1, "functions on Arrow columns")
def test_protobuf(
    kafka: RealKafka, topic: str, tables: Tables, registry: SchemaRegistry, client: Any
) -> None:
    messages = pytest.importorskip("packages.spark.tests.messages")
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer

    order = messages.message_class("shop.Order")
    serialize = ProtobufSerializer(order, client, {"use.deprecated.format": False})
    full = order(id=1, large=2**64 - 1, kind=1, tags=["x"], to={"city": "Kiel"}, counts={"a": 2})
    full.note = "n"
    full.at.FromDatetime(AT)
    refund = messages.message_class("shop.Refund")
    other = ProtobufSerializer(refund, client, {"use.deprecated.format": False})
    values = [serialize(full, at(topic)), serialize(order(kind=9), at(topic))]
    kafka.admin.produce(topic, [*values, Record(None, b"tombstone")])
    by_class = from_protobuf("value", registry={"url": registry.url}, message=order)
    by_name = from_protobuf(
        "value",
        registry={"url": registry.url},
        message="shop.Order",
        descriptors=messages.descriptors(),
        mode="permissive",
    )
    for column in (by_class, by_name):
        first, second, tombstone = decoded(tables, topic, column)
        assert first == Row(
            id=1,
            large=Decimal(2**64 - 1),
            kind="PAID",
            tags=["x"],
            at=_local(AT),
            to=Row(city="Kiel"),
            counts={"a": 2},
            note="n",
        )
        unset = {"at": None, "to": None, "note": None}
        empty = {"id": 0, "large": 0, "kind": "9", "tags": [], "counts": {}}
        assert second.asDict() == {**empty, **unset}
        assert tombstone is None
    # A different message of the same file, whose bytes would parse.
    kafka.admin.produce(topic, [other(refund(id=3), at(topic)), b"\0\0\0\0\1\2\2\xff"])
    assert decoded(tables, topic, by_name)[-2:] == [None, None]
    with pytest.raises(Exception, match=r"the message is shop\.Refund, not shop\.Order"):
        decoded(tables, topic, by_class)
    tree = messages.message_class("shop.Tree")
    with pytest.raises(InvalidArgumentError, match=r"shop\.Tree contains itself"):
        from_protobuf("value", registry={"url": registry.url}, message=tree)


@dataclass(frozen=True)
class _Decoder:
    """Decodes each value to the same one, in the place of `Registered` and its decoder."""

    value: pa.Array

    def decoder(self) -> _Decoder:
        return self

    def decode(self, values: pa.Array) -> tuple[pa.Array, tuple[()]]:
        return self.value.take(pc.if_else(values.is_valid(), 0, None)), ()


@since(4, 1, "functions on Arrow columns")
def test_each_kind_of_type_in_a_query(spark: Any) -> None:
    """Spark takes what the table of types says, also in lists and maps."""
    inner = pa.struct([(kind, of) for kind, (of, _) in VALUES.items()])
    row = {kind: value for kind, (_, value) in VALUES.items()}
    kind = pa.struct([("one", inner), ("list", pa.list_(inner)), ("map", pa.map_("string", inner))])
    value = pa.array([{"one": row, "list": [row, None], "map": [("a", row)]}], kind)
    column = _decoded("from_any", "value", _Decoder(value), kind, permissive=False)
    rows = spark.sql("select unhex('00') value union all select null")
    found, null = (each.found for each in rows.select(column.alias("found")).collect())
    assert null is None
    expected = {
        **row,
        **STORED["Spark"],
        "struct without fields": Row(),
        "timestamp": _local(MOMENT),
        "list, map, struct": Row(l=[{"a": 2**32 - 1}, None], e=Row()),
    }
    assert found.one.asDict() == expected
    assert found.list == [found.one, None]
    assert found.map == {"a": found.one}


def test_json(kafka: RealKafka, topic: str, tables: Tables) -> None:
    kafka.admin.produce(topic, [b'{"id": 1, "to": {"city": "Kiel"}}', b'{"id": null}'])
    kafka.admin.produce(topic, [Record(None, b"tombstone")])
    schema = "id long, to struct<city: string>"
    expected = [Row(id=1, to=Row(city="Kiel")), Row(id=None, to=None), None]
    for mode in ("failfast", "permissive"):
        assert decoded(tables, topic, from_json("value", schema, mode=mode)) == expected
    kafka.admin.produce(topic, [b"{", b'{"id": "x"}'])
    bad = from_json(f.col("value"), schema, mode="permissive")
    assert decoded(tables, topic, bad) == [*expected, None, None]
    with pytest.raises(Exception, match="MALFORMED_RECORD"):
        decoded(tables, topic, from_json("value", schema))


def test_framed_json(tables: Tables) -> None:
    def rows(*values: str) -> Any:
        return tables.spark.createDataFrame(
            [(each.encode("latin-1"),) for each in values], "v binary"
        )

    def found(values: Any, mode: str) -> list[Any]:
        column = from_json("v", "id long", framed=True, mode=mode).alias("found")
        return [row.found for row in values.select(column).collect()]

    good = rows('\0\0\0\1\7{"id": 1}', '\0\0\0\0\0{"id": null}').unionByName(
        tables.spark.sql("select cast(null as binary) v")
    )
    for mode in ("failfast", "permissive"):
        assert found(good, mode) == [Row(id=1), Row(id=None), None]
    bad = ['{"id": 1}', "\0\0\0\1", "", "\0\0\0\1\7{"]
    assert found(rows(*bad), "permissive") == [None] * 4
    for value in bad[:3]:
        with pytest.raises(Exception, match="a value is not framed"):
            found(rows(value), "failfast")
    with pytest.raises(Exception, match="MALFORMED_RECORD"):
        found(rows(bad[3]), "failfast")


@since(4, 1, "functions on Arrow columns")
def test_bad_bytes_and_secrets_in_a_query(tables: Tables, registry: SchemaRegistry) -> None:
    settings = {"url": registry.url, "basic.auth.user.info": "alice:hush"}
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    number = registry.register("s", {"schema": json.dumps(schema)})
    rows = tables.spark.sql(f"select unhex('000000000{number}{'02'}') value union all select 'x'")
    permissive = rows.select(
        from_avro("value", registry=settings, schema=schema, mode="permissive").alias("order")
    )
    assert [row.id for row in permissive.select("order.*").collect()] == [1, None]
    plan = permissive._jdf.queryExecution().toString()
    assert "from_avro(" in plan
    assert "hush" not in plan
    failing = rows.select(from_avro("value", registry=settings, schema=schema))
    with pytest.raises(Exception, match="the first byte is 120") as error:
        failing.collect()
    assert "hush" not in str(error.value)


@pytest.mark.parametrize("mode", ["failfast", "permissive"])
@since(4, 1, "functions on Arrow columns")
def test_a_missing_registry_login_in_a_query(
    tables: Tables, registry: SchemaRegistry, mode: str
) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    registry.register("s", {"schema": json.dumps(schema)})
    registry.login = "alice:hush"
    rows = tables.spark.sql("select unhex('000000000102') value")

    def found(**more: str) -> list[Any]:
        settings = {"url": registry.url, **more}
        column = from_avro("value", registry=settings, schema=schema, mode=mode)
        return [row.id for row in rows.select(column.alias("r")).select("r.*").collect()]

    with pytest.raises(Exception, match="Unauthorized") as error:
        found()
    # Our message comes before the traceback.
    said = str(error.value).partition("tandem_kafka: ")[2].splitlines()[0]
    assert said == (
        "the schema registry refuses to return schema 1 (SchemaRegistryError: Unauthorized (HTTP "
        "status code 401, SR code 401)); give its client a login that may read schemas; the next "
        "attempt asks again"
    )
    assert str(error.value).index(said) < str(error.value).index("Traceback")
    assert found(**{"basic.auth.user.info": "alice:hush"}) == [1]


SCHEMA = "id long, cents long, note string"
ROWS = "select cast(if(id = 0, null, string(id)) as binary) value, id part from range(9)"
#: Before Spark 4.2, filters may decode again.
filters_once = since(4, 2, "filters that do not decode again")


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize("mode", ["failfast", "permissive"])
def test_json_is_parsed_once(tables: Tables, mode: str, framed: bool) -> None:
    rows = tables.spark.sql(ROWS)
    orders = rows.select(from_json("value", SCHEMA, mode=mode, framed=framed).alias("o"), "part")
    assert _in_plan(orders.select("o.*"), "from_json(") == 1
    assert _in_plan(orders.groupBy("o.id").agg(f.sum("o.cents"), f.max("o.note"))) == 1


@filters_once
@pytest.mark.parametrize("mode", ["failfast", "permissive"])
def test_a_filter_does_not_parse_again(
    tables: Tables, topic: str, kafka: RealKafka, mode: str
) -> None:
    value = b'{"id": 1, "cents": 5}'
    kafka.admin.produce(topic, [value] * 3)
    condition = "o.id > 0 and o.cents > 0 and o.note is null and offset > 0"

    def found(rows: Any) -> Any:
        return rows.withColumn("o", from_json("value", SCHEMA, mode=mode)).where(condition)

    batch = found(tables.read(topic))
    selected = batch.select("o.*")
    assert _in_plan(selected) == 1
    # A filter on another column is still pushed to the source.
    plan = selected._jdf.queryExecution().optimizedPlan().toString()
    assert plan.index("from_json(") < plan.index("offset#")
    assert selected.collect() == [Row(id=1, cents=5, note=None)] * 2
    query = tables.finish(found(tables.stream(topic)))
    plan = query._jsq.streamingQuery().lastExecution().optimizedPlan().toString()
    assert plan.count("from_json(") == 1
    assert [row.o.id for row in tables.written()] == [1, 1]


@filters_once
def test_a_filter_does_not_decode_avro_again(tables: Tables) -> None:
    fields = [{"name": name, "type": "long"} for name in ("id", "cents")]
    schema = {"type": "record", "name": "R", "fields": fields}
    column = from_avro("value", registry={"url": "http://localhost"}, schema=schema)
    rows = tables.spark.sql(ROWS)
    orders = rows.select(column.alias("o")).where("o.id > 0 and o.cents > 0").select("o.*")
    assert _in_plan(orders, "from_avro(") == 1


def _in_plan(rows: Any, text: str = "from_json(") -> int:
    """Return how often a function is computed for each row."""
    count: int = rows._jdf.queryExecution().optimizedPlan().toString().count(text)
    return count


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"mode": "lenient"}, "mode must be failfast or permissive, got 'lenient'"),
        ({"schema": 5}, "schema must be a Spark type or a string, got: int"),
        ({"schema": "no schema at all"}, "schema 'no schema at all' is not valid"),
    ],
)
def test_invalid_arguments_are_rejected(
    tables: Tables, arguments: dict[str, Any], said: str
) -> None:
    assert tables.spark is not None
    with pytest.raises(InvalidArgumentError, match=said):
        from_json("value", **{"schema": "id long", **arguments})
