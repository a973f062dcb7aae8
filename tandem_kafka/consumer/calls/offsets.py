"""Positions of other partitions, offsets and commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tandem_kafka.consumer.arguments import (
    check_offsets,
    check_partition,
    check_partitions,
    check_timestamps,
    each_partition,
)
from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.owned import Owned, shared
from tandem_kafka.consumer.positions import Positions
from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka.types import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

__all__ = ["OffsetCalls"]

_EARLIEST, _LATEST = -2, -1


class OffsetCalls(Owned):
    """Documented in `OffsetMethods`."""

    def __init__(self, core: Core, positions: Positions, commits: Commits) -> None:
        self._core = core
        self._positions = positions
        self._commits = commits

    async def position(
        self, partition: TopicPartition, timeout_ms: float | None = None
    ) -> int | None:
        """Return the offset of the next record, None if its lookup did not finish in time."""
        self._core.check_readable()
        tp = check_partition(partition)
        try:
            found = await self._positions.position(tp, timeout_ms)
        except KafkaTimeoutError:
            if timeout_ms is None:
                raise
            return None
        offset: int = found.offset
        return offset

    @shared
    def seek_to_beginning(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Continue at the first available offset."""
        self._positions.reset(each_partition(partitions), _EARLIEST)

    @shared
    def seek_to_end(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Continue at the end."""
        self._positions.reset(each_partition(partitions), _LATEST)

    @shared
    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first available offset of each partition."""
        return await self._edges(partitions, _EARLIEST, timeout_ms)

    @shared
    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the end of each partition."""
        return await self._edges(partitions, _LATEST, timeout_ms)

    async def _edges(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        chosen = check_partitions(partitions)
        if timeout_ms == 0:
            return {}  # as in the Java client: no request and no error
        found = await self._positions.look_up(dict.fromkeys(chosen, timestamp), timeout_ms)
        return {tp: offset.offset for tp, offset in found.items() if offset is not None}

    @shared
    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offset of each partition whose record is at or after a timestamp."""
        chosen = check_timestamps(timestamps)
        if timeout_ms == 0:
            return dict.fromkeys(chosen)
        return await self._positions.look_up(chosen, timeout_ms)

    @shared
    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit offsets and wait for the response."""
        self._core.require_group()
        chosen = None if offsets is None else check_offsets(offsets)
        await self._commits.commit_sync(chosen, timeout_ms)

    @shared
    async def committed(
        self, partition: TopicPartition, timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None:
        """Return the committed offset and its metadata, or None if there is none."""
        self._core.require_group()
        tp = check_partition(partition)
        found = await self._positions.committed([tp], timeout_ms)
        return found[tp]
