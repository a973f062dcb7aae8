"""The methods that wait for no broker; a consumer for threads and one for asyncio share them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from tandem_kafka.consumer.arguments import check_offset, check_partition, each_partition
from tandem_kafka.consumer.concurrent_calls import any_thread, part_of_consumers
from tandem_kafka.consumer.methods.inquiries import Inquiries
from tandem_kafka.consumer.parts import ConsumerParts
from tandem_kafka.events.application import CurrentLag, Pause, Resume, Seek, StopAt
from tandem_kafka.types import (
    NO_TOPIC_ID,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetOfTopic,
    TopicPartition,
    epoch_of,
)


@part_of_consumers
class PlainMethods(Inquiries):
    """A part of ``KafkaConsumer`` and of ``AsyncKafkaConsumer``.

    A change waits until the network thread has applied it, which takes well under a millisecond.
    """

    _parts: ConsumerParts

    def subscription(self) -> set[str] | None:
        """Return the subscribed or matched topics, or None without a subscription.

        Any thread may call this, even after close().
        """
        self._core.check_readable()
        subscription = self._core.engine.subscription
        return set(subscription.topics) if subscription.auto_assigned else None

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions. Any thread may call this, even after close()."""
        self._core.check_readable()
        return set(self._core.engine.subscription.assigned)

    @any_thread
    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue a partition at an offset.

        Args:
            partition: An assigned partition.
            offset: The offset of the next record. An ``OffsetAndMetadata`` with a leader epoch is
                validated before records are fetched (KIP-320).

        Raises:
            NotAssignedError: The partition is not assigned.
            InvalidArgumentError: The offset is negative.
        """
        check_partition(partition)
        target = check_offset(offset)
        event = Seek(
            deadline_ms=self._core.deadline_ms(None),
            partition=partition,
            offset=target.offset,
            leader_epoch=epoch_of(target),
            topic_id=target.topic_id if isinstance(target, OffsetOfTopic) else NO_TOPIC_ID,
        )
        self._core.ask_now(event)

    @any_thread
    def pause(self, *partitions: TopicPartition) -> None:
        """Stop returning records of these partitions until ``resume()``.

        Records that have already been fetched stay in memory. If the buffer is full, paused
        partitions keep at most half of it (``fetch_buffer_max_bytes``).

        Args:
            *partitions: Assigned partitions.

        Raises:
            NotAssignedError: One of them is not assigned.
        """
        self._pause(Pause, each_partition(partitions))

    @any_thread
    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again.

        Args:
            *partitions: Assigned partitions.

        Raises:
            NotAssignedError: One of them is not assigned.
        """
        self._pause(Resume, each_partition(partitions))

    @any_thread
    def _pause_for_workers(self, partitions: Iterable[TopicPartition], *, paused: bool) -> None:
        """Pause or resume partitions for workers, apart from the application's own pauses."""
        self._pause(Pause if paused else Resume, partitions, by_workers=True)

    def _pause(
        self,
        kind: type[Pause],
        partitions: Iterable[TopicPartition],
        *,
        by_workers: bool = False,
    ) -> None:
        deadline_ms, chosen = self._core.deadline_ms(None), frozenset(partitions)
        self._core.ask_now(kind(deadline_ms=deadline_ms, partitions=chosen, by_workers=by_workers))

    def _listen(self, listener: Any) -> None:
        """Replace the listener of a subscription of any kind, for workers and landings."""
        self._parts.listener.listener = listener

    def _tell_starts_again(self, partitions: Iterable[TopicPartition]) -> None:
        """Let the next poll() tell workers where partitions continue, known or not."""
        self._core.engine.subscription.tell_again(partitions)

    def _topic_id(self, partition: TopicPartition) -> UUID:
        """Return the id of the topic that the position of a partition belongs to, for landings."""
        state = self._core.engine.subscription.assigned.get(partition)
        if state is not None and state.topic_id != NO_TOPIC_ID:
            return state.topic_id
        return self._topic_id_now(partition.topic)

    def _topic_id_now(self, topic: str) -> UUID:
        """Return the id of a topic as the last metadata response had it."""
        return self._core.engine.metadata.snapshot.topic_id(topic)

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that ``pause()`` has paused; pauses of workers are not shown."""
        self._core.check_readable()
        return {state.tp for state in self._core.engine.subscription.on_hold() if state.paused}

    @any_thread
    def stop_at(self, partition: TopicPartition, offset: int | None) -> None:
        """Stop fetching a partition at an offset, to read a range of offsets.

        A fetch may return more data than requested, so the application must still check for
        records at or after the offset. The limit lasts until the partition is unassigned.

        Args:
            partition: An assigned partition.
            offset: The first offset not to fetch; None removes the limit.

        Raises:
            NotAssignedError: The partition is not assigned.
            InvalidArgumentError: The offset is negative.
        """
        check_partition(partition)
        end = None if offset is None else check_offset(offset).offset
        deadline_ms = self._core.deadline_ms(None)
        self._core.ask_now(StopAt(deadline_ms=deadline_ms, partition=partition, offset=end))

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of the last fetch response, or None before the first.

        Raises:
            NotAssignedError: The partition is not assigned.
        """
        self._core.check_readable()
        state = self._core.engine.subscription.get(check_partition(partition))
        return state.high_watermark if state.high_watermark >= 0 else None

    @any_thread
    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return the difference between the end of a partition and its position (KIP-695).

        This method does not wait for a broker. If the end is unknown, it starts a lookup, so that
        a later call can return the lag.

        Returns:
            The lag in offsets, or None while the position or the end is unknown.

        Raises:
            NotAssignedError: The partition is not assigned.
        """
        deadline_ms, tp = self._core.deadline_ms(None), check_partition(partition)
        return self._core.ask_now(CurrentLag(deadline_ms=deadline_ms, partition=tp))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this consumer's membership, for a transactional producer (KIP-447).

        After a membership is lost, this method returns its data until a new one begins, so that
        the coordinator rejects offsets committed for it. Without any membership, for example
        after ``unsubscribe()``, the generation is -1. Any thread may call this, even after close().

        Returns:
            Group id (None without a group), generation or member epoch, member id and
            ``group_instance_id``.
        """
        self._core.check_readable()
        return self._core.engine.group.last
