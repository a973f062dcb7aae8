"""Raw requests of a share group, to real and simulated brokers."""

from __future__ import annotations

import uuid
from contextlib import AbstractContextManager

from tandem_kafka.types import TopicPartition
from tests.integration.brokers import Brokers, Transact
from tests.integration.share.sharing import RawShareMember

__all__ = ["LOCK_MS", "ShareWorld"]

PARTITIONS = 2
#: How long members may keep records in these tests.
LOCK_MS = 15_000
#: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR.
_LOADING = (14, 15, 16)


class ShareWorld:
    """A new topic of two partitions, and a new share group that begins at its earliest offset."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self.connect, self.disconnect, self.sleep = (
            brokers.connect,
            brokers.disconnect,
            brokers.sleep,
        )
        name = uuid.uuid4().hex[:8]
        self.topic, self.group = f"share-{name}", f"sharers-{name}"
        brokers.create_topic(self.topic, PARTITIONS)
        self.topic_id = brokers.topic_id(self.topic)
        member = self.member()
        brokers.await_coordinator(self.group, lambda: member.beat(1).error not in _LOADING)
        brokers.simulate(self.group, share_assignment_interval_ms=1_000)
        self.configure(
            share_auto_offset_reset="earliest", share_record_lock_duration_ms=str(LOCK_MS)
        )

    def configure(self, **options: str) -> None:
        """Set options of the group, with underscores instead of dots."""
        self._brokers.configure_group(self.group, **options)

    def produce(self, *counts: int, partition: int = 0) -> None:
        """Append batches with these numbers of records."""
        for count in counts:
            self._brokers.produce(TopicPartition(self.topic, partition), [b"x"] * count)

    def delete_before(self, offset: int) -> None:
        """Delete records of partition 0, as retention does."""
        self._brokers.delete_before(TopicPartition(self.topic, 0), offset)

    def transactions(self) -> AbstractContextManager[Transact]:
        """Return a function that writes transactions to partition 0: see `Brokers`."""
        return self._brokers.transactions(TopicPartition(self.topic, 0))

    def unknown_id(self) -> uuid.UUID:
        """Return the id of no topic."""
        return uuid.UUID(int=self.topic_id.int ^ 1)

    def member(self) -> RawShareMember:
        """Return a member with its own connection, before its first request."""
        return RawShareMember(self.connect(), self.group, self.topic, self.topic_id)

    def joined(self) -> RawShareMember:
        """Return a member that has partitions."""
        member = self.member()
        member.join()
        return member
