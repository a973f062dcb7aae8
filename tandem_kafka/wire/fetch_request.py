"""A fast implementation of the fetch request.

A fetch is sent for every response with records, while the application waits for the GIL.
kafka-python's message takes several times as long to create and encode. The layout is that of Fetch
versions 4 to 18 (KIP-219, KIP-227, KIP-320, KIP-392, KIP-516, KIP-903).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import ClassVar, Final
from uuid import UUID

from tandem_kafka.dataclass import dataclass

HIGHEST_VERSION: Final = 18
#: From this version on, topic ids replace names (KIP-516).
FIRST_VERSION_WITH_IDS: Final = 13

_SESSIONS: Final = 7
_LEADER_EPOCHS: Final = 9
_RACKS: Final = 11
_FLEXIBLE: Final = 12
_REPLICA_IN_A_TAG: Final = 15

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_LIMITS: Final = struct.Struct(">iiib")
_SESSION: Final = struct.Struct(">ii")
_NO_TAGS: Final = b"\0"
#: The replica id of a consumer, which is not a follower.
_NO_REPLICA: Final = _INT32.pack(-1)

#: Partition, leader epoch, offset, limit, and fields that only followers use.
_PARTITION_V4: Final = struct.Struct(">iqi")
_PARTITION_V5: Final = struct.Struct(">iqqi")
_PARTITION_V9: Final = struct.Struct(">iiqqi")
_PARTITION_V12: Final = struct.Struct(">iiqiqib")


@dataclass(frozen=True)
class WantedPartition:
    """One partition of a fetch; `partition_max_bytes` limits its part of the response."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    partition_max_bytes: int

    def encode(self, version: int) -> bytes:
        """Return the bytes for a version."""
        number, epoch = self.partition, self.current_leader_epoch
        offset, limit = self.fetch_offset, self.partition_max_bytes
        if version >= _FLEXIBLE:
            return _PARTITION_V12.pack(number, epoch, offset, -1, -1, limit, 0)
        if version >= _LEADER_EPOCHS:
            return _PARTITION_V9.pack(number, epoch, offset, -1, limit)
        if version >= 5:
            return _PARTITION_V5.pack(number, offset, -1, limit)
        return _PARTITION_V4.pack(number, offset, limit)


@dataclass(frozen=True)
class FetchedTopic:
    """The partitions of a topic to fetch."""

    topic: str
    topic_id: UUID
    partitions: Sequence[WantedPartition]


@dataclass(frozen=True)
class ForgottenTopic:
    """The partitions of a topic that a fetch session must forget (KIP-227)."""

    topic: str
    topic_id: UUID
    partitions: Sequence[int]


@dataclass()
class ConsumerFetch:
    """A consumer's fetch, with the used part of kafka-python's message interface.

    Args:
        max_wait_ms: How long the broker may wait for `min_bytes`.
        min_bytes: The size from which the broker responds before `max_wait_ms`.
        max_bytes: The limit for the whole response.
        isolation_level: 1 for read_committed.
        session_id: The fetch session, 0 without one.
        session_epoch: The number of the request in the session; 0 opens a session, -1 ends it or
            works without one.
        topics: The partitions to fetch, or those changed since the session's last request.
        forgotten_topics_data: The partitions that the session must forget.
        rack_id: The consumer's rack, for which a broker can choose a preferred replica.
        not_above: The highest version that supports these values.
    """

    name: ClassVar[str] = "FetchRequest"
    API_KEY: ClassVar[int] = 1
    min_version: ClassVar[int] = 4
    max_version: ClassVar[int] = HIGHEST_VERSION

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: Sequence[FetchedTopic]
    forgotten_topics_data: Sequence[ForgottenTopic] = ()
    rack_id: str = ""
    not_above: int = HIGHEST_VERSION

    # The limits of one message, from which kafka-python chooses a version.

    @property
    def _min_version(self) -> int:
        return self.min_version

    @property
    def _max_version(self) -> int:
        return self.not_above

    @classmethod
    def flexible_version_q(cls, version: int) -> bool:
        """Tell whether lengths are compact and fields may be tagged (KIP-482)."""
        return version >= _FLEXIBLE

    def encode(self, *, version: int) -> bytes:
        """Return the bytes of the body."""
        return self._body(version, *(_COMPACT if version >= _FLEXIBLE else _PLAIN))

    def _body(
        self, version: int, count: Callable[[int], bytes], text: Callable[[str], bytes]
    ) -> bytes:
        tags = _NO_TAGS if version >= _FLEXIBLE else b""
        by_id = version >= FIRST_VERSION_WITH_IDS
        parts = [
            b"" if version >= _REPLICA_IN_A_TAG else _NO_REPLICA,
            _LIMITS.pack(self.max_wait_ms, self.min_bytes, self.max_bytes, self.isolation_level),
        ]
        if version >= _SESSIONS:
            parts.append(_SESSION.pack(self.session_id, self.session_epoch))
        parts.append(count(len(self.topics)))
        for topic in self.topics:
            parts.append(topic.topic_id.bytes if by_id else text(topic.topic))
            parts.append(count(len(topic.partitions)))
            parts += [partition.encode(version) for partition in topic.partitions]
            parts.append(tags)
        if version >= _SESSIONS:
            parts.append(count(len(self.forgotten_topics_data)))
            for forgotten in self.forgotten_topics_data:
                parts.append(forgotten.topic_id.bytes if by_id else text(forgotten.topic))
                parts.append(count(len(forgotten.partitions)))
                parts += map(_INT32.pack, forgotten.partitions)
                parts.append(tags)
        if version >= _RACKS:
            parts.append(text(self.rack_id))
        parts.append(tags)
        return b"".join(parts)


def _plain_text(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _compact_text(text: str) -> bytes:
    data = text.encode()
    return _compact_count(len(data)) + data


def _compact_count(count: int) -> bytes:
    """Return a length plus one as an unsigned varint, because 0 means null."""
    rest = count + 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


_PLAIN: Final = (_INT32.pack, _plain_text)
_COMPACT: Final = (_compact_count, _compact_text)
