"""The assigned partitions, and the partitions that the application passes to methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple
from uuid import UUID

from confluent_kafka import OFFSET_INVALID, KafkaError, TopicPartition

from tandem_kafka.confluent.errors import invalid
from tandem_kafka.types import NO_TOPIC_ID, OffsetAndMetadata
from tandem_kafka.types import TopicPartition as Key

#: How librdkafka writes empty metadata; it reads an empty string on the wire as none.
_EMPTY: Final = "\0"


class Given(NamedTuple):
    """A partition that the application passes to a method."""

    key: Key
    offset: int
    metadata: str | None
    leader_epoch: int | None

    @property
    def target(self) -> OffsetAndMetadata:
        """The offset to commit, or to seek to."""
        epoch = -1 if self.leader_epoch is None else self.leader_epoch
        metadata = _EMPTY if self.metadata == "" else self.metadata or ""
        return OffsetAndMetadata(self.offset, metadata, epoch)


def check_partitions(partitions: Any) -> list[Given]:
    """Return the partitions of an argument: any objects with a topic, a partition and an offset.

    Raises:
        TypeError: It is no list of such objects.
    """
    if not isinstance(partitions, list):
        msg = "requires list of TopicPartition"
        raise TypeError(msg)
    return [_given(each) for each in partitions]


def _given(each: Any) -> Given:
    topic, partition = getattr(each, "topic", None), getattr(each, "partition", None)
    if not isinstance(topic, str) or not isinstance(partition, int):
        msg = f"expected TopicPartition, not {type(each).__name__}"
        raise TypeError(msg)
    offset = getattr(each, "offset", OFFSET_INVALID)
    epoch = getattr(each, "leader_epoch", None)
    return Given(Key(topic, partition), offset, getattr(each, "metadata", None), epoch)


def check_assignment(partitions: Any) -> list[Given]:
    """Return the partitions of an argument that is an assignment.

    Raises:
        TypeError: It is no list of partitions.
        KafkaException: A partition occurs twice (`_INVALID_ARG`).
    """
    given = check_partitions(partitions)
    seen: set[Key] = set()
    for each in given:
        if each.key in seen:
            raise invalid(f"Duplicate {each.key.topic} [{each.key.partition}] in input list")
        seen.add(each.key)
    return given


class FailedPartition(TopicPartition):
    """A partition with an error, which Python code cannot set on a `TopicPartition`."""

    __slots__ = ("error",)


def as_topic_partition(
    key: Key, offset: OffsetAndMetadata | None, error: KafkaError | None = None
) -> TopicPartition:
    """Return a partition with an offset and an error, for the application."""
    kind = TopicPartition if error is None else FailedPartition
    if offset is None:
        made = kind(key.topic, key.partition)
    else:
        epoch = -1 if offset.leader_epoch is None else offset.leader_epoch
        # `metadata=None` is not allowed, and an empty text is not the same.
        more: dict[str, Any] = (
            {"metadata": offset.metadata.rstrip(_EMPTY)} if offset.metadata else {}
        )
        made = kind(*key, offset.offset, leader_epoch=epoch, **more)
    if error is not None:
        made.error = error
    return made


class Part:
    """One assigned partition.

    Attributes:
        last: The last record that the application got since the assignment or since a seek.
        explicit: The offset stored by `store_offsets()`, or the one stored before a seek.
        committed: The last committed offset, to commit nothing twice.
        sent: The last offset whose asynchronous commit did not fail; it may be on its way.
        inactive: Why no record may be returned. "paused": the application has paused it. "muted":
            the application has omitted it from its assignment; the group still assigns it.
            "stopped": it has no position, which an error has reported.
        eof_at: The end that was last reported.
        low: The first offset, if known.
        seeks: The number of seeks.
        back: The offset to which our consumer must go back, because records were dropped.
        start: Where the application wants to start; see `OFFSET_...`.
        topic_id: The topic that the offsets belong to, `NO_TOPIC_ID` if it is unknown.
    """

    def __init__(self, tp: Key, start: int = OFFSET_INVALID) -> None:
        self.tp = tp
        self.start = start
        self.last: Any = None
        self.explicit: OffsetAndMetadata | None = None
        self.committed: OffsetAndMetadata | None = None
        self.sent: OffsetAndMetadata | None = None
        self.inactive: set[str] = set()
        self.eof_at = OFFSET_INVALID
        self.low: int | None = None
        self.seeks = 0
        self.back: int | None = None
        self.topic_id = NO_TOPIC_ID

    def note_topic(self, topic_id: UUID) -> None:
        """Forget the offsets of a topic that was deleted, if there is a new one of its name."""
        if topic_id == NO_TOPIC_ID:
            return
        if self.topic_id not in (NO_TOPIC_ID, topic_id):
            self.last = self.explicit = self.committed = self.sent = None
        self.topic_id = topic_id

    @property
    def position(self) -> OffsetAndMetadata | None:
        """The offset after the last record; see `Taken.settle`."""
        last = self.last
        return None if last is None else OffsetAndMetadata(last.offset + 1, "", last.leader_epoch)


class Assigned:
    """The assigned partitions."""

    def __init__(self) -> None:
        self.parts: dict[Key, Part] = {}

    def __iter__(self) -> Iterator[Part]:
        return iter(list(self.parts.values()))

    def __contains__(self, part: Part) -> bool:
        return self.parts.get(part.tp) is part

    def get(self, tp: Key) -> Part | None:
        """Return a partition, or None if it is not assigned."""
        return self.parts.get(tp)

    def add(self, tps: Iterable[Key], start: int = OFFSET_INVALID) -> None:
        """Add partitions with a new state."""
        for tp in tps:
            self.parts[tp] = Part(tp, start)

    def remove(self, tp: Key) -> None:
        """Remove a partition."""
        self.parts.pop(tp, None)
