"""Timestamps of records and durations, as they are shown."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

_UNITS_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
#: Larger numbers than datetime can show.
_LAST_MS: Final = 253_402_300_799_999


def shown_time(timestamp_ms: int) -> str:
    """Return a timestamp in ISO 8601 and UTC; `-` if there is none, or no calendar has it."""
    if not 0 <= timestamp_ms <= _LAST_MS:
        return "-"
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    return f"{_shown_second(seconds)}.{milliseconds:03}Z"


@lru_cache(1_024)  # Neighbouring records share it.
def _shown_second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def shown_duration(milliseconds: int) -> str:
    """Return a duration in its largest unit, rounded down."""
    for unit, size_ms in _UNITS_MS.items():
        if milliseconds >= size_ms:
            return f"{milliseconds // size_ms}{unit}"
    return f"{max(0, milliseconds)}ms"
