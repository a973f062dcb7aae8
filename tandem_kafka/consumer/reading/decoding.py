"""Record batches of `poll_arrow()` with decoded keys and values. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Final, TypeAlias

import pyarrow as pa

from tandem_kafka.config.external import check_decoder
from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.records import Undecodable, to_record_batch
from tandem_kafka.types import ARROW_COLUMNS, ArrowDecoder, ConsumerRecord

#: What cannot be decoded, by column: its row, and why.
Failures: TypeAlias = Mapping[str, Sequence[tuple[int, str]]]
Column: TypeAlias = tuple[pa.Field, pa.Array]

#: The column that says why a key or value is null.
_ERROR: Final = "error"


class Decoding:
    """Builds record batches whose keys or values are decoded.

    Args:
        columns: The columns to build, besides those that are decoded.
        decoders: By `key` and `value`; perhaps none.
        binary_view: Use the type binary_view for a key or value that is not decoded.

    Raises:
        ArgumentTypeError: A decoder is none.
    """

    def __init__(
        self,
        columns: Sequence[str],
        decoders: Mapping[str, ArrowDecoder],
        *,
        binary_view: bool,
    ) -> None:
        for name, decoder in decoders.items():
            check_decoder(decoder, name)
        self._decoders = decoders
        self._names = (*columns, *(name for name in decoders if name not in columns))
        self._plain = tuple(
            [name for name in columns if name not in decoders and name in ARROW_COLUMNS]
        )
        self._binary_view = binary_view
        self._shows_errors = any(each.errors == "null" for each in decoders.values())

    def batch(
        self,
        records: Sequence[Sequence[ConsumerRecord]],
        others: Mapping[str, Column] = MappingProxyType({}),
    ) -> tuple[pa.RecordBatch, Undecodable | None]:
        """Return the record batch; see `arrow_form.Build`.

        Args:
            records: The records.
            others: The columns that are no part of a record, by their names.

        Raises:
            InvalidArgumentError: A field of a flattened column has the name of another column, the
                column has no fields, or a decoder returned another number of values.
        """
        plain = to_record_batch(records, self._plain, binary_view=self._binary_view)
        columns = {name: (plain.schema.field(name), plain.column(name)) for name in self._plain}
        columns.update(others)
        failures: dict[str, Sequence[tuple[int, str]]] = {}
        for name, decoder in self._decoders.items():
            decoded, failures[name] = _decoded(records, name, decoder)
            _check_decoded(name, sum(map(len, records)), len(decoded), failures[name])
            columns[name] = (pa.field(name, decoded.type), decoded)
        raised = [
            Undecodable(row, name, reason)
            for name, decoder in self._decoders.items()
            if decoder.errors == "raise"
            for row, reason in failures[name]
        ]
        if raised:
            return plain, min(raised)
        rows = sum(map(len, records))
        return self._kept(self._assembled(columns, failures, rows), failures), None

    def _assembled(
        self, columns: Mapping[str, Column], failures: Failures, rows: int
    ) -> pa.RecordBatch:
        listed: list[Column] = []
        flat = {name for name, decoder in self._decoders.items() if decoder.flatten}
        taken = {name for name in self._names if name not in flat}
        if self._shows_errors:
            taken.add(_ERROR)
        for name in self._names:
            if name in flat:
                fields = self._flattened(name, columns[name][1], taken)
                taken |= {field.name for field, _ in fields}
                listed += fields
            else:
                listed.append(columns[name])
        if self._shows_errors:
            listed.append((pa.field(_ERROR, pa.string()), self._reasons(failures, rows)))
        if not listed:  # a batch without columns has rows as well
            return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
        schema = pa.schema([field for field, _ in listed])
        return pa.RecordBatch.from_arrays([array for _, array in listed], schema=schema)

    def _flattened(self, name: str, array: pa.Array, taken: Container[str]) -> list[Column]:
        if pa.types.is_null(array.type):
            return []  # no document has told the fields yet
        if not pa.types.is_struct(array.type):
            msg = f"{name}: only structs can be flattened, and this one decodes to {array.type}"
            raise InvalidArgumentError(msg)
        for field in array.type:
            if field.name in taken:
                msg = (
                    f"{name}: the field {field.name!r} has the name of another column: leave that "
                    "out of columns, or do not flatten"
                )
                raise InvalidArgumentError(msg)
        fields = [field.with_nullable(True) for field in array.type]
        return list(zip(fields, array.flatten(), strict=True))

    def _reasons(self, failures: Failures, rows: int) -> pa.Array:
        """Return the column of reasons; null where key and value are right."""
        reasons: list[str | None] = [None] * rows
        for name, found in failures.items():
            if self._decoders[name].errors == "null":
                for row, reason in found:
                    before = f"{reasons[row]}; " if reasons[row] else ""
                    reasons[row] = f"{before}{name}: {reason}"
        return pa.array(reasons, pa.string())

    def _kept(self, batch: pa.RecordBatch, failures: Failures) -> pa.RecordBatch:
        """Return the batch without the records to be dropped."""
        dropped = {
            row
            for name, found in failures.items()
            if self._decoders[name].errors == "drop"
            for row, _ in found
        }
        if not dropped:
            return batch
        kept = [row not in dropped for row in range(batch.num_rows)]
        mask = pa.array(kept)
        if not any(map(_is_view, batch.schema.types)):
            return batch.filter(mask)
        columns = [
            _kept_views(each, kept) if _is_view(each.type) else each.filter(mask)
            for each in batch.columns
        ]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _is_view(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_binary_view(data_type) or pa.types.is_string_view(data_type))


def _kept_views(column: pa.Array, kept: Sequence[bool]) -> pa.Array:
    """Return a column of views, which pyarrow cannot filter, without some rows."""
    parts, begin = [column.slice(0, 0)], 0
    for keep, run in groupby(kept):
        length = sum(1 for _ in run)
        if keep:
            parts.append(column.slice(begin, length))
        begin += length
    return pa.concat_arrays(parts)


def _decoded(
    records: Sequence[Sequence[ConsumerRecord]], name: str, decoder: ArrowDecoder
) -> tuple[pa.Array, Sequence[tuple[int, str]]]:
    decode: Callable[..., tuple[pa.Array, Sequence[tuple[int, str]]]] = decoder.decode
    if not getattr(decoder, "reads_schema_header", False):
        return decode(to_record_batch(records, (name,), binary_view=True).column(0))
    names = (name, f"header:__{name}_schema_id")
    column, headers = to_record_batch(records, names, binary_view=True).columns
    return decode(column, headers) if headers.null_count < len(headers) else decode(column)


def _check_decoded(name: str, rows: int, values: int, failed: Sequence[tuple[int, str]]) -> None:
    if values != rows:
        msg = f"{name}: the decoder must return {rows} values, and returned {values}"
        raise InvalidArgumentError(msg)
    for row, _ in failed:
        if not 0 <= row < rows:
            msg = f"{name}: the decoder says that row {row} of {rows} cannot be decoded"
            raise InvalidArgumentError(msg)
