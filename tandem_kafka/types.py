"""Value types that users meet: kafka-python's own classes where it has them, ours beside them."""

from __future__ import annotations

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
    # kafka-python's, which have no types.
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

#: What keys and values are: bytes, or what their deserializer returns.
KeyT = TypeVar("KeyT", default=bytes | None)
ValueT = TypeVar("ValueT", default=bytes | None)

#: What the protocol sends for an offset or a leader epoch that is not known.
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
    # kafka-python's class has no types, and programs ask whether a record is one of it.
    from kafka.consumer.fetcher import ConsumerRecord as _RecordFields


class ConsumerRecord(_RecordFields[KeyT, ValueT]):
    """One record of a partition: a tuple, and one of kafka-python's records.

    Attributes:
        topic: Name of the topic.
        partition: Partition number.
        leader_epoch: Leader epoch of the record's batch, -1 where unknown (KIP-320).
        offset: Offset in the partition.
        timestamp: Milliseconds since the Unix epoch (UTC), -1 where there is none.
        timestamp_type: 0 for the producer's time, 1 for the broker's (log append) time,
            None for message format v0.
        key: Key, as the key deserializer made it; ``bytes`` or None without one.
        value: Value, as the value deserializer made it; ``bytes`` or None (a tombstone).
        headers: Pairs of name and value; a list of its own, which you may change.
        checksum: CRC of message formats v0 and v1; None for v2, whose CRC covers the batch.
        serialized_key_size: Length of the key in bytes before deserializing, -1 for None.
        serialized_value_size: Length of the value in bytes before deserializing, -1 for None.
        serialized_header_size: Length of names and values of all headers, -1 for none.
    """

    __slots__ = ()

    @property
    def key_view(self) -> memoryview | None:
        """The key as a read-only memoryview."""
        key: Any = self.key
        return None if key is None else memoryview(key)

    @property
    def value_view(self) -> memoryview | None:
        """The value as a read-only memoryview."""
        value: Any = self.value
        return None if value is None else memoryview(value)


class Node(NamedTuple):
    """A broker as the cluster's metadata names it; a bootstrap server has a negative id."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        """Read well in a log line."""
        if self.node_id < 0:
            return f"bootstrap server {self.host}:{self.port}"
        return f"broker {self.node_id} ({self.host}:{self.port})"


class LeaveOperation(enum.Enum):
    """What close() does about the group (KIP-1092).

    DEFAULT leaves, but a static member stays and is expected back; LEAVE leaves in any case;
    REMAIN stays in any case, until the session times out.
    """

    DEFAULT = "default"
    LEAVE = "leave"
    REMAIN = "remain"


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A regular expression that the coordinator matches against topic names (KIP-848).

    Attributes:
        pattern: In RE2J's syntax; it must match a name from beginning to end.
    """

    pattern: str


def epoch_of(offset: OffsetAndMetadata) -> int:
    """Return the leader epoch of an offset, which programs leave out or set to None."""
    return UNKNOWN_EPOCH if offset.leader_epoch is None else offset.leader_epoch


def named(partitions: Iterable[TopicPartition]) -> str:
    """Name partitions in a message: `orders-0, orders-1`."""
    return ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(partitions)) or "nothing"


def described(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> str:
    """Name offsets in a message: `orders-0 at 17, orders-1 at 4`."""
    return ", ".join(f"{tp.topic}-{tp.partition} at {offsets[tp].offset}" for tp in sorted(offsets))
