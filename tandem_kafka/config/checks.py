"""What a value of an option may be: a check has the words for it and turns the value into ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

__all__ = [
    "BOOL",
    "CALLBACK",
    "INT32_MAX",
    "OPTIONAL_NAME",
    "OPTIONAL_TEXT",
    "TEXT",
    "Check",
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
    """

    allowed: str
    parse: Callable[[Any], object]


def whole_number(least: int, most: int | None = None, *, optional: bool = False) -> Check:
    """Allow an int (or a float without a fraction), at least `least` and at most `most`."""
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"

    def parse(value: Any) -> int | None:
        if value is None and optional:
            return None
        number = _as_int(value)
        if number < least or (most is not None and number > most):
            raise ValueError
        return number

    return Check(f"a whole number {bounds}" + (" or None" if optional else ""), parse)


def one_of(*names: str) -> Check:
    """Allow one of a few names."""
    quoted = [repr(name) for name in names]

    def parse(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise TypeError
        return value

    return Check(" or ".join([", ".join(quoted[:-1]), quoted[-1]] if quoted[1:] else quoted), parse)


def objects(value: Any) -> tuple[Any, ...]:
    """Take any collection but a text, which would be one of letters."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError
    return tuple(value)


def _as_int(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _parse_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _parse_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _parse_optional_text(value: Any) -> str | None:
    """Take an empty text for None: a setting that comes from an unset variable."""
    return _parse_optional_name(value) or None


def _parse_optional_name(value: Any) -> str | None:
    """Keep an empty text, for the rules to refuse it."""
    return None if value is None else _parse_text(value)


def _parse_callback(value: Any) -> Any:
    if value is not None and not callable(value):
        raise ValueError
    return value


BOOL: Final = Check("True or False", _parse_bool)
TEXT: Final = Check("a str", _parse_text)
OPTIONAL_TEXT: Final = Check("a str or None", _parse_optional_text)
OPTIONAL_NAME: Final = Check("a str that is not blank, or None", _parse_optional_name)
CALLBACK: Final = Check("a callable or None", _parse_callback)
