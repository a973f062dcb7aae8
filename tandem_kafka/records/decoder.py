"""The seam of the record path: what the rest of the consumer needs of a decoder.

The network thread calls `decode_fetch_response` on a frame and wraps each partition's bytes in a
`RecordReader`; the application thread takes records from the reader. The Python twin decodes
batch by batch when records are taken; a native one may decode everything when the frame arrives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, Self
from uuid import UUID

from tandem_kafka.types import UNKNOWN_OFFSET, ConsumerRecord, Node

if TYPE_CHECKING:
    from tandem_kafka.config import Config

__all__ = [
    "EncodedRecords",
    "FetchedPartition",
    "FetchedResponse",
    "ReaderOptions",
    "RecordReader",
    "TakenRecords",
]

#: More than there ever is, and a number that fits into a word of the processor.
_MOST_BYTES: Final = 2**31 - 1


class EncodedRecords(Protocol):
    """Record batches as bytes: a memoryview, or what the native twin has in its place."""

    def __buffer__(self, flags: int, /) -> memoryview:
        """Give the bytes to `memoryview` and its like."""
        ...

    def __len__(self) -> int:
        """Return the number of bytes."""
        ...


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """One partition of a fetch response, its record batches still encoded.

    Attributes:
        topic: Name, or None from version 13 on, where `topic_id` stands instead.
        high_watermark: Offset behind the last record that all in-sync replicas have.
        last_stable_offset: Offset behind which a transaction is open, -1 before version 4.
        log_start_offset: First offset there is, -1 before version 5.
        aborted_transactions: Pairs of producer id and first offset, for read_committed.
        preferred_read_replica: Broker to fetch from instead (KIP-392), -1 for none.
        current_leader: Id and epoch of a newer leader (KIP-951), or None.
        diverging_epoch: Epoch and end offset where the log was truncated, or None.
        records: The batches, in the memory of the frame; None where the broker sent none.
    """

    topic: str | None
    topic_id: UUID | None
    partition: int
    error_code: int
    high_watermark: int = UNKNOWN_OFFSET
    last_stable_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    aborted_transactions: tuple[tuple[int, int], ...] = ()
    preferred_read_replica: int = -1
    current_leader: tuple[int, int] | None = None
    diverging_epoch: tuple[int, int] | None = None
    records: EncodedRecords | None = None


@dataclass(frozen=True, slots=True)
class FetchedResponse:
    """A fetch response: `error_code` is the session's, `node_endpoints` those of KIP-951."""

    throttle_time_ms: int
    error_code: int
    session_id: int
    partitions: tuple[FetchedPartition, ...]
    node_endpoints: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """How to read a partition's records.

    Attributes:
        read_committed: Leave out records of aborted transactions.
        check_crcs: Verify each batch's CRC before its records are handed out.
        max_decompressed_batch_bytes: Bound on one batch after decompression.
        max_record_headers: Bound on the headers of one record.
        decode_ahead_bytes: How much the native transport may have decoded before it is asked for.
    """

    read_committed: bool = False
    check_crcs: bool = True
    max_decompressed_batch_bytes: int = 1 << 27
    max_record_headers: int = 10_000
    decode_ahead_bytes: int = 1 << 26

    @classmethod
    def of(cls, config: Config) -> Self:
        """Return what a consumer's options ask for."""
        return cls(
            read_committed=config.isolation_level == "read_committed",
            check_crcs=config.check_crcs,
            max_decompressed_batch_bytes=config.max_decompressed_batch_bytes,
            max_record_headers=config.max_record_headers,
            decode_ahead_bytes=min(config.fetch_buffer_max_bytes, _MOST_BYTES),
        )


class TakenRecords(Protocol):
    """Records of one partition that a reader has handed out, and the user does not have yet."""

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Make one after the other."""
        ...

    def part(self, start: int, stop: int) -> Self:
        """Return those from `start` up to `stop`."""
        ...

    def before(self, offset: int) -> int:
        """Return how many are before an offset."""
        ...

    def place_of(self, index: int) -> tuple[int, int]:
        """Return the offset and the leader epoch of one; the index is not negative.

        Raises:
            IndexError: There is no such record.
        """
        ...


class RecordReader(Protocol):
    """The records of one fetched partition from one offset on, handed out once and in order.

    Attributes:
        topic: Name of the topic.
        partition: Partition number.
        size_bytes: Bytes it keeps in memory: encoded batches, with all that they keep from being
            freed, and decoded records. Changes with every `take`.
        open_bytes: Bytes of these that `take` has decoded and not handed out: at most a batch, and
            a few MiB of small ones.
        end_offset: Where the next fetch goes on; known from the batch headers without decoding.
        next_offset: The consumer's position once everything taken so far is consumed. Moves past
            control batches, aborted records and compacted gaps too, also when no record is left.
        leader_epoch: Epoch of the batch that `next_offset` stands behind, -1 if unknown.
        exhausted: True when there is nothing more to take.
        taken_bytes: Bytes of the records that `take` has returned in calls with `max_bytes`.
    """

    topic: str
    partition: int
    end_offset: int
    next_offset: int
    leader_epoch: int
    exhausted: bool
    taken_bytes: int

    @property
    def size_bytes(self) -> int:
        """Memory it keeps now."""
        ...

    @property
    def open_bytes(self) -> int:
        """What of this `take` has decoded and not handed out."""
        ...

    def take(self, max_records: int, max_bytes: int | None = None) -> TakenRecords:
        """Return up to `max_records` records and move on.

        May return fewer, or none (with `next_offset` moved), while not exhausted.

        Args:
            max_records: The most records to return.
            max_bytes: Stop before the record with which keys, values and headers would come to
                more bytes than this, but return at least one record if there is one. A record
                counts as its `serialized_*_size` fields say, and as one byte at least. No
                further batch is decoded once the bound is reached. None means no bound.

        Raises:
            CorruptRecordError: A batch fails its CRC or cannot be parsed; the text names topic,
                partition and offset. The position does not move, and asking again raises again.
            UnsupportedCodecError: A batch's compression is unknown.
        """
        ...
