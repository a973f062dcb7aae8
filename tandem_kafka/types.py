"""Value types of the public API: classes of kafka-python and additional ones."""

from __future__ import annotations

import tandem_kafka.kafka_python  # noqa: F401 - before any module of kafka-python

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple

from typing_extensions import TypeVar

if TYPE_CHECKING:
    from tandem_kafka._kafka import (
        ConsumerGroupMetadata,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        TopicPartition,
    )
else:
    # The classes of kafka-python, which have no type annotations.
    from kafka.structs import (
        ConsumerGroupMetadata,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        TopicPartition,
    )

__all__ = [
    "UNKNOWN_EPOCH",
    "UNKNOWN_OFFSET",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "Header",
    "KeyT",
    "LeaveOperation",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "SubscriptionPattern",
    "TopicPartition",
    "ValueT",
    "described",
    "epoch_of",
    "named",
]

Header = tuple[str, bytes | None]

#: The types of keys and values: bytes, or the return type of their deserializer.
KeyT = TypeVar("KeyT", default=bytes | None)
ValueT = TypeVar("ValueT", default=bytes | None)

#: The protocol's values for an unknown offset or leader epoch.
UNKNOWN_OFFSET: Final = -1
UNKNOWN_EPOCH: Final = -1


if TYPE_CHECKING:

    class _RecordFields(NamedTuple, Generic[KeyT, ValueT]):
        topic: str
        partition: int
        leader_epoch: int
        offset: int
        timestamp: int
        timestamp_type: int | None
        key: KeyT
        value: ValueT
        headers: list[Header]
        checksum: int | None
        serialized_key_size: int
        serialized_value_size: int
        serialized_header_size: int

else:
    # The base class at run time, because programs check isinstance() against it.
    from kafka.consumer.fetcher import ConsumerRecord as _RecordFields


class ConsumerRecord(_RecordFields[KeyT, ValueT]):
    """One record of a partition: a tuple, and an instance of kafka-python's ``ConsumerRecord``.

    Attributes:
        topic: Name of the topic.
        partition: Partition number.
        leader_epoch: Leader epoch of the record's batch, -1 if unknown (KIP-320).
        offset: Offset in the partition.
        timestamp: Milliseconds since the Unix epoch (UTC), -1 if there is none.
        timestamp_type: 0 if the producer set the timestamp, 1 if the broker did (log append
            time), None for message format v0.
        key: The result of the key deserializer. Without one, ``bytes`` or None.
        value: The result of the value deserializer. Without one, ``bytes``, or None for a
            tombstone.
        headers: Pairs of name and value. The list belongs to this record and may be modified.
        checksum: CRC of the record in message formats v0 and v1; None for v2, where the CRC
            covers the whole batch.
        serialized_key_size: Size of the serialized key in bytes, -1 for None.
        serialized_value_size: Size of the serialized value in bytes, -1 for None.
        serialized_header_size: Size of all header names and values in bytes, -1 if there are
            none.
    """

    __slots__ = ()

    @property
    def key_view(self) -> memoryview | None:
        """The key as a read-only memoryview, or None."""
        key: Any = self.key
        return None if key is None else memoryview(key)

    @property
    def value_view(self) -> memoryview | None:
        """The value as a read-only memoryview, or None."""
        value: Any = self.value
        return None if value is None else memoryview(value)


class Node(NamedTuple):
    """A broker of the cluster; a bootstrap server has a negative id."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        """Return a description for log lines."""
        if self.node_id < 0:
            return f"bootstrap server {self.host}:{self.port}"
        return f"broker {self.node_id} ({self.host}:{self.port})"


class LeaveOperation(enum.Enum):
    """Whether close() leaves the group (KIP-1092).

    DEFAULT leaves, unless the consumer is a static member, which is expected to return. LEAVE
    always leaves. REMAIN never leaves; the membership ends with the session timeout.
    """

    DEFAULT = "default"
    LEAVE = "leave"
    REMAIN = "remain"


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A regular expression that the coordinator matches against topic names (KIP-848).

    Attributes:
        pattern: A regular expression in RE2/J syntax, which must match the whole topic name.
    """

    pattern: str


def epoch_of(offset: OffsetAndMetadata) -> int:
    """Return the leader epoch of an offset; None means unknown."""
    return UNKNOWN_EPOCH if offset.leader_epoch is None else offset.leader_epoch


def named(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions as text for a message: ``orders-0, orders-1``."""
    return ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(partitions)) or "nothing"


def described(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> str:
    """Return offsets as text for a message: ``orders-0 at 17, orders-1 at 4``."""
    return ", ".join(f"{tp.topic}-{tp.partition} at {offsets[tp].offset}" for tp in sorted(offsets))
