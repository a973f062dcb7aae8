"""Checks of the options and arguments that take the user's objects or name other systems."""

from __future__ import annotations

import inspect
import selectors
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tandem_kafka.config.checks import Check, objects
from tandem_kafka.errors import ArgumentTypeError
from tandem_kafka.logs import client_logger

if TYPE_CHECKING:
    from urllib.parse import SplitResult

log = client_logger(__name__)

_PROXY_SCHEMES: Final = ("socks5", "socks5h", "http")
_LISTENER_METHODS: Final = ("on_partitions_revoked", "on_partitions_assigned")
_REPORTER_METHODS: Final = ("init", "metric_change", "metric_removal", "close")


def _parse_proxy_url(value: Any) -> str | None:
    """Reject a value that would fail at every attempt to connect."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise TypeError
    from urllib.parse import urlsplit  # noqa: PLC0415 - few consumers have a proxy

    parts = urlsplit(value)
    if parts.scheme not in _PROXY_SCHEMES or not parts.hostname:
        raise ValueError
    if _port(parts) is None:
        raise ValueError("the port is missing")
    return value


def _port(parts: SplitResult) -> int | None:
    try:
        return parts.port
    except ValueError:  # its text may contain part of the password: a slash ends the host
        msg = "the port must be a number up to 65535"
        raise ValueError(msg) from None


def _parse_metric_reporters(value: Any) -> tuple[object, ...]:
    reporters = () if value is None else objects(value)
    for each in reporters:
        if not callable(each) and not all(
            callable(getattr(each, method, None)) for method in _REPORTER_METHODS
        ):
            raise ValueError
    return reporters


def _parse_selector(value: Any) -> object:
    if value is not None and not callable(value):
        raise TypeError
    if value is not None and value is not selectors.DefaultSelector:
        log.warning("selector=%r has no effect: the network thread has its own", value)
    return value


def _only(module: str, name: str) -> Check:
    """Accept only kafka-python's default class, without effect; another would be ignored."""

    def parse(value: Any) -> object:
        if value is not None and value is not getattr(import_module(module), name):
            raise TypeError
        return value

    return Check(f"{module}.{name}, which is not used, or None", parse)


def _parse_key_password(value: Any) -> str | None:
    """Accept what `ssl.SSLContext.load_cert_chain` accepts."""
    if callable(value) and not inspect.isclass(value):
        value = value()
    if isinstance(value, (bytes, bytearray)):
        value = value.decode()
    if value is not None and not isinstance(value, str):
        raise TypeError
    return value or None


def _parse_service_name(value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise TypeError
    return value or "kafka"


PROXY_URL: Final = Check(
    "'socks5://[user:password@]host:port', socks5h:// or http://, or None", _parse_proxy_url
)
METRIC_REPORTERS: Final = Check(
    "a list of kafka.metrics.AbstractMetricsReporter (classes or instances)",
    _parse_metric_reporters,
)
SELECTOR: Final = Check("a selector class or None", _parse_selector)
KAFKA_CLIENT: Final = _only("kafka.net.compat", "KafkaNetClient")
KAFKA_NET: Final = _only("kafka.net.selector", "NetworkSelector")
KEY_PASSWORD: Final = Check(
    "a str, bytes, a callable that returns one, or None", _parse_key_password
)
SERVICE_NAME: Final = Check("a str, or None for 'kafka'", _parse_service_name)


def check_listener(listener: Any) -> None:
    """Check that an object can be a listener.

    Raises:
        ArgumentTypeError: A required method is missing.
    """
    missing = [name for name in _LISTENER_METHODS if not callable(getattr(listener, name, None))]
    if listener is not None and missing:
        msg = (
            f"listener must have the methods {', '.join(_LISTENER_METHODS)}; "
            f"{type(listener).__name__} has no {' and no '.join(missing)}; "
            "derive its class from ConsumerRebalanceListener"
        )
        raise ArgumentTypeError(msg)


def check_decoder(decoder: object, name: str) -> None:
    """Check that an object can decode keys or values for `poll_arrow()`.

    Raises:
        ArgumentTypeError: It is no decoder.
    """
    if isinstance(decoder, type) or not callable(getattr(decoder, "decode", None)):
        msg = f"{name} must be a decoder such as tandem_kafka.tables.Json(schema), got {decoder!r}"
        raise ArgumentTypeError(msg)
