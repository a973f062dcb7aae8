"""Checks of options that name what others bring along: proxies and metric reporters."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from tandem_kafka.config.checks import Check, objects
from tandem_kafka.config.shown import shown

__all__ = ["METRIC_REPORTERS", "PROXY_URL"]

_PROXY_SCHEMES: Final = ("socks5", "socks5h")
_REPORTER_METHODS: Final = ("init", "metric_change", "metric_removal", "close")


def _parse_proxy_url(value: Any) -> str | None:
    """Refuse here what could only fail at every attempt to connect."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise TypeError
    parts = urlsplit(value)
    if parts.scheme not in _PROXY_SCHEMES or not parts.hostname:
        raise ValueError
    if parts.port is None:
        raise ValueError(f"{shown(value)} names no port")
    return value


def _parse_metric_reporters(value: Any) -> tuple[object, ...]:
    reporters = () if value is None else objects(value)
    for each in reporters:
        if not callable(each) and not all(
            callable(getattr(each, method, None)) for method in _REPORTER_METHODS
        ):
            raise ValueError
    return reporters


PROXY_URL: Final = Check("'socks5://[user:password@]host:port', socks5h, or None", _parse_proxy_url)
METRIC_REPORTERS: Final = Check(
    "a list of kafka.metrics.AbstractMetricsReporter (classes or instances)",
    _parse_metric_reporters,
)
