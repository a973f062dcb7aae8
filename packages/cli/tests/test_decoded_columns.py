"""`-s` with sql and with files: keys and values are columns of what they contain."""

from __future__ import annotations

import datetime as dt
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from packages.cli.tests.commands import Run
from packages.cli.tests.registries import SCHEMA, Registry, encoded
from tandem_kafka.tables.reader import SpanReader
from tandem_kafka.types import TopicPartition
from tandem_kafka_cli.records import decoded, files
from tandem_kafka_testing.laboratory import SimulatedKafka

pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

JSON = ["-s", "value=json"]


pytestmark = pytest.mark.usefixtures("native_extension")


@pytest.fixture
def avro(cluster: SimulatedKafka, registry: Registry) -> list[str]:
    """Tombstones, then orders, then a tombstone."""
    cluster.produce("orders", None, None)
    cluster.produce("orders", *(encoded(number, framed=7) for number in range(3)), None)
    return ["-s", "value=avro", "-r", registry.url]


def rows(run: Run, query: str, *flags: str) -> list[dict[str, Any]]:
    ran = run("sql", query, *flags, "--json")
    assert ran.code == 0, ran
    return ran.rows


def test_avro_is_a_struct(run: Run, avro: list[str]) -> None:
    query = "SELECT record_offset o, value.id, value.at, value FROM orders ORDER BY ALL"
    found = rows(run, query, *avro)
    assert [row["id"] for row in found] == [None, None, 0, 1, 2, None]
    assert found[2] == {
        "o": 2, "id": 0, "at": "2023-11-14 22:13:20",
        "value": {
            "id": 0, "note": "ü0", "raw": {"base64": "/w=="}, "at": "2023-11-14 22:13:20",
        },
    }  # fmt: skip
    kept = "SELECT octet_length(value_bytes) n, key FROM orders WHERE value.note = 'ü1'"
    assert rows(run, kept, *avro) == [{"n": len(encoded(1, framed=7)), "key": None}]


def test_avro_by_a_file(run: Run, cluster: SimulatedKafka, tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(SCHEMA), encoding="utf-8")
    flags = ["-s", "value=avro", "--schema", str(file)]
    assert rows(run, "SELECT value.at - value.at AS at FROM orders", *flags) == []
    cluster.produce("orders", encoded(5))
    assert rows(run, "SELECT value.id FROM orders", *flags) == [{"id": 5}]


def test_durations_keep_their_months_and_names(
    run: Run, cluster: SimulatedKafka, tmp_path: Path
) -> None:
    """Python has days only."""
    took = {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}
    fields = [{"name": "INTERVAL", "type": took}, {"name": "n", "type": "int"}]
    file = tmp_path / "took.avsc"
    file.write_text(json.dumps({"type": "record", "name": "R", "fields": fields}), "utf-8")
    cluster.produce("orders", struct.pack("<III", 14, 2, 3) + b"\2")
    flags = ["-s", "value=avro", "--schema", str(file)]
    text = "1 year 2 months 2 days 00:00:00.003"
    query = 'SELECT value, value."INTERVAL" took, [value."INTERVAL"] AS list FROM orders'
    assert rows(run, query, *flags) == [
        {"value": {"INTERVAL": text, "n": 1}, "took": text, "list": [text]}
    ]


@pytest.mark.parametrize("unit", ["millis", "micros"])
def test_times_out_of_bounds_are_shown_as_no_other(
    unit: str, run: Run, cluster: SimulatedKafka, tmp_path: Path
) -> None:
    """DuckDB takes the largest numbers for infinity, and its Python for the end of year 9999."""
    at = {"type": "long", "logicalType": f"timestamp-{unit}"}
    file = tmp_path / "at.avsc"
    fields = [{"name": "at", "type": at}]
    file.write_text(json.dumps({"type": "record", "name": "R", "fields": fields}), "utf-8")
    flags = ["-s", "value=avro", "--schema", str(file)]
    most = b"\xfe" + b"\xff" * 8 + b"\1"
    cluster.produce("orders", b"\2", most, b"\xfd" + most[1:])
    ran = run("sql", "SELECT value.at FROM orders", *flags, "--json")
    assert ran.code == 1
    assert "the value of orders-0 at offset 1 has no place in the output: a time " in ran.err
    (row,) = rows(run, "SELECT value.at FROM orders", *flags, "-E")
    assert row["at"].startswith("1970-01-01 00:00:00.00")


