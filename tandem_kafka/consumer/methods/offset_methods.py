"""The methods that concern positions, offsets and commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, overload

from tandem_kafka.consumer.arguments import (
    check_offsets,
    check_partition,
    check_partitions,
    check_timestamps,
    each_partition,
)
from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.concurrent_calls import WithCore, any_thread, part_of_consumers
from tandem_kafka.consumer.core import Core
from tandem_kafka.errors import KafkaTimeoutError, NotAssignedError, reason_of
from tandem_kafka.events.application import (
    FetchCommitted,
    ListOffsets,
    ResetOffsets,
    UpdatePositions,
)
from tandem_kafka.types import (
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
    names_of,
)

_EARLIEST, _LATEST = -2, -1


@part_of_consumers
class OffsetMethods(WithCore):
    """A part of both consumers."""

    _commits: Commits

    @overload
    async def position(self, partition: TopicPartition, timeout_ms: None = None) -> int: ...

    @overload
    async def position(self, partition: TopicPartition, timeout_ms: float | None) -> int | None: ...

    async def position(
        self, partition: TopicPartition, timeout_ms: float | None = None
    ) -> int | None:
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
        core = self._core
        core.check_readable()
        tp = check_partition(partition)
        deadline_ms = core.deadline_ms(timeout_ms)
        while True:
            state = core.engine.subscription.get(tp)
            valid = state.has_valid_position  # read before the position
            position = state.position
            if position is not None and valid:
                core.raise_if_woken()
                return position.offset
            event = UpdatePositions(deadline_ms=deadline_ms, partition=tp)
            try:
                await core.ask(event, interruptible=True)
            except KafkaTimeoutError:
                if timeout_ms is None:
                    raise
                return None

    @any_thread
    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first available offset.

        The next poll() or position() looks up the offset.

        Args:
            *partitions: Assigned partitions; all of them if none is given.

        Raises:
            NotAssignedError: A partition is not assigned, or no partition is.
        """
        _reset(self._core, each_partition(partitions), _EARLIEST)

    @any_thread
    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue at the end: the high watermark, or the last stable offset if read_committed.

        The next poll() or position() looks up the offset.

        Args:
            *partitions: Assigned partitions; all of them if none is given.

        Raises:
            NotAssignedError: A partition is not assigned, or no partition is.
        """
        _reset(self._core, each_partition(partitions), _LATEST)

    @any_thread
    async def beginning_offsets(
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
        return await _edges(self._core, partitions, _EARLIEST, timeout_ms)

    @any_thread
    async def end_offsets(
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
        return await _edges(self._core, partitions, _LATEST, timeout_ms)

    @any_thread
    async def offsets_for_times(
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
        return await _look_up(self._core, chosen, timeout_ms)

    @any_thread
    async def commit(
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
        await self._commits.commit_sync(chosen, timeout_ms)

    @any_thread
    async def _commit_existing(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        timeout_ms: float | None = None,
    ) -> None:
        """Commit, but do not wait for a topic that does not exist; for `tandem_kafka.confluent`."""
        self._core.require_group()
        await self._commits.commit_sync(check_offsets(offsets), timeout_ms, releasing=True)

    @overload
    async def committed(
        self,
        partition: TopicPartition,
        metadata: Literal[False] = False,
        timeout_ms: float | None = None,
    ) -> int | None: ...

    @overload
    async def committed(
        self, partition: TopicPartition, metadata: Literal[True], timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None: ...

    @overload
    async def committed(
        self, partition: TopicPartition, metadata: bool, timeout_ms: float | None = None
    ) -> int | OffsetAndMetadata | None: ...

    async def committed(
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
        core = self._core
        core.check_usable()
        core.require_group()
        tp = check_partition(partition)
        event = FetchCommitted(
            deadline_ms=core.deadline_ms(timeout_ms), partitions=frozenset((tp,))
        )
        found = (await core.ask(event, interruptible=True))[tp]
        return found if metadata or found is None else found.offset


def _reset(core: Core, partitions: Iterable[TopicPartition], timestamp: int) -> None:
    """Look up new positions when they are needed; without partitions, those of all."""
    chosen = frozenset(partitions) or frozenset(core.engine.subscription.assigned)
    if not chosen:
        msg = "no partitions are assigned; call assign(), or subscribe() and poll() first"
        raise NotAssignedError(msg)
    deadline_ms = core.deadline_ms(None)
    core.ask_now(ResetOffsets(deadline_ms=deadline_ms, partitions=chosen, timestamp=timestamp))


async def _edges(
    core: Core,
    partitions: Iterable[TopicPartition],
    timestamp: int,
    timeout_ms: float | None,
) -> dict[TopicPartition, int]:
    chosen = check_partitions(partitions)
    if timeout_ms == 0:
        return {}  # as in the Java client: no request and no error
    found = await _look_up(core, dict.fromkeys(chosen, timestamp), timeout_ms)
    return {tp: offset.offset for tp, offset in found.items() if offset is not None}


async def _look_up(
    core: Core, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    if not timestamps:
        return {}
    if timeout_ms is None:
        # The default of kafka-python; the Java client only uses default.api.timeout.ms.
        timeout_ms = min(core.config.request_timeout_ms, core.config.default_api_timeout_ms)
    event = ListOffsets(deadline_ms=core.deadline_ms(timeout_ms), timestamps=dict(timestamps))
    try:
        return await core.ask(event)
    except KafkaTimeoutError as error:
        reason = reason_of(error).removeprefix(f"{event.operation} did not finish in time: ")
        msg = f"no offsets of {names_of(timestamps)} in {timeout_ms} ms: {reason}"
        raise KafkaTimeoutError(msg) from error
