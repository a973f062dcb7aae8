"""What stands around the body of a request, and which class decodes its answer.

By hand, because kafka-python makes an object of every header and takes longer to encode it than
most bodies.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from kafka.protocol.api_header import RequestHeader
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.schemas.fields.codecs import EncodeBuffer

__all__ = ["decoded", "encoded", "framed", "nullable", "response_class"]

#: Size of what follows, API key, version, correlation id; the client's name stands behind them.
_HEADER: Final = struct.Struct(">ihhi")
_INT16: Final = struct.Struct(">h")
_NO_TAGS: Final = b"\0"
_SIZE: Final = 4
#: Most messages are shorter; the buffer grows for the others.
_MOST: Final = 512


def nullable(text: str | None) -> bytes:
    """Encode a string as headers have it: never compact, so that every broker can read it."""
    if text is None:
        return _INT16.pack(-1)
    data = text.encode()
    return _INT16.pack(len(data)) + data


def encoded(message: Any, version: int) -> bytes:
    """Return the body of a message."""
    kind: Any = type(message)
    encode = _encoder(kind, version)
    if encode is None:
        body: bytes = message.encode(version=version)
        return body
    buffer = EncodeBuffer(_MOST)
    encode(message, buffer)
    return bytes(memoryview(buffer.buf)[: buffer.pos])


@cache
def _encoder(kind: Any, version: int) -> Callable[[Any, Any], None] | None:
    """Return what kafka-python compiles for a message; None if the message has its own way.

    Looking for it at each message takes longer than encoding most of them.
    """
    compiles = getattr(getattr(kind, "_struct", None), "compiled_encode_into", None)
    plain = kind.encode is ApiMessage.encode or (kind is MetadataRequest and version > 0)
    if compiles is None or not plain or not 0 <= version <= kind.max_version:
        return None
    flexible = kind.flexible_version_q(version)
    compiled: Callable[[Any, Any], None] = compiles(version, compact=flexible, tagged=flexible)
    return compiled


def decoded(kind: Any, version: int, body: memoryview) -> Any:
    """Return the message of a body.

    Raises:
        ValueError: The body is too short; or something else, if it makes no sense.
    """
    decode = _decoder(kind, version)
    if decode is None:
        return kind.decode(body, version=version)
    message, end = decode(body, 0)
    if end > len(body):  # kafka-python takes what there is of a last string for the whole
        raise ValueError(f"{end - len(body)} bytes are missing")
    return message


@cache
def _decoder(kind: Any, version: int) -> Callable[[memoryview, int], tuple[Any, int]] | None:
    """Return what kafka-python compiles for a message; None if the message has its own way."""
    compiles = getattr(getattr(kind, "_struct", None), "compiled_decode_from", None)
    own = kind.decode.__func__ is not ApiMessage.decode.__func__
    if compiles is None or own or not 0 <= version <= kind.max_version:
        return None
    flexible = kind.flexible_version_q(version)
    compiled: Callable[[memoryview, int], tuple[Any, int]] = compiles(
        version, compact=flexible, tagged=flexible, data_class=kind[None]
    )
    return compiled


def framed(message: Any, version: int, correlation_id: int, client_id: bytes) -> bytes:
    """Return a request as it goes over the wire; `client_id` is `nullable` already."""
    body = encoded(message, version)
    tags = _NO_TAGS if message.flexible_version_q(version) else b""
    size = _HEADER.size - _SIZE + len(client_id) + len(tags) + len(body)
    header = _HEADER.pack(size, message.API_KEY, version, correlation_id)
    return b"".join((header, client_id, tags, body))


@cache
def response_class(api_key: int, version: int) -> Any:
    """Return kafka-python's class of the answer to a request; it decodes that version."""
    header = RequestHeader(request_api_key=api_key, request_api_version=version)
    return header.get_response_class()
