"""Value types of the public API: classes of kafka-python and additional ones."""

from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, Self
from uuid import UUID

from tandem_kafka.consumer_record import ConsumerRecord, KeyT, ValueT

if TYPE_CHECKING:
    import pyarrow as pa

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
    "ARROW_COLUMNS",
    "NO_TOPIC_ID",
    "UNKNOWN_EPOCH",
    "UNKNOWN_OFFSET",
    "ArrowDecoder",
    "ClusterSnapshot",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "DecodeErrors",
    "Header",
    "KeyT",
    "LeaveOperation",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOfTopic",
    "Offsets",
    "PartitionInfo",
    "PositionStart",
    "SubscriptionPattern",
    "TopicInfo",
    "TopicPartition",
    "ValueT",
    "epoch_of",
    "may_be_same_topic",
    "names_of",
    "offsets_text",
]

Header = tuple[str, bytes | None]
Offsets = Mapping[TopicPartition, OffsetAndMetadata]

#: The protocol's values for an unknown offset or leader epoch.
UNKNOWN_OFFSET: Final = -1
UNKNOWN_EPOCH: Final = -1

#: The id of a topic before Metadata v10.
NO_TOPIC_ID: Final = UUID(int=0)


def may_be_same_topic(one: UUID, other: UUID) -> bool:
    """Tell whether two ids are not those of a deleted topic and a new one with its name."""
    return one == other or NO_TOPIC_ID in (one, other)


class PositionStart(NamedTuple):
    """Where a partition continues, because something other than reading has set its position.

    Attributes:
        offset: The next offset.
        leader_epoch: The leader epoch of the record before it, -1 if unknown.
        topic_id: The id of the topic, `NO_TOPIC_ID` if the brokers have none.
        kept: Whether only the id has changed: the consumer continues on another cluster.
    """

    offset: int
    leader_epoch: int = UNKNOWN_EPOCH
    topic_id: UUID = NO_TOPIC_ID
    kept: bool = False


class OffsetOfTopic(OffsetAndMetadata):
    """An offset to commit to one topic, but not to another one with the same name.

    Attributes:
        topic_id: The id of the topic, `NO_TOPIC_ID` if it is unknown.
    """

    topic_id: UUID = NO_TOPIC_ID

    def __new__(
        cls,
        offset: int,
        metadata: str = "",
        leader_epoch: int = UNKNOWN_EPOCH,
        topic_id: UUID = NO_TOPIC_ID,
    ) -> Self:
        """Make the tuple, which has no place for the id."""
        made = super().__new__(cls, offset, metadata, leader_epoch)
        made.topic_id = topic_id
        return made


#: The columns of a record batch of `poll_arrow()`, in their order.
ARROW_COLUMNS: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "value",
    "headers",
    "leader_epoch",
)

#: What happens to a record whose key or value cannot be decoded; see `ArrowDecoder`.
DecodeErrors = Literal["raise", "null", "drop"]


