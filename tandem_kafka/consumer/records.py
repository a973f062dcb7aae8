"""What `poll()` returns."""

from __future__ import annotations

from collections.abc import Iterator, MutableSequence
from itertools import chain
from typing import Generic

from tandem_kafka.types import ConsumerRecord, KeyT, OffsetAndMetadata, TopicPartition, ValueT

__all__ = ["ConsumerRecords"]


class ConsumerRecords(
    dict[TopicPartition, MutableSequence[ConsumerRecord[KeyT, ValueT]]], Generic[KeyT, ValueT]
):
    """Records by partition: a dict of lists, as kafka-python returns it, with Java's extras.

    Of the native twin, the records of a partition become Python objects when they are looked at.
    Until then what stands for their list is another type that behaves as a list.

    Attributes:
        next_offsets: For each partition whose position moved, where it stands now: what to
            commit once these records are dealt with (KIP-1094).
    """

    __slots__ = ("next_offsets",)

    def __init__(self) -> None:
        super().__init__()
        self.next_offsets: dict[TopicPartition, OffsetAndMetadata] = {}

    @property
    def count(self) -> int:
        """Number of records."""
        return sum(map(len, self.values()))

    def records(self, topic: str) -> Iterator[ConsumerRecord[KeyT, ValueT]]:
        """Return the records of one topic, partition after partition."""
        return chain.from_iterable(rs for tp, rs in self.items() if tp.topic == topic)
