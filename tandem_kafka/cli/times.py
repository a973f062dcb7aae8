"""Points in time as people write them, and timestamps of records as they are shown."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from tandem_kafka.cli.failures import CommandError

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
#: Larger numbers than datetime can show.
_LAST_MS: Final = 253_402_300_799_999


def time_ms(text: str, now_ms: int) -> int:
    """Return a point in time in milliseconds since the Unix epoch.

    Args:
        text: Milliseconds since the epoch, a duration before now (`90s`, `15m`, `2h`, `1d`), or an
            ISO 8601 time, in UTC unless it names an offset.
        now_ms: The present time.

    Raises:
        CommandError: The text is none of these.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    if _DURATION.fullmatch(text):
        return max(0, now_ms - duration_ms(text))
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(
            f"{text!r} is not a time: write 15m (ago), 2026-05-01T12:00 (UTC) or milliseconds "
            "since 1970",
            usage=True,
        ) from None
    aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def duration_ms(text: str) -> int:
    """Return a duration such as `500ms`, `90s`, `15m`, `2h` or `1d` in milliseconds.

    Raises:
        CommandError: The text is not a duration.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise CommandError(
            f"{text!r} is not a duration: write 500ms, 30s, 15m, 2h or 1d", usage=True
        )
    return round(float(found[1]) * _UNITS_MS[found[2]])


def shown_time(timestamp_ms: int) -> str:
    """Return a timestamp in ISO 8601 and UTC; `-` if there is none, or no calendar has it."""
    if not 0 <= timestamp_ms <= _LAST_MS:
        return "-"
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03}Z"


def shown_duration(milliseconds: int) -> str:
    """Return a duration in its largest unit, rounded down."""
    for unit in ("d", "h", "m", "s"):
        if milliseconds >= _UNITS_MS[unit]:
            return f"{milliseconds // _UNITS_MS[unit]}{unit}"
    return f"{max(0, milliseconds)}ms"
