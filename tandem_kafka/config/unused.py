"""Options that have no effect with the chosen security protocol: accepted, and not checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tandem_kafka.logs import client_logger

log = client_logger(__name__)

#: Prefixes of options, and the part of `security_protocol` that they need.
_PARTS: Final = {"ssl_": "SSL", "sasl_": "SASL"}
_PROTOCOLS: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")


def without_use(
    options: Mapping[str, object], protocol: str, defaults: Mapping[str, object]
) -> frozenset[str]:
    """Return the names of options without effect; log those whose value asks for something.

    Args:
        options: What was given.
        protocol: The value of `security_protocol`.
        defaults: Values that ask for nothing, by name; None and an empty text do not either.
    """
    missing = {name: part for name in options if (part := _missing(name, protocol))}
    meant = [name for name in missing if not _asks_nothing(options[name], defaults[name])]
    if meant:
        log.warning(
            "%s: no effect with security_protocol=%r; set %s",
            ", ".join(meant),
            protocol,
            _protocols_with(protocol, (missing[name] for name in meant)),
        )
    return frozenset(missing)


def _missing(name: str, protocol: str) -> str | None:
    """Return the part that the option needs but the protocol lacks."""
    for prefix, part in _PARTS.items():
        if name.startswith(prefix) and part not in protocol.split("_"):
            return part
    return None


def _protocols_with(protocol: str, parts: Iterable[str]) -> str:
    """Name the protocols that have these parts in addition to those of the present one."""
    needed = {*protocol.split("_"), *parts} - {"PLAINTEXT"}
    return " or ".join(repr(each) for each in _PROTOCOLS if needed <= set(each.split("_")))


def _asks_nothing(value: object, default: object) -> bool:
    """Compare without running a comparison of the user's."""
    plain = isinstance(value, (str, int))
    return value is None or (plain and value in ("", default))
