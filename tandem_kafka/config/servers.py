"""Reads `bootstrap_servers`."""

from __future__ import annotations

import re
import socket
from typing import Any, Final

from tandem_kafka.config.checks import Check, objects
from tandem_kafka.config.shown import show

_DEFAULT_PORT: Final = 9092
_MAX_PORT: Final = 65535
#: The listener prefix of a broker's own settings; it has no effect here.
_PREFIX: Final = re.compile(r"^(PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL|kafka)://", re.IGNORECASE)


def _parse_servers(value: Any) -> tuple[tuple[str, int], ...]:
    items = [value] if isinstance(value, str) else objects(value)
    if not all(isinstance(item, str) for item in items):
        raise TypeError
    names = [name.strip() for item in items for name in item.split(",")]
    servers = [_parse_server(_PREFIX.sub("", name)) for name in names if name]
    if not servers:
        raise ValueError("must name at least one server")
    return tuple(dict.fromkeys(servers))


def _parse_server(text: str) -> tuple[str, int]:
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or not is_ipv6(host) or (rest and not rest.startswith(":")):
            raise ValueError(f"{show(text)} is not [IPv6 address]:port")
        return host, _parse_port(rest[1:], text) if rest else _DEFAULT_PORT
    if is_ipv6(text):
        return text, _DEFAULT_PORT
    host, colon, port = text.partition(":")
    if not host or "/" in text:
        raise ValueError(f"{show(text)} is not host:port, such as 'localhost:9092'")
    return host, _parse_port(port, text) if colon else _DEFAULT_PORT


def _parse_port(port: str, server: str) -> int:
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= _MAX_PORT):
        raise ValueError(
            f"the port {show(port, secret='@' in server)} of {show(server)} is not a number from 1 "
            f"to {_MAX_PORT}"
        )
    return int(port)


def is_ipv4(text: str) -> bool:
    """Tell whether a text is an IPv4 address."""
    return _is_address(socket.AF_INET, text)


def is_ipv6(text: str) -> bool:
    """Tell whether a text is an IPv6 address, possibly with a scope."""
    address, percent, scope = text.partition("%")
    return bool(scope) == bool(percent) and _is_address(socket.AF_INET6, address)


def _is_address(family: socket.AddressFamily, text: str) -> bool:
    try:
        socket.inet_pton(family, text)
    except (OSError, ValueError):
        return False
    return True


BOOTSTRAP_SERVERS: Final = Check(
    "'host[:port]' or '[IPv6 address][:port]', several with commas or as a list, set or generator",
    _parse_servers,
)
