"""Decodes a fetch response in one pass over its frame; record batches are views of it.

Versions 4 to 11 have fixed-size lengths and counts. Versions 12 and later have compact ones and
tagged fields. From version 13 on, topics have ids. Counts are never trusted for allocation: lists
grow with the bytes that exist, so an invalid frame costs no more than a valid one of its size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from struct import error as struct_error
from typing import Final, TypeVar
from uuid import UUID

from tandem_kafka.errors import KafkaProtocolError
from tandem_kafka.records.decoder import FetchedPartition, FetchedResponse
from tandem_kafka.types import UNKNOWN_OFFSET, Node
from tandem_kafka.wire.framing import read_varint
from tandem_kafka.wire.hosts import advertised

MIN_VERSION: Final = 4
MAX_VERSION: Final = 18
_SESSIONS_FROM: Final = 7
_LOG_START_FROM: Final = 5
_PREFERRED_REPLICA_FROM: Final = 11
_FLEXIBLE_FROM: Final = 12
_TOPIC_IDS_FROM: Final = 13

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_ERROR_AND_SESSION: Final = Struct(">hi")
#: Partition, error, high watermark, last stable offset; from version 5 on also log start offset.
_PARTITION_V4: Final = Struct(">ihqq")
_PARTITION: Final = Struct(">ihqqq")
_ABORTED: Final = Struct(">qq")
_EPOCH_AND_OFFSET: Final = Struct(">iq")
_LEADER_AND_EPOCH: Final = Struct(">ii")

#: The fewest bytes of a topic, a partition, an aborted transaction and a node.
_TOPIC_BYTES: Final = 2
_PARTITION_BYTES: Final = 24
_ABORTED_BYTES: Final = 16
_NODE_BYTES: Final = 10

_DIVERGING_EPOCH_TAG: Final = 0
_CURRENT_LEADER_TAG: Final = 1
_NODE_ENDPOINTS_TAG: Final = 0

T = TypeVar("T")


def decode_fetch_response(body: memoryview, version: int) -> FetchedResponse:
    """Decode the body of a fetch response, without the response header.

    Raises:
        KafkaProtocolError: The bytes are not a response of this version.
    """
    if not MIN_VERSION <= version <= MAX_VERSION:
        raise KafkaProtocolError(f"fetch response version {version} is not supported")
    frame = _Frame(body, version)
    try:
        response = _read_response(frame)
    except (struct_error, IndexError, ValueError) as error:
        raise KafkaProtocolError(
            f"malformed fetch response v{version} at byte {frame.pos}: {error}"
        ) from error
    if frame.pos != len(body):
        raise KafkaProtocolError(
            f"malformed fetch response v{version}: {len(body) - frame.pos} bytes too many"
        )
    return response


class _Frame:
    """A cursor over the frame, which reads arrays, strings and tags as its version defines them."""

    __slots__ = ("body", "flexible", "pos", "version")

    def __init__(self, body: memoryview, version: int) -> None:
        self.body = body
        self.version = version
        self.flexible = version >= _FLEXIBLE_FROM
        self.pos = 0

    def unpack(self, layout: Struct) -> tuple[int, ...]:
        """Read fixed-size numbers."""
        values = layout.unpack_from(self.body, self.pos)
        self.pos += layout.size
        return values

    def take(self, length: int) -> memoryview:
        """Read a number of bytes."""
        start, end = self.pos, self.pos + length
        if length < 0 or end > len(self.body):
            raise ValueError(f"a field of {length} bytes does not fit")
        self.pos = end
        return self.body[start:end]

    def uvarint(self) -> int:
        """Read an unsigned varint of up to 32 bits."""
        value = self.body[self.pos]
        if value < 128:
            self.pos += 1
        else:
            value, self.pos = read_varint(self.body, self.pos)
        return value

    def length(self, plain: Struct = _INT32) -> int:
        """Read a length or count; -1 means null."""
        return self.uvarint() - 1 if self.flexible else self.unpack(plain)[0]

    def string(self) -> str:
        """Read a string."""
        return str(self.take(self.length(_INT16)), "utf-8")

    def nullable_string(self) -> str | None:
        """Read a string that may be null."""
        length = self.length(_INT16)
        return None if length == -1 else str(self.take(length), "utf-8")

    def array(
        self, least: int, read: Callable[[_Frame], T], *, nullable: bool = False
    ) -> tuple[T, ...]:
        """Read an array; the bytes that follow bound its count.

        Args:
            least: The smallest size of an element.
            read: Reads an element.
            nullable: Whether null stands for an empty array.
        """
        count = self.length()
        if count > (len(self.body) - self.pos) // least:
            raise ValueError(f"an array of {count} elements does not fit")
        if count > 0:
            return tuple([read(self) for _ in range(count)])
        if count < 0 and not (nullable and count == -1):
            raise ValueError(f"an array has {count} elements")
        return ()

    def tags(self) -> Mapping[int, _Frame]:
        """Read tagged fields, each as a separate frame; before version 12 there are none."""
        count = self.uvarint() if self.flexible else 0
        if not count:
            return _NO_TAGS
        found: dict[int, _Frame] = {}
        for _ in range(count):
            tag = self.uvarint()
            found[tag] = _Frame(self.take(self.uvarint()), self.version)
        return found


_NO_TAGS: Final[Mapping[int, _Frame]] = {}


def _read_response(frame: _Frame) -> FetchedResponse:
    (throttle_time_ms,) = frame.unpack(_INT32)
    error_code, session_id = 0, 0
    if frame.version >= _SESSIONS_FROM:
        error_code, session_id = frame.unpack(_ERROR_AND_SESSION)
    topics = frame.array(_TOPIC_BYTES, _read_topic)
    endpoints = frame.tags().get(_NODE_ENDPOINTS_TAG)
    return FetchedResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=error_code,
        session_id=session_id,
        partitions=tuple([partition for topic in topics for partition in topic]),
        node_endpoints=() if endpoints is None else endpoints.array(_NODE_BYTES, _read_endpoint),
    )


def _read_topic(frame: _Frame) -> tuple[FetchedPartition, ...]:
    topic: str | None = None
    topic_id: UUID | None = None
    if frame.version >= _TOPIC_IDS_FROM:
        topic_id = UUID(bytes=bytes(frame.take(16)))
    else:
        topic = frame.string()
    partitions = frame.array(
        _PARTITION_BYTES, lambda inner: _read_partition(inner, topic, topic_id)
    )
    frame.tags()
    return partitions


def _read_partition(frame: _Frame, topic: str | None, topic_id: UUID | None) -> FetchedPartition:
    log_start_offset, preferred_read_replica = UNKNOWN_OFFSET, -1
    if frame.version >= _LOG_START_FROM:
        partition, error_code, high, stable, log_start_offset = frame.unpack(_PARTITION)
    else:
        partition, error_code, high, stable = frame.unpack(_PARTITION_V4)
    aborted = frame.array(_ABORTED_BYTES, _read_aborted, nullable=True)
    if frame.version >= _PREFERRED_REPLICA_FROM:
        (preferred_read_replica,) = frame.unpack(_INT32)
    records = _read_records(frame)
    tags = frame.tags()
    return FetchedPartition(
        topic,
        topic_id,
        partition,
        error_code,
        high,
        stable,
        log_start_offset,
        aborted,
        preferred_read_replica,
        _read_known_pair(tags.get(_CURRENT_LEADER_TAG), _LEADER_AND_EPOCH),
        _read_known_pair(tags.get(_DIVERGING_EPOCH_TAG), _EPOCH_AND_OFFSET),
        records,
    )


def _read_aborted(frame: _Frame) -> tuple[int, int]:
    producer_id, first_offset = frame.unpack(_ABORTED)
    frame.tags()
    return producer_id, first_offset


def _read_records(frame: _Frame) -> memoryview | None:
    """Read the batches; an empty field means the same as null."""
    length = frame.length()
    return None if length in {-1, 0} else frame.take(length)


def _read_known_pair(frame: _Frame | None, layout: Struct) -> tuple[int, int] | None:
    """Read a tag that few partitions have; the protocol's default, -1, means that it is absent."""
    if frame is None:
        return None
    first, second = frame.unpack(layout)
    frame.tags()
    return None if first < 0 else (first, second)


def _read_endpoint(frame: _Frame) -> Node:
    (node_id,) = frame.unpack(_INT32)
    host = frame.string()
    (port,) = frame.unpack(_INT32)
    rack = frame.nullable_string()
    frame.tags()
    return advertised(node_id, host, port, rack)
