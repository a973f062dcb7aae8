"""`-s value=avro`: what Avro values contain, as JSON."""

from __future__ import annotations

import io
import json
import math
import struct
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import fastavro
import pytest

from tandem_kafka.testing.laboratory import SimulatedKafka
from tests.commands import Run
from tests.implementations import require_implementation

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "raw", "type": "bytes"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


@pytest.fixture(autouse=True)
def _native() -> None:
    require_implementation("native")


def encoded(number: int, framed: int | None = None) -> bytes:
    buffer = io.BytesIO()
    if framed is not None:
        buffer.write(b"\0" + framed.to_bytes(4, "big"))
    order = {"id": number, "note": f"ü{number}", "raw": b"\xff", "at": 1_700_000_000_000}
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(SCHEMA), order)
    return buffer.getvalue()


@pytest.fixture
def registry() -> Iterator[str]:
    """The URL of a registry with one schema, whose id is 7."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path.startswith("/schemas/ids/7")
            content: Any = {"schema": json.dumps(SCHEMA)}
            if not known:
                content = {"error_code": 40403, "message": "Schema not found"}
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("command", ["tail", "cat", "grep"])
def test_values_of_a_registry(
    run: Run, cluster: SimulatedKafka, registry: str, command: str
) -> None:
    for number in range(3):
        cluster.produce("orders", encoded(number, framed=7))
    cluster.produce("orders", None)
    pattern = ["ü"] if command == "grep" else []
    flags = ["-t", "orders", "-s", "value=avro", "-r", registry, "-f", "%v\\n"]
    lines = run(command, *pattern, *flags).out.splitlines()
    assert [json.loads(line) for line in lines[:3]] == [
        {"id": n, "note": f"ü{n}", "raw": {"base64": "/w=="}, "at": "2023-11-14 22:13:20+00:00"}
        for n in range(3)
    ]
    assert lines[3:] == ([] if command == "grep" else [""]), "a tombstone stays one"
    chosen = run(command, *pattern, *flags, "--value", '"id": 1').out
    assert [json.loads(line)["id"] for line in chosen.splitlines()] == [1]


def test_bare_values_by_a_file(run: Run, cluster: SimulatedKafka, tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(SCHEMA), encoding="utf-8")
    cluster.produce("orders", encoded(5))
    ran = run("cat", "-t", "orders", "-s", "value=avro", "--schema", str(file), "--json")
    assert json.loads(json.loads(ran.out)["value"])["note"] == "ü5"


def test_what_is_no_avro_is_named(run: Run, cluster: SimulatedKafka, registry: str) -> None:
    cluster.produce("orders", encoded(0, framed=7))
    cluster.produce("orders", b"text")
    cluster.produce("orders", encoded(0, framed=8))
    ran = run("cat", "-t", "orders", "-s", "value=avro", "-r", registry)
    assert ran.code == 1
    assert "the value of orders-0 at offset 1 is no such Avro: " in ran.err
    ran = run("cat", "-t", "orders", "-o", "2", "-s", "value=avro", "-r", registry)
    assert "the value of orders-0 at offset 2 is no such Avro: " in ran.err
    assert "8" in ran.err


def file_of(tmp_path: Path, *fields: tuple[str, Any]) -> str:
    listed = [{"name": name, "type": kind} for name, kind in fields]
    file = tmp_path / "all.avsc"
    file.write_text(json.dumps({"type": "record", "name": "All", "fields": listed}), "utf-8")
    return str(file)


def test_all_types_are_json(run: Run, cluster: SimulatedKafka, tmp_path: Path) -> None:
    maps = {"type": "map", "values": {"type": "array", "items": {"type": "map", "values": "bytes"}}}
    price = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    schema = file_of(
        tmp_path, ("m", maps), ("e", maps), ("f", "float"), ("d", "double"), ("p", price)
    )
    value = (
        b"\2\2k\2\2\2n\2\xff\0\0\0" + b"\0" + struct.pack("<fd", math.inf, math.nan) + b"\4\4\xe2"
    )
    cluster.produce("orders", value)
    for flags in (["-f", "%v"], ["--value", "NaN", "-f", "%v"]):
        ran = run("cat", "-t", "orders", "-s", "value=avro", "--schema", schema, *flags)
        assert json.loads(ran.out, parse_constant=pytest.fail) == {
            "m": {"k": [{"n": {"base64": "/w=="}}]}, "e": {}, "f": "Infinity", "d": "NaN",
            "p": "12.50",
        }  # fmt: skip


def test_a_schema_that_is_no_text_is_named(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "latin.avsc"
    file.write_bytes(b'{"type": "r\xffcord"}')
    ran = run("cat", "-t", "orders", "-s", "value=avro", "--schema", str(file))
    assert ran.code == 2
    assert f"--schema {file} is no JSON in UTF-8: " in ran.err


def test_a_time_that_cannot_be_shown_is_named(
    run: Run, cluster: SimulatedKafka, tmp_path: Path
) -> None:
    at = {"type": "long", "logicalType": "timestamp-micros"}
    cluster.produce("orders", b"\2")
    cluster.produce("orders", b"\xff" * 9 + b"\1")
    schema = file_of(tmp_path, ("at", at))
    ran = run("cat", "-t", "orders", "-s", "value=avro", "--schema", schema)
    assert ran.code == 1
    assert "the value of orders-0 at offset 1 has a time that cannot be shown: " in ran.err


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["-s", "value=json"], "-s value=json: write key=avro, value=avro or avro"),
        (["-s", "avro"], "-s needs -r URL of a schema registry, or --schema FILE"),
        (["-r", "http://localhost"], "-r and --schema need -s value=avro"),
        (["-s", "avro", "-r", "nowhere"], "-r nowhere: "),
        (["-s", "avro", "-r", "http://localhost", "-O", "x.arrow"], "-s decodes to JSON text"),
    ],
)
def test_wrong_flags(run: Run, cluster: SimulatedKafka, flags: list[str], told: str) -> None:
    cluster.produce("orders", b"x")
    ran = run("cat", "-t", "orders", *flags)
    assert ran.code == 2
    assert told in ran.err
