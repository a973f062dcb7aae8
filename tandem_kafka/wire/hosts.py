"""Addresses that a cluster advertises: a hostile broker may name anything."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from tandem_kafka.foreign_text import Secret
from tandem_kafka.logs import sent_secrets
from tandem_kafka.types import Node

#: Labels of RFC 1123, with underscores, which container networks use.
_NAME: Final = re.compile(r"(?=.{1,254}\Z)[\w-]{1,63}(\.[\w-]{1,63})*\.?", re.ASCII)
_IPV6: Final = re.compile(r"[0-9a-f:.]{2,45}(%[\w.-]{1,63})?", re.ASCII | re.IGNORECASE)
_SHOWN: Final = 80


def advertised(node_id: int, host: str, port: int, rack: str | None = None) -> Node:
    """Return a broker as a response describes it.

    Invariant: the host of a broker has no control characters. One that cannot be the name of a
    host is quoted without secrets, so that logs can show it; `address_problem` rejects it before
    it is used.
    """
    if not _is_host(host):
        shown = sent_secrets().hidden(Secret(host))
        text = shown.encode("unicode_escape").decode("ascii").replace("'", "\\x27")
        host = f"'{text[:_SHOWN]}'" if len(text) <= _SHOWN else f"'{text[:_SHOWN]}...'"
    return Node(node_id, host, port, rack)


def address_problem(host: str, port: int) -> str | None:
    """Say why no connection to an address must be attempted, or return None."""
    if not _is_host(host):
        what = "the host is not a valid name or address"
    elif not 0 < port < 65_536:
        what = "the port is not between 1 and 65535"
    else:
        return None
    return f"{what}; check bootstrap_servers, and advertised.listeners of the brokers"


@lru_cache(maxsize=1_000)
def _is_host(host: str) -> bool:
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if ":" in bare:
        return _IPV6.fullmatch(bare) is not None
    try:
        return _NAME.fullmatch(host.encode("idna").decode("ascii")) is not None
    except UnicodeError:  # no name in any language, or a label that is too long
        return False
