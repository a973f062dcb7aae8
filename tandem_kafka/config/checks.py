"""What a value of an option may be: a check has the words for it and turns the value into ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from os import PathLike, fsdecode
from typing import Any, Final
from uuid import UUID

__all__ = [
    "BOOL",
    "CLIENT_NAME",
    "INT32_MAX",
    "NAME",
    "OPTIONAL_FILE",
    "OPTIONAL_NAME",
    "OPTIONAL_TEXT",
    "RACK",
    "TEXT",
    "Check",
    "as_ms",
    "milliseconds",
    "objects",
    "one_of",
    "whole_number",
]

#: The largest number that a 32 bit field of the protocol holds.
INT32_MAX: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Check:
    """A check of one option's value.

    Attributes:
        allowed: What may be given, to stand behind "must be" and in the documentation.
        parse: Returns the value to keep. Raises TypeError or ValueError, with a text where there
            is more to say than what is allowed.
        least: A lower number is taken for this one, with a warning, where kafka-python runs with
            such numbers.
    """

    allowed: str
    parse: Callable[[Any], object]
    least: int | None = None


def whole_number(
    least: int, most: int | None = None, *, optional: bool = False, lift: bool = False
) -> Check:
    """Allow a number without a fraction, at least `least` and at most `most`.

    Without `most`, infinity counts as the largest. With `optional` None is allowed too, and kept;
    with `lift` less than `least` is taken for it (see `Check`).
    """

    def parse(value: Any) -> int | None:
        if value is None and optional:
            return None
        endless = most is None and _is_number(value) and value == math.inf
        return INT32_MAX if endless else _within(_as_int(value), least, most, lift=lift)

    allowed = f"a whole number {_bounds(least, most)}" + (" or None" if optional else "")
    return Check(allowed, parse, least if lift else None)


def milliseconds(least: int, most: int | None = None, *, lift: bool = False) -> Check:
    """Allow a time in milliseconds; a fraction of one counts as one, infinity as 24 days."""

    def parse(value: Any) -> int:
        return _within(as_ms(value), least, most, lift=lift)

    return Check(f"a number {_bounds(least, most)}", parse, least if lift else None)


def as_ms(value: Any) -> int:
    """Return a time in whole milliseconds, never shorter than it was said."""
    if not _is_number(value):
        raise TypeError
    if math.isnan(value):
        raise ValueError
    if math.isinf(value):
        return INT32_MAX if value > 0 else -INT32_MAX
    whole: int = math.ceil(value)
    return whole


def _is_number(value: Any) -> bool:
    return isinstance(value, (Real, Decimal)) and not isinstance(value, bool)


def _bounds(least: int, most: int | None) -> str:
    return f"of at least {least}" if most is None else f"from {least} to {most}"


def _within(number: int, least: int, most: int | None, *, lift: bool) -> int:
    if number < least and lift:
        return least
    if number < least or (most is not None and number > most):
        raise ValueError
    return number


def one_of(*names: str) -> Check:
    """Allow one of a few names, in any case."""
    quoted = [repr(name) for name in names]
    by_lower = {name.lower(): name for name in names}

    def parse(value: Any) -> str:
        if not isinstance(value, str) or value.lower() not in by_lower:
            raise ValueError
        return by_lower[value.lower()]

    return Check(" or ".join([", ".join(quoted[:-1]), quoted[-1]] if quoted[1:] else quoted), parse)


def objects(value: Any) -> tuple[Any, ...]:
    """Take any collection but a text, which would be one of letters."""
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
    """Take 0, 1 and None as kafka-python does; any other value is true there, whatever it says."""
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
    """Take a number or a UUID too, which kafka-python writes as text."""
    if isinstance(value, (int, UUID)) and not isinstance(value, bool):
        return str(value)
    return _parse_optional_name(value)


def _parse_rack(value: Any) -> str:
    return _parse_name(value) or ""


def _parse_optional_file(value: Any) -> str | None:
    return fsdecode(value) if isinstance(value, (PathLike, bytes)) else _parse_optional_text(value)


def _parse_optional_text(value: Any) -> str | None:
    """Take an empty text for None: a setting that comes from an unset variable."""
    return _parse_optional_name(value) or None


def _parse_optional_name(value: Any) -> str | None:
    """Keep an empty text, for the rules to refuse it."""
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
