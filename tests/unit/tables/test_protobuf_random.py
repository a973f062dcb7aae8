"""Any message of Protobuf, and any bytes: what google.protobuf reads, or null with a reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pytest.importorskip("google.protobuf")

from google.protobuf.message import DecodeError  # noqa: E402
from google.protobuf.unknown_fields import UnknownFieldSet  # noqa: E402

from tandem_kafka.tables import Protobuf  # noqa: E402 - it imports pyarrow
from tests.tier import examples  # noqa: E402
from tests.unit.tables.protobuf_values import (  # noqa: E402
    REPEATED,
    WRAPPED,
    Three,
    Two,
    check,
    decoded,
    field,
    message_class,
    plain,
    same,
    small,
)

pytestmark = pytest.mark.usefixtures("native_extension")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
DRAWN: dict[str, Any] = {
    "double": st.floats(),
    "float": st.floats(width=32),
    "bool": st.booleans(),
    "string": TEXT,
    "bytes": st.binary(max_size=5),
    **dict.fromkeys(("int64", "sfixed64", "sint64"), st.integers(-(2**63), 2**63 - 1)),
    **dict.fromkeys(("uint64", "fixed64"), st.integers(0, 2**64 - 1)),
    **dict.fromkeys(("int32", "sfixed32", "sint32"), st.integers(-(2**31), 2**31 - 1)),
    **dict.fromkeys(("uint32", "fixed32"), st.integers(0, 2**32 - 1)),
}
MICROS = st.integers(0, 10**6 - 1).map(lambda micros: micros * 1_000)
INNER = st.fixed_dictionaries(
    {},
    optional={
        "a": DRAWN["int32"],
        "b": st.lists(TEXT, max_size=2),
        "at": st.fixed_dictionaries({}, optional={"seconds": st.integers(-(10**10), 10**10),
                                                  "nanos": MICROS}),
        "low": st.fixed_dictionaries(
            {}, optional={"x": DRAWN["sint64"],
                          "m": st.dictionaries(DRAWN["int32"], st.booleans(), max_size=2)}),
    },
)  # fmt: skip
COLORS = st.sampled_from([0, -7, 900, 5])
TOP: dict[str, Any] = {
    **{f"s_{kind}": values for kind, values in DRAWN.items()},
    **{f"o_{kind}": values for kind, values in DRAWN.items()},
    **{f"r_{kind}": st.lists(values, max_size=3) for kind, values in DRAWN.items()},
    **{f"w_{kind}": st.fixed_dictionaries({}, optional={"value": DRAWN[kind.lower()]})
       for kind in WRAPPED},
    "color": COLORS, "colors": st.lists(COLORS, max_size=3), "inner": INNER,
    "inners": st.lists(INNER, max_size=3),
    "took": st.sampled_from([{"seconds": -1, "nanos": -999_999_000}, {"nanos": -2_000}, {}]),
    "m1": st.dictionaries(TEXT, INNER, max_size=3),
    "m2": st.dictionaries(DRAWN["sint32"], COLORS, max_size=3),
    "c_text": TEXT, "c_inner": INNER, "c_color": COLORS, "last": DRAWN["int32"],
    "ws": st.lists(st.fixed_dictionaries({"value": DRAWN["int64"]}), max_size=2),
}  # fmt: skip
PARTS = st.lists(st.sampled_from(sorted(TOP)), max_size=6, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: TOP[name] for name in names})
)
MESSAGES = st.lists(PARTS.map(lambda part: Three(**part).SerializeToString()), max_size=4)


@settings(max_examples=examples(300))
@given(st.lists(MESSAGES.map(b"".join), max_size=4))
def test_it_returns_what_google_returns(values: list[bytes]) -> None:
    check(Three, *values)


_GARBAGE = st.lists(
    st.sampled_from([b"\0", b"\x28", b"\x82\4", b"\xfa\3", b"\xa2\4", b"\x8a\4", b"\xba\4", b"\1",
                     b"\x93\x4e", b"\x94\x4e", b"\2", b"\xca\1", b"\xff\xff\xff\xff\x0f", b"\x12"])
    | st.binary(max_size=3) | PARTS.map(lambda part: Three(**part).SerializeToString())
).map(b"".join)  # fmt: skip
#: What google.protobuf takes for an unknown field, or leaves to its caller.
STRICTER = ("where its type has", "utf-8", "out of range", "finer than", "is required")


def _sets_entries_aside(message: Any) -> bool:
    """Whether google.protobuf in C takes an entry with unknown fields for an unknown field."""
    maps = {
        each.number
        for each in message.DESCRIPTOR.fields
        if each.message_type and each.message_type.GetOptions().map_entry
    }
    inner: list[Any] = []
    for each, value in message.ListFields():
        if each.number in maps:
            inner += value.values()
        elif each.message_type:
            inner += [value] if hasattr(value, "ListFields") else value
    return bool(maps & {each.field_number for each in UnknownFieldSet(message)}) or any(
        _sets_entries_aside(each) for each in inner if hasattr(each, "ListFields")
    )


@settings(max_examples=examples(500))
@given(st.lists(_GARBAGE, max_size=4), st.data())
def test_garbage_is_a_value_of_google_or_null(values: list[bytes], data: st.DataObject) -> None:
    values = [value[: data.draw(st.integers(0, len(value)))] for value in values] + values
    for kind in (Three, Two):
        column, failures = Protobuf(kind).decode(pa.array(values, pa.binary()))
        column.validate(full=True)
        reasons = dict(failures)
        for row, value in enumerate(values):
            assert column[row].is_valid == (row not in reasons)
            try:
                expected = kind.FromString(value)
            except (DecodeError, UnicodeDecodeError):
                assert row in reasons
                continue
            if row in reasons:
                assert any(each in reasons[row] for each in STRICTER), reasons[row]
            elif kind is Three and not _sets_entries_aside(expected):
                assert repr(same(column[row].as_py())) == repr(plain(expected))


def test_claims_are_not_believed() -> None:
    claim = b"\xff\xff\xff\xff\x07"
    # To believe each of them would take hours, or all memory.
    values = [b"\x4a" + claim, b"\xca\1" + claim, b"\xa2\4" + claim, b"\x82\4" * 9 + claim] * 2_000
    rows, failures = decoded(Protobuf(Three), *values)
    assert len(failures) == len(rows)


def test_a_value_may_have_a_million_items() -> None:
    """A step for every item and every earlier one would take longer than a test may."""
    million = 10**6
    values = [
        b"\xca\1\xc0\x84\x3d" + b"\1" * million,  # packed
        b"\xc8\1\1" * million,
        b"\xa2\4\0" * million,  # one key
        b"\xfa\3\0" * million,  # merged
        b"\x28\1" * million,  # a scalar
        b"\xba\4\0\xc2\4\0" * million,  # a oneof
    ]
    rows, failures = decoded(Protobuf(Three), *values)
    assert not failures
    assert (len(rows[0]["r_int32"]), len(rows[1]["r_int32"]), len(rows[2]["m1"])) == (
        million, million, 1)  # fmt: skip


@pytest.mark.full("it takes much memory")
def test_empty_messages_may_not_take_all_memory() -> None:
    wide = "".join(field(n, f"f{n}", "int64") for n in range(1, 2_001))
    fields = field(1, "a", ".s.M.W", REPEATED) + f'nested_type {{ name: "W" {wide} }}'
    decoder = Protobuf(message_class("s.M", small(fields)))
    rows, [(row, told)] = decoded(decoder, b"\x0a\0" * 10**6, b"\x0a\0" * 500)
    assert (row, rows[0], len(rows[1]["a"])) == (0, None, 500)
    assert "the value has too many objects that are null or almost empty" in told
