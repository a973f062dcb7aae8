"""Deserializers: their arguments and errors."""

from __future__ import annotations

import gc
import json
import pickle
import weakref
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tandem_kafka.errors import KafkaError, RecordDeserializationError
from tandem_kafka.state.partition import Position
from tandem_kafka.types import ConsumerRecord
from tests.implementations import IMPLEMENTATIONS, require_implementation
from tests.unit.consumer import reading as module
from tests.unit.consumer.reading import A, Reading
from tests.unit.records import making
from tests.unit.records.making import Rec, batch


@pytest.fixture(params=IMPLEMENTATIONS, autouse=True)
def implementation(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The implementation that reads the records."""
    require_implementation(request.param)
    monkeypatch.setattr(module, "open_reader", making.open_reader)
    with making.using(request.param):
        yield


def failing(raising: Callable[[Any], Any], **options: Any) -> RecordDeserializationError:
    """Return the error for a record."""
    reading = Reading(A, **{"value_deserializer": raising, **options})
    reading.fetched(A, 0)
    with pytest.raises(RecordDeserializationError) as caught:
        reading.collect()
    assert reading.position(A) == 0
    return caught.value


class Awkward(Exception):  # noqa: N818 - a name that a user might choose
    """Its constructor has special arguments."""

    __slots__ = ("slot",)

    def __init__(self, code: int, *, more: str) -> None:
        super().__init__()
        self.code = code
        self.more = more
        self.slot = "slot"


class Refusing(Exception):  # noqa: N818 - a name that a user might choose
    """It cannot be subclassed."""

    def __init_subclass__(cls) -> None:
        raise TypeError("final")


class ReadOnlyError(ValueError):
    """It has a field that cannot be set."""

    @property
    def offset(self) -> int:
        return 7


class Meta(type):
    """A user's metaclass."""


class WithMeta(Exception, metaclass=Meta):  # noqa: N818 - a name that a user might choose
    """It has another metaclass."""


def raising(error: BaseException) -> Callable[[Any], Any]:
    def deserialize(_: Any) -> Any:
        raise error

    return deserialize


def test_a_json_error() -> None:
    error = failing(lambda _: json.loads("{"))
    assert isinstance(error, json.JSONDecodeError)
    assert (error.pos, error.doc, error.lineno) == (1, "{", 1)
    assert "Expecting property name" in error.msg
    assert (error.partition, error.offset, error.value) == (A, 0, b"0")


def test_a_unicode_error() -> None:
    error = failing(lambda _: b"\xff".decode())
    assert isinstance(error, UnicodeDecodeError)
    assert (error.encoding, error.object, error.start, error.end) == ("utf-8", b"\xff", 0, 1)
    assert error.reason == "invalid start byte"


@pytest.mark.parametrize(
    "original",
    [
        KeyError("field"),
        ValueError("a", 1),
        OSError(2, "no such file", "name"),
        AttributeError("no", name="no", obj=1),
        ImportError("no", name="module", path="path"),
        SyntaxError("bad", ("file", 3, 4, "text")),
        ET.ParseError("bad xml"),
        ExceptionGroup("many", [ValueError(1)]),
        Awkward(5, more="m"),
        WithMeta("meta"),
        KafkaError("theirs"),
        ZeroDivisionError(),
        Exception("plain"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_the_error_has_the_type_that_was_raised(original: Exception) -> None:
    error = failing(raising(original))
    assert isinstance(error, type(original))
    assert error.__cause__ is original
    assert error.args == original.args
    for name, value in vars(original).items():
        assert getattr(error, name) == value
    for name in ("name", "obj", "errno", "filename", "lineno", "exceptions", "slot", "path"):
        if hasattr(original, name):
            assert getattr(error, name) == getattr(original, name)
    assert (error.origin, error.partition, error.offset) == ("value", A, 0)
    assert (error.key, error.value, error.headers) == (None, b"0", [])
    assert "cannot deserialize the value of a-0 at offset 0" in str(error)
    assert type(original).__name__ in str(error)
    assert "seek to offset 1" in str(error)


@pytest.mark.parametrize(
    "original", [Refusing("no"), ReadOnlyError("no"), StopIteration(1), StopAsyncIteration()]
)
def test_an_error_that_cannot_be_combined_is_the_plain_one(original: Exception) -> None:
    error = failing(raising(original))
    assert type(error) is RecordDeserializationError
    assert error.__cause__ is original
    assert not isinstance(error, StopIteration)


def test_the_error_can_be_pickled() -> None:
    failed = failing(lambda _: json.loads("{"))
    failed.advice = "do this"
    error = pickle.loads(pickle.dumps(failed))
    assert str(error) == str(failed)
    assert str(error).endswith("; do this")
    assert isinstance(error, json.JSONDecodeError)
    assert isinstance(error, RecordDeserializationError)
    assert (error.pos, error.offset, error.partition) == (1, 0, A)


def test_a_base_exception_is_raised_unchanged() -> None:
    reading = Reading(A, value_deserializer=raising(KeyboardInterrupt()))
    reading.fetched(A, 0)
    with pytest.raises(KeyboardInterrupt):
        reading.collect()
    assert reading.position(A) == 0


def test_records_before_the_error_come_first_and_the_position_stays() -> None:
    reading = Reading(A, value_deserializer=lambda data: 1 // (int(data) - 2))
    reading.fetched(A, 0, 5)
    assert [record.value for record in reading.collect()[A]] == [-1, -1]
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            reading.collect()
        assert reading.position(A) == 2
    reading.state(A).set_position(Position(3))
    reading.fetched(A, 3, 2)
    assert [record.value for record in reading.collect()[A]] == [1, 0]


class Full:
    """A deserializer of kafka-python 3."""

    def deserialize(self, topic: str, headers: list[Any], data: bytes | None) -> Any:
        headers.append(("seen", b"1"))
        return topic, data


class Old:
    """A deserializer of kafka-python 2."""

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        return topic, data


def test_the_arguments_of_a_deserializer() -> None:
    data = batch([Rec(None, b"k", [(b"h", b"v")]), Rec(b"v")])
    for options, expected in [
        ({"value_deserializer": Full()}, [(b"k", ("a", None)), (None, ("a", b"v"))]),
        ({"key_deserializer": Old()}, [(("a", b"k"), None), (("a", None), b"v")]),
        (
            {"key_deserializer": repr, "value_deserializer": repr},
            [("b'k'", "None"), ("None", "b'v'")],
        ),
    ]:
        reading = Reading(A, **options)
        reading.fetched(A, 0, data=data)
        found = reading.collect()[A]
        assert isinstance(found, list)
        assert [(record.key, record.value) for record in found] == expected
        assert {type(record) for record in found} == {ConsumerRecord}
        assert [each.serialized_key_size for each in found] == [1, -1]
        assert [each.serialized_value_size for each in found] == [-1, 1]
        lengths = [2, 1] if isinstance(options.get("value_deserializer"), Full) else [1, 0]
        assert [len(record.headers) for record in found] == lengths


class Document(dict[str, Any]):
    """A deserialized value that supports weak references."""


def test_a_cycle_through_a_deserialized_value_is_collected() -> None:
    reading = Reading(A, value_deserializer=lambda data: Document(data=data))
    reading.fetched(A, 0, 1)
    [record] = reading.collect()[A]
    record.value["record"] = record
    gone = weakref.ref(record.value)
    reading.collect()
    del record
    gc.collect()
    assert gone() is None


class Looking:
    """Its destructor looks at records."""

    def __init__(self, look: Callable[[], object]) -> None:
        self.look = look

    def __del__(self) -> None:
        self.look()


def test_a_destructor_may_look_at_the_records_that_a_loop_is_passing() -> None:
    """The record that the loop has returned, and the one that was looked up, are of one index."""
    reading = Reading(A, value_deserializer=lambda data: data)
    reading.fetched(A, 0, 5)
    records = reading.collect()[A]
    looked: list[int] = []
    iterator = iter(records)
    held = next(iterator)
    records[0].headers.append(("of the user", Looking(lambda: looked.append(records[0].offset))))  # type: ignore[arg-type]
    assert [record.offset for record in iterator] == [1, 2, 3, 4]
    assert held.offset == records[0].offset == 0
    records[0].headers.clear()
    assert looked == [0]
