"""Options that the chosen security protocol has no use for: they are taken, and not looked at."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

__all__ = ["without_use"]

log = logging.getLogger(__name__)

#: The first letters of options and the part of `security_protocol` that they are for.
_PARTS: Final = {"ssl_": "SSL", "sasl_": "SASL"}


def without_use(
    options: Mapping[str, object], protocol: str, defaults: Mapping[str, object]
) -> frozenset[str]:
    """Return the names of options that are without use; the log names those that were meant.

    Args:
        options: What was given.
        protocol: The value of `security_protocol`.
        defaults: Values that ask for nothing, by name; None and an empty text do not either.
    """
    spoken = protocol.split("_")
    found = [
        name
        for name in options
        if any(name.startswith(start) and part not in spoken for start, part in _PARTS.items())
    ]
    meant = [name for name in found if not _asks_nothing(options[name], defaults[name])]
    if meant:
        log.warning("%s: without use with security_protocol=%r", ", ".join(meant), protocol)
    return frozenset(found)


def _asks_nothing(value: object, default: object) -> bool:
    """Compare without running a comparison of the user's."""
    plain = isinstance(value, (str, int))
    return value is None or (plain and value in ("", default))
