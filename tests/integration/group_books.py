"""Books of a group that goes through an outage."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import KafkaTimeoutError
from tests.integration.group_members import Member, check_pairs, settled
from tests.integration.polling import wait_until

__all__ = ["Books"]


class Books:
    """What a group has read and committed; what is committed has always been read before.

    Args:
        onlooker: A consumer of the group that is no member of it.
        partitions: All of them, of one topic.
    """

    def __init__(self, onlooker: KafkaConsumer, partitions: list[TopicPartition]) -> None:
        self._onlooker = onlooker
        self._partitions = partitions
        self.members: list[Member] = []
        #: Members that are in the group no more; what they read counts.
        self.gone: list[Member] = []

    def leave(self, member: Member, **how: Any) -> None:
        """Have a member close its consumer."""
        self.retire(member)
        member.stop(**how)
        assert member.error is None
        check_pairs(member.listener)

    def retire(self, member: Member) -> None:
        """Take a member off the list of those that are in."""
        self.members.remove(member)
        self.gone.append(member)

    def read(self) -> dict[int, set[int]]:
        """Offsets handed out, by partition."""
        offsets: dict[int, set[int]] = defaultdict(set)
        for member in (*self.members, *self.gone):
            for record in list(member.records):
                offsets[record.partition].add(record.offset)
        return offsets

    def count(self) -> int:
        return sum(map(len, self.read().values()))

    def check_commits(self) -> dict[int, int]:
        """Look at the commits first, then at what was read: that may only have grown."""
        try:
            committed = {tp.partition: self._committed(tp) for tp in self._partitions}
        except KafkaTimeoutError:  # there is no coordinator just now
            return {}
        read = self.read()
        for partition, offset in committed.items():
            assert offset <= max(read[partition], default=-1) + 1, f"{partition}: ahead"
        return committed

    def _committed(self, tp: TopicPartition) -> int:
        return self._onlooker.committed(tp, timeout_ms=500) or 0

    def read_more(self, count: int = 100) -> None:
        goal = self.count() + count

        def grown() -> bool:
            for member in self.members:
                assert member.error is None, member.error
            return self.count() >= goal

        wait_until(grown, f"{count} more records")

    def close(self, sent: int, *, once: bool = False) -> None:
        """See that all of what was sent to each partition was read and committed, then leave.

        Args:
            sent: How much that is, for each partition.
            once: Nothing may have been handed out twice.
        """
        everything = {tp.partition: sent for tp in self._partitions}
        wait_until(lambda: self.check_commits() == everything, "the last commits")
        assert self.read() == {number: set(range(end)) for number, end in everything.items()}
        settled(self.members, len(self._partitions))
        for member in list(self.members):
            self.leave(member)
        if once:
            assert sum(len(member.records) for member in self.gone) == self.count()