class ArrowDecoder(Protocol):
    """Decodes keys or values for ``poll_arrow()``. `tandem_kafka.tables` has decoders.

    Attributes:
        errors: ``"raise"``: ``poll_arrow()`` first returns the records before it, and then raises
            `RecordDeserializationError` until a seek. ``"null"``: the value is null, and the
            column ``error`` says why. ``"drop"``: the record is left out.
        flatten: Whether the fields of a column of structs become columns of the batch.
    """

    errors: DecodeErrors
    flatten: bool

    def decode(self, column: pa.Array) -> tuple[pa.Array, Sequence[tuple[int, str]]]:
        """Return a column of as many values, and what could not be decoded.

        Called on the thread that polls, also without values.

        Args:
            column: The keys or values, of type binary_view; null where a record has none.

        Returns:
            The decoded column, with null for what could not be decoded; and the row and the
            reason of each of these.
        """


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


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition as the metadata response described it.

    Attributes:
        leader_id: Id of the leader, -1 while there is none.
        leader_epoch: Leader epoch, -1 if the response has none (before Metadata v7).
        replicas: Ids of the brokers with a replica.
        isr: Ids of the in-sync replicas.
        offline_replicas: Ids of the replicas that are offline.
    """

    partition: int
    leader_id: int
    leader_epoch: int = UNKNOWN_EPOCH
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic: its id (all zeros if unknown, before Metadata v10) and partitions."""

    name: str
    topic_id: UUID = NO_TOPIC_ID
    internal: bool = False
    partitions: Mapping[int, PartitionInfo] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The cluster at one moment.

    Attributes:
        version: Increases with every update.
        nodes: Brokers by id; empty until the first metadata response.
        topics: Topics that exist and were described without an error, by name.
        topic_errors: Error class of each other topic, by name.
    """

    version: int = 0
    cluster_id: str | None = None
    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)
    topic_errors: Mapping[str, type[Exception]] = field(default_factory=dict)
    topic_names: Mapping[UUID, str] = field(default_factory=dict)

    def partition(self, tp: TopicPartition) -> PartitionInfo | None:
        """Return the metadata of a partition, if known."""
        topic = self.topics.get(tp.topic)
        return topic.partitions.get(tp.partition) if topic is not None else None

    def described(self, topic: str, numbers: frozenset[int]) -> frozenset[int]:
        """Return those partitions of a topic, by number, that the metadata have."""
        info = self.topics.get(topic)
        return frozenset() if info is None else numbers.intersection(info.partitions)

    def leader(self, tp: TopicPartition) -> Node | None:
        """Return the leader of a partition, if known."""
        info = self.partition(tp)
        return self.nodes.get(info.leader_id) if info is not None else None

    def leader_epoch(self, tp: TopicPartition) -> int:
        """Return the partition's leader epoch, -1 if unknown."""
        info = self.partition(tp)
        return info.leader_epoch if info is not None else UNKNOWN_EPOCH

    def topic_id(self, topic: str) -> UUID:
        """Return a topic's id, all zeros if unknown."""
        info = self.topics.get(topic)
        return info.topic_id if info is not None else NO_TOPIC_ID


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


class RebalanceListener(Protocol):
    """The interface of a listener for ``subscribe()``. Its methods may be coroutines.

    A third method, ``on_partitions_lost(lost)``, is optional. Without it, lost partitions are
    passed to ``on_partitions_revoked``.
    """

    def on_partitions_revoked(self, revoked: set[TopicPartition], /) -> object:
        """Release partitions, which are still assigned during the call.

        Args:
            revoked: The partitions that this consumer must release.
        """

    def on_partitions_assigned(self, assigned: set[TopicPartition], /) -> object:
        """Prepare for newly assigned partitions, which have not been fetched yet.

        Args:
            assigned: The new partitions; empty if the assignment did not grow.
        """


class AsyncRebalanceListener(Protocol):
    """The interface of a listener for ``AsyncKafkaConsumer.subscribe()``.

    ``poll()`` awaits its methods in its own task. They may await any method of the consumer. A
    third method, ``on_partitions_lost(lost)``, is optional. Without it, lost partitions are passed
    to ``on_partitions_revoked``. If ``poll()`` is cancelled during a method, the method ends with
    ``CancelledError`` and the rebalance continues.
    """

    async def on_partitions_revoked(self, revoked: set[TopicPartition], /) -> object:
        """Release partitions, which are still assigned during the call.

        Args:
            revoked: The partitions that this consumer must release.
        """

    async def on_partitions_assigned(self, assigned: set[TopicPartition], /) -> object:
        """Prepare for newly assigned partitions, which have not been fetched yet.

        Args:
            assigned: The new partitions; empty if the assignment did not grow.
        """


def epoch_of(offset: OffsetAndMetadata) -> int:
    """Return the leader epoch of an offset; None means unknown."""
    return UNKNOWN_EPOCH if offset.leader_epoch is None else offset.leader_epoch


def names_of(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions as text for a message: ``orders-0, orders-1``."""
    return ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(partitions)) or "nothing"


def offsets_text(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> str:
    """Return offsets as text for a message: ``orders-0 at 17, orders-1 at 4``."""
    return ", ".join(f"{tp.topic}-{tp.partition} at {offsets[tp].offset}" for tp in sorted(offsets))
