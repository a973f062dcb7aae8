"""Decodes a column of bytes, one Arrow array at a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.types import DataType, StructField, StructType

from tandem_kafka.spark.arrow_types import arrow_schema
from tandem_kafka.spark.decoding.framing import DecodingError


class Values(Protocol):
    """A way to decode values; hashable, so that a process creates one decoder for it."""

    def decoder(self) -> Callable[[bytes], Any]:
        """Return a function that decodes a value, or raises DecodingError."""


#: Decoders by process id and values.
_decoders: dict[tuple[int, Values], Callable[[bytes], Any]] = {}


def arrow_type(kind: DataType) -> Any:
    """Return the Arrow type for a Spark type."""
    whole = StructType([StructField("value", kind)])
    return arrow_schema(whole).field(0).type


def decode_array(column: Any, values: Values, kind: Any, *, permissive: bool) -> Any:
    """Decode a column; nulls stay null.

    Args:
        column: An Arrow array of binary.
        values: How to decode one value.
        kind: The Arrow type of the result.
        permissive: Return null for a value that cannot be decoded.

    Raises:
        DecodingError: A value cannot be decoded, and `permissive` is False.
        RegistryError: The request to the registry failed.
    """
    key = (os.getpid(), values)
    decode = _decoders.get(key)
    if decode is None:
        decode = _decoders[key] = values.decoder()
    found = [_decoded(each, decode, permissive=permissive) for each in column.to_pylist()]
    try:
        return pa.array(found, type=kind)
    except (pa.ArrowException, OverflowError):
        return pa.array([_fitting(each, kind, permissive=permissive) for each in found], type=kind)


def _decoded(value: bytes | None, decode: Callable[[bytes], Any], *, permissive: bool) -> Any:
    if value is None:
        return None
    try:
        return decode(value)
    except DecodingError:
        if permissive:
            return None
        raise


def _fitting(value: Any, kind: Any, *, permissive: bool) -> Any:
    """Return a value if it fits its type: a decimal may have more digits than declared."""
    try:
        pa.array([value], type=kind)
    except (pa.ArrowException, OverflowError) as error:
        if permissive:
            return None
        raise DecodingError(f"a decoded value does not fit its type: {error}") from None
    return value
