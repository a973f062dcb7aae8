"""Encodes requests with their headers, and decodes responses.

kafka-python is slower: it creates an object for every header, and encoding it takes longer than
encoding most bodies.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from kafka.protocol.api_header import RequestHeader
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.schemas.fields.codecs import EncodeBuffer

from tandem_kafka.wire import messages

#: The size of the rest, API key, version and correlation id; the client id follows.
_HEADER: Final = struct.Struct(">ihhi")
_INT16: Final = struct.Struct(">h")
_NO_TAGS: Final = b"\0"
_SIZE: Final = 4
#: The initial size of the buffer, which is enough for most messages.
_MOST: Final = 512


def encode_nullable(text: str | None) -> bytes:
    """Encode a string for a header; it is never compact, so that every broker can read it."""
    if text is None:
        return _INT16.pack(-1)
    data = text.encode()
    return _INT16.pack(len(data)) + data


def encode_message(message: Any, version: int) -> bytes:
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
    """Return kafka-python's compiled encoder of a message; None if the class overrides it.

    It is cached, because finding it takes longer than encoding most messages.
    """
    compiles = getattr(getattr(kind, "_struct", None), "compiled_encode_into", None)
    plain = kind.encode is ApiMessage.encode or (kind is messages.MetadataRequest and version > 0)
    if compiles is None or not plain or not 0 <= version <= kind.max_version:
        return None
    flexible = kind.flexible_version_q(version)
    compiled: Callable[[Any, Any], None] = compiles(version, compact=flexible, tagged=flexible)
    return compiled


def decode_message(kind: Any, version: int, body: memoryview) -> Any:
    """Decode a body.

    Raises:
        ValueError: The body is too short. Other invalid bodies may raise other exceptions.
    """
    decode = _decoder(kind, version)
    if decode is None:
        return kind.decode(body, version=version)
    message, end = decode(body, 0)
    if end > len(body):  # kafka-python accepts a truncated string at the end
        raise ValueError(f"{end - len(body)} bytes are missing")
    return message


@cache
def _decoder(kind: Any, version: int) -> Callable[[memoryview, int], tuple[Any, int]] | None:
    """Return kafka-python's compiled decoder of a message; None if the class overrides it."""
    compiles = getattr(getattr(kind, "_struct", None), "compiled_decode_from", None)
    own = kind.decode.__func__ is not ApiMessage.decode.__func__
    if compiles is None or own or not 0 <= version <= kind.max_version:
        return None
    flexible = kind.flexible_version_q(version)
    compiled: Callable[[memoryview, int], tuple[Any, int]] = compiles(
        version, compact=flexible, tagged=flexible, data_class=kind[None]
    )
    return compiled


def frame_request(message: Any, version: int, correlation_id: int, client_id: bytes) -> bytes:
    """Return the frame of a request; `client_id` is the result of `encode_nullable`."""
    body = encode_message(message, version)
    tags = _NO_TAGS if message.flexible_version_q(version) else b""
    size = _HEADER.size - _SIZE + len(client_id) + len(tags) + len(body)
    header = _HEADER.pack(size, message.API_KEY, version, correlation_id)
    return b"".join((header, client_id, tags, body))


@cache
def response_class(api_key: int, version: int) -> Any:
    """Return the class for the response to a request.

    Invariant: kafka-python's registry is not asked for a message of ours. It has a class before
    that is complete, and one of each thread that defines it.
    """
    if (ours := messages.definitions.get(api_key)) is not None:
        return ours[1][version]
    header = RequestHeader(request_api_key=api_key, request_api_version=version)
    return header.get_response_class()


#: The bits that five bytes can hold; without a limit, a corrupted frame could be one huge number.
_MOST_BITS = 35


def read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """Return a number of up to 32 bits, and the position after it.

    Raises:
        ValueError: It has more than five bytes.
        IndexError: The data ends in it.
    """
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift >= _MOST_BITS:
            raise ValueError("a varint has more than five bytes")


def encode_varint(value: int) -> bytes:
    """Return a number that is not negative in as few bytes as possible."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
