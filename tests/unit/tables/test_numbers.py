"""Numbers as the serializers of Kafka's Java clients write them."""

from __future__ import annotations

import struct
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from tandem_kafka.errors import InvalidArgumentError  # noqa: E402
from tandem_kafka.tables import Double, Float, Integer, Long, Short  # noqa: E402 - it imports pyarrow

KINDS = [
    (Short, ">h", [0, -1, 2**15 - 1, -(2**15)]),
    (Integer, ">i", [0, -1, 2**31 - 1, -(2**31)]),
    (Long, ">q", [0, -1, 2**63 - 1, -(2**63)]),
    (Float, ">f", [0.0, -1.5, 2.0**100, float("inf")]),
    (Double, ">d", [0.0, -1.5, 1e300, float("-inf")]),
]


@pytest.mark.parametrize("kind", ["binary", "large_binary", "binary_view"])
@pytest.mark.parametrize(("decoder", "code", "numbers"), KINDS)
def test_numbers_of_each_width(decoder: Any, code: str, numbers: list[Any], kind: str) -> None:
    made = decoder()
    column = pa.array([struct.pack(code, each) for each in numbers], getattr(pa, kind)())
    found, failures = made.decode(column)
    assert (found.to_pylist(), found.type, failures) == (numbers, made.schema, [])
    assert made.decode(column.slice(1, 2))[0].to_pylist() == numbers[1:3]
    assert made.decode(column.slice(0, 0))[0].to_pylist() == []


def test_other_bytes_are_null_and_told() -> None:
    column = pa.array([b"\0" * 7 + b"\5", None, b"", b"abc", b"\xff" * 8], pa.binary())
    found, failures = Long(errors="null").decode(column)
    assert found.to_pylist() == [5, None, None, None, -1]
    assert failures == [(2, "0 bytes, and Long has 8"), (3, "3 bytes, and Long has 8")]


def test_the_argument_is_checked() -> None:
    with pytest.raises(InvalidArgumentError, match="errors must be one of raise, null, drop, got"):
        Integer(errors="ignore")  # type: ignore[arg-type]
