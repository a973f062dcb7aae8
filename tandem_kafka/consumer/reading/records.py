"""`ConsumerRecords`, the result of `poll()`."""

from __future__ import annotations

from collections.abc import Iterator, MutableSequence
from itertools import chain
from typing import Final, Generic

from tandem_kafka.types import (
    ConsumerRecord,
    KeyT,
    OffsetAndMetadata,
    PositionStart,
    TopicPartition,
    ValueT,
)

#: The usual `starts`, not made for each poll().
NO_STARTS: Final[dict[TopicPartition, PositionStart]] = {}


class ConsumerRecords(
    dict[TopicPartition, MutableSequence[ConsumerRecord[KeyT, ValueT]]], Generic[KeyT, ValueT]
):
    """Records by partition: a dict of lists as in kafka-python, with additions of the Java client.

    With the native extension, a partition's list is a sequence type that behaves like a list and
    creates each record when it is first accessed.

    Attributes:
        next_offsets: The new position of each partition whose position moved, also by a reset.
            Commit these offsets after processing the records (KIP-1094).
        starts: The partitions whose position is new for the application, by an assignment, a seek
            or a reset since the last poll(): where they continued, before these records.
    """

    __slots__ = ("next_offsets", "starts")

    def __init__(self) -> None:
        super().__init__()
        self.next_offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.starts: dict[TopicPartition, PositionStart] = NO_STARTS

    @property
    def count(self) -> int:
        """The number of records in all partitions."""
        return sum(map(len, self.values()))

    def records(self, topic: str) -> Iterator[ConsumerRecord[KeyT, ValueT]]:
        """Return the records of one topic, one partition after the other.

        Args:
            topic: Name of the topic.
        """
        return chain.from_iterable(rs for tp, rs in self.items() if tp.topic == topic)

    def _repr_html_(self) -> str:
        """Show a notebook the partitions, each with its first and last offset."""
        from tandem_kafka.notebook import batch_as_html  # noqa: PLC0415 - used in notebooks only

        return batch_as_html(self)
