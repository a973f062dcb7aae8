"""The columns of a query, and the conversion of record batches to them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from pyspark_tandem_kafka.schema import full_schema
from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.types import TopicPartition

#: Spark's column names with the consumer's, where they differ.
_NAMES: Final = {"timestampType": "timestamp_type"}
#: Taken from the range, not from its records.
_CONSTANT: Final = frozenset({"topic", "partition"})
#: A record may lack any of them.
_NULLABLE: Final = frozenset({"key", "value", "headers"})
#: The Java client's value for a record without a timestamp.
_NO_TIMESTAMP_MS: Final = -1


@dataclass(frozen=True)
class RowShape:
    """The requested columns, in order."""

    schema: StructType

    @classmethod
    def of(cls, schema: StructType, *, headers: bool) -> RowShape:
        """Check a requested schema.

        Raises:
            InvalidArgumentError: It has an unknown column, a wrong type, or a NOT NULL of a column
                that may be null.
        """
        known = {each.name: each for each in full_schema(headers=headers).fields}
        for each in schema.fields:
            if each.name == "headers" and not headers:
                raise InvalidArgumentError(
                    "the column 'headers' needs the option includeHeaders=true"
                )
            field = known.get(each.name)
            if field is None or field.dataType != each.dataType:
                names = ", ".join(f"{n} {f.dataType.simpleString()}" for n, f in known.items())
                raise InvalidArgumentError(
                    f"there is no column {each.name} {each.dataType.simpleString()}; "
                    f"the columns are {names}"
                )
            if each.name in _NULLABLE and not each.nullable:
                raise InvalidArgumentError(
                    f"the column {each.name} may be null: leave out its NOT NULL"
                )
        fields = [StructField(each.name, each.dataType, each.nullable) for each in schema.fields]
        return cls(StructType(fields))

    @property
    def required(self) -> tuple[str, ...]:
        """The consumer's columns to read; always with the offset, which marks the range's end."""
        names = [name for name in self.schema.names if name not in _CONSTANT]
        return tuple(dict.fromkeys([*(_NAMES.get(n, n) for n in names), "offset"]))

    def converter(self, tp: TopicPartition) -> Converter:
        """Return a converter for the record batches of a partition."""
        return Converter(to_arrow_schema(self.schema, **_utc()), tp)


@functools.cache
def _utc() -> dict[str, Any]:
    """Return the argument for UTC. Looking at the signature takes longer than making a schema."""
    if "timezone" in signature(to_arrow_schema).parameters:
        return {"timezone": "UTC"}
    return {"timestamp_utc": True}  # before Spark 4.2


class Converter:
    """Converts batches to the schema that Spark expects; columns of the right type are reused."""

    def __init__(self, schema: pa.Schema, tp: TopicPartition) -> None:
        self._schema = schema
        self._constants: dict[str, str | int] = {"topic": tp.topic, "partition": tp.partition}
        self._repeated: dict[str, pa.Array] = {}

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch in the schema that Spark expects."""
        arrays = [self._column(field, batch) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, field: pa.Field, batch: pa.RecordBatch) -> pa.Array:
        if field.name in _CONSTANT:
            return self._constant(field, batch.num_rows)
        array = batch.column(_NAMES.get(field.name, field.name))
        if field.name == "timestamp":
            return _with_default(array, _NO_TIMESTAMP_MS).cast(field.type)
        if field.name == "timestampType":
            return _with_default(array, -1).cast(field.type)
        if field.name == "headers":
            return _headers(array, field.type)
        return array if array.type == field.type else array.cast(field.type)

    def _constant(self, field: pa.Field, count: int) -> pa.Array:
        kept = self._repeated.get(field.name)
        if kept is None or len(kept) < count:
            scalar = pa.scalar(self._constants[field.name], field.type)
            kept = self._repeated[field.name] = pa.repeat(scalar, max(count, 1024))
        return kept.slice(0, count)


def _with_default(array: pa.Array, value: int) -> pa.Array:
    if not array.null_count:
        return array
    integers = array.cast(pa.int64())
    return integers.fill_null(value).cast(array.type)


def _headers(array: pa.ListArray, declared: pa.ListType) -> pa.Array:
    """Return headers in the form of Spark's connector: null if a record has none."""
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import; planning needs none

    offsets, structs = array.offsets, array.values
    parts: Sequence[pa.Array] = [structs.field("key"), structs.field("value")]
    fields = list(declared.value_type)
    cast = [part.cast(field.type) for part, field in zip(parts, fields, strict=True)]
    values = pa.StructArray.from_arrays(cast, fields=fields)
    first = offsets.slice(0, len(array))
    empty = pc.equal(first, offsets.slice(1, len(array)))
    made = pa.ListArray.from_arrays(offsets, values, mask=empty)
    return made.cast(declared) if made.type != declared else made
