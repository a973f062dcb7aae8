"""The consumer's methods about positions, offsets and commits."""

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

#: Called with the offsets, and with the error or None.
CommitCallback: TypeAlias = Callable[
    [dict[TopicPartition, OffsetAndMetadata], Exception | None], object
]


class OffsetMethods(Owned):
    """A part of `KafkaConsumer`."""

    _positions: Positions
    _commits: Commits

    # --- positions -----------------------------------------------------------------------------

    @overload
    def position(self, partition: TopicPartition, timeout_ms: None = None) -> int: ...

    @overload
    def position(self, partition: TopicPartition, timeout_ms: float | None) -> int | None: ...

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int | None:
        """Return the offset of the next record of a partition, looking it up if need be.

        None if it could not be looked up within `timeout_ms`. A position that is known is told
        after close() too.

        Raises:
            NotAssignedError: The partition is not assigned.
            NoOffsetForPartitionError: It has no position and `auto_offset_reset` is "none".
            KafkaTimeoutError: No `timeout_ms` is given, and it could not be looked up within
                `default_api_timeout_ms`.
            WakeupError: `wakeup()` was called.
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
        """Go on at an offset. An `OffsetAndMetadata` with a leader epoch is validated (KIP-320).

        Raises:
            NotAssignedError: The partition is not assigned.
            InvalidArgumentError: The offset is negative.
        """
        check_partition(partition)
        target = check_offset(offset)
        self._positions.seek(partition, target)

    @shared
    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out no records of these partitions.

        They keep what is fetched already, up to half of a full buffer (`fetch_buffer_max_bytes`).

        Raises:
            NotAssignedError: One of them is not assigned.
        """
        self._positions.pause(each_partition(partitions))

    @shared
    def resume(self, *partitions: TopicPartition) -> None:
        """Hand out records of these partitions again.

        Raises:
            NotAssignedError: One of them is not assigned.
        """
        self._positions.resume(each_partition(partitions))

    def paused(self) -> set[TopicPartition]:
        """Return the partitions paused now."""
        self._core.check_readable()
        return {state.tp for state in self._core.engine.subscription.paused()}

    @shared
    def stop_at(self, partition: TopicPartition, offset: int | None) -> None:
        """Fetch nothing of a partition from an offset on, for readers of a range.

        A fetch may bring more than it was asked for, so records from the offset on may still be
        handed out. Lasts as long as the partition is assigned; None ends it.

        Raises:
            NotAssignedError: The partition is not assigned.
            InvalidArgumentError: The offset is negative.
        """
        check_partition(partition)
        end = None if offset is None else check_offset(offset).offset
        self._positions.stop_at(partition, end)

    @shared
    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on at the first offset there is; of all partitions if none is named.

        The offset is looked up by the next poll() or position().

        Raises:
            NotAssignedError: A partition is not assigned, or none is.
        """
        self._positions.reset(each_partition(partitions), _EARLIEST)

    @shared
    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on behind the last offset (last stable one under read_committed), likewise lazily.

        Raises:
            NotAssignedError: A partition is not assigned, or none is.
        """
        self._positions.reset(each_partition(partitions), _LATEST)

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark that the last fetch told, None before the first.

        Raises:
            NotAssignedError: The partition is not assigned.
        """
        self._core.check_readable()
        state = self._core.engine.subscription.get(check_partition(partition))
        return state.high_watermark if state.high_watermark >= 0 else None

    @shared
    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return how many records are left to read; None while the end is not known (KIP-666).

        Asks no broker itself, but has the end looked up for the next call where it is unknown.

        Raises:
            NotAssignedError: The partition is not assigned.
        """
        return self._positions.lag(check_partition(partition))

    @shared
    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition.

        Raises:
            KafkaTimeoutError: They could not be looked up in time, by default
                `request_timeout_ms` (never more than `default_api_timeout_ms`).
        """
        return self._edges(partitions, _EARLIEST, timeout_ms)

    @shared
    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset behind the last record of each partition.

        That is the high watermark; under read_committed the last stable offset.

        Raises:
            KafkaTimeoutError: They could not be looked up in time, by default
                `request_timeout_ms` (never more than `default_api_timeout_ms`).
        """
        return self._edges(partitions, _LATEST, timeout_ms)

    def _edges(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        chosen = check_partitions(partitions)
        if timeout_ms == 0:
            return {}  # as in the Java client: no time, no answer, no error
        found = self._positions.look_up(dict.fromkeys(chosen, timestamp), timeout_ms)
        return {tp: offset.offset for tp, offset in found.items() if offset is not None}

    @shared
    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a time (ms since the epoch) of each partition.

        None where no record is that young.

        Raises:
            InvalidArgumentError: A timestamp is negative.
            KafkaTimeoutError: They could not be looked up in time, by default
                `request_timeout_ms` (never more than `default_api_timeout_ms`).
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
        """Commit and wait: the positions of what was handed out, or the offsets given.

        Callbacks of earlier `commit_async` calls run first.

        Raises:
            NoGroupError: There is no `group_id`.
            CommitFailedError: The group has moved on without us; a `CommitDuringRebalanceError`
                if it is only rebalancing, and a poll() later the commit will do.
            KafkaTimeoutError: It kept failing for passing reasons until the timeout.
            TypeError, InvalidArgumentError: The offsets are not what they should be.
        """
        self._core.require_group()
        chosen = None if offsets is None else check_offsets(offsets)
        self._commits.commit_sync(chosen, timeout_ms)

    def commit_sync(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit and wait; the Java client's name for `commit`."""
        self.commit(offsets, timeout_ms)

    @shared
    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> Future:
        """Commit without waiting, once; it is not retried.

        Args:
            offsets: What to commit; by default the positions of what was handed out.
            callback: Called with offsets and error (None if it went well) inside a later poll,
                commit or close, by the thread that calls it; in the order of the commits.

        Returns:
            kafka-python's future, which ends with the commit, without another call.

        Raises:
            NoGroupError: There is no `group_id`.
            TypeError, InvalidArgumentError: The offsets are not what they should be.
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
        """Return the committed offset of a partition, None if there is none.

        Args:
            partition: Assigned or not.
            metadata: Return the whole `OffsetAndMetadata` instead of the offset.
            timeout_ms: How long to try, in milliseconds.

        Raises:
            NoGroupError: There is no `group_id`.
            KafkaTimeoutError: It could not be looked up in time.
            WakeupError: `wakeup()` was called.
        """
        self._core.check_usable()
        self._core.require_group()
        tp = check_partition(partition)
        found = self._positions.committed([tp], timeout_ms)[tp]
        return found if metadata or found is None else found.offset
