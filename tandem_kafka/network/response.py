"""What stands around the body of a response: its header, and the delay a broker asks for."""

from __future__ import annotations

import struct
from typing import Any, Final

__all__ = ["parse_header", "throttle_ms"]

_CORRELATION_ID = struct.Struct(">i")
_API_VERSIONS_KEY: Final = 18

#: What five bytes can hold; without a limit, a number of all of a broken frame would be computed.
_MOST_BITS: Final = 35

#: First version after whose answer the client has to wait; before, the broker itself has waited
#: (KIP-219). After any other request that says so it has waited from version 0: the Java client
#: does not after KIP-848's heartbeats and OffsetForLeaderEpoch, and talks to a broker that is deaf.
_CLIENT_WAITS_SINCE: Final = {
    1: 8,  # Fetch
    2: 3,  # ListOffsets
    3: 6,  # Metadata
    8: 4,  # OffsetCommit
    9: 4,  # OffsetFetch
    10: 2,  # FindCoordinator
    11: 3,  # JoinGroup
    12: 2,  # Heartbeat
    13: 2,  # LeaveGroup
    14: 2,  # SyncGroup
    18: 2,  # ApiVersions
}


def parse_header(frame: memoryview, message: Any, version: int) -> tuple[int, memoryview]:
    """Split the answer to a message into correlation id and body.

    By hand, because kafka-python's header reads from a file and would copy the whole frame.
    """
    (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
    position = _CORRELATION_ID.size
    # The answer to ApiVersions keeps the old header, so that every client can read it.
    if message.API_KEY != _API_VERSIONS_KEY and message.flexible_version_q(version):
        position = _skip_tags(frame, position)
    return correlation_id, frame[position:]


def _skip_tags(frame: memoryview, position: int) -> int:
    count, position = _unsigned_varint(frame, position)
    for _ in range(count):
        _tag, position = _unsigned_varint(frame, position)
        size, position = _unsigned_varint(frame, position)
        position += size
    return position


def _unsigned_varint(frame: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift >= _MOST_BITS:
            raise ValueError("a number has more than five bytes")


def throttle_ms(answer: Any, api_key: int, version: int) -> int:
    """Return how long to send nothing after an answer."""
    delay_ms = getattr(answer, "throttle_time_ms", 0)
    if not delay_ms or version < _CLIENT_WAITS_SINCE.get(api_key, 0):
        return 0
    return int(delay_ms)
