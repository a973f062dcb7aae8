"""`Json`: the decoder of JSON documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import pyarrow as pa

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.tables.decoder import Decoder
from tandem_kafka.types import DecodeErrors


class Json(Decoder):
    """Decodes JSON documents to the types of a schema, usually into a column of structs.

    A document is checked whole (RFC 8259); of names that are read, none may be in an object twice.
    Nothing is converted that would change: 1.5 is no int64, "1" no number, 0.005 no decimal(18, 2);
    2.0 and 1e16 are integers. A timestamp or date is a string in ISO 8601, in UTC unless it has an
    offset, or a number in the unit of the type; a value of type binary is base64. The id of a
    schema that Confluent's serializer writes before a document is skipped, as is a byte order mark.
    Fields that are missing are null, or an error if the schema says `nullable=False`. Fields that
    the schema does not name are ignored.
    The document `null`, like a tombstone, is null.

    Args:
        schema: The fields of the documents, or the type of documents that are no objects. Types
            are null, bool, integers, float32, float64, decimal128, date32, timestamp, string,
            binary, list, struct, map, and the large variants of string, binary and list.
        errors: ``"raise"``: ``poll_arrow()`` first returns the records before it, and then raises
            `RecordDeserializationError` until a seek. ``"null"``: the value is null, and the
            column ``error`` says why. ``"drop"``: the record is left out, and counted in the
            metric ``records-dropped-total``.
        flatten: The fields become columns of the batch, in place of the column of structs.

    Raises:
        InvalidArgumentError: A type cannot be read from JSON, or ``errors`` is none of these.
        ImportError: The native extension is not loaded.
    """

    def __init__(
        self,
        schema: pa.Schema | pa.DataType,
        *,
        errors: DecodeErrors = "raise",
        flatten: bool = False,
    ) -> None:
        super().__init__(errors, flatten=flatten)
        if not hasattr(schema, "__arrow_c_schema__"):
            msg = (
                "schema must be a pyarrow.Schema or a type such as "
                f'pa.struct([("id", pa.int64())]), got {schema!r}'
            )
            raise InvalidArgumentError(msg)
        self._use(lambda: self._native.ColumnDecoder.json(schema))
        #: How many documents tell the schema; None once it is known.
        self._samples: int | None = None

    @classmethod
    def infer(
        cls, samples: int = 1_000, *, errors: DecodeErrors = "raise", flatten: bool = False
    ) -> Self:
        """Return a decoder that takes the schema from the first documents that it decodes.

        Later batches keep that schema. Fields have the types null, bool, int64, uint64, float64,
        string, list and struct. Another run may see other documents first: give a schema if the
        type of the result matters.

        No digit of an integer is lost: a field with integers of 2^63 to 2^64-1 is uint64. Larger
        ones, negative ones among these, and integers beyond 2^53 among fractions need a schema.

        Args:
            samples: How many documents to look at; not more than the first batch has.
            errors: As in the constructor.
            flatten: As in the constructor.

        Raises:
            InvalidArgumentError: ``samples`` is not positive. Raised by ``poll_arrow()`` if a field
                has types that have nothing in common, or no type for all digits.
        """
        if not isinstance(samples, int) or samples < 1:  # type: ignore[redundant-expr]
            msg = f"samples must be a positive int, got {samples!r}"
            raise InvalidArgumentError(msg)
        made = cls(pa.null(), errors=errors, flatten=flatten)
        made._samples = samples
        return made

    def decode(self, column: pa.Array) -> tuple[pa.Array, Sequence[tuple[int, str]]]:
        """Return the decoded column, and what could not be decoded: its row, and why.

        Such a row is null. Works on any column of binary or string.
        """
        samples = self._samples
        if samples is not None and column.null_count < len(column):
            self._use(lambda: self._native.ColumnDecoder.infer_json(column, samples))
            if not pa.types.is_null(self.schema):
                self._samples = None
        return super().decode(column)
