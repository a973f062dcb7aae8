"""Records as text: one line for people, a format string as in kcat, a dump in hexadecimal."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tandem_kafka.cli.failures import CommandError
from tandem_kafka.cli.output import on_terminal, visible
from tandem_kafka.cli.records.jsonlines import as_json
from tandem_kafka.cli.times import shown_time
from tandem_kafka.types import ConsumerRecord

Record: TypeAlias = ConsumerRecord[Any, Any]
#: Returns a record in the form in which it is written, with the end of the line.
Formatter: TypeAlias = Callable[[Record], bytes]

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


_FIELDS: Final[dict[str, Formatter]] = {
    "s": lambda record: record.value or b"",
    "v": lambda record: record.value or b"",
    "S": lambda record: b"%d" % _size(record.value),
    "R": lambda record: _size(record.value).to_bytes(4, "big", signed=True),
    "k": lambda record: record.key or b"",
    "K": lambda record: b"%d" % _size(record.key),
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp,
    "D": lambda record: shown_time(record.timestamp).encode(),
    "h": _headers,
    "%": lambda _: b"%",
}


def by_format(text: str, *, safe: bool = False) -> Formatter:
    """Return the formatter for a format string.

    Args:
        text: The format string.
        safe: Show what could control a terminal; lines and tabs stay.

    Raises:
        CommandError: It has an unknown field or escape.
    """
    parts: list[bytes | Formatter] = []
    for found in _TOKEN.finditer(text):
        field, code, escape, plain = found.groups()
        if plain is not None:
            parts.append(plain.encode())
        elif code is not None:
            parts.append(bytes([int(code, 16)]))
        elif field in _FIELDS:
            parts.append(_safe(_FIELDS[field]) if safe else _FIELDS[field])
        elif escape in _ESCAPED:
            parts.append(_ESCAPED[escape])
        else:
            raise CommandError(
                f"-f: {found[0]!r} is unknown; allowed are %{' %'.join(_FIELDS)}, \\n \\r \\t and "
                "\\xNN",
                usage=True,
            )
    return lambda record: b"".join(
        part if isinstance(part, bytes) else part(record) for part in parts
    )


def _safe(formatter: Formatter) -> Formatter:
    def shown(record: Record) -> bytes:
        text = formatter(record).decode("utf-8", "backslashreplace")
        return visible(text, keep="\t\n").encode()

    return shown


def printable(content: bytes | None) -> str:
    r"""Return content on one line, without effect on a terminal."""
    return "-" if content is None else visible(content.decode("utf-8", "backslashreplace"))


def _line(record: Record) -> bytes:
    key = printable(record.key)
    value = "(tombstone)" if record.value is None else printable(record.value)
    place = f"{record.partition}:{record.offset}"
    return f"{shown_time(record.timestamp)} {place} {key} {value}\n".encode()


def _coloured_line(record: Record) -> bytes:
    key = printable(record.key)
    value = "\x1b[2m(tombstone)\x1b[0m" if record.value is None else printable(record.value)
    place = f"\x1b[36m{record.partition}:{record.offset}\x1b[0m"
    time = f"\x1b[2m{shown_time(record.timestamp)}\x1b[0m"
    return f"{time} {place} \x1b[32m{key}\x1b[0m {value}\n".encode()


def dumped(record: Record) -> bytes:
    """Return the key, headers and value in hexadecimal, with their text beside it."""
    lines = [
        f"{record.topic} {record.partition}:{record.offset} {shown_time(record.timestamp)}",
        *_dump("key", record.key),
    ]
    for name, content in record.headers:
        lines += _dump(f"header {printable(name.encode())}", content)
    return "\n".join([*lines, *_dump("value", record.value), ""]).encode()


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
    if hexadecimal:
        return dumped
    return _coloured_line if colours else _line
