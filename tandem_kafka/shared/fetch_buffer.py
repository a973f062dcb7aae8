"""Fetched records on their way from the network thread to the application thread.

The network thread appends, the application thread takes; the deque itself is safe for that. The
bytes held are the difference of two counters that have one writer each.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from tandem_kafka.records.decoder import RecordReader
from tandem_kafka.shared.partition import AssignedPartition, Position

__all__ = ["FetchBuffer", "FetchedChunk", "ReleasedCounts"]

#: Bytes released in all, bytes released of a partition, errors of it that were taken.
ReleasedCounts = tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class FetchedChunk:
    """What one fetch brought for one partition: records, or the error that stands in their place.

    Attributes:
        partition: State of the partition it was fetched for.
        base: The position its read-ahead started from; another one there makes this void.
        reader: The records.
        error: What to raise in its turn; raised again by every poll if `sticky`, until a seek.
    """

    partition: AssignedPartition
    base: Position
    reader: RecordReader | None = None
    error: Exception | None = None
    sticky: bool = False

    @property
    def size_bytes(self) -> int:
        """Memory it holds."""
        return self.reader.size_bytes if self.reader is not None else 0


class FetchBuffer:
    """The queue between the two threads."""

    def __init__(self) -> None:
        self._chunks: deque[FetchedChunk] = deque()
        # Writer: the network thread.
        self.added = 0
        self.added_bytes = 0
        #: A fetch was left out for want of room: releasing a chunk must wake the network thread.
        self.starved = False
        # Writer: the application thread.
        self.released_bytes = 0

    @property
    def held_bytes(self) -> int:
        """Bytes fetched and not yet released."""
        return self.added_bytes - self.released_bytes

    def add(self, chunk: FetchedChunk) -> None:
        """Network thread: append."""
        size = chunk.size_bytes
        self.added_bytes += size
        chunk.partition.buffered_bytes += size
        if chunk.error is not None:
            chunk.partition.errors_put += 1  # no fetch before the application has seen it
        self._chunks.append(chunk)
        self.added += 1

    @property
    def first(self) -> FetchedChunk | None:
        """Application thread: the oldest chunk."""
        return self._chunks[0] if self._chunks else None

    def take(self) -> FetchedChunk | None:
        """Application thread: take the oldest chunk; it still counts until released."""
        return self._chunks.popleft() if self._chunks else None

    def counts_without(self, chunk: FetchedChunk) -> ReleasedCounts:
        """Application thread: return the counters as they will be when `chunk` is released."""
        partition, size = chunk.partition, chunk.size_bytes
        return (
            self.released_bytes + size,
            partition.released_bytes + size,
            partition.errors_taken + (chunk.error is not None),
        )

    def release(self, chunk: FetchedChunk, counts: ReleasedCounts | None = None) -> None:
        """Application thread: its records have been handed out or dropped.

        With the `counts` of a call that was interrupted, it finishes that call.
        """
        partition = chunk.partition
        self.released_bytes, partition.released_bytes, partition.errors_taken = (
            self.counts_without(chunk) if counts is None else counts
        )
