"""The codec of the done-map: which offsets after the committed one are done, as text.

The format is part of the public contract; the docstring of `tandem_kafka.workers` describes it.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from tandem_kafka.types import NO_TOPIC_ID, UNKNOWN_EPOCH, TopicPartition

#: Half-open ranges of offsets, ascending, neither empty nor adjacent.
Ranges = Sequence[tuple[int, int]]

PREFIX: Final = "tkw1:"
RUNS: Final = 0
BITS: Final = 1

_CRC_BYTES: Final = 4
#: The kind, and a varint of 63 bits: 31 for the topic, 32 for the leader epoch.
_HEADER_BYTES: Final = _CRC_BYTES + 1 + 9
_EPOCH_BITS: Final = 32
_EPOCH_MASK: Final = (1 << _EPOCH_BITS) - 1
_TOPIC_MASK: Final = (1 << 31) - 1
#: A smaller limit leaves no room for a useful map.
MIN_LIMIT_BYTES: Final = 64


class ForeignMetadataError(ValueError):
    """The metadata was not written by workers for this commit."""


@dataclass(frozen=True, slots=True)
class DoneMap:
    """What the metadata of a commit says.

    Attributes:
        ranges: Ranges of offsets that are done, all after the committed offset.
        leader_epoch: The highest leader epoch among their records, -1 if unknown.
        topic: The `fingerprint` of their topic, 0 if unknown: a broker gave no id, or a release
            wrote the map that knew of none.
    """

    ranges: Ranges = ()
    leader_epoch: int = UNKNOWN_EPOCH
    topic: int = 0

    def before(self, end: int) -> DoneMap:
        """Return what it says of a log that ends at `end`: what a map claims beyond is no claim."""
        ranges = tuple([(start, min(stop, end)) for start, stop in self.ranges if start < end])
        return replace(self, ranges=ranges)

    def is_of(self, topic_id: UUID) -> bool:
        """Tell whether it may be of this topic, not of a deleted one with the same name."""
        return 0 in (self.topic, topic := fingerprint(topic_id)) or self.topic == topic


def fingerprint(topic_id: UUID) -> int:
    """Return 31 bits that tell a topic id from others, 0 if there is none."""
    if topic_id == NO_TOPIC_ID:
        return 0
    return zlib.crc32(topic_id.bytes) & _TOPIC_MASK or 1


def encode(tp: TopicPartition, base: int, done: DoneMap, limit: int) -> tuple[str, int]:
    """Return the metadata for a commit of `base`, and how many ranges it had to leave out.

    Ranges are left out from the end, and only if the text would be longer than `limit`. Their
    records are then handled again after a restart.
    """
    ranges = list(done.ranges)
    while ranges:
        text = _encode(tp, base, ranges, done)
        if len(text) <= limit:
            return text, len(done.ranges) - len(ranges)
        del ranges[-max(1, len(ranges) // 8) :]
    return "", len(done.ranges)


def _encode(tp: TopicPartition, base: int, ranges: Ranges, done: DoneMap) -> str:
    runs = b"".join(map(_varint, _lengths(base, ranges)))
    bits_size = (ranges[-1][1] - base + 7) // 8
    if bits_size < len(runs):
        kind, body = BITS, _to_bits(base, ranges)
    else:
        kind, body = RUNS, runs
    # Invariant: one number, which members of earlier releases read as the leader epoch.
    head = done.topic << _EPOCH_BITS | (done.leader_epoch + 1)
    payload = bytes([kind]) + _varint(head) + body
    checked = _checksum(tp, base, payload) + payload
    return PREFIX + base64.urlsafe_b64encode(checked).rstrip(b"=").decode("ascii")


def decode(tp: TopicPartition, base: int, metadata: str) -> DoneMap:
    """Return the map in the metadata of a commit of `base`; empty metadata is an empty map.

    Raises:
        ForeignMetadataError: Another program wrote it, or wrote it for another offset.
    """
    if not metadata:
        return DoneMap()
    if not metadata.startswith(PREFIX):
        raise ForeignMetadataError(f"it does not start with {PREFIX!r}")
    text = metadata[len(PREFIX) :]
    try:
        checked = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ForeignMetadataError("it is not valid base64") from error
    payload = checked[_CRC_BYTES:]
    if checked[:_CRC_BYTES] != _checksum(tp, base, payload):
        raise ForeignMetadataError("its checksum is not that of this partition and offset")
    # A checksum proves nothing: anyone who may commit can compute it.
    if payload[:1] not in {bytes([RUNS]), bytes([BITS])}:
        raise ForeignMetadataError("its kind is unknown")
    head, at = _read_varint(payload, 1)
    body = payload[at:]
    ranges = _from_bits(base, body) if payload[0] == BITS else _from_runs(base, body)
    return DoneMap(tuple(ranges), (head & _EPOCH_MASK) - 1, head >> _EPOCH_BITS)


def fits(window: int, undone: int, holes: int, limit: int) -> bool:
    """Tell whether a map fits into `limit`, no matter which records are done when it is written.

    Invariant: intake stops for what could happen, as records can be done in any order.

    Args:
        window: Number of offsets from the base to the last one that may be marked.
        undone: How many of them are not done yet.
        holes: Upper bound for the number of runs of offsets that are not done.
        limit: Maximum length of the metadata.
    """
    room = (limit - len(PREFIX)) * 3 // 4 - _HEADER_BYTES
    return (window + 7) // 8 <= room or (
        _longest(holes, undone) + _longest(holes, window - undone) <= room
    )


def _longest(runs: int, offsets: int) -> int:
    """Return an upper bound, in bytes, for `runs` runs that cover `offsets` offsets."""
    size, length = runs, offsets >> 7
    while length:  # a varint of one more byte needs a run 128 times as long
        size += min(runs, length)
        length >>= 7
    return size


def _checksum(tp: TopicPartition, base: int, payload: bytes) -> bytes:
    """Return a checksum that binds the map to its partition and offset.

    Tools copy commits to other offsets together with their metadata. There, the map would mark
    records that are not done.
    """
    place = f"{tp.topic}/{tp.partition}/{base}/".encode()
    return zlib.crc32(payload, zlib.crc32(place)).to_bytes(_CRC_BYTES, "big")


def _lengths(base: int, ranges: Ranges) -> Iterator[int]:
    at = base
    for start, end in ranges:
        yield start - at
        yield end - start
        at = end


def _from_runs(base: int, body: bytes) -> Iterator[tuple[int, int]]:
    at, offset = 0, base
    while at < len(body):
        undone, at = _read_varint(body, at)
        done, at = _read_varint(body, at)
        if not done or (not undone and offset != base):
            raise ForeignMetadataError("one of its runs is empty")
        offset += undone
        yield offset, offset + done
        offset += done


def _to_bits(base: int, ranges: Ranges) -> bytes:
    bits = 0
    for start, end in ranges:
        bits |= ((1 << (end - start)) - 1) << (start - base)
    return bits.to_bytes((ranges[-1][1] - base + 7) // 8, "little")


def _from_bits(base: int, body: bytes) -> Iterable[tuple[int, int]]:
    marks = "".join(f"{byte:08b}"[::-1] for byte in body)
    start = marks.find("1")
    while start >= 0:
        end = marks.find("0", start)
        end = len(marks) if end < 0 else end
        yield base + start, base + end
        start = marks.find("1", end)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 63, 7):  # no offset and no epoch needs more
        if at >= len(data):
            raise ForeignMetadataError("it is incomplete")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ForeignMetadataError("one of its numbers is too large")
