"""Decoded records as columns, and a sequence that creates `ConsumerRecord` objects on access."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from functools import partial
from itertools import chain, repeat
from operator import add
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, overload

from tandem_kafka.dataclass import dataclass, field
from tandem_kafka.types import ConsumerRecord, Header

if TYPE_CHECKING:
    from tandem_kafka.records.decoder import TakenRecords

Derived = TypeVar("Derived", bound=ConsumerRecord[Any, Any])

#: Creates a record from its 13 fields without a Python frame, at half the cost of a class call.
_make_record: Final = cast(
    Callable[[Iterable[object]], ConsumerRecord], partial(tuple.__new__, ConsumerRecord)
)

#: Two int and two bytes objects and their list entries; a name, a value and their tuple.
_RECORD_OVERHEAD: Final = 200
_HEADER_OVERHEAD: Final = 150


@dataclass()
class RecordColumns:
    """The fields of some records, one list each, all of the same length.

    Attributes:
        headers: None if no record has headers, which is the common case.
        checksums: None if no record has one, as in format v2.
    """

    offsets: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    leader_epochs: list[int] = field(default_factory=list)
    timestamp_types: list[int | None] = field(default_factory=list)
    headers: list[list[Header]] | None = None
    checksums: list[int | None] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def overhead_bytes(self) -> int:
        """Return an estimate of the memory that the records use besides their bytes."""
        headers = 0 if self.headers is None else sum(map(len, self.headers))
        return _RECORD_OVERHEAD * len(self.offsets) + _HEADER_OVERHEAD * headers

    def size_bytes(self, start: int, stop: int) -> int:
        """Return the total of `record_sizes` of some records."""
        values = self.values[start:stop]
        if self.headers is not None or not all(values):
            return sum(self.record_sizes(start, stop))
        # A fast path for the common case, because each poll() calls this.
        keys = filter(None, self.keys[start:stop])
        return sum(map(len, cast("list[bytes]", values))) + sum(map(len, keys))

    def record_sizes(self, start: int, stop: int) -> list[int]:
        """Return the size of each record's key, value and headers in bytes, but at least 1."""
        sizes = list(map(add, _lengths(self.keys[start:stop]), _lengths(self.values[start:stop])))
        if self.headers is not None:
            headers = map(_header_size, self.headers[start:stop])
            sizes = [size + max(0, more) for size, more in zip(sizes, headers, strict=True)]
        return sizes if all(sizes) else [max(1, size) for size in sizes]

    def part(self, start: int | None, stop: int | None, step: int | None = None) -> RecordColumns:
        """Return a slice of every column."""
        chosen = slice(start, stop, step)
        return RecordColumns(
            self.offsets[chosen],
            self.timestamps[chosen],
            self.keys[chosen],
            self.values[chosen],
            self.leader_epochs[chosen],
            self.timestamp_types[chosen],
            None if self.headers is None else self.headers[chosen],
            None if self.checksums is None else self.checksums[chosen],
        )

    def extend(self, other: RecordColumns) -> None:
        """Append the records of `other`."""
        if self.headers is not None or other.headers is not None:
            self.headers = [*_headers_of(self), *_headers_of(other)]
        if self.checksums is not None or other.checksums is not None:
            self.checksums = [*_checksums_of(self), *_checksums_of(other)]
        self.offsets += other.offsets
        self.timestamps += other.timestamps
        self.keys += other.keys
        self.values += other.values
        self.leader_epochs += other.leader_epochs
        self.timestamp_types += other.timestamp_types


