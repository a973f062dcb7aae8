"""Records as text: one line for people, a format string as in kcat, a dump in hexadecimal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from tandem_kafka.foreign_text import visible
from tandem_kafka.types import ConsumerRecord
from tandem_kafka_cli.failures import CommandError
from tandem_kafka_cli.output import on_terminal
from tandem_kafka_cli.records.jsonlines import as_json
from tandem_kafka_cli.times import shown_time

Record: TypeAlias = ConsumerRecord[Any, Any]
#: Returns records in the form in which they are written, each with the end of its line.
Formatter: TypeAlias = Callable[[Sequence[Record]], bytes]
#: One field of each record.
Column: TypeAlias = Callable[[Sequence[Record]], Iterable[object]]

#: A letter in place of a percent sign, an escape, or text.
_TOKEN: Final = re.compile(r"%(.?)|\\x([0-9a-fA-F]{2})|\\(.?)|([^%\\]+)", re.DOTALL)
_ESCAPED: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_ROW: Final = 16


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content)


def _headers(record: Record) -> bytes:
    return b",".join(
        name.encode() + b"=" + (content if content is not None else b"NULL")
        for name, content in record.headers
    )


#: Bytes and numbers. A whole column is several times faster than a call for each record.
_BYTES: Final[dict[str, Column]] = {
    "s": lambda records: [record.value or b"" for record in records],
    "v": lambda records: [record.value or b"" for record in records],
    "R": lambda records: [_size(each.value).to_bytes(4, "big", signed=True) for each in records],
    "k": lambda records: [record.key or b"" for record in records],
    "t": lambda records: [record.topic.encode() for record in records],
    "D": lambda records: [shown_time(record.timestamp).encode() for record in records],
    "h": lambda records: map(_headers, records),
}
_NUMBERS: Final[dict[str, Column]] = {
    "S": lambda records: [_size(record.value) for record in records],
    "K": lambda records: [_size(record.key) for record in records],
    "p": lambda records: [record.partition for record in records],
    "o": lambda records: [record.offset for record in records],
    "T": lambda records: [record.timestamp for record in records],
}


def by_format(text: str, *, safe: bool = False) -> Formatter:
    """Return the formatter for a format string.

    Args:
        text: The format string.
        safe: Show what could control a terminal; lines and tabs stay.

    Raises:
        CommandError: It has an unknown field or escape.
    """
    parts = [_part(found) for found in _TOKEN.finditer(text)]
    template = b"".join(part for part, _ in parts)
    columns = [column for _, column in parts if column is not None]
    if safe:
        columns = [_safe(column) for column in columns]
    if not columns:
        return lambda records: (template % ()) * len(records)
    return lambda records: b"".join(
        map(template.__mod__, zip(*(column(records) for column in columns), strict=True))
    )


def _part(found: re.Match[str]) -> tuple[bytes, Column | None]:
    """Return a part of the template for `%`, and the column that it takes."""
    field, code, escape, plain = found.groups()
    if field in _BYTES:
        return b"%b", _BYTES[field]
    if field in _NUMBERS:
        return b"%d", _NUMBERS[field]
    if plain is not None:
        return plain.encode(), None
    if field == "%":
        return b"%%", None
    if code is not None:
        return bytes([int(code, 16)]).replace(b"%", b"%%"), None
    if escape in _ESCAPED:
        return _ESCAPED[escape], None
    allowed = " %".join([*_BYTES, *_NUMBERS, "%"])
    raise CommandError(
        f"-f: {found[0]!r} is unknown; allowed are %{allowed}, \\n \\r \\t and \\xNN", usage=True
    )


def _safe(column: Column) -> Column:
    def shown(records: Sequence[Record]) -> Iterator[object]:
        for content in column(records):
            if isinstance(content, bytes):
                text = content.decode("utf-8", "backslashreplace")
                yield visible(text, keep="\t\n").encode()
            else:
                yield content

    return shown


def printable(content: bytes | None) -> str:
    r"""Return content on one line, without effect on a terminal."""
    return "-" if content is None else visible(content.decode("utf-8", "backslashreplace"))


def _line(record: Record) -> str:
    key = printable(record.key)
    value = "(tombstone)" if record.value is None else printable(record.value)
    place = f"{record.partition}:{record.offset}"
    return f"{shown_time(record.timestamp)} {place} {key} {value}\n"


def _coloured_line(record: Record) -> str:
    key = printable(record.key)
    value = "\x1b[2m(tombstone)\x1b[0m" if record.value is None else printable(record.value)
    place = f"\x1b[36m{record.partition}:{record.offset}\x1b[0m"
    time = f"\x1b[2m{shown_time(record.timestamp)}\x1b[0m"
    return f"{time} {place} \x1b[32m{key}\x1b[0m {value}\n"


def dumped(record: Record) -> str:
    """Return the key, headers and value in hexadecimal, with their text beside it."""
    lines = [
        f"{record.topic} {record.partition}:{record.offset} {shown_time(record.timestamp)}",
        *_dump("key", record.key),
    ]
    for name, content in record.headers:
        lines += _dump(f"header {printable(name.encode())}", content)
    return "\n".join([*lines, *_dump("value", record.value), ""])


def _dump(title: str, content: bytes | None) -> list[str]:
    if content is None:
        return [f"  {title}: null"]
    rows = [f"  {title}: {len(content)} bytes"]
    for begin in range(0, len(content), _ROW):
        row = content[begin : begin + _ROW]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        rows.append(f"    {begin:08x}  {row.hex(' '):{3 * _ROW - 1}}  {text}")
    return rows


def chosen(text: str | None, *, json: bool, hexadecimal: bool, colours: bool) -> Formatter:
    """Return the formatter that the flags choose; without a flag, one line for people.

    Raises:
        CommandError: More than one is chosen.
    """
    if sum((text is not None, json, hexadecimal)) > 1:
        raise CommandError("choose one of -f, --json and --hex", usage=True)
    if text is not None:
        return by_format(text, safe=on_terminal())
    if json:
        return as_json
    line = dumped if hexadecimal else _coloured_line if colours else _line
    return lambda records: "".join(map(line, records)).encode()
