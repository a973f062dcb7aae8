"""Checks of option values: what is allowed, in words, and the conversion of a value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from numbers import Number, Real
from os import PathLike, fsdecode
from typing import Any, Final
from uuid import UUID

from tandem_kafka.dataclass import dataclass

#: The largest number in a 32 bit field of the protocol.
INT32_MAX: Final = (1 << 31) - 1


@dataclass(frozen=True)
class Check:
    """Checks the value of one option.

    Attributes:
        allowed: The allowed values, as text after "must be" and in the documentation.
        parse: Returns the value to keep. Raises TypeError or ValueError, with a text if `allowed`
            does not explain the problem.
        least: The minimum. A lower number is raised to it, with a warning, if kafka-python
            accepts such numbers.
    """

    allowed: str
    parse: Callable[[Any], object]
    least: int | None = None


def whole_number(
    least: int, most: int | None = None, *, optional: bool = False, lift: bool = False
) -> Check:
    """Allow a number without a fraction, at least `least` and at most `most`.

    Without `most`, infinity means the largest number. With `optional`, None is allowed and kept.
    With `lift`, a lower number is raised to `least` (see `Check`).
    """

    def parse(value: Any) -> int | None:
        if value is None and optional:
            return None
        endless = most is None and _is_number(value) and value == math.inf
        return INT32_MAX if endless else _within(_as_int(value), least, most, lift=lift)

    allowed = f"a whole number {_bounds(least, most)}" + (" or None" if optional else "")
    return Check(allowed, parse, least if lift else None)


def milliseconds(least: int, most: int | None = None, *, lift: bool = False) -> Check:
    """Allow a time in milliseconds. Fractions are rounded up; infinity means 24 days."""

    def parse(value: Any) -> int:
        return _within(as_ms(value), least, most, lift=lift)

    return Check(f"a number {_bounds(least, most)}", parse, least if lift else None)


def as_ms(value: Any) -> int:
    """Return a time in whole milliseconds, rounded up."""
    if not _is_number(value):
        raise TypeError
    if math.isnan(value):
        raise ValueError
    if math.isinf(value):
        return INT32_MAX if value > 0 else -INT32_MAX
    whole: int = math.ceil(value)
    return whole


def _is_number(value: Any) -> bool:
    """Accept what has an order, like `Decimal`, which is a `Number` but not `Real`."""
    return isinstance(value, Number) and not isinstance(value, (bool, complex))


def _bounds(least: int, most: int | None) -> str:
    return f"of at least {least}" if most is None else f"from {least} to {most}"


def _within(number: int, least: int, most: int | None, *, lift: bool) -> int:
    if number < least and lift:
        return least
    if number < least or (most is not None and number > most):
        raise ValueError
    return number


def one_of(*names: str) -> Check:
    """Allow one of a few names, in upper or lower case."""
    quoted = [repr(name) for name in names]
    by_lower = {name.lower(): name for name in names}

    def parse(value: Any) -> str:
        if not isinstance(value, str) or value.lower() not in by_lower:
            raise ValueError
        return by_lower[value.lower()]

    return Check(" or ".join([", ".join(quoted[:-1]), quoted[-1]] if quoted[1:] else quoted), parse)


def objects(value: Any) -> tuple[Any, ...]:
    """Accept any collection except text, which would be a collection of letters."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError
    return tuple(value)


def _as_int(value: Any) -> int:
    if not _is_number(value):
        raise TypeError
    if not math.isfinite(value) or value != int(value):
        raise ValueError
    return int(value)


def _parse_bool(value: Any) -> bool:
    """Accept 0, 1 and None like kafka-python, where any other value is true."""
    if value is None or isinstance(value, bool):
        return bool(value)
    if not isinstance(value, Real) or value not in {0, 1}:
        raise TypeError
    return value == 1


def _parse_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _parse_name(value: Any) -> str | None:
    """Accept also a number or a UUID, which kafka-python converts to text."""
    if isinstance(value, (int, UUID)) and not isinstance(value, bool):
        return str(value)
    return _parse_optional_name(value)


def _parse_rack(value: Any) -> str:
    return _parse_name(value) or ""


def _parse_optional_file(value: Any) -> str | None:
    path = fsdecode(value) if isinstance(value, (PathLike, bytes)) else _parse_optional_text(value)
    if path is not None and "-----BEGIN" in path:
        raise ValueError("needs the path of a PEM file, and this is its text; write it to a file")
    return path


def _parse_optional_text(value: Any) -> str | None:
    """Treat empty text as None: such a setting comes from an unset variable."""
    return _parse_optional_name(value) or None


def _parse_optional_name(value: Any) -> str | None:
    """Keep empty text, so that the rules can reject it."""
    return None if value is None else _parse_text(value)


BOOL: Final = Check("True or False", _parse_bool)
TEXT: Final = Check("a str", _parse_text)
RACK: Final = Check("a str, an int or None", _parse_rack)
NAME: Final = Check("a str that is not blank, an int, a UUID or None", _parse_name)
CLIENT_NAME: Final = Check(
    "a str, an int, a UUID or None", lambda value: _parse_name(value) or None
)
OPTIONAL_FILE: Final = Check("a path (str or os.PathLike) or None", _parse_optional_file)
OPTIONAL_TEXT: Final = Check("a str or None", _parse_optional_text)
OPTIONAL_NAME: Final = Check("a str that is not blank, or None", _parse_optional_name)
