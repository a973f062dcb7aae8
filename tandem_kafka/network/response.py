"""The header of a response, and the throttle time in it."""

from __future__ import annotations

import struct
from typing import Any, Final

from tandem_kafka.wire.framing import read_varint

_CORRELATION_ID = struct.Struct(">i")
_API_VERSIONS_KEY: Final = 18

#: The first version after which the client must wait; before it, the broker has waited (KIP-219).
#: For other requests, the client must wait from version 0 on. The Java client does not wait after
#: KIP-848 heartbeats and OffsetForLeaderEpoch, so it sends to a broker that does not read.
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
    """Split the response to a message into correlation id and body.

    kafka-python's header reads from a file, and would copy the whole frame.
    """
    (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
    position = _CORRELATION_ID.size
    # The response to ApiVersions keeps the old header, so that every client can read it.
    if message.API_KEY != _API_VERSIONS_KEY and message.flexible_version_q(version):
        position = _skip_tags(frame, position)
    return correlation_id, frame[position:]


def _skip_tags(frame: memoryview, position: int) -> int:
    count, position = read_varint(frame, position)
    for _ in range(count):
        _tag, position = read_varint(frame, position)
        size, position = read_varint(frame, position)
        position += size
    return position


def throttle_ms(answer: Any, api_key: int, version: int) -> int:
    """Return how long to send no request after a response."""
    delay_ms = getattr(answer, "throttle_time_ms", 0)
    if not delay_ms or version < _CLIENT_WAITS_SINCE.get(api_key, 0):
        return 0
    return int(delay_ms)
