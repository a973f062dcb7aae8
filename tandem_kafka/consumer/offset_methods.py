"""The methods of the consumer that concern positions, offsets and commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, overload

from tandem_kafka.consumer.arguments import (
    check_offset,
    check_offsets,
    check_partition,
    check_partitions,
    check_timestamps,
    each_partition,
)
from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.owned import Owned, shared
from tandem_kafka.consumer.positions import Positions
from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka.types import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from tandem_kafka._kafka import Future

__all__ = ["OffsetMethods"]

_EARLIEST, _LATEST = -2, -1

#: A function of the offsets and of the error, which is None after a successful commit.
CommitCallback: TypeAlias = Callable[
    [dict[TopicPartition, OffsetAndMetadata], Exception | None], object
]


class OffsetMethods(Owned):
    """A part of ``KafkaConsumer``."""

    _positions: Positions
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
        self._core.check_readable()
        tp = check_partition(partition)
        try:
            offset: int = self._positions.position(tp, timeout_ms).offset
        except KafkaTimeoutError:
            if timeout_ms is None:
                raise
            return None
        return offset

    @shared
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
        self._positions.seek(partition, target)

    @shared
    def pause(self, *partitions: TopicPartition) -> None:
        """Stop returning records of these partitions until ``resume()``.

        Records that have already been fetched stay in memory. If the buffer is full, paused
        partitions keep at most half of it (``fetch_buffer_max_bytes``).

        Args:
            *partitions: Assigned partitions.

        Raises:
            NotAssignedError: One of them is not assigned.
        """
        self._positions.pause(each_partition(partitions))

    @shared
    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again.

        Args:
            *partitions: Assigned partitions.

        Raises:
            NotAssignedError: One of them is not assigned.
        """
        self._positions.resume(each_partition(partitions))

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        self._core.check_readable()
        return {state.tp for state in self._core.engine.subscription.paused()}

    @shared
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
        self._positions.stop_at(partition, end)

    @shared
    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first available offset.

        The next poll() or position() looks up the offset.

        Args:
            *partitions: Assigned partitions; all of them if none is given.

        Raises:
            NotAssignedError: A partition is not assigned, or no partition is.
        """
        self._positions.reset(each_partition(partitions), _EARLIEST)

    @shared
    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue at the end: the high watermark, or the last stable offset if read_committed.

        The next poll() or position() looks up the offset.

        Args:
            *partitions: Assigned partitions; all of them if none is given.

        Raises:
            NotAssignedError: A partition is not assigned, or no partition is.
        """
        self._positions.reset(each_partition(partitions), _LATEST)

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of the last fetch response, or None before the first.

        Raises:
            NotAssignedError: The partition is not assigned.
        """
        self._core.check_readable()
        state = self._core.engine.subscription.get(check_partition(partition))
        return state.high_watermark if state.high_watermark >= 0 else None

    @shared
    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return the difference between the end of a partition and its position (KIP-695).

        This method does not wait for a broker. If the end is unknown, it starts a lookup, so that
        a later call can return the lag.

        Returns:
            The lag in offsets, or None while the position or the end is unknown.

        Raises:
            NotAssignedError: The partition is not assigned.
        """
        return self._positions.lag(check_partition(partition))

    @shared
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
        return self._edges(partitions, _EARLIEST, timeout_ms)

    @shared
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
        return self._edges(partitions, _LATEST, timeout_ms)

    def _edges(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        chosen = check_partitions(partitions)
        if timeout_ms == 0:
            return {}  # as in the Java client: no request and no error
        found = self._positions.look_up(dict.fromkeys(chosen, timestamp), timeout_ms)
        return {tp: offset.offset for tp, offset in found.items() if offset is not None}

    @shared
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
        chosen = check_timestamps(timestamps)
        if timeout_ms == 0:
            return dict.fromkeys(chosen)
        return self._positions.look_up(chosen, timeout_ms)

    # --- commits -------------------------------------------------------------------------------

    @shared
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
        self._core.require_group()
        chosen = None if offsets is None else check_offsets(offsets)
        self._commits.commit_sync(chosen, timeout_ms)

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
        self._core.check_usable()
        self._core.require_group()
        tp = check_partition(partition)
        found = self._positions.committed([tp], timeout_ms)[tp]
        return found if metadata or found is None else found.offset
