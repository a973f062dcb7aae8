"""The buffer of fetched records between the network thread and the application thread.

The network thread appends and the application thread removes. The number of buffered bytes is the
difference of two counters with one writer each. The native queue also takes what standing fetches
receive, in the same order.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from tandem_kafka.dataclass import dataclass
from tandem_kafka.records.decoder import RecordReader
from tandem_kafka.runtime.native import native
from tandem_kafka.state.partition import AssignedPartition, Position

#: The size of a chunk without its records: the reader, this object and its queue entries.
CHUNK_BYTES: Final = 1_024


@dataclass(eq=False)
class CompletedFetch:
    """The records of one partition in one fetch response, or an error in place of records.

    Attributes:
        partition: State of the partition it was fetched for.
        base: The position at which the read-ahead started. The chunk is stale once the partition
            has a different base.
        reader: The records.
        error: The error to raise once all earlier records have been returned.
        sticky: Whether every poll raises the error again, until a seek.
        counted_bytes: The size that the buffer counts. Writer: the network thread when it adds
            the chunk, then the application thread.
    """

    partition: AssignedPartition
    base: Position
    reader: RecordReader | None = None
    counted_bytes: int = 0
    error: Exception | None = None
    sticky: bool = False

    @property
    def size_bytes(self) -> int:
        """The memory in use; it changes when records are taken."""
        return CHUNK_BYTES + self.reader.size_bytes if self.reader is not None else 0


#: New values for the counters of the application thread: `released_bytes` of the partition and of
#: the queue, `errors_taken` of the partition, and `counted_bytes` of the chunk.
Counts = tuple[int, int, int, int]


class ChunkQueue(Protocol):
    """A queue of chunks; one thread appends and one removes.

    Attributes:
        released_bytes: The bytes ever released. Writer: the application thread.
    """

    released_bytes: int

    @property
    def reserved_bytes(self) -> int:
        """The bytes that all fetches in flight may bring."""
        ...

    @property
    def repeated(self) -> tuple[int, int, int]:
        """The number of repeated fetches, and the bytes received and sent for them."""
        ...

    def reserve(self, size: int) -> None:
        """Count what a fetch in flight may bring; a negative number for less than before."""
        ...

    @property
    def added(self) -> int:
        """The number of chunks ever added."""
        ...

    @property
    def added_bytes(self) -> int:
        """The bytes ever added."""
        ...

    def append(self, chunk: CompletedFetch, size: int) -> None:
        """Append a chunk."""
        ...

    def first(self) -> CompletedFetch | None:
        """Return the oldest chunk, which stays in the queue."""
        ...

    def take(self) -> CompletedFetch | None:
        """Remove and return the oldest chunk."""
        ...


class PythonChunkQueue:
    """Implements `ChunkQueue` in Python."""

    def __init__(self) -> None:
        self._chunks: deque[CompletedFetch] = deque()
        self.added = 0
        self.added_bytes = 0
        self.released_bytes = 0
        self.reserved_bytes = 0
        self.repeated = (0, 0, 0)

    def reserve(self, size: int) -> None:
        """Count what a fetch in flight may bring; a negative number for less than before."""
        self.reserved_bytes += size

    def append(self, chunk: CompletedFetch, size: int) -> None:
        """Append a chunk."""
        self.added_bytes += size
        self._chunks.append(chunk)
        self.added += 1

    def first(self) -> CompletedFetch | None:
        """Return the oldest chunk, which stays in the queue."""
        return self._chunks[0] if self._chunks else None

    def take(self) -> CompletedFetch | None:
        """Remove and return the oldest chunk."""
        return self._chunks.popleft() if self._chunks else None


class FetchBuffer:
    """The queue between the two threads.

    Args:
        limit_bytes: `fetch_buffer_max_bytes`.
    """

    __slots__ = ("limit_bytes", "queue", "starved")

    def __init__(self, limit_bytes: int = 1 << 26) -> None:
        #: The native queue also receives the chunks of standing fetches.
        self.queue: ChunkQueue = (
            PythonChunkQueue() if native is None else native.ChunkQueue(CompletedFetch)
        )
        self.limit_bytes = limit_bytes
        # Writer: the network thread.
        #: A fetch was not sent for lack of room, so releasing a chunk must wake the network thread.
        self.starved = False

    @property
    def added(self) -> int:
        """The number of chunks ever added."""
        return self.queue.added

    @property
    def added_bytes(self) -> int:
        """The bytes ever added."""
        return self.queue.added_bytes

    @property
    def held_bytes(self) -> int:
        """The bytes that have been fetched but not released."""
        return self.queue.added_bytes - self.queue.released_bytes

    def add(self, chunk: CompletedFetch) -> None:
        """Network thread: append a chunk."""
        size = chunk.counted_bytes = chunk.size_bytes
        chunk.partition.buffered_bytes += size
        if chunk.error is not None:
            # Invariant: no fetch until the application has seen the error. A slow application would
            # find a thousand copies of it.
            chunk.partition.errors_put += 1
        self.queue.append(chunk, size)

    @property
    def is_full(self) -> bool:
        """Whether `held_bytes` has reached `fetch_buffer_max_bytes`."""
        return self.held_bytes >= self.limit_bytes

    def counts(self, chunk: CompletedFetch, size: int) -> Counts:
        """Application thread: return the counters for a new size of a chunk; 0 drops it."""
        partition, freed = chunk.partition, chunk.counted_bytes - size
        errors = 1 if chunk.error is not None and not size else 0
        return (
            partition.released_bytes + freed,
            self.queue.released_bytes + freed,
            partition.errors_taken + errors,
            size,
        )

    def count(self, chunk: CompletedFetch, counts: Counts) -> None:
        """Application thread: set the counters; repeat with the same `counts` if interrupted."""
        partition = chunk.partition
        # Invariant: the partition first; a standing fetch that waits for room checks both.
        (
            partition.released_bytes,
            self.queue.released_bytes,
            partition.errors_taken,
            chunk.counted_bytes,
        ) = counts
