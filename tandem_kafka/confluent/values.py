"""`TopicPartition`, `Message`, and the constants for offsets and timestamp types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tandem_kafka import types
from tandem_kafka.confluent.errors import KafkaError

__all__ = [
    "OFFSET_BEGINNING",
    "OFFSET_END",
    "OFFSET_INVALID",
    "OFFSET_STORED",
    "TAIL_BASE",
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NOT_AVAILABLE",
    "Message",
    "TopicPartition",
    "error_message",
    "message_of",
]

OFFSET_BEGINNING: Final = -2
OFFSET_END: Final = -1
OFFSET_STORED: Final = -1000
OFFSET_INVALID: Final = -1001
#: An offset of -2000 - n means n records before the end.
TAIL_BASE: Final = -2000
TIMESTAMP_NOT_AVAILABLE: Final = 0
TIMESTAMP_CREATE_TIME: Final = 1
TIMESTAMP_LOG_APPEND_TIME: Final = 2


class TopicPartition:
    """A partition with an offset, metadata, a leader epoch and an error.

    Only topic and partition are compared.
    """

    __slots__ = ("error", "leader_epoch", "metadata", "offset", "partition", "topic")

    def __init__(
        self,
        topic: str,
        partition: int = -1,
        offset: int = OFFSET_INVALID,
        metadata: str | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        if not isinstance(topic, str):
            msg = f"topic must be str, not {type(topic).__name__}"
            raise TypeError(msg)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.metadata = metadata
        self.leader_epoch = None if leader_epoch is None or leader_epoch < 0 else leader_epoch
        self.error: KafkaError | None = None

    @property
    def key(self) -> types.TopicPartition:
        """The partition as our own type."""
        return types.TopicPartition(self.topic, self.partition)

    def __eq__(self, other: object) -> bool:
        """Compare topics and partitions."""
        if not isinstance(other, TopicPartition):
            return NotImplemented
        return (self.topic, self.partition) == (other.topic, other.partition)

    def __lt__(self, other: TopicPartition) -> bool:
        """Sort by topic, then by partition."""
        return (self.topic, self.partition) < (other.topic, other.partition)

    def __gt__(self, other: TopicPartition) -> bool:
        """Sort by topic, then by partition."""
        return other < self

    def __hash__(self) -> int:
        """Return the hash of topic and partition."""
        return hash((self.topic, self.partition))

    def __repr__(self) -> str:
        """Show all fields except the metadata."""
        return (
            f"TopicPartition{{topic={self.topic},partition={self.partition},offset={self.offset},"
            f"leader_epoch={self.leader_epoch},error={self.error}}}"
        )


class Message:
    """A record, or an event that `error()` describes.

    `poll()` and `consume()` return messages. All arguments are optional, for tests.
    """

    __slots__ = ("_error", "_headers", "_key", "_latency", "_record", "_topic", "_value")

    def __init__(  # noqa: PLR0913, PLR0917 - confluent_kafka's signature
        self,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        key: Any = None,
        value: Any = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
        error: KafkaError | None = None,
        timestamp: tuple[int, int] | None = None,
        latency: float | None = None,
        leader_epoch: int | None = None,
        delivery_count: int | None = None,  # noqa: ARG002 - for share groups
    ) -> None:
        kind, at_ms = timestamp or (TIMESTAMP_NOT_AVAILABLE, 0)
        self._record: Any = types.ConsumerRecord(
            topic=topic,  # type: ignore[arg-type]
            partition=partition,  # type: ignore[arg-type]
            offset=offset,  # type: ignore[arg-type]
            leader_epoch=-1 if leader_epoch is None else leader_epoch,
            timestamp=at_ms,
            timestamp_type=kind - 1 if kind else None,
            key=key,
            value=value,
            headers=[] if headers is None else list(headers),
            checksum=None,
            serialized_key_size=-1,
            serialized_value_size=-1,
            serialized_header_size=-1,
        )
        self._error = error
        self._latency = latency
        self._headers = headers

    def topic(self) -> str | None:
        """Return the topic."""
        try:
            return self._topic
        except AttributeError:
            return self._record.topic  # type: ignore[no-any-return]

    def partition(self) -> int | None:
        """Return the partition number."""
        return self._record.partition  # type: ignore[no-any-return]

    def offset(self) -> int | None:
        """Return the offset."""
        return self._record.offset  # type: ignore[no-any-return]

    def key(self) -> Any:
        """Return the key: bytes, None, or the deserialized object."""
        try:
            return self._key
        except AttributeError:
            return self._record.key

    def value(self) -> Any:
        """Return the value: bytes, None, or the deserialized object; for an event, its text."""
        try:
            return self._value
        except AttributeError:
            return self._record.value

    def deserialized_key(self) -> Any:
        """Return the same as `key()`."""
        return self.key()

    def deserialized_value(self) -> Any:
        """Return the same as `value()`."""
        return self.value()

    def headers(self) -> Any:
        """Return a list of (name, value) pairs, or None if there are none."""
        try:
            return self._headers
        except AttributeError:
            found = self._record.headers
            return [tuple(pair) for pair in found] if found else None

    def timestamp(self) -> tuple[int, int]:
        """Return the type of the timestamp (`TIMESTAMP_...`) and milliseconds since the epoch."""
        record = self._record
        kind, at_ms = record.timestamp_type, record.timestamp
        return (TIMESTAMP_NOT_AVAILABLE if kind is None or at_ms < 0 else kind + 1), at_ms

    def error(self) -> KafkaError | None:
        """Return the error or event, or None for a record."""
        return self._error

    def leader_epoch(self) -> int | None:
        """Return the leader epoch of the record's batch, or None if it is not known."""
        epoch: int = self._record.leader_epoch
        return epoch if epoch >= 0 else None

    def latency(self) -> float | None:
        """Return None: only produced messages have a latency."""
        return self._latency

    def delivery_count(self) -> int | None:
        """Return None: only share groups count deliveries."""
        return None

    def set_topic(self, topic: str) -> None:
        """Replace the topic."""
        self._topic = topic

    def set_key(self, key: Any) -> None:
        """Replace the key."""
        self._key = key

    def set_value(self, value: Any) -> None:
        """Replace the value."""
        self._value = value

    def set_headers(self, headers: Any) -> None:
        """Replace the headers."""
        self._headers = headers

    def set_error(self, error: KafkaError | None) -> None:
        """Replace the error."""
        self._error = error

    def __len__(self) -> int:
        """Return the length of the value, or 0. A tombstone is falsy, as in confluent_kafka."""
        value = self.value()
        return 0 if value is None else len(value)


_new = Message.__new__


def message_of(record: Any) -> Message:
    """Wrap a record of our consumer in a message."""
    message = _new(Message)
    message._record = record
    message._error = None
    message._latency = None
    return message


def error_message(error: KafkaError, tp: Any = None, offset: int = OFFSET_INVALID) -> Message:
    """Return a message for an event, with its partition if given."""
    topic, partition = (None, None) if tp is None else tp
    return Message(topic, partition, offset, value=error.str().encode(), error=error)
