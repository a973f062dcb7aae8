"""What `poll()` returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from tandem_kafka.types import ConsumerRecord, OffsetAndMetadata, TopicPartition

__all__ = ["ConsumerRecords"]


class ConsumerRecords(dict[TopicPartition, Sequence[ConsumerRecord]]):
    """Records by partition: a dict, as kafka-python returns it, with the Java client's extras.

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

    def records(self, topic: str) -> Iterator[ConsumerRecord]:
        """Return the records of one topic, partition after partition."""
        return chain.from_iterable(rs for tp, rs in self.items() if tp.topic == topic)
