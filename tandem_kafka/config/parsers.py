"""Checks of the options whose values have a form of their own."""

from __future__ import annotations

import inspect
import ipaddress
import math
import re
import ssl
from typing import Any, Final, Protocol, runtime_checkable

from kafka.net.sasl import SASL_MECHANISMS

from tandem_kafka.config.checks import INT32_MAX, Check, objects, whole_number
from tandem_kafka.config.deprecation import warn_deprecated
from tandem_kafka.config.offset_reset import parse_offset_reset
from tandem_kafka.config.shown import shown

__all__ = [
    "ANYTHING",
    "API_VERSION",
    "ASSIGNORS",
    "BOOTSTRAP_SERVERS",
    "BUFFER_BYTES",
    "CONSUMER_TIMEOUT",
    "DESERIALIZER",
    "LOCAL_ASSIGNORS",
    "OFFSET_RESET",
    "SASL_MECHANISM",
    "SOCKET_OPTIONS",
    "SSL_CONTEXT",
    "TOKEN_PROVIDER",
    "Deserializer",
]

_ASSIGNOR_VERSIONS: Final = ("minimum_version", "version", "maximum_version")
_INT16_MAX: Final = 2**15 - 1
_DEFAULT_PORT: Final = 9092
_MAX_PORT: Final = 65535
_DOTTED_NUMBERS: Final = re.compile(r"\d{1,4}(\.\d{1,4}){1,3}", re.ASCII)


@runtime_checkable
class Deserializer(Protocol):
    """What kafka-python calls a Deserializer; a plain callable of bytes will do as well."""

    def deserialize(self, topic: str, headers: Any, data: Any) -> object:
        """Make an object of a record's key or value."""
        ...


def _parse_servers(value: Any) -> tuple[tuple[str, int], ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
        raise TypeError
    servers = [_parse_server(item.strip()) for item in items if item.strip()]
    if not servers:
        raise ValueError("must name at least one server")
    return tuple(dict.fromkeys(servers))


def _parse_server(text: str) -> tuple[str, int]:
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or not _is_ipv6(host) or (rest and not rest.startswith(":")):
            raise ValueError(f"{shown(text)} is not [IPv6 address]:port")
        return host, _parse_port(rest[1:], text) if rest else _DEFAULT_PORT
    if _is_ipv6(text):
        return text, _DEFAULT_PORT
    host, colon, port = text.partition(":")
    if not host or "/" in text:
        raise ValueError(f"{shown(text)} is not host:port")
    return host, _parse_port(port, text) if colon else _DEFAULT_PORT


def _parse_port(port: str, server: str) -> int:
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= _MAX_PORT):
        raise ValueError(
            f"the port {shown(port)} of {shown(server)} is not a number from 1 to {_MAX_PORT}"
        )
    return int(port)


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _parse_offset_reset(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    reset = parse_offset_reset(value)
    return value if reset.kind == "by_duration" else reset.kind


def _parse_api_version(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, str):
        warn_deprecated(f"api_version={value!r}: give a tuple such as (2, 5), or None to ask")
        value = _version_from_text(value)
    if value is None:
        return None
    if not isinstance(value, (tuple, list)) or len(value) < 2:
        raise TypeError
    if not all(type(part) is int and part >= 0 for part in value):
        raise ValueError
    return tuple(value)


def _version_from_text(text: str) -> tuple[int, ...] | None:
    if text == "auto":
        return None
    if not _DOTTED_NUMBERS.fullmatch(text):
        raise ValueError
    return tuple(int(part) for part in text.split("."))


def _parse_consumer_timeout(value: Any) -> int | None:
    """Without bound, as kafka-python has it: None, infinity, or below 0."""
    if value is None or value == math.inf:
        return None
    number = whole_number(-INT32_MAX).parse(value)
    return number if isinstance(number, int) and number >= 0 else None


def _parse_buffer_bytes(value: Any) -> object:
    """Take the Java client's word for the system's default, -1."""
    return None if value == -1 else whole_number(1, INT32_MAX, optional=True).parse(value)


def _parse_deserializer(value: Any) -> object:
    if inspect.isclass(value) and hasattr(value, "deserialize"):
        raise ValueError(f"must be an instance: write {value.__name__}()")
    if value is not None and not callable(value) and not isinstance(value, Deserializer):
        raise TypeError
    return value


def _parse_assignors(value: Any) -> tuple[object, ...]:
    assignors = objects(value)
    if not assignors or not all(
        isinstance(getattr(assignor, "name", None), (str, property))
        and callable(getattr(assignor, "assign", None))
        for assignor in assignors
    ):
        raise ValueError
    _check_assignor_names(assignors)
    return assignors


def _parse_local_assignors(value: Any) -> tuple[object, ...]:
    assignors = objects(value)
    for assignor in assignors:
        methods = [getattr(assignor, method, None) for method in ("assign", "metadata")]
        named = isinstance(name := getattr(assignor, "name", None), str) and name
        if not named or not all(map(callable, methods)):
            raise ValueError
        _check_assignor_versions(assignor)
    _check_assignor_names(assignors)
    return assignors


def _parse_interceptors(value: Any) -> tuple[object, ...]:
    interceptors = objects(value)
    for each in interceptors:
        methods = [getattr(each, name, None) for name in ("on_consume", "on_commit")]
        if not any(map(callable, methods)):
            raise ValueError
    return interceptors


def _check_assignor_versions(assignor: Any) -> None:
    given = [getattr(assignor, name, None) for name in _ASSIGNOR_VERSIONS]
    versions = [each for each in given if isinstance(each, int) and 0 <= each <= _INT16_MAX]
    if len(versions) < len(given):
        raise ValueError(f"{assignor.name}: {', '.join(_ASSIGNOR_VERSIONS)} must be whole numbers")
    if versions != sorted(versions):
        raise ValueError(f"{assignor.name}: version must be within what it reads itself")


def _check_assignor_names(assignors: tuple[Any, ...]) -> None:
    names = [assignor.name for assignor in assignors if isinstance(assignor.name, str)]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"names {', '.join(sorted(twice))} more than once")


