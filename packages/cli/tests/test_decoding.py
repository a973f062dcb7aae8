"""`-s value=avro` and its like: what keys and values contain, as JSON."""

from __future__ import annotations

import base64
import json
import math
import struct
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from packages.cli.tests.commands import Run
from packages.cli.tests.registries import SCHEMA, Registry, encoded
from tandem_kafka_testing.kafka.ports import free_ports
from tandem_kafka_testing.laboratory import SimulatedKafka

pytestmark = pytest.mark.usefixtures("native_extension")


@pytest.mark.parametrize("command", ["tail", "cat", "grep"])
def test_values_of_a_registry(
    run: Run, cluster: SimulatedKafka, registry: Registry, command: str
) -> None:
    for number in range(3):
        cluster.produce("orders", encoded(number, framed=7))
    cluster.produce("orders", None)
    pattern = ["ü"] if command == "grep" else []
    flags = ["-t", "orders", "-s", "value=avro", "-r", registry.url, "-f", "%v\\n"]
    lines = run(command, *pattern, *flags).out.splitlines()
    assert [json.loads(line) for line in lines[:3]] == [
        {"id": n, "note": f"ü{n}", "raw": {"base64": "/w=="}, "at": "2023-11-14T22:13:20.000+00:00"}
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


def test_what_is_no_avro_is_named(run: Run, cluster: SimulatedKafka, registry: Registry) -> None:
    cluster.produce("orders", encoded(0, framed=7))
    cluster.produce("orders", b"text")
    cluster.produce("orders", encoded(0, framed=8))
    ran = run("cat", "-t", "orders", "-s", "value=avro", "-r", registry.url)
    assert ran.code == 1
    assert "the value of orders-0 at offset 1 is no such Avro: " in ran.err
    ran = run("cat", "-t", "orders", "-o", "2", "-s", "value=avro", "-r", registry.url)
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
    told = "the value of orders-0 at offset 1 has no place in the output: a time outside of the"
    assert told in ran.err
    assert run("cat", "-t", "orders", "-s", "value=avro", "-E", "--schema", schema).code == 0


@pytest.mark.parametrize("flags", [[], ["-f", r"%v\n"], ["--value", "at"], ["-s", "key=json"]])
@pytest.mark.parametrize("command", ["cat -t orders", "grep at -t orders", "tail -n 9 -t orders"])
def test_records_before_one_that_cannot_be_decoded_are_printed(
    command: str, flags: list[str], run: Run, cluster: SimulatedKafka, tmp_path: Path
) -> None:
    """All are of one batch."""
    schema = file_of(tmp_path, ("at", "int"))
    cluster.produce("orders", b"\2", b"\4", b"\x80", b"\6", b"\x80")
    decode = ["-s", "value=avro", "--schema", schema]
    ran = run(*command.split(), *decode, *flags)
    assert ran.code == (2 if command.startswith("grep") else 1)
    assert [line[line.index("{") :] for line in ran.out.splitlines()] == ['{"at": 1}', '{"at": 2}']
    assert "the value of orders-0 at offset 2 " in ran.err
    ran = run(*command.split(), *decode, *flags, "-E")
    assert len(ran.out.splitlines()) == 3
    assert "2 records could not be decoded, left out" in ran.err


def test_keys_of_maps_are_json(run: Run, cluster: SimulatedKafka, tmp_path: Path) -> None:
    """Booleans are as in JSON, not as in Python."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", syntax="proto3")
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name="FlagsEntry")
    entry.options.map_entry = True
    for number, (name, kind) in enumerate([("key", "TYPE_BOOL"), ("value", "TYPE_INT32")], 1):
        entry.field.add(name=name, number=number, type=kind, label="LABEL_OPTIONAL")
    order.field.add(
        name="flags", number=1, type="TYPE_MESSAGE", type_name=".Order.FlagsEntry",
        label="LABEL_REPEATED",
    )  # fmt: skip
    content = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    (tmp_path / "shop.desc").write_bytes(content)
    cluster.produce("orders", b"\x0a\4\x08\1\x10\5\x0a\4\x08\0\x10\6")
    flags = ["-s", "value=protobuf:Order", "--schema", str(tmp_path / "shop.desc")]
    ran = run("cat", "-t", "orders", *flags, "-f", "%v")
    assert ran.out == '{"flags": {"true": 5, "false": 6}}', ran


def test_each_value_has_the_fields_of_its_own_schema(
    run: Run, cluster: SimulatedKafka, registry: Registry
) -> None:
    registry.add(8, {"type": "record", "name": "R", "fields": [{"name": "b", "type": "int"}]})
    cluster.produce("orders", encoded(0, framed=7), b"\0\0\0\0\x08\4", encoded(1, framed=7))
    ran = run("cat", "-t", "orders", "-s", "value=avro", "-r", registry.url, "-f", "%v\\n")
    assert [json.loads(line).get("b") for line in ran.out.splitlines()] == [None, 2, None]


@pytest.mark.parametrize("command", ["tail", "cat", "grep"])
def test_protobuf(run: Run, cluster: SimulatedKafka, descriptors: Path, command: str) -> None:
    cluster.produce("orders", b"\x08\5\x12\2\xc3\xbc", b"", None)
    pattern = [""] if command == "grep" else []
    flags = ["-s", "value=protobuf:shop.Order", "--schema", str(descriptors), "-f", "%v\\n"]
    lines = run(command, *pattern, "-t", "orders", *flags).out.splitlines()
    assert [json.loads(line) for line in lines[:2]] == [
        {"id": 5, "note": "ü"}, {"id": 0, "note": ""},
    ]  # fmt: skip
    assert lines[2:] == ([] if command == "grep" else [""])


def test_protobuf_with_ids(
    run: Run, cluster: SimulatedKafka, registry: Registry, descriptors: Path
) -> None:
    # The message itself, then the one with the indexes [1, 200], which the registry does not have.
    cluster.produce("orders", b"\0\0\0\0\x09\0\x08\5", b"\0\0\0\0\x09\4\2\x90\3\x08\6", b"\x08\7")
    flags = ["-t", "orders", "-s", "value=protobuf:shop.Order", "--schema", str(descriptors)]
    flags += ["-f", "%v\\n"]
    ids = [json.loads(line)["id"] for line in run("cat", *flags).out.splitlines()]
    assert ids == [5, 6, 7], "no registry is asked"
    ran = run("cat", *flags, "-r", registry.url)
    assert "at offset 1 is no such Protobuf: schema 9 has no message at the indexes" in ran.err
    ran = run("cat", *flags, "-r", registry.url, "-E")
    assert json.loads(ran.out) == {"id": 5, "note": ""}
    assert ran.err == "2 records could not be decoded, left out\n"


def test_protobuf_that_is_cut_off(run: Run, cluster: SimulatedKafka, descriptors: Path) -> None:
    whole = b"\0\0\0\0\x09\4\2\x90\3\x08"
    cluster.produce("orders", *(whole[: end + 1] for end in range(len(whole))))
    flags = ["-s", "value=protobuf:shop.Order", "--schema", str(descriptors), "-f", "%o "]
    ran = run("cat", "-t", "orders", *flags, "-E")
    assert ran.code == 0
    assert "9" not in ran.out


def test_one_of_several_schemas_has_no_type(
    run: Run, cluster: SimulatedKafka, registry: Registry
) -> None:
    fields = [{"name": "next", "type": ["null", "R"]}]
    registry.add(8, {"type": "record", "name": "R", "fields": fields})
    cluster.produce("orders", encoded(0, framed=7), b"\0\0\0\0\x08\0")
    flags = ["-t", "orders", "-s", "value=avro", "-r", registry.url, "-f", "%o"]
    assert run("cat", *flags, "-E").out == "0"
    err = run("cat", *flags).err
    assert "orders-0 at offset 1 is no such Avro: schema 8: $.next: the schema " in err


def test_json_stays_text(run: Run, cluster: SimulatedKafka) -> None:
    cluster.produce(
        "orders", b'{"a": 1.0}', b'\0\0\0\0\7{"b":2}', b"\1" + bytes(16) + b"3", b"none", None
    )
    ran = run("cat", "-t", "orders", "-s", "value=json", "-f", "%v\\n")
    assert ran.out == '{"a": 1.0}\n{"b":2}\n3\nnone\n\n'


def test_what_cannot_be_decoded_is_left_out(
    run: Run, cluster: SimulatedKafka, registry: Registry
) -> None:
    cluster.produce("orders", b"x", encoded(0, framed=7), b"\0\0\0\0\x08\0", encoded(1, framed=7))
    ran = run("cat", "-t", "orders", "-s", "value=avro", "-r", registry.url, "-f", "%o ", "-E")
    assert (ran.code, ran.out) == (0, "1 3 ")
    assert ran.err == "2 records could not be decoded, left out\n"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (
            b"x",
            "0 or 1 comes before a schema id; without -r, --schema FILE reads what has no schema ",
        ),
        (
            b'{"a":1}',
            "0 or 1 comes before a schema id; if it is JSON, write -s value=json; -E leaves",
        ),
        (b"\0\0\0\0\x09\0", "its schema 9 is of type PROTOBUF; write -s value=protobuf:MESSAGE"),
        (b"\0\0\0\0\x0a{}", "its schema 10 is of type JSON; write -s value=json; -E leaves"),
        (b"\0\0\0\0\x08\0", "the registry has no Avro schema 8, or lacks one"),
    ],
)
def test_what_to_do_about_a_value(
    run: Run, cluster: SimulatedKafka, registry: Registry, value: bytes, told: str
) -> None:
    cluster.produce("orders", value)
    ran = run("cat", "-t", "orders", "-s", "value=avro", "-r", registry.url)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("tandem-kafka: the value of orders-0 at offset 0 is no such Avro: ")
    assert told in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (401, b'{"error_code": 401, "message": "Unauthorized"}', "set TANDEM_KAFKA_REGISTRY_LOGIN"),
        (403, b"<html>", "refuses to return schema 7 (HTTP 403); for http://127"),
        (
            200,
            b"<html>",
            "7 (JSONDecodeError: Expecting value: line 1 column 1 (char 0)); check -r",
        ),
        (404, b"<html>", "did not return schema 7 (HTTP 404); check -r"),
        (302, b"", "did not return schema 7 (HTTP 302); check -r"),
        (503, b"down", "did not return schema 7 within 100 ms (HTTP 503); check -r http://127"),
        (200, b'{"schema": "{"}', "is no such Avro: schema 7: the schema is"),
    ],
)
def test_a_registry_that_is_none(
    run: Run, cluster: SimulatedKafka, registry: Registry, status: int, body: bytes, told: str
) -> None:
    registry.answer = status, body
    cluster.produce("orders", encoded(0, framed=7))
    url = registry.url.replace("//", "//user:secret@")
    ran = run("cat", "-t", "orders", "-s", "value=avro", "-r", url)
    assert (ran.code, ran.out) == (1, "")
    assert told in ran.err
    assert "secret" not in ran.err
    assert "next attempt" not in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("login", ["ada:Hunter2-s3cret", "ada:a/Hunter2-s3cret"])
def test_a_registry_that_repeats_the_login(
    run: Run, cluster: SimulatedKafka, registry: Registry, login: str
) -> None:
    encoded_login = base64.b64encode(login.encode()).decode()
    repeated = f"{login} {encoded_login}\r\n2026 ERROR forged \x1b[2J {'x' * 5_000}"
    registry.answer = 401, json.dumps({"error_code": 40101, "message": repeated}).encode()
    cluster.produce("orders", encoded(0, framed=7))
    url = registry.url.replace("//", f"//{quote(login, safe=':')}@")
    for verbose in ([], ["--verbose"]):
        ran = run("cat", "-t", "orders", "-s", "value=avro", "-r", url, *verbose)
        assert "<hidden>" in ran.err
        assert "Hunter2" not in ran.err
        assert encoded_login[:12] not in ran.err
        assert not [each for each in "\x1b\r" if each in ran.err]
        assert "x" * 501 not in ran.err


def test_the_login_of_a_registry(run: Run, cluster: SimulatedKafka, registry: Registry) -> None:
    cluster.produce("orders", encoded(0, framed=7))
    registry.login = "ada:p:w"
    flags = ["-t", "orders", "-s", "value=avro", "-f", "%o", "-r"]

    def with_login(login: str, url: str = registry.url) -> tuple[str, str]:
        brokers = cluster.cluster.bootstrap()
        variables = {"TANDEM_KAFKA_BROKERS": brokers, "TANDEM_KAFKA_REGISTRY_LOGIN": login}
        ran = run("cat", *flags, url, variables=variables)
        return ran.out, ran.err

    assert with_login("ada:p:w") == ("0", "")
    assert with_login("ada:wrong", registry.url.replace("//", "//ada:p:w@")) == ("0", "")
    out, err = with_login("ada:wrong")
    assert (out, "wrong" in err, "TANDEM_KAFKA_REGISTRY_LOGIN" in err) == ("", False, True)
    assert with_login("ada")[1].endswith("TANDEM_KAFKA_REGISTRY_LOGIN: write USER:PASSWORD\n")


def test_packages_that_are_missing(
    run: Run, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ["cat", "-t", "orders", "-s", "value=avro", "-r", registry.url]
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry", None)
    ran = run(*flags)
    assert ran.code == 1
    assert "; pip install 'confluent-kafka[schemaregistry]' 'tandem-kafka[arrow]'" in ran.err
    monkeypatch.undo()
    monkeypatch.setattr("tandem_kafka.tables.decoder.native", None)
    assert run(*flags).err.startswith("tandem-kafka: -s: Avro needs the native extension, which")


def test_a_registry_that_is_down_or_hangs(
    run: Run, cluster: SimulatedKafka, registry: Registry
) -> None:
    cluster.produce("orders", encoded(0, framed=7))
    flags = ["-t", "orders", "-s", "value=avro", "-r"]
    registry.hangs = True
    assert (
        "7 within 100 ms (ReadTimeout: timed out); check -r" in run("cat", *flags, registry.url).err
    )
    (port,) = free_ports(1)
    ran = run("cat", *flags, f"http://127.0.0.1:{port}")
    assert ran.code == 1
    assert "refused" in ran.err


@pytest.mark.parametrize(
    ("content", "kind", "told"),
    [
        (b'syntax = "proto3";', "protobuf:shop.Order", "make it with protoc --include"),
        (b"", "protobuf:shop.Order", 'no message "shop.Order"; they have none'),
        (b"option a;", "avro", "the schema is not JSON: expected value at line 1 column "),
    ],
)
def test_a_wrong_file(run: Run, tmp_path: Path, content: bytes, kind: str, told: str) -> None:
    file = tmp_path / "a"
    file.write_bytes(content)
    ran = run("cat", "-t", "orders", "-s", f"value={kind}", "--schema", str(file))
    assert ran.code == 2
    assert ran.err.startswith(f"tandem-kafka: --schema {file}: ")
    assert told in ran.err


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["-s", "value=xml"], "-s value=xml: write value=avro, value=json, value=protobuf:MESSAGE"),
        (["-s", "value=avro:X"], "-s value=avro:X: write value=avro"),
        (["-s", "value=protobuf"], "name the message, for example -s value=protobuf:shop.Order"),
        (["-s", "protobuf:a.B"], "-s protobuf needs --schema FILE: protoc --include_imports"),
        (["-s", "avro"], "-s avro needs -r URL of a schema registry, or --schema FILE"),
        (["-s", "avro", "--schema", __file__], "--schema is for one part"),
        (["-s", "json", "--schema", __file__], "--schema is for avro and protobuf; JSON gets its"),
        (["-r", "http://localhost"], "-r, --schema and -E need -s, for example -s value=avro"),
        (["-E"], "-r, --schema and -E need -s"),
        (["-s", "avro", "-r", "nowhere"], "-r nowhere: Invalid url nowhere; write for example"),
    ],
)
def test_wrong_flags(run: Run, cluster: SimulatedKafka, flags: list[str], told: str) -> None:
    cluster.produce("orders", b"x")
    ran = run("cat", "-t", "orders", *flags)
    assert ran.code == 2
    assert told in ran.err
