"""Schemas of a registry: asked once, and again when it was down; what it lacks is named."""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

import pytest

from tandem_kafka.errors import InvalidArgumentError, SchemaRegistryError
from tandem_kafka.runtime import MonotonicClock

pa = pytest.importorskip("pyarrow")
fastavro = pytest.importorskip("fastavro")

from tandem_kafka.tables import Avro  # noqa: E402 - it imports pyarrow
from tests.unit.tables.avro_values import (  # noqa: E402
    COLOR,
    Registry,
    decoded,
    framed,
    record,
    status,
)

pytestmark = [pytest.mark.real_time, pytest.mark.usefixtures("native_extension")]


def test_values_that_are_not_framed() -> None:
    decoder = Avro(registry=Registry(s1="string"))
    rows, failures = decoded(decoder, b"", b"\0\0\0\0", b"{}", framed(1, "string", "x"))
    assert rows == [None, None, None, "x"]
    assert [reason for _, reason in failures] == [
        "0 bytes have no place for a schema id",
        "4 bytes have no place for a schema id",
        "the first byte is 123, and 0 or 1 comes before a schema id",
    ]


def test_references() -> None:
    registry = Registry(
        s1=record(("a", "n.A"), ("b", "n.B"), name="Top"),
        a1=record(("c", "C"), name="A", namespace="n"),
        b3=record(("c", "n.C"), name="B", namespace="n"),
        c2={**COLOR, "name": "C", "namespace": "n"},
    )
    registry.references = {"s1": [("a", 1), ("b", 3)], "a1": [("c", 2)], "b3": [("c", 2)]}
    decoder = Avro(registry=registry)
    data = b"\0\0\0\0\1\0\2"
    assert decoded(decoder, data) == ([{"a": {"c": "RED"}, "b": {"c": "GREEN"}}], [])
    assert registry.asked == ["s1", "a1", "c2", "b3"]
    registry.references["c2"] = [("a", 1)]
    assert "one that it refers to" in decoded(Avro(registry=registry), data)[1][0][1], "a circle"


def test_a_reference_that_was_soft_deleted() -> None:
    registry = Registry(s1=record(("a", "n.A"), name="Top"), a1={**COLOR, "name": "n.A"})
    registry.references = {"s1": [("a", 1)]}
    registry.deleted = {"a"}
    assert decoded(Avro(registry=registry), b"\0\0\0\0\1\2") == ([{"a": "GREEN"}], [])


def test_an_id_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(s1="string")
    decoder = Avro("string", registry=registry)
    rows, [(row, reason)] = decoded(decoder, framed(1, "string", "x"), framed(7, "string", "y"))
    assert (rows, row) == (["x", None], 1)
    assert reason == (
        "the registry has no Avro schema 7, or lacks one that it refers to, or it refers to more "
        "than 1000"
    )
    registry.schemas["s7"] = "string"
    decoded(decoder, framed(7, "string", "y"))
    assert registry.asked == ["s1", "s7"], "not at each poll"
    later_ms = MonotonicClock().after_ms(60_000)
    monkeypatch.setattr(MonotonicClock, "now_ms", lambda _: later_ms)
    assert decoded(decoder, framed(7, "string", "y")) == (["y"], [])


def test_a_registry_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses_ms: list[float] = []
    monkeypatch.setattr(MonotonicClock, "now_ms", lambda _: 1_000 + sum(pauses_ms))
    monkeypatch.setattr("tandem_kafka.tables.registry.sleep_ms", pauses_ms.append)
    registry = Registry(s1="string", s2=OSError("connection refused"))
    decoder = Avro(registry=registry, timeout_ms=250)
    values = [framed(1, "string", "x"), framed(2, "string", "y")]
    with pytest.raises(
        SchemaRegistryError,
        match=r"did not return schema 2 within 250 ms \(OSError: connection refused\); check its",
    ) as caught:
        decoded(decoder, *values)
    assert sum(pauses_ms) == 250
    assert (caught.value.schema_id, caught.value.retriable) == (2, True)
    assert isinstance(caught.value.__cause__, OSError)
    assert registry.asked.count("s2") > 2
    registry.schemas["s2"] = "string"
    assert decoded(decoder, *values) == (["x", "y"], [])
    assert registry.asked.count("s1") == 1