class Records(Sequence[ConsumerRecord]):
    """Records of one partition, created on access; equal to a list of the same records."""

    __slots__ = ("_columns", "_partition", "_topic")

    def __init__(self, topic: str, partition: int, columns: RecordColumns) -> None:
        self._topic = topic
        self._partition = partition
        self._columns = columns

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self._topic

    @property
    def partition(self) -> int:
        """Partition number."""
        return self._partition

    @property
    def columns(self) -> RecordColumns:
        """The fields by column; they must not be modified."""
        return self._columns

    def part(self, start: int, stop: int) -> Records:
        """Return the records from `start` up to `stop`."""
        return self[start:stop]

    def before(self, offset: int) -> int:
        """Return how many records are before an offset."""
        return bisect_left(self._columns.offsets, offset)

    def place_of(self, index: int) -> tuple[int, int]:
        """Return the offset and the leader epoch of a record."""
        return self._columns.offsets[index], self._columns.leader_epochs[index]

    def __len__(self) -> int:
        return len(self._columns.offsets)

    @overload
    def __getitem__(self, index: int) -> ConsumerRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Records: ...
    def __getitem__(self, index: int | slice) -> ConsumerRecord | Records:
        if isinstance(index, slice):
            part = self._columns.part(index.start, index.stop, index.step)
            return Records(self._topic, self._partition, part)
        at = range(len(self))[index]
        return next(iter(self[at : at + 1]))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        columns = self._columns
        headers = columns.headers
        rows = zip(
            repeat(self._topic),
            repeat(self._partition),
            columns.leader_epochs,
            columns.offsets,
            columns.timestamps,
            columns.timestamp_types,
            columns.keys,
            columns.values,
            # Each record has its own list, even without headers, because users may modify it.
            map(list, repeat(()) if headers is None else headers),
            repeat(None) if columns.checksums is None else columns.checksums,
            _sizes(columns.keys),
            _sizes(columns.values),
            repeat(-1) if headers is None else map(_header_size, headers),
            strict=False,
        )
        return map(_make_record, rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Records, list, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(map(_same, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        name = f"{self._topic}-{self._partition}"
        if not self:
            return f"<no records of {name}>"
        offsets = self._columns.offsets
        return f"<{len(self)} records of {name}, offsets {offsets[0]} to {offsets[-1]}>"


def _same(left: object, right: object) -> bool:
    return left == right


def _sizes(column: list[bytes | None]) -> list[int]:
    try:
        return list(map(len, cast("list[bytes]", column)))
    except TypeError:
        return [-1 if item is None else len(item) for item in column]


def _lengths(column: list[bytes | None]) -> list[int]:
    try:
        return list(map(len, cast("list[bytes]", column)))
    except TypeError:
        return [0 if item is None else len(item) for item in column]


def _header_size(headers: list[Header]) -> int:
    if not headers:
        return -1
    return sum(len(name.encode()) + (0 if value is None else len(value)) for name, value in headers)


def _headers_of(columns: RecordColumns) -> list[list[Header]]:
    return [[] for _ in columns.offsets] if columns.headers is None else columns.headers


def _checksums_of(columns: RecordColumns) -> list[int | None]:
    return [None] * len(columns) if columns.checksums is None else columns.checksums


def chain_records(
    parts: Sequence[TakenRecords | MutableSequence[ConsumerRecord]],
) -> MutableSequence[ConsumerRecord]:
    """Return the records of one partition for the user, as a list.

    A single list is returned unchanged. Records that a reader has returned are not modified.
    """
    first = parts[0]
    if len(parts) == 1 and isinstance(first, list):
        return first
    return list(chain.from_iterable(parts))


def derive_records(
    records: TakenRecords | MutableSequence[ConsumerRecord],
    start: int,
    stop: int,
    kind: type[Derived],
    origin: object,
) -> Sequence[Derived]:
    """Return the records from `start` up to `stop` as instances of a subclass.

    Args:
        records: Records of one partition, of which no list was created.
        start: The first of them.
        stop: The first that is not returned.
        kind: The subclass of `ConsumerRecord`.
        origin: The attribute `_origin` of each.
    """
    part = (
        records[start:stop] if isinstance(records, MutableSequence) else records.part(start, stop)
    )
    found = list(map(partial(tuple.__new__, kind), part))
    for each in found:
        object.__setattr__(each, "_origin", origin)
    return found
