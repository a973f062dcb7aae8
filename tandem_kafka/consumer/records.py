"""`ConsumerRecords`, the result of `poll()`."""

from __future__ import annotations

from collections.abc import Iterator, MutableSequence
from itertools import chain
from typing import Generic

from tandem_kafka.types import ConsumerRecord, KeyT, OffsetAndMetadata, TopicPartition, ValueT


class ConsumerRecords(
    dict[TopicPartition, MutableSequence[ConsumerRecord[KeyT, ValueT]]], Generic[KeyT, ValueT]
):
    """Records by partition: a dict of lists as in kafka-python, with additions of the Java client.

    With the native extension, a partition's list is a sequence type that behaves like a list and
    creates each record when it is first accessed.

    Attributes:
        next_offsets: The new position of each partition whose position moved. Commit these
            offsets after processing the records (KIP-1094).
    """

    __slots__ = ("next_offsets",)

    def __init__(self) -> None:
        super().__init__()
        self.next_offsets: dict[TopicPartition, OffsetAndMetadata] = {}

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
