"""Points in time and durations, as people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tandem_kafka.errors import InvalidArgumentError

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)


def time_ms(text: str, now_ms: int) -> int:
    """Return a point in time in milliseconds since the Unix epoch.

    Args:
        text: Milliseconds since the epoch, a duration before now (`90s`, `15m`, `2h`, `1d`, also
            with a minus), or an ISO 8601 time, in UTC unless it names an offset.
        now_ms: The present time.

    Raises:
        InvalidArgumentError: The text is none of these.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    if _DURATION.fullmatch(text.removeprefix("-")):
        return max(0, now_ms - duration_ms(text.removeprefix("-")))
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise _invalid(
            f"{text!r} is not a time: write 15m (ago), 2026-05-01T12:00 (UTC) or milliseconds "
            "since 1970"
        ) from None
    return moment_ms(parsed)


def moment_ms(moment: datetime) -> int:
    """Return a moment in milliseconds since the Unix epoch; it is in UTC without a time zone."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def duration_ms(text: str) -> int:
    """Return a duration such as `500ms`, `90s`, `15m`, `2h` or `1d` in milliseconds.

    Raises:
        InvalidArgumentError: The text is not a duration.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise _invalid(f"{text!r} is not a duration: write 500ms, 30s, 15m, 2h or 1d")
    return round(float(found[1]) * _UNITS_MS[found[2]])


def _invalid(text: str) -> InvalidArgumentError:
    # An import of exceptions of Kafka would delay the command line.
    from tandem_kafka.errors import InvalidArgumentError

    return InvalidArgumentError(text)