def _parse_sasl_mechanism(value: Any) -> str | None:
    """Ask kafka-python, where users may have registered a mechanism of their own."""
    if value is None:
        return None
    if not isinstance(value, str) or value not in SASL_MECHANISMS:
        raise TypeError
    return value


def _parse_socket_options(value: Any) -> tuple[tuple[object, ...], ...]:
    if not isinstance(value, (list, tuple)):
        raise TypeError
    if not all(isinstance(item, (list, tuple)) and len(item) in {3, 4} for item in value):
        raise TypeError
    return tuple(tuple(item) for item in value)


def _parse_ssl_context(value: Any) -> ssl.SSLContext | None:
    if value is not None and not isinstance(value, ssl.SSLContext):
        raise TypeError
    return value


def _parse_token_provider(value: Any) -> object:
    """Refuse here what could only fail at every attempt to connect."""
    token = getattr(value, "token", None)
    if value is None:
        return None
    if inspect.isclass(value) and callable(token):
        raise ValueError(f"must be an instance: write {value.__name__}()")
    if not callable(token):
        raise TypeError
    if inspect.iscoroutinefunction(token):
        raise ValueError("token() must not be a coroutine function: it is called on a thread")
    if not _takes_no_arguments(token):
        raise ValueError("token() is called without arguments, and needs some")
    extensions = getattr(value, "extensions", None)
    if extensions is not None and not callable(extensions):
        raise ValueError("extensions must be a method, where there is one")
    return value


def _takes_no_arguments(function: Any) -> bool:
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    except ValueError:  # builtins do not tell
        return True
    return True


BOOTSTRAP_SERVERS: Final = Check(
    "'host[:port]' or '[IPv6 address][:port]', several by commas or as a list", _parse_servers
)
OFFSET_RESET: Final = Check(
    "'earliest', 'latest', 'none' or 'by_duration:<ISO 8601 duration>'", _parse_offset_reset
)
API_VERSION: Final = Check("a tuple such as (2, 5), or None", _parse_api_version)
CONSUMER_TIMEOUT: Final = Check(
    "a whole number, or None, infinity or below 0 for no end", _parse_consumer_timeout
)
BUFFER_BYTES: Final = Check(
    f"a whole number from 1 to {INT32_MAX}, or None or -1 for the system's", _parse_buffer_bytes
)
DESERIALIZER: Final = Check(
    "a callable of bytes, an object with deserialize(topic, headers, data), or None",
    _parse_deserializer,
)
ASSIGNORS: Final = Check(
    "a list of assignors (classes or instances with a name and assign())", _parse_assignors
)
LOCAL_ASSIGNORS: Final = Check(
    "a list of tandem_kafka.assignors.PartitionAssignor (classes or instances)",
    _parse_local_assignors,
)
INTERCEPTORS: Final = Check(
    "a list of classes or objects with on_consume(records), on_commit(offsets) or both",
    _parse_interceptors,
)
SASL_MECHANISM: Final = Check(
    "'PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512', 'OAUTHBEARER', 'GSSAPI', 'AWS_MSK_IAM' or another "
    "registered with kafka-python, or None",
    _parse_sasl_mechanism,
)
SOCKET_OPTIONS: Final = Check("a list of (level, option, value)", _parse_socket_options)
SSL_CONTEXT: Final = Check("an ssl.SSLContext or None", _parse_ssl_context)
TOKEN_PROVIDER: Final = Check("an object with token(), or None", _parse_token_provider)
ANYTHING: Final = Check("anything", lambda value: value)
