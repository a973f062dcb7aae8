"""The ledger of a group during an outage."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import KafkaTimeoutError
from tests.integration.group_members import Member, check_pairs, settled
from tests.waiting import wait_until

__all__ = ["GroupLedger"]


class GroupLedger:
    """Records what a group has read and committed; a commit never covers an unread record.

    Args:
        observer: A consumer of the group that is not a member.
        partitions: All of them, of one topic.
    """

    def __init__(self, observer: KafkaConsumer, partitions: list[TopicPartition]) -> None:
        self._observer = observer
        self._partitions = partitions
        self.members: list[Member] = []
        #: Members that have left the group; their records count.
        self.stopped: list[Member] = []

    def leave(self, member: Member, **how: Any) -> None:
        """Close the consumer of a member."""
        self.remove(member)
        member.stop(**how)
        assert member.error is None
        check_pairs(member.listener)

    def remove(self, member: Member) -> None:
        """Move a member to those that have left."""
        self.members.remove(member)
        self.stopped.append(member)

    def read(self) -> dict[int, set[int]]:
        """Return the offsets that were returned, by partition."""
        offsets: dict[int, set[int]] = defaultdict(set)
        for member in (*self.members, *self.stopped):
            for record in list(member.records):
                offsets[record.partition].add(record.offset)
        return offsets

    def count(self) -> int:
        return sum(map(len, self.read().values()))

    def check_commits(self) -> dict[int, int]:
        """Return the commits; no record after them may be unread.

        Commits are read first, because the records that were read only grow.
        """
        try:
            committed = {tp.partition: self._committed(tp) for tp in self._partitions}
        except KafkaTimeoutError:  # there is no coordinator at this moment
            return {}
        read = self.read()
        for partition, offset in committed.items():
            assert offset <= max(read[partition], default=-1) + 1, f"{partition}: ahead"
        return committed

    def _committed(self, tp: TopicPartition) -> int:
        return self._observer.committed(tp, timeout_ms=500) or 0

    def read_more(self, count: int = 100) -> None:
        goal = self.count() + count

        def grown() -> bool:
            for member in self.members:
                assert member.error is None, member.error
            return self.count() >= goal

        wait_until(grown, f"{count} more records")

    def close(self, sent: int, *, once: bool = False) -> None:
        """Check that each record was read and committed, then leave.

        Args:
            sent: The number of records in each partition.
            once: No record may have been returned twice.
        """
        everything = {tp.partition: sent for tp in self._partitions}
        wait_until(lambda: self.check_commits() == everything, "the last commits")
        assert self.read() == {number: set(range(end)) for number, end in everything.items()}
        settled(self.members, len(self._partitions))
        for member in list(self.members):
            self.leave(member)
        if once:
            assert sum(len(member.records) for member in self.stopped) == self.count()
