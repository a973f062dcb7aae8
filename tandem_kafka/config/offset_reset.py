"""Where to start without a position: the values of `auto_offset_reset`."""

from __future__ import annotations

import re
from typing import Final, Literal

from tandem_kafka.config.names import warn_deprecated
from tandem_kafka.dataclass import dataclass

ResetKind = Literal["earliest", "latest", "none", "by_duration"]

_PLAIN: Final[dict[str, ResetKind]] = {"earliest": "earliest", "latest": "latest", "none": "none"}
_OLD_NAMES: Final = {"smallest": "earliest", "largest": "latest"}
_BY_DURATION: Final = "by_duration:"

#: Days, hours, minutes, seconds and their fraction. Nothing longer: months vary in length.
_DURATION: Final = re.compile(
    r"P(?=\d|T\d)(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.,](\d{1,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1_000)


@dataclass(frozen=True)
class OffsetReset:
    """What to do without a position.

    Attributes:
        kind: Where to start; "none" raises an error instead.
        duration_ms: For "by_duration", how far back from now in milliseconds; 0 otherwise.
    """

    kind: ResetKind
    duration_ms: int = 0


def parse_offset_reset(text: str) -> OffsetReset:
    """Parse a value of `auto_offset_reset`, in upper or lower case.

    Raises:
        ValueError: The value is not valid; without a text if the allowed values explain it.
    """
    lower = text.lower()
    name = _OLD_NAMES.get(lower, lower)
    if name != lower:
        warn_deprecated(f"auto_offset_reset={text!r} is deprecated: use {name!r}")
    if name in _PLAIN:
        return OffsetReset(_PLAIN[name])
    if not name.startswith(_BY_DURATION):
        raise ValueError
    return OffsetReset("by_duration", parse_duration_ms(text[len(_BY_DURATION) :]))


def parse_duration_ms(text: str) -> int:
    """Parse an ISO 8601 duration such as P1DT12H or PT0.5S; returns milliseconds.

    Raises:
        ValueError: It is not a duration, or it is negative.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        if "-" in text:
            raise ValueError(f"the duration {text!r} is negative")
        raise ValueError(f"{text!r} is not an ISO 8601 duration such as P1DT12H30M or PT0.5S")
    *counts, fraction = match.groups(default="0")
    whole_ms = sum(int(count) * unit for count, unit in zip(counts, _UNITS_MS, strict=True))
    return whole_ms + int(fraction[:3].ljust(3, "0"))
