"""Decoders for numbers of a fixed width, as the serializers of Kafka's Java clients write them."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from tandem_kafka.tables.decoder import check_errors, shown
from tandem_kafka.types import DecodeErrors

#: The codes of `array` for the types.
_CODES: Final = {
    pa.int16(): "h", pa.int32(): "i", pa.int64(): "q", pa.float32(): "f", pa.float64(): "d",
}  # fmt: skip


class _Number:
    """What these decoders have in common.

    Args:
        errors: What happens to bytes of another length, as for ``Json``.

    Attributes:
        schema: The type of the decoded column.
        errors: What happens to a record that cannot be decoded.
        flatten: False: a number has no fields.

    Raises:
        InvalidArgumentError: ``errors`` is none of these.
    """

    schema: ClassVar[pa.DataType]
    flatten: ClassVar = False

    def __init__(self, *, errors: DecodeErrors = "raise") -> None:
        check_errors(errors)
        self.errors: DecodeErrors = errors

    def __repr__(self) -> str:
        """Show the type, and what happens to errors."""
        if not hasattr(self, "errors"):  # in a traceback of its constructor
            return f"<{type(self).__name__} without options>"
        return shown(self, self.schema, self.errors)

    def decode(self, column: pa.Array) -> tuple[pa.Array, Sequence[tuple[int, str]]]:
        """Return the decoded column, and what could not be decoded: its row, and why.

        Such a row is null. Works on any column of binary.
        """
        width = self.schema.bit_width // 8
        contents = column.cast(pa.binary())
        lengths = pc.binary_length(contents)
        fits = pc.fill_null(pc.equal(lengths, width), fill_value=False)
        replaced = pc.if_else(fits, contents, pa.scalar(b"\0" * width, pa.binary()))
        [_, data] = replaced.cast(pa.binary(width)).buffers()
        numbers = array(_CODES[self.schema])
        numbers.frombytes(memoryview(data)[: len(column) * width])
        if sys.byteorder == "little":
            numbers.byteswap()
        found = pa.Array.from_buffers(self.schema, len(column), [None, pa.py_buffer(numbers)])
        wrong = pc.indices_nonzero(pc.and_(pc.invert(fits), column.is_valid())).to_pylist()
        name = type(self).__name__
        failures = [(row, f"{lengths[row].as_py()} bytes, and {name} has {width}") for row in wrong]
        return pc.if_else(fits, found, pa.scalar(None, self.schema)), failures


class Short(_Number):
    """Decodes int16, as ``ShortSerializer`` writes it: 2 bytes, the highest first.

    Args:
        errors: What happens to bytes of another length, as for `Json`.

    Raises:
        InvalidArgumentError: ``errors`` is none of these.
    """

    schema = pa.int16()


class Integer(_Number):
    """Decodes int32, as ``IntegerSerializer`` writes it: 4 bytes, the highest first.

    Arguments and errors are those of `Short`.
    """

    schema = pa.int32()


class Long(_Number):
    """Decodes int64, as ``LongSerializer`` writes it: 8 bytes, the highest first.

    Arguments and errors are those of `Short`.
    """

    schema = pa.int64()


class Float(_Number):
    """Decodes float32, as ``FloatSerializer`` writes it: 4 bytes, the highest first.

    Arguments and errors are those of `Short`.
    """

    schema = pa.float32()


class Double(_Number):
    """Decodes float64, as ``DoubleSerializer`` writes it: 8 bytes, the highest first.

    Arguments and errors are those of `Short`.
    """

    schema = pa.float64()
