"""Records as an Arrow record batch.

The native extension builds it without the GIL, directly from its columns. For records that are
Python objects (from the Python implementation or old message formats), it is built here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.runtime.native import native
from tandem_kafka.types import ARROW_COLUMNS, ConsumerRecord

if TYPE_CHECKING:
    import pyarrow as pa

#: The maximum size of a column of type `binary`.
_BINARY_MAX_BYTES: Final = 2**31 - 1
#: Comes before the name of one header.
_HEADER: Final = "header:"


class Undecodable(NamedTuple):
    """The first record that cannot be decoded.

    Attributes:
        row: Its number among the records.
        origin: `key` or `value`.
        reason: Why.
    """

    row: int
    origin: str
    reason: str


def check_arrow_columns(
    columns: Sequence[str] | None, others: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the columns to build, all by default.

    Args:
        columns: The columns that were asked for.
        others: Columns that there are besides those of each record.

    Raises:
        InvalidArgumentError: A column does not exist, or is named twice.
        ImportError: pyarrow is not installed.
    """
    try:
        import pyarrow as _  # noqa: F401, ICN001, PLC0415 - an optional dependency
    except ImportError as error:
        msg = "poll_arrow() needs pyarrow; run: pip install tandem-kafka[arrow]"
        raise ImportError(msg) from error
    if columns is None:
        return (*ARROW_COLUMNS, *others)
    if isinstance(columns, str):
        msg = f"columns must be a sequence of names, got the string {columns!r}"
        raise InvalidArgumentError(msg)
    known = (*ARROW_COLUMNS, *others)
    unknown = [name for name in columns if name not in known]
    if unknown:
        msg = f"column {unknown[0]!r} does not exist; columns are {', '.join(known)}"
        raise InvalidArgumentError(msg)
    twice = [name for number, name in enumerate(columns) if name in columns[:number]]
    if twice:
        msg = f"columns names {twice[0]!r} twice"
        raise InvalidArgumentError(msg)
    return tuple(columns)


def to_record_batch(
    sequences: Sequence[Sequence[ConsumerRecord]], columns: tuple[str, ...], *, binary_view: bool
) -> pa.RecordBatch:
    """Return the records of all sequences in order; each sequence has one partition.

    A column `header:NAME` has the first header of that name, null for records without it.
    """
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency

    if native is not None and all(isinstance(each, native.Records) for each in sequences):
        return pa.record_batch(native.to_arrow(sequences, columns, binary_view=binary_view))
    records = list(chain.from_iterable(sequences))
    binary = pa.binary_view() if binary_view else pa.binary()
    fields = [_field(pa, name, _payload_type(pa, name, records, binary)) for name in columns]
    arrays = [_array(pa, field, records) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _payload_type(pa: Any, name: str, records: Sequence[ConsumerRecord], binary: Any) -> Any:
    """Return the type of keys or values: views if a plain column would be too large."""
    if name not in {"key", "value"}:
        return binary
    size = sum(len(getattr(record, name) or b"") for record in records)
    return binary if size <= _BINARY_MAX_BYTES else pa.binary_view()


def _field(pa: Any, name: str, binary: Any) -> Any:
    if name.startswith(_HEADER):
        return pa.field(name, pa.binary())
    header = pa.struct([pa.field("key", pa.string(), nullable=False), ("value", pa.binary())])
    types = {
        "topic": pa.dictionary(pa.int32(), pa.string()),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("ms", "UTC"),
        "timestamp_type": pa.int8(),
        "key": binary,
        "value": binary,
        "headers": pa.list_(pa.field("item", header, nullable=False)),
        "leader_epoch": pa.int32(),
    }
    nullable = name in {"timestamp", "timestamp_type", "key", "value"}
    return pa.field(name, types[name], nullable=nullable)


def _array(pa: Any, field: Any, records: Sequence[ConsumerRecord]) -> Any:
    if field.name.startswith(_HEADER):
        header = field.name.removeprefix(_HEADER)
        found = ([value for name, value in record.headers if name == header] for record in records)
        return pa.array([next(iter(values), None) for values in found], field.type)
    values: list[Any] = [getattr(record, field.name) for record in records]
    if field.name == "timestamp":
        values = [None if value == -1 else value for value in values]
    elif field.name == "headers":
        values = [[{"key": name, "value": value} for name, value in each] for each in values]
    if field.name == "topic":
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, field.type)