def test_a_timestamp_out_of_bounds_is_null(run: Run, cluster: SimulatedKafka) -> None:
    for at in (1, 1_700_000_000_000_000, 2**63 - 1):
        cluster.cluster.produce(TopicPartition("orders", 0), b"", timestamp=at)
    ran = run("sql", 'SELECT "timestamp" t FROM orders ORDER BY record_offset', "--json")
    assert [row["t"] for row in ran.rows] == [
        "1970-01-01 00:00:00.001000", "55840-11-08 22:13:20", None,
    ]  # fmt: skip
    assert ran.err == "1 record: timestamp out of bounds, shown as null\n"


def test_protobuf_is_a_struct(run: Run, cluster: SimulatedKafka, descriptors: Path) -> None:
    cluster.produce("orders", b"\x08\5", None)
    flags = ["-s", "value=protobuf:shop.Order", "--schema", str(descriptors)]
    query = "SELECT value FROM orders ORDER BY record_offset"
    assert rows(run, query, *flags) == [{"value": {"id": 5, "note": ""}}, {"value": None}]


def test_a_protobuf_struct_is_text_of_json(
    run: Run, cluster: SimulatedKafka, tmp_path: Path
) -> None:
    """Its messages contain each other, so that there is no type for it."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    struct_pb2 = pytest.importorskip("google.protobuf.struct_pb2")
    shop = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", dependency=["google/protobuf/struct.proto"], syntax="proto3"
    )
    shop.message_type.add(name="Order").field.add(
        name="more", number=1, type="TYPE_MESSAGE", type_name=".google.protobuf.Struct",
        label="LABEL_OPTIONAL",
    )  # fmt: skip
    files = descriptor_pb2.FileDescriptorSet(file=[shop])
    struct_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    (tmp_path / "shop.desc").write_bytes(files.SerializeToString())
    more = struct_pb2.Struct()
    more.update({"a": 1})
    cluster.produce("orders", b"\x0a" + bytes([more.ByteSize()]) + more.SerializeToString())
    flags = ["-s", "value=protobuf:Order", "--schema", str(tmp_path / "shop.desc")]
    assert rows(run, "SELECT value.more->>'a' AS a FROM orders", *flags) == [{"a": "1"}]
    printed = run("cat", "-t", "orders", *flags, "-f", "%v")
    assert json.loads(json.loads(printed.out)["more"]) == {"a": 1}


def test_json_has_the_fields_of_all_partitions(run: Run, cluster: SimulatedKafka) -> None:
    cluster.create_topic("odd.name-1", 2)
    cluster.produce("odd.name-1", b'{"a": 1, "none": null}')
    cluster.produce("odd.name-1", b'{"a": 1.5, "b": {"c": ["x"]}}', None, partition=1)
    query = 'SELECT value.a AS a, value.b.c[1] c, value.none FROM "odd.name-1" ORDER BY a'
    assert rows(run, query, *JSON) == [
        {"a": 1.0, "c": None, "none": None},
        {"a": 1.5, "c": "x", "none": None},
        {"a": None, "c": None, "none": None},
    ]


def test_topics_are_decoded_apart(run: Run, cluster: SimulatedKafka) -> None:
    cluster.create_topic("customers", 1)
    cluster.produce("orders", b'{"customer": 1, "amount": 5}')
    cluster.produce("customers", b'{"id": 1, "name": "Ada"}')
    query = "SELECT c.value.name FROM orders o JOIN customers c ON o.value.customer = c.value.id"
    assert rows(run, query, *JSON) == [{"name": "Ada"}]


def test_keys_are_decoded(run: Run, cluster: SimulatedKafka) -> None:
    (tp,) = cluster.create_topic("keyed", 1)
    cluster.cluster.produce(tp, b"v", keys=[b'{"k": 7}'])
    assert rows(run, "SELECT key.k, value FROM keyed", "-s", "key=json") == [{"k": 7, "value": "v"}]


def test_an_empty_topic(run: Run, cluster: SimulatedKafka, registry: Registry) -> None:
    flags = ["-s", "value=avro", "-r", registry.url]
    assert rows(run, "SELECT value.id FROM orders", *flags) == []
    cluster.produce("orders", None)
    assert rows(run, "SELECT value.id FROM orders", *flags) == [{"id": None}]
    ran = run("sql", "SELECT date_trunc('day', value.at) FROM orders", *flags)
    assert ran.code == 1
    assert ran.err.endswith("; the range has no value of orders to decode\n")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([b'{"a":1}', b"no"], "the value of orders-0 at offset 1 is no such JSON: expected ident"),
        ([b'{"a":1}', b'{"a":"x"}'], "values of orders cannot be decoded: $.a is both int64 and"),
        ([b'{"a":1,"A":2}'], "have no table in DuckDB: Binder Error: Duplicate type parameter A"),
    ],
)
def test_json_that_has_no_columns(
    run: Run, cluster: SimulatedKafka, values: list[bytes], told: str
) -> None:
    cluster.produce("orders", *values)
    ran = run("sql", "SELECT value FROM orders", *JSON)
    assert (ran.code, ran.out) == (1, "")
    assert told in ran.err
    assert "without -s, " in ran.err
    assert len(ran.err.splitlines()) == 1


def test_what_cannot_be_decoded_is_left_out(run: Run, cluster: SimulatedKafka) -> None:
    cluster.produce("orders", b"no", b'{"a":1}', b"{}", b"[")
    ran = run("sql", "SELECT value.a FROM orders ORDER BY ALL", *JSON, "-E", "-J")
    assert ran.rows == [{"a": 1}, {"a": None}]
    assert ran.err == "2 records could not be decoded, left out\n"


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_files_have_the_fields(run: Run, avro: list[str], tmp_path: Path, form: str) -> None:
    file = tmp_path / f"a.{form}"

    def values(*flags: str) -> list[Any]:
        ran = run("cat", "-t", "orders", *avro, "-O", str(file), *flags)
        assert ran.code == 0, ran
        read = pq.read_table if form == "parquet" else _read_arrow
        return list(read(file)["value"].to_pylist())

    at = dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)
    orders = [{"id": n, "note": f"ü{n}", "raw": b"\xff", "at": at} for n in range(3)]
    assert values() == [None, None, *orders, None]
    assert values("--value", '"id": [12]') == orders[1:]
    assert values("-o", "5") == [None]
    assert values("-o", "end") == []


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("late", [False, True])
def test_records_without_keys_are_not_kept_in_memory(
    run: Run,
    cluster: SimulatedKafka,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    late: bool,
) -> None:
    monkeypatch.setattr(files, "_UNTYPED_BYTES", 1)
    monkeypatch.setattr(files, "_ROW_GROUP", 1)
    batches = SpanReader.arrow_batches

    def one_by_one(self: SpanReader) -> Iterator[pa.RecordBatch]:
        for batch in batches(self):
            yield from (batch.slice(row, 1) for row in range(batch.num_rows))

    monkeypatch.setattr(SpanReader, "arrow_batches", one_by_one)
    monkeypatch.setattr(decoded, "SAMPLE", 1)
    cluster.produce("orders", b'{"a": 1}', b'{"a": 2}')
    if late:
        cluster.cluster.produce(TopicPartition("orders", 0), b"{}", keys=[b'{"k": 1}'])
    file = tmp_path / f"a.{form}"
    ran = run("cat", "-t", "orders", "-s", "json", "-O", str(file))
    assert ran.code == late
    assert file.exists() != late
    if late:
        assert "the file has no type for a key, as the first records have none: decode" in ran.err
    elif form == "arrow":
        assert _read_arrow(file)["key"].to_pylist() == [None, None]
    else:
        assert pq.ParquetFile(file).num_row_groups == 2
        assert pq.read_table(file)["key"].to_pylist() == [None, None]


def test_objects_without_fields(run: Run, cluster: SimulatedKafka, tmp_path: Path) -> None:
    cluster.produce("orders", b"{}")
    flags = ["-t", "orders", *JSON, "-O"]
    assert rows(run, "SELECT value FROM orders", *JSON) == [{"value": {}}]
    assert run("cat", *flags, str(tmp_path / "a.arrow")).code == 0
    assert _read_arrow(tmp_path / "a.arrow")["value"].to_pylist() == [{}]
    assert run("cat", *flags, str(tmp_path / "a.parquet")).code == 0
    assert pq.read_table(tmp_path / "a.parquet")["value"].to_pylist() == [None]


def _read_arrow(file: Path) -> Any:
    return pa.ipc.open_stream(file.read_bytes()).read_all()


def test_a_file_of_json(run: Run, cluster: SimulatedKafka, tmp_path: Path) -> None:
    cluster.produce("orders", b'{"a":1}', b"no")
    cluster.produce("orders", b'{"b":{"c":true}}', partition=1)
    file = tmp_path / "a.parquet"
    assert run("cat", "-t", "orders", *JSON, "-O", str(file)).code == 1
    assert not file.exists()
    ran = run("cat", "-t", "orders", *JSON, "-E", "-O", str(file))
    assert ran.err == f"2 records in {file}\n1 record could not be decoded, left out\n"
    values = pq.read_table(file)["value"].to_pylist()
    assert sorted(values, key=str) == [{"a": 1, "b": None}, {"a": None, "b": {"c": True}}]
