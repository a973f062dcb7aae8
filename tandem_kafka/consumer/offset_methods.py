"""The methods of the consumer that concern positions, offsets and commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, overload

from tandem_kafka.consumer.arguments import check_offsets
from tandem_kafka.consumer.calls.offsets import OffsetCalls
from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.owned import Owned, shared
from tandem_kafka.runtime.callers import run
from tandem_kafka.types import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from tandem_kafka._kafka import Future

__all__ = ["OffsetMethods"]

#: A function of the offsets and of the error, which is None after a successful commit.
CommitCallback: TypeAlias = Callable[
    [dict[TopicPartition, OffsetAndMetadata], Exception | None], object
]


class OffsetMethods(Owned):
    """A part of ``KafkaConsumer``."""

    _offsets: OffsetCalls
    _commits: Commits

    # --- positions -----------------------------------------------------------------------------

    @overload
    def position(self, partition: TopicPartition, timeout_ms: None = None) -> int: ...

    @overload
    def position(self, partition: TopicPartition, timeout_ms: float | None) -> int | None: ...

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int | None:
        """Return the offset of the next record of a partition, and look it up if necessary.

        A known position can be read even after close().

        Args:
            partition: An assigned partition.
            timeout_ms: How long to wait for a lookup, in milliseconds.

        Returns:
            The offset, or None if the lookup did not finish within ``timeout_ms``.

        Raises:
            NotAssignedError: The partition is not assigned.
            NoOffsetForPartitionError: It has no position and ``auto_offset_reset`` is "none".
            KafkaTimeoutError: ``timeout_ms`` is None, and the lookup did not finish within
                ``default_api_timeout_ms``.
            WakeupError: ``wakeup()`` was called.
        """
        return run(self._offsets.position(partition, timeout_ms))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first available offset.

        The next poll() or position() looks up the offset.

        Args:
            *partitions: Assigned partitions; all of them if none is given.

        Raises:
            NotAssignedError: A partition is not assigned, or no partition is.
        """
        self._offsets.seek_to_beginning(partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue at the end: the high watermark, or the last stable offset if read_committed.

        The next poll() or position() looks up the offset.

        Args:
            *partitions: Assigned partitions; all of them if none is given.

        Raises:
            NotAssignedError: A partition is not assigned, or no partition is.
        """
        self._offsets.seek_to_end(partitions)

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first available offset of each partition.

        Args:
            partitions: Assigned or not.
            timeout_ms: How long to wait, in milliseconds. The default is the smaller of
                ``request_timeout_ms`` and ``default_api_timeout_ms``. With 0, the result is empty.

        Raises:
            KafkaTimeoutError: The lookup did not finish in time.
        """
        return run(self._offsets.beginning_offsets(partitions, timeout_ms))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the end of each partition: the offset after its last readable record.

        This is the high watermark, or the last stable offset if ``isolation_level`` is
        "read_committed".

        Args:
            partitions: Assigned or not.
            timeout_ms: How long to wait, in milliseconds. The default is the smaller of
                ``request_timeout_ms`` and ``default_api_timeout_ms``. With 0, the result is empty.

        Raises:
            KafkaTimeoutError: The lookup did not finish in time.
        """
        return run(self._offsets.end_offsets(partitions, timeout_ms))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offset of each partition whose record is at or after a timestamp.

        Args:
            timestamps: Milliseconds since the Unix epoch, by partition.
            timeout_ms: How long to wait, in milliseconds. The default is the smaller of
                ``request_timeout_ms`` and ``default_api_timeout_ms``. With 0, all values are None.

        Returns:
            Offset and timestamp by partition; None if no record is recent enough.

        Raises:
            InvalidArgumentError: A timestamp is negative.
            KafkaTimeoutError: The lookup did not finish in time.
        """
        return run(self._offsets.offsets_for_times(timestamps, timeout_ms))

    # --- commits -------------------------------------------------------------------------------

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit offsets and wait for the response. Transient errors are retried.

        Callbacks of earlier ``commit_async()`` calls run first.

        Args:
            offsets: The offsets to commit, each one past the last processed record. By default,
                the positions of all records that have been returned.
            timeout_ms: How long to retry, in milliseconds; ``default_api_timeout_ms`` by default.

        Raises:
            NoGroupError: The consumer has no ``group_id``.
            CommitFailedError: This consumer is no longer a member of the group, so its partitions
                may belong to another member. If the group is only rebalancing, this is a
                ``CommitDuringRebalanceError``: call poll(), then commit again.
            KafkaTimeoutError: Retriable errors continued until the timeout.
            WakeupError: ``wakeup()`` was called.
            TypeError, InvalidArgumentError: ``offsets`` is invalid.
        """
        run(self._offsets.commit(offsets, timeout_ms))

    def commit_sync(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit offsets and wait; the Java client's name for ``commit()``."""
        self.commit(offsets, timeout_ms)

    @shared
    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> Future:
        """Commit offsets without waiting. The commit is sent once and never retried.

        Args:
            offsets: The offsets to commit, each one past the last processed record. By default,
                the positions of all records that have been returned.
            callback: Called with the offsets and the error (None after success) during a later
                poll, commit or close, on the thread that makes this call. Callbacks run in the
                order of the commits.

        Returns:
            kafka-python's ``Future``. It completes together with the commit, even if the
            application makes no further call.

        Raises:
            NoGroupError: The consumer has no ``group_id``.
            TypeError, InvalidArgumentError: ``offsets`` is invalid.
        """
        self._core.require_group()
        chosen = None if offsets is None else check_offsets(offsets)
        return self._commits.commit_async(chosen, callback)

    @overload
    def committed(
        self,
        partition: TopicPartition,
        metadata: Literal[False] = False,
        timeout_ms: float | None = None,
    ) -> int | None: ...

    @overload
    def committed(
        self, partition: TopicPartition, metadata: Literal[True], timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None: ...

    @overload
    def committed(
        self, partition: TopicPartition, metadata: bool, timeout_ms: float | None = None
    ) -> int | OffsetAndMetadata | None: ...

    def committed(
        self,
        partition: TopicPartition,
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> int | OffsetAndMetadata | None:
        """Return the group's committed offset of a partition, or None if there is none.

        Args:
            partition: Assigned or not.
            metadata: If True, return an ``OffsetAndMetadata`` instead of the offset.
            timeout_ms: How long to retry, in milliseconds; ``default_api_timeout_ms`` by default.

        Raises:
            NoGroupError: The consumer has no ``group_id``.
            KafkaTimeoutError: The lookup did not finish in time.
            WakeupError: ``wakeup()`` was called.
        """
        found = run(self._offsets.committed(partition, timeout_ms))
        return found if metadata or found is None else found.offset
