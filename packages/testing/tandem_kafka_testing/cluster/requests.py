"""Decodes frames to requests; equal requests are decoded once."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kafka.protocol.producer import ProduceRequest

from tandem_kafka.wire.framing import decode_message
from tandem_kafka_testing.cluster.apis import APIS

#: API key, version, correlation id, length of the client id.
_HEADER: Final = struct.Struct(">hhih")


class Header(NamedTuple):
    """The header of a request; in flexible versions, tags follow."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str
    size: int


def read_header(frame: bytes) -> Header:
    """Return the header of a request."""
    api_key, version, correlation_id, length = _HEADER.unpack_from(frame)
    size = _HEADER.size + max(0, length)
    client_id = frame[_HEADER.size : size].decode()
    return Header(api_key, version, correlation_id, client_id, size)


def read_body(header: Header, frame: bytes) -> Any:
    """Return the request of a supported version; it must not be changed."""
    request_class = APIS[header.api_key].request
    body_at = header.size
    if request_class.flexible_version_q(header.version):
        if frame[body_at]:  # tags in the header, which no client here sends
            return request_class.decode(frame, version=header.version, header=True)
        body_at += 1
    if header.api_key == ProduceRequest.API_KEY:  # no two are equal
        return decode_message(ProduceRequest, header.version, memoryview(frame)[body_at:])
    return _decoded(header.api_key, header.version, bytes(frame[body_at:]))


@lru_cache(maxsize=500)
def _decoded(api_key: int, version: int, body: bytes) -> Any:
    return decode_message(APIS[api_key].request, version, memoryview(body))
