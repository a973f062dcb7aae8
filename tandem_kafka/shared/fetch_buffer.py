"""Fetched records on their way from the network thread to the application thread.

The network thread appends, the application thread takes; the deque itself is safe for that. The
bytes held are the difference of two counters that have one writer each.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tandem_kafka.records.decoder import RecordReader
from tandem_kafka.shared.partition import AssignedPartition, Position

__all__ = ["CHUNK_BYTES", "Counts", "FetchBuffer", "FetchedChunk"]

#: What a chunk takes beside its records: the reader, this object, its places in queues.
CHUNK_BYTES: Final = 1_024


@dataclass(slots=True, eq=False)
class FetchedChunk:
    """What one fetch brought for one partition: records, or the error that stands in their place.

    Attributes:
        partition: State of the partition it was fetched for.
        base: The position its read-ahead started from; another one there makes this void.
        reader: The records.
        error: What to raise in its turn; raised again by every poll if `sticky`, until a seek.
        counted_bytes: What the buffer counts for it. Writer: the buffer, on the network thread
            when the chunk is added, then on the application thread.
    """

    partition: AssignedPartition
    base: Position
    reader: RecordReader | None = None
    error: Exception | None = None
    sticky: bool = False
    counted_bytes: int = field(default=0, init=False)

    @property
    def size_bytes(self) -> int:
        """Memory it holds now; changes when records are taken."""
        return CHUNK_BYTES + self.reader.size_bytes if self.reader is not None else 0


class Counts(NamedTuple):
    """What the counters of the application thread are to be.

    Attributes:
        released_bytes: Of the buffer.
        partition_released_bytes: Of the chunk's partition.
        errors_taken: Of the chunk's partition.
        counted_bytes: Of the chunk.
    """

    released_bytes: int
    partition_released_bytes: int
    errors_taken: int
    counted_bytes: int


class FetchBuffer:
    """The queue between the two threads.

    Args:
        limit_bytes: `fetch_buffer_max_bytes`.
    """

    def __init__(self, limit_bytes: int = 1 << 26) -> None:
        self._chunks: deque[FetchedChunk] = deque()
        self.limit_bytes = limit_bytes
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
        size = chunk.counted_bytes = chunk.size_bytes
        self.added_bytes += size
        chunk.partition.buffered_bytes += size
        if chunk.error is not None:
            chunk.partition.errors_put += 1  # no fetch before the application has seen it
        self._chunks.append(chunk)
        self.added += 1

    @property
    def is_full(self) -> bool:
        """Whether as much is held as `fetch_buffer_max_bytes` allows, or more."""
        return self.held_bytes >= self.limit_bytes

    @property
    def first(self) -> FetchedChunk | None:
        """Application thread: the oldest chunk."""
        return self._chunks[0] if self._chunks else None

    def take(self) -> FetchedChunk | None:
        """Application thread: take the oldest chunk; it still counts until released."""
        return self._chunks.popleft() if self._chunks else None

    def counts_with(self, chunk: FetchedChunk) -> Counts:
        """Application thread: return the counters as they are to be for what `chunk` holds now."""
        return self._counts(chunk, chunk.size_bytes, errors=0)

    def counts_without(self, chunk: FetchedChunk) -> Counts:
        """Application thread: return the counters as they are to be when `chunk` is dropped."""
        return self._counts(chunk, 0, errors=int(chunk.error is not None))

    def _counts(self, chunk: FetchedChunk, size: int, errors: int) -> Counts:
        partition, freed = chunk.partition, chunk.counted_bytes - size
        return Counts(
            self.released_bytes + freed,
            partition.released_bytes + freed,
            partition.errors_taken + errors,
            size,
        )

    def count(self, chunk: FetchedChunk, counts: Counts) -> None:
        """Application thread: set the counters; again with the same `counts` if interrupted."""
        partition = chunk.partition
        self.released_bytes, partition.released_bytes, partition.errors_taken = counts[:3]
        chunk.counted_bytes = counts.counted_bytes
