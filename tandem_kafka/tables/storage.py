"""What each table and text stores for each type that a decoder can make."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tandem_kafka.config.external import check_decoder
from tandem_kafka.errors import InvalidArgumentError, SchemaMismatchError
from tandem_kafka.tables.objects import as_object, as_text
from tandem_kafka.types import ArrowDecoder, DecodeErrors

Change: TypeAlias = Callable[[pa.Array], pa.Array]
#: The type that is stored, and what makes it; None if the column is stored as it is.
Plan: TypeAlias = tuple[pa.DataType, Change | None]

#: The tables and texts, in the order of the columns below.
PLACES: Final = (
    "Parquet", "Delta Lake", "DuckDB", "SQLite", "other databases", "SQL of topics", "JSON lines",
    "Spark",
)  # fmt: skip
#: What each of them stores for a kind of type; `_STORED` says what the words mean.
KINDS: Final = {
    # Spark casts what it takes, and Arrow 26 makes invalid arrays of nulls in slices of lists.
    "null": ("same", "-", "same", "same", "same", "text", "same", "text"),
    "struct without fields": ("-", "-", "same", "JSON", "JSON", "same", "same", "same"),
    "bool": ("same", "same", "same", "same", "same", "same", "same", "same"),
    "int8 to int64": ("same", "same", "same", "same", "same", "same", "same", "same"),
    "uint8, uint16": ("same", "int32", "same", "same", "same", "same", "same", "int32"),
    "uint32": ("same", "int64", "same", "same", "same", "same", "same", "int64"),
    "uint64": ("same", "decimal(20, 0)", "same", "int64", "same", "same", "same", "decimal(20, 0)"),
    "float": ("same", "same", "same", "no NaN", "same", "same", "same", "same"),
    "decimal128": ("same", "same", "same", "text", "same", "same", "same", "same"),
    "decimal256": (
        "same", "38 digits", "38 digits", "text", "same", "38 digits", "same", "38 digits",
    ),
    "string": ("same", "same", "same", "same", "same", "same", "same", "same"),
    "binary": ("same", "same", "same", "same", "same", "same", "same", "same"),
    "date32": ("same", "years", "same", "text", "years", "same", "text", "same"),
    "time32, time64": ("same", "text", "same", "text", "same", "same", "text", "text"),
    "time64[ns]": ("same", "text", "same", "text", "text", "same", "text", "text"),
    "timestamp": ("same", "us", "us", "text", "years", "no zone", "text", "us"),
    "timestamp[ns]": ("same", "us", "same", "text", "text", "no zone", "text", "us"),
    "duration": ("same", "text", "us", "text", "same", "us", "text", "us"),
    "duration[ns]": ("same", "text", "us", "text", "text", "us", "text", "us"),
    "interval": ("text", "text", "same", "text", "text", "same", "text", "text"),
    "list, map, struct": ("same", "same", "same", "JSON", "JSON", "same", "same", "same"),
}  # fmt: skip
#: Seconds since 1970 of the first and the last one in the years that ISO 8601 and Python have.
_YEARS_S: Final = (-62_135_596_800, 253_402_300_799)
_DAY_S: Final = 86_400
_MAX_INT64: Final = 2**63 - 1
#: The most digits of a decimal in most places, also after the point.
_MAX_DIGITS: Final = 38
#: The digits of a second.
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_WORDS: Final = {"ms": "milliseconds", "us": "microseconds"}
#: U+0000 itself, and in JSON, where the backslash before it may be one of a pair.
_NUL: Final = (r"\x00", r"(?:^|[^\\])(?:\\\\)*\\u0000")
#: Where a decimal has no negative scale.
_DIGITS_AFTER_THE_POINT: Final = ("Parquet", "Delta Lake", "DuckDB", "SQL of topics")
_TESTS: Final[dict[str, Callable[[pa.DataType], bool]]] = {
    "null": pa.types.is_null,
    "struct without fields": lambda kind: pa.types.is_struct(kind) and not kind.num_fields,
    "bool": pa.types.is_boolean,
    "int8 to int64": pa.types.is_signed_integer,
    "uint32": pa.types.is_uint32,
    "uint64": pa.types.is_uint64,
    "uint8, uint16": pa.types.is_unsigned_integer,
    "float": pa.types.is_floating,
    "decimal128": lambda kind: pa.types.is_decimal(kind) and not pa.types.is_decimal256(kind),
    "decimal256": pa.types.is_decimal256,
    "string": lambda kind: (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    ),
    "binary": lambda kind: (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    ),
    "date32": pa.types.is_date32,
    "time64[ns]": lambda kind: kind == pa.time64("ns"),
    "time32, time64": pa.types.is_time,
    "timestamp[ns]": lambda kind: pa.types.is_timestamp(kind) and kind.unit == "ns",
    "timestamp": pa.types.is_timestamp,
    "duration[ns]": lambda kind: kind == pa.duration("ns"),
    "duration": pa.types.is_duration,
    "interval": pa.types.is_interval,
    "list, map, struct": pa.types.is_nested,
}


def kind_of(kind: pa.DataType) -> str | None:
    """Return the name in `KINDS` of a type; None if it has no place anywhere."""
    found = next((name for name, test in _TESTS.items() if test(kind)), None)
    nested = pa.types.is_struct(kind) or pa.types.is_map(kind) or _is_list(kind)
    return None if found == "list, map, struct" and not nested else found


class Storage:
    """What one table or text stores.

    Args:
        place: Its name.
        column: The name in `PLACES` of what it stores.
        one_case: Whether names that differ in case only are the same column.
        nul: Whether texts may have U+0000.
        infinity: Whether the largest numbers of dates and times, of either sign, are infinity.

    Attributes:
        one_case: As given.
    """

    def __init__(
        self,
        place: str,
        column: str,
        *,
        one_case: bool = False,
        nul: bool = True,
        infinity: bool = False,
    ) -> None:
        self._place = place
        self._words = {kind: words[PLACES.index(column)] for kind, words in KINDS.items()}
        self.one_case = one_case
        self._nul = nul
        self._infinity = infinity

    def type_of(self, kind: pa.DataType, at: str, *, flatten: bool = False) -> pa.DataType | None:
        """Return the type that is stored; None if nothing is.

        Args:
            kind: The type of a column.
            at: Its name.
            flatten: The fields of a struct are stored as columns.

        Raises:
            InvalidArgumentError: The type, or one in it, has no place.
        """
        plan = self._plan(kind, at, flatten=flatten)
        return None if plan is None else plan[0]

    def column(
        self, column: pa.Array, at: str, *, flatten: bool = False
    ) -> tuple[pa.Array, Sequence[tuple[int, str]]]:
        """Return what is stored, and the values without a place: row, and why.

        Such a row is null. A column that is left out is one of nulls.

        Args:
            column: The values.
            at: The name of the column.
            flatten: The fields of a struct are stored as columns, which the caller makes.

        Raises:
            InvalidArgumentError: The type has no place.
        """
        plan = self._plan(column.type, at, flatten=flatten)
        if plan is None:
            return pa.nulls(len(column)), ()
        kind, change = plan
        if change is None:
            return column, ()
        failures: list[tuple[int, str]] = []
        return _changed(column, kind, change, 0, failures), failures

    def table(self, table: pa.Table) -> pa.Table:
        """Return what is stored of a table.

        Raises:
            InvalidArgumentError: A type has no place.
            SchemaMismatchError: A value has none.
        """
        stored, unplaced = self.placed(table, table.column_names)
        for name, failures in unplaced.items():
            msg = (
                f"{self._place} has no place for a value of {name}: {failures[0][1]}; leave the "
                "column out of columns="
            )
            raise SchemaMismatchError(msg)
        kept = [
            name
            for name, kind in zip(table.column_names, table.schema.types, strict=True)
            if self.type_of(kind, name) is not None
        ]
        self.check_names(kept, "the records")
        return stored.select(kept)

    def placed(
        self, table: pa.Table, names: Collection[str]
    ) -> tuple[pa.Table, dict[str, Sequence[tuple[int, str]]]]:
        """Return a table with these columns as they are stored.

        Returns:
            The table, and of each column the values without a place, which are null: row, and why.

        Raises:
            InvalidArgumentError: A type has no place.
        """
        unplaced: dict[str, Sequence[tuple[int, str]]] = {}
        for at, name in enumerate(table.column_names):
            if name not in names:
                continue
            chunks, first, failures = [], 0, []
            for chunk in table[name].chunks:
                changed, failed = self.column(chunk, name)
                chunks.append(changed)
                failures += [(first + row, reason) for row, reason in failed]
                first += len(chunk)
            kind = self.type_of(table[name].type, name)
            stored = pa.chunked_array(chunks, pa.null() if kind is None else kind)
            table = table.set_column(at, name, stored)
            if failures:
                unplaced[name] = failures
        return table, unplaced

    def decoder(self, decoder: ArrowDecoder | None, name: str) -> ArrowDecoder | None:
        """Return a decoder of what is stored: values without a place go the way of its `errors`.

        Args:
            decoder: Decodes keys or values.
            name: ``key`` or ``value``.

        Raises:
            ArgumentTypeError: It is no decoder.
            InvalidArgumentError: Its schema is known, and has no place.
        """
        if decoder is None:
            return None
        check_decoder(decoder, name)
        return _StoredDecoder(decoder, self, name)

    def _plan(self, kind: pa.DataType, at: str, *, flatten: bool = False) -> Plan | None:
        if pa.types.is_dictionary(kind):
            return self._plan_of_dictionary(kind, at)
        found = kind_of(kind)
        word = None if found is None else self._words[found]
        if word is None or (pa.types.is_decimal(kind) and not self._has_scale(kind.scale, word)):
            raise InvalidArgumentError(
                f"{at} is of type {kind}, for which {self._place} has no place; decode it to "
                "another type, or leave it out"
            )
        flatten = flatten and pa.types.is_struct(kind)
        if not flatten and (found != "list, map, struct" or word == "JSON"):
            plan = _STORED[word](kind)
            if plan is not None and self._infinity and _is_date_or_time(plan[0]):
                return plan[0], _finite(plan[1])
            if plan is None or self._nul or kind_of(plan[0]) != "string":
                return plan
            return plan[0], _without_nul(plan[1], escaped=word == "JSON")
        if pa.types.is_struct(kind):
            return self._plan_of_struct(kind, at)
        return (self._plan_of_map if pa.types.is_map(kind) else self._plan_of_list)(kind, at)

    def _has_scale(self, scale: int, word: str) -> bool:
        return (word != "38 digits" or scale <= _MAX_DIGITS) and (
            scale >= 0 or self._place not in _DIGITS_AFTER_THE_POINT
        )

    def _plan_of_dictionary(self, kind: pa.DataType, at: str) -> Plan | None:
        plan = self._plan(kind.value_type, at)
        if plan is None:
            return None
        stored, change = plan
        if change is None and not pa.types.is_nested(stored):
            return kind, None

        def decoded(column: pa.Array) -> pa.Array:
            values = column.dictionary.take(column.indices)
            return values if change is None else change(values)

        return stored, decoded

    def _plan_of_map(self, kind: pa.DataType, at: str) -> Plan | None:
        keys, items = self._plan(kind.key_type, f"{at} (keys)"), self._plan(kind.item_type, at)
        if keys is None:
            return None
        if items is None:
            listed = pa.list_(keys[0])
            return listed, _map_change(listed, keys[1:])
        stored = pa.map_(keys[0], kind.item_field.with_type(items[0]))
        changes = (keys[1], items[1])
        return stored, _map_change(stored, changes) if any(changes) else None

    def _plan_of_list(self, kind: pa.DataType, at: str) -> Plan | None:
        items = self._plan(kind.value_type, f"{at}[]")
        if items is None:
            return None
        large = pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind)
        make = pa.large_list if large else pa.list_
        stored = make(kind.value_field.with_type(items[0]))
        if items[1] is None and stored == kind:
            return kind, None
        return stored, _list_change(stored, items[1])

    def _plan_of_struct(self, kind: pa.DataType, at: str) -> Plan | None:
        self.check_names([each.name for each in kind], at)
        fields: list[pa.Field] = []
        changes: list[tuple[int, Change | None]] = []
        for number, each in enumerate(kind):
            plan = self._plan(each.type, f"{at}.{each.name}")
            if plan is not None:
                fields.append(each.with_type(plan[0]))
                changes.append((number, plan[1]))
        if not fields:
            return None
        if len(fields) == kind.num_fields and not any(change for _, change in changes):
            return kind, None

        def change(column: pa.Array) -> pa.Array:
            children = column.flatten()
            made = [children[n] if each is None else each(children[n]) for n, each in changes]
            return pa.StructArray.from_arrays(made, fields=fields, mask=column.is_null())

        return pa.struct(fields), change

    def check_names(self, names: Sequence[str], at: str) -> None:
        """Check that no two names are one column.

        Raises:
            InvalidArgumentError: They differ in case only.
        """
        if not self.one_case:
            return
        known: dict[str, str] = {}
        for name in names:
            other = known.setdefault(name.lower(), name)
            if other != name:
                raise InvalidArgumentError(
                    f"{at} has {other} and {name}: names that differ in case only are one column "
                    f"of {self._place}; leave one of them out of the decoder's schema"
                )


class _StoredDecoder:
    """Decodes to what a table stores."""

    def __init__(self, decoder: ArrowDecoder, storage: Storage, name: str) -> None:
        self._decoder: Any = decoder
        self._storage = storage
        self._name = name
        self.errors: DecodeErrors = decoder.errors
        self.flatten = decoder.flatten
        schema = getattr(decoder, "schema", None)
        if isinstance(schema, pa.DataType):
            storage.type_of(schema, name, flatten=decoder.flatten)

    @property
    def reads_schema_header(self) -> bool:
        """Whether a header may name the schema."""
        return getattr(self._decoder, "reads_schema_header", False)

    def decode(self, *columns: pa.Array) -> tuple[pa.Array, Sequence[tuple[int, str]]]:
        """Return what is stored of the decoded column; see `ArrowDecoder`."""
        decoded, failures = self._decoder.decode(*columns)
        stored, unplaced = self._storage.column(decoded, self._name, flatten=self.flatten)
        return stored, [*failures, *unplaced]


class _UnplacedError(ValueError):
    """Some values of a column have no place.

    Without their rows, these are found by halves, a millisecond each: an application that drops
    them would not poll for minutes.
    """

    def __init__(self, reason: str, rows: pa.Array) -> None:
        super().__init__(reason)
        self.rows = rows


def _checked(column: pa.Array, wrong: pa.Array, reason: str) -> pa.Array:
    """Return a column without wrong values.

    Raises:
        _UnplacedError: It has some.
    """
    if pc.any(wrong).as_py():
        raise _UnplacedError(reason, pc.indices_nonzero(wrong))
    return column


def _of_items(change: Change | None, items: pa.Array, offsets: pa.Array) -> pa.Array:
    """Change the items of lists or maps, whose rows begin at these offsets."""
    if change is None:
        return items
    try:
        return change(items)
    except _UnplacedError as error:
        large = offsets.type == pa.int64()
        lists = (pa.LargeListArray if large else pa.ListArray).from_arrays(offsets, items)
        rows = pc.list_parent_indices(lists).take(error.rows)
        raise _UnplacedError(str(error), rows) from None


def _changed(
    column: pa.Array, kind: pa.DataType, change: Change, first: int, failures: list[tuple[int, str]]
) -> pa.Array:
    """Change a column, and find the rows of it that have no place."""
    try:
        return change(column)
    except _UnplacedError as error:
        rows = set(error.rows.to_pylist())
        failures += [(first + row, str(error)) for row in sorted(rows)]
        kept = pa.array([None if row in rows else row for row in range(len(column))], pa.int64())
        return _changed(column.take(kept), kind, change, first, failures)
    except ValueError as error:
        if len(column) <= 1:
            failures += [(first, str(error))] * len(column)
            return pa.nulls(len(column), kind)
    half = len(column) // 2
    halves = (column.slice(0, half), first), (column.slice(half), first + half)
    return pa.concat_arrays([_changed(part, kind, change, at, failures) for part, at in halves])


# --- nested types ------------------------------------------------------------------------------


def _is_list(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (
            pa.types.is_list,
            pa.types.is_large_list,
            pa.types.is_fixed_size_list,
            pa.types.is_list_view,
            pa.types.is_large_list_view,
        )
    )


def _list_change(stored: pa.DataType, items: Change | None) -> Change:
    def change(column: pa.Array) -> pa.Array:
        offsets = _offsets(pc.list_value_length(column), stored)
        values = _of_items(items, pc.list_flatten(column), offsets)
        array = pa.LargeListArray if pa.types.is_large_list(stored) else pa.ListArray
        return array.from_arrays(offsets, values, type=stored, mask=column.is_null())

    return change


def _map_change(stored: pa.DataType, changes: Sequence[Change | None]) -> Change:
    """Change the keys and items of maps; without the latter, to lists of keys."""
    array = pa.MapArray if pa.types.is_map(stored) else pa.ListArray

    def change(column: pa.Array) -> pa.Array:
        # The entries of an array that begins and ends elsewhere are there, too.
        pairs = pa.ListArray.from_arrays(
            column.offsets,
            pa.StructArray.from_arrays([column.keys, column.items], names=["key", "value"]),
        )
        pairs = pc.if_else(column.is_valid(), pairs, pa.scalar(None, pairs.type))
        flat = pc.list_flatten(pairs).flatten()
        offsets = _offsets(pc.list_value_length(pairs), stored)
        made = [_of_items(one, each, offsets) for one, each in zip(changes, flat, strict=False)]
        return array.from_arrays(offsets, *made, type=stored, mask=column.is_null())

    return change


def _offsets(lengths: pa.Array, stored: pa.DataType) -> pa.Array:
    width = pa.int64() if pa.types.is_large_list(stored) else pa.int32()
    ends = pc.cumulative_sum(pc.fill_null(lengths, 0).cast(width))
    return pa.concat_arrays([pa.array([0], width), ends])


def _as_json(column: pa.Array) -> pa.Array:
    texts = _changed_or_kept(column)
    objects = (as_object(each, texts.type) for each in texts.to_pylist())
    return pa.array(
        [None if each is None else json.dumps(each, default=as_text) for each in objects],
        pa.string(),
    )


def _changed_or_kept(column: pa.Array) -> pa.Array:
    plan = storage("JSON lines")._plan(column.type, "")  # noqa: SLF001 - of this module
    change = None if plan is None else plan[1]
    return column if change is None else change(column)


# --- values ------------------------------------------------------------------------------------


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    options = pc.CastOptions.safe(kind)
    options.allow_time_truncate = True
    return column.cast(options=options)


def _numbers(column: pa.Array) -> pa.Array:
    """Return the integers of dates, times or durations."""
    return column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())


def _within(column: pa.Array, least: int, most: int, reason: str) -> pa.Array:
    """Return dates, times or durations whose numbers are in a range."""
    numbers = _numbers(column)
    return _checked(column, pc.or_(pc.less(numbers, least), pc.greater(numbers, most)), reason)


def _check_years(column: pa.Array) -> pa.Array:
    """Return dates and times that are in years which ISO 8601 and Python have."""
    if pa.types.is_date(column.type):
        least, most = (each // _DAY_S for each in _YEARS_S)
    else:
        per_second = 10 ** _DIGITS[column.type.unit]
        least, most = _YEARS_S[0] * per_second, (_YEARS_S[1] + 1) * per_second - 1
        if column.type.unit == "ns":
            return column  # of the years 1677 to 2262
    _within(column, least, most, "a time outside of the years 1 to 9999")
    if getattr(column.type, "tz", None) not in {None, "UTC"}:
        _check_years(pc.local_timestamp(column))  # Python has times in their zone
    return column


def _is_date_or_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _finite(change: Change | None) -> Change:
    """Return a change to dates and times that finds those which a place takes for infinity."""

    def changed(column: pa.Array) -> pa.Array:
        stored = column if change is None else change(column)
        numbers, most = _numbers(stored), 2 ** (stored.type.bit_width - 1) - 1
        wrong = pc.or_(pc.equal(numbers, -most), pc.equal(numbers, most))
        return _checked(stored, wrong, "a time that means infinity there")

    return changed


def _without_nul(change: Change | None, *, escaped: bool) -> Change:
    """Return a change to texts that finds U+0000, or its escape in JSON."""

    def changed(column: pa.Array) -> pa.Array:
        texts = column if change is None else change(column)
        wrong = pc.match_substring_regex(texts.cast(pa.string()), _NUL[escaped])
        return _checked(texts, wrong, "a text with U+0000")

    return changed


def _as_iso(column: pa.Array) -> pa.Array:
    """Return texts of ISO 8601, with the digits of the unit."""
    kind = column.type
    if pa.types.is_duration(kind):
        digits = _DIGITS[kind.unit]
        numbers = _numbers(column).to_pylist()
        return pa.array([_duration(each, digits) for each in numbers], pa.string())
    if pa.types.is_interval(kind):
        return pa.array([_interval(each) for each in column.to_pylist()], pa.string())
    if pa.types.is_date(kind):
        return pc.strftime(_check_years(column), format="%Y-%m-%d")
    if pa.types.is_timestamp(kind):
        zone = "" if kind.tz is None else "%Ez"
        return pc.strftime(_check_years(column), format=f"%Y-%m-%dT%H:%M:%S{zone}")
    return column.cast(pa.string())


def _duration(number: int | None, digits: int) -> str | None:
    if number is None:
        return None
    whole, part = divmod(abs(number), 10**digits)
    seconds = f"{whole}.{part:0{digits}}".rstrip("0").rstrip(".") if part else whole
    return f"{'-' if number < 0 else ''}PT{seconds}S"


def _interval(value: Any) -> str | None:
    if value is None:
        return None
    months, days, nanoseconds = value
    seconds = (_duration(nanoseconds, _DIGITS["ns"]) or "").replace("-PT", "PT-")
    return f"P{months}M{days}D{seconds.removeprefix('P')}"


def _to(stored: pa.DataType, kind: pa.DataType) -> Plan:
    return stored, None if stored == kind else lambda column: _cast(column, stored)


def _same(kind: pa.DataType) -> Plan:
    """Return the plan of a type that is stored as it is, if Parquet has it."""
    if kind == pa.binary(0):
        return _to(pa.binary(), kind)
    if pa.types.is_timestamp(kind) and kind.unit == "s":
        return _in_bounds(pa.timestamp("ms", kind.tz), kind, "ms")
    return kind, None


def _in_microseconds(kind: pa.DataType) -> Plan:
    is_duration = pa.types.is_duration(kind)
    stored = pa.duration("us") if is_duration else pa.timestamp("us", kind.tz and "UTC")
    return _in_bounds(stored, kind, "us")


def _in_bounds(stored: pa.DataType, kind: pa.DataType, unit: str) -> Plan:
    """Return the plan of a type of times, if a place has them in 64 bits of a unit."""
    factor = 10 ** max(0, _DIGITS[unit] - _DIGITS[kind.unit])
    if factor == 1:
        return _to(stored, kind)
    most, reason = _MAX_INT64 // factor, f"a time out of bounds of 64-bit {_WORDS[unit]}"
    return stored, lambda column: _cast(_within(column, -most, most, reason), stored)


#: What the words of `KINDS` mean: the type that is stored, and what makes it.
_STORED: Final[dict[str, Callable[[pa.DataType], Plan | None]]] = {
    "same": _same,
    "no NaN": lambda kind: (kind, None),
    "-": lambda _: None,
    "int32": lambda kind: _to(pa.int32(), kind),
    "int64": lambda kind: _to(pa.int64(), kind),
    "decimal(20, 0)": lambda kind: _to(pa.decimal128(20, 0), kind),
    "38 digits": lambda kind: _to(pa.decimal128(_MAX_DIGITS, kind.scale), kind),
    "us": _in_microseconds,
    "no zone": lambda kind: _in_bounds(pa.timestamp(kind.unit), kind, "us"),
    "years": lambda kind: (kind, _check_years),
    "text": lambda _: (pa.string(), _as_iso),
    "JSON": lambda _: (pa.string(), _as_json),
}
_ONE_CASE: Final = ("Delta Lake", "DuckDB", "SQLite")
#: Both are DuckDB.
_INFINITY: Final = ("DuckDB", "SQL of topics")
_STORAGES: Final = {
    **{
        place: Storage(place, place, one_case=place in _ONE_CASE, infinity=place in _INFINITY)
        for place in PLACES
    },
    "PostgreSQL": Storage("PostgreSQL", "other databases", nul=False),
}


def storage(place: str) -> Storage:
    """Return what is stored at a place of `PLACES`, or in PostgreSQL."""
    return _STORAGES[place]