class Endless(Registry):
    """Each schema of 60 levels refers to two new ones."""

    def _found(self, name: str) -> Any:
        level, count = name.count("-"), 2 * len(self.asked)
        subjects = [f"{'-' * (level + 1)}{count + each} v" for each in range(2)]
        self.references = {name: [(subject, 1) for subject in subjects if level < 60]}
        self.schemas = {name: "string"}
        return super()._found(name)


def test_the_deadline_is_one_for_a_schema_and_what_it_refers_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = Endless()
    monkeypatch.setattr(MonotonicClock, "now_ms", lambda _: 100 * len(registry.asked))
    late = r"did not return schema 7 within 1000 ms \(TimeoutError: there were 10 answers in that"
    with pytest.raises(SchemaRegistryError, match=late) as caught:
        decoded(Avro(registry=registry, timeout_ms=1_000), framed(7, "string", "x"))
    assert (caught.value.schema_id, caught.value.retriable) == (7, True)
    assert len(registry.asked) == 10


def test_the_deadline_is_one_for_all_schemas_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(**{f"s{number}": "string" for number in range(20)})
    monkeypatch.setattr(MonotonicClock, "now_ms", lambda _: 100 * len(registry.asked))
    decoder = Avro(registry=registry, timeout_ms=1_000)
    values = [framed(number, "string", "x") for number in range(20)]
    with pytest.raises(SchemaRegistryError, match="did not return schema 10 within 1000 ms"):
        decoded(decoder, *values)
    assert len(registry.asked) == 10
    assert decoded(decoder, *values) == (["x"] * 20, []), "the next call continues after them"
    assert len(registry.asked) == 20


def test_a_schema_that_refers_to_too_many_others() -> None:
    registry = Endless()
    rows, [(row, reason)] = decoded(Avro(registry=registry), framed(7, "string", "x"))
    assert (rows, row) == ([None], 0)
    assert reason.endswith("or it refers to more than 1000")
    assert len(registry.asked) == 1_001


def test_a_registry_that_recovers() -> None:
    class Recovering(Registry):
        def _found(self, name: str) -> Any:
            if len(self.asked) == 2:
                self.schemas = {"s1": "string"}
            return super()._found(name)

    registry = Recovering(s1=status(503))
    assert decoded(Avro(registry=registry), framed(1, "string", "x")) == (["x"], [])
    assert len(registry.asked) == 3


def test_an_interrupt_loses_no_schema() -> None:
    schema = record(("a", "int"))
    value = framed(1, schema, {"a": 7})
    for count in itertools.count(1):
        decoder = Avro(registry=Registry(s1=schema))
        lines = itertools.count(1)

        def interrupt(frame: Any, *_: Any) -> Any:
            if "tables" in frame.f_code.co_filename and next(lines) == count:  # noqa: B023 - used here
                raise KeyboardInterrupt
            return interrupt

        before = sys.gettrace()
        sys.settrace(interrupt)
        try:
            decoder.decode(pa.array([value]))
            break
        except KeyboardInterrupt:
            sys.settrace(before)
            assert decoded(decoder, value) == ([{"a": 7}], [])
        finally:
            sys.settrace(before)
    assert count > 50


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (status(401), "refuses to return schema 1 .*HTTP 401.*; give its client a login"),
        (status(403), "refuses to return schema 1"),
        (status(422, 42201), r"did not return schema 1 \(ConnectionError: HTTP 422\); check its"),
        (status(404), "did not return schema 1 .*404.*; check its address"),
        (TypeError("no"), r"did not return schema 1 \(TypeError: no\)"),
        (ValueError("Expecting value"), r"did not return schema 1 \(ValueError: Expecting value\)"),
    ],
)
def test_a_registry_that_refuses(error: Exception, told: str) -> None:
    registry = Registry(s1=error)
    decoder = Avro(registry=registry)
    with pytest.raises(SchemaRegistryError, match=told) as caught:
        decoded(decoder, framed(1, "string", "x"))
    assert not caught.value.retriable
    assert registry.asked == ["s1"]


