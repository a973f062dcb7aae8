"""What stands around the body of a request, and which class decodes its answer.

By hand, because kafka-python makes an object of every header and takes longer to encode it than
most bodies.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, Final

from kafka.protocol.api_header import RequestHeader

__all__ = ["framed", "nullable", "response_class"]

#: Size of what follows, API key, version, correlation id; the client's name stands behind them.
_HEADER: Final = struct.Struct(">ihhi")
_INT16: Final = struct.Struct(">h")
_NO_TAGS: Final = b"\0"
_SIZE: Final = 4


def nullable(text: str | None) -> bytes:
    """Encode a string as headers have it: never compact, so that every broker can read it."""
    if text is None:
        return _INT16.pack(-1)
    data = text.encode()
    return _INT16.pack(len(data)) + data


def framed(message: Any, version: int, correlation_id: int, client_id: bytes) -> bytes:
    """Return a request as it goes over the wire; `client_id` is `nullable` already."""
    body: bytes = message.encode(version=version)
    tags = _NO_TAGS if message.flexible_version_q(version) else b""
    size = _HEADER.size - _SIZE + len(client_id) + len(tags) + len(body)
    header = _HEADER.pack(size, message.API_KEY, version, correlation_id)
    return b"".join((header, client_id, tags, body))


@cache
def response_class(api_key: int, version: int) -> Any:
    """Return kafka-python's class of the answer to a request; it decodes that version."""
    header = RequestHeader(request_api_key=api_key, request_api_version=version)
    return header.get_response_class()
