"""A record batch of a producer, checked as a broker checks it (KIP-98)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from kafka import errors
from kafka.record.util import calc_crc32c

#: Base offset, length, leader epoch, magic, checksum, attributes, last offset delta, first and last
#: timestamp, producer id and epoch, first sequence number, number of records.
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_LENGTH_AT: Final = 12
_CHECKED_FROM: Final = 21
_MAGIC: Final = 2
_TRANSACTIONAL, _CONTROL, _APPEND_TIME = 0x10, 0x20, 0x08
_ATTRIBUTES: Final = struct.Struct(">h")
_CHECKSUM: Final = struct.Struct(">I")
_TIME: Final = struct.Struct(">q")
_ATTRIBUTES_AT, _CHECKSUM_AT, _MAX_TIMESTAMP_AT = 21, 17, 35
#: The default of `max.message.bytes`.
MAX_BYTES: Final = 1_048_588
#: Sequence numbers begin again behind this one.
_LAST_SEQUENCE: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Sequence:
    """Which records of an idempotent producer a batch has."""

    producer_id: int
    epoch: int
    first: int
    count: int

    @property
    def last(self) -> int:
        """The sequence number of the last record."""
        return (self.first + self.count - 1) % (_LAST_SEQUENCE + 1)

    @property
    def next(self) -> int:
        """The sequence number of the record after the last."""
        return (self.last + 1) % (_LAST_SEQUENCE + 1)


@dataclass(frozen=True, slots=True)
class Produced:
    """A valid batch of a producer.

    Attributes:
        data: Its bytes; offset and leader epoch are those of the producer.
        count: The number of its records.
        first_timestamp: That of its first record.
        timestamp: The highest of its timestamps.
        sequence: None without idempotence.
        transactional: Whether it belongs to a transaction.
    """

    data: bytes
    count: int
    first_timestamp: int
    timestamp: int
    sequence: Sequence | None
    transactional: bool


def read_produced(data: bytes | memoryview | None, max_bytes: int) -> Produced:
    """Return the batch of a request.

    Raises:
        BrokerResponseError: A broker rejects it: it is damaged, too large or not a single batch.
    """
    if data is None or len(data) < _HEADER.size:
        raise errors.InvalidRecordError
    if len(data) > max_bytes:
        raise errors.MessageSizeTooLargeError
    (_, length, _, magic, checksum, attributes, delta, first, last, *producer, count) = (
        _HEADER.unpack_from(data)
    )
    if magic != _MAGIC or _LENGTH_AT + length != len(data):
        raise errors.InvalidRecordError  # one batch of this format for each partition
    if calc_crc32c(bytes(data[_CHECKED_FROM:])) != checksum:
        raise errors.CorruptRecordError
    if attributes & _CONTROL or count < 1 or delta + 1 != count:
        raise errors.InvalidRecordError
    producer_id, epoch, sequence = producer
    return Produced(
        bytes(data),
        count,
        first,
        last,
        Sequence(producer_id, epoch, sequence, count) if producer_id >= 0 else None,
        bool(attributes & _TRANSACTIONAL),
    )


def with_append_time(batch: Produced, timestamp: int) -> Produced:
    """Return a batch whose records have the time of the log (`message.timestamp.type`)."""
    data = bytearray(batch.data)
    (attributes,) = _ATTRIBUTES.unpack_from(data, _ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(data, _ATTRIBUTES_AT, attributes | _APPEND_TIME)
    _TIME.pack_into(data, _MAX_TIMESTAMP_AT, timestamp)
    _CHECKSUM.pack_into(data, _CHECKSUM_AT, calc_crc32c(bytes(data[_CHECKED_FROM:])))
    return Produced(
        bytes(data), batch.count, timestamp, timestamp, batch.sequence, batch.transactional
    )