def test_fields_that_the_first_schema_lacks_are_told(caplog: pytest.LogCaptureFixture) -> None:
    def order(*fields: tuple[str, Any]) -> Any:
        return record(("id", "int"), ("at", record(*fields, name="At")))

    few, more = order(("x", "int")), order(("x", "int"), ("y", "int"))
    registry = Registry(s1=few, s2=more, s3=few)
    decoder, given = Avro(registry=registry), Avro(few, registry=registry)
    row = {"id": 1, "at": {"x": 2, "y": 3}}
    for number, schema in ((1, few), (2, more), (3, few), (2, more)):
        for each in (decoder, given):
            rows, failures = decoded(each, framed(number, schema, row))
            assert (rows, failures) == ([{"id": 1, "at": {"x": 2}}], [])
    [told] = caplog.messages
    assert told.startswith("Schema 2 has fields that are left out, as schema 1 of the first record")
    assert "['at.y']" in told


@pytest.mark.parametrize(
    ("first", "later", "left_out"),
    [
        # An alias, another branch, and a branch that is new are read, or are errors.
        ({**record(), "fields": [{"name": "new", "type": "int", "aliases": ["old"]}]},
         record(("old", "int")), None),
        (record(("x", record(("a", "int"), name="A"))),
         record(("x", [record(("a", "int"), name="A"), "string"])), None),
        (record(("x", ["null", "int"])), record(("x", "int")), None),
        # What has no Arrow type is skipped.
        (record(("a", "int")), record(("a", "int"), ("b", "int"), ("next", ["null", "R"])),
         "['b', 'next']"),
        (record(("l", {"type": "array", "items": record(("a", "int"), name="A")})),
         record(("l", {"type": "array", "items": record(("b", "int"), ("a", "int"), name="A")})),
         "['l.b']"),
        (record(("a", "int")), record(("a", "int"), *((f"f{n}", "int") for n in range(11_000))),
         "'f19']"),
    ],
)  # fmt: skip
def test_what_is_left_out_is_what_the_resolution_skips(
    first: Any, later: Any, left_out: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    decoder = Avro(registry=Registry(s1=first, s2=later))
    decoder.decode(pa.array([b"\0\0\0\0\1", b"\0\0\0\0\2"]))
    assert len(caplog.messages) == (left_out is not None)
    assert not left_out or left_out in caplog.messages[0]


def test_a_registry_that_must_be_awaited() -> None:
    class Asynchronous:
        async def get_schema(self, schema_id: int) -> Any:
            raise NotImplementedError

        async def get_version(self, subject_name: str, version: int, *, deleted: bool) -> Any:
            raise NotImplementedError

    with pytest.raises(InvalidArgumentError, match="a client whose methods block"):
        decoded(Avro(registry=Asynchronous()), framed(1, "string", "x"))


def test_the_first_schema_must_have_a_type() -> None:
    decoder = Avro(registry=Registry(s1=record(("a", ["null", "R"]))), errors="drop")
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match=r"record has schema 1: .*the schema refers"):
            decoded(decoder, b"\0\0\0\0\1\0")


def test_the_client_of_confluent() -> None:
    pytest.importorskip("authlib")
    from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    registry = SchemaRegistryClient.new_client({"url": "mock://test_avro"})
    registry.register_schema("color", Schema(json.dumps({**COLOR, "namespace": "n"}), "AVRO"))
    top = Schema(
        json.dumps(record(("a", "n.Color"), ("b", "string"))),
        "AVRO",
        [SchemaReference("n.Color", "color", 1)],
    )
    context = SerializationContext("t", MessageField.VALUE)
    value = {"a": "GREEN", "b": "ü"}
    data = AvroSerializer(registry, top)(value, context)
    rows, [(row, reason)] = decoded(Avro(registry=registry), data, b"\0\0\0\3\3")
    assert (rows, row) == ([value, None], 1)
    assert reason.startswith("the registry has no Avro schema 771")
