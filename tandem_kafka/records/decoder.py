"""The interface of decoders, as the rest of the consumer uses them.

The network thread calls `decode_fetch_response` with a frame, and wraps each partition's bytes in a
`RecordReader`. The application thread takes records from the reader. The Python implementation
decodes one batch at a time when records are taken; the native one may decode on arrival.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol, Self
from uuid import UUID

from tandem_kafka.dataclass import dataclass
from tandem_kafka.types import UNKNOWN_OFFSET, ConsumerRecord, Node

if TYPE_CHECKING:
    from tandem_kafka.config import Config


#: More than a consumer ever needs, and within the range of a 32-bit integer.
_MOST_BYTES: Final = 2**31 - 1


class EncodedRecords(Protocol):
    """Record batches as bytes: a memoryview, or an object of the native extension."""

    def __buffer__(self, flags: int, /) -> memoryview:
        """Support `memoryview` and other users of the buffer protocol."""
        ...

    def __len__(self) -> int:
        """Return the number of bytes."""
        ...


@dataclass(frozen=True)
class FetchedPartition:
    """One partition of a fetch response, with encoded record batches.

    Attributes:
        topic: The topic name; None from version 13 on, which has `topic_id`.
        topic_id: The topic id; None before version 13.
        partition: The partition number.
        error_code: The error of this partition, 0 for none.
        high_watermark: The offset after the last record that all in-sync replicas have.
        last_stable_offset: The first offset of an open transaction, else the high watermark; -1
            before version 4.
        log_start_offset: The first available offset, -1 before version 5.
        aborted_transactions: Pairs of producer id and first offset, for read_committed.
        preferred_read_replica: The broker to fetch from instead (KIP-392), -1 for none.
        current_leader: Id and epoch of a newer leader (KIP-951), or None.
        diverging_epoch: Epoch and end offset where the log was truncated, or None.
        records: The batches, in the memory of the frame; None if the broker sent none.
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


@dataclass(frozen=True)
class FetchedResponse:
    """A fetch response; `error_code` is that of the session, `node_endpoints` are from KIP-951."""

    throttle_time_ms: int
    error_code: int
    session_id: int
    partitions: tuple[FetchedPartition, ...]
    node_endpoints: tuple[Node, ...] = ()


@dataclass(frozen=True)
class ReaderOptions:
    """How to read a partition's records.

    Attributes:
        read_committed: Whether to skip records of aborted transactions.
        check_crcs: Whether to verify the CRC of each batch before its records are returned.
        max_decompressed_batch_bytes: Maximum decompressed size of a batch.
        max_record_headers: Maximum number of headers of a record.
        decode_ahead_bytes: How many bytes the native transport may decode in advance.
    """

    read_committed: bool = False
    check_crcs: bool = True
    max_decompressed_batch_bytes: int = 1 << 27
    max_record_headers: int = 10_000
    decode_ahead_bytes: int = 1 << 26

    @classmethod
    def of(cls, config: Config) -> Self:
        """Return the reader options of a consumer."""
        return cls(
            read_committed=config.isolation_level == "read_committed",
            check_crcs=config.check_crcs,
            max_decompressed_batch_bytes=config.max_decompressed_batch_bytes,
            max_record_headers=config.max_record_headers,
            decode_ahead_bytes=min(config.fetch_buffer_max_bytes, _MOST_BYTES),
        )


class TakenRecords(Protocol):
    """Records of one partition that a reader has returned, but the user does not have yet."""

    def __len__(self) -> int:
        """Return the number of records."""
        ...

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Create one record after the other."""
        ...

    def part(self, start: int, stop: int) -> Self:
        """Return the records from `start` up to `stop`."""
        ...

    def before(self, offset: int) -> int:
        """Return the number of records before an offset."""
        ...

    def place_of(self, index: int) -> tuple[int, int]:
        """Return the offset and the leader epoch of a record; the index must not be negative.

        Raises:
            IndexError: There is no such record.
        """
        ...


class RecordReader(Protocol):
    """The records of one fetched partition from an offset on, which are returned once in order.

    Attributes:
        topic: Name of the topic.
        partition: Partition number.
        size_bytes: The memory in use: encoded batches, all that they keep from being freed, and
            decoded records. Changes with every `take`.
        open_bytes: The part of it that `take` has decoded but not returned: at most one batch, and
            a few MiB of small ones.
        end_offset: The offset of the next fetch, known from the headers without decoding.
        next_offset: The position after all records taken so far. It also moves past control
            batches, aborted records and compacted gaps, even if no record is left.
        leader_epoch: The epoch of the batch before `next_offset`, -1 if unknown.
        exhausted: True if there are no more records.
        taken_bytes: The bytes of the records that `take` has returned in calls with `max_bytes`.
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
        """The memory in use."""
        ...

    @property
    def open_bytes(self) -> int:
        """The part of it that `take` has decoded but not returned."""
        ...

    def take(self, max_records: int, max_bytes: int | None = None) -> TakenRecords:
        """Return up to `max_records` records and move past them.

        The result may have fewer records, or none with a moved `next_offset`, even if the reader
        is not exhausted.

        Args:
            max_records: Maximum number of records.
            max_bytes: Maximum total size of keys, values and headers, but at least one record is
                returned if there is one. The size of a record is the sum of its
                `serialized_*_size` fields, and at least one byte. No further batch is decoded
                once the limit is reached. None means no limit.

        Raises:
            CorruptRecordError: A batch fails its CRC or is malformed; the message has topic,
                partition and offset. The position does not move, and the next call raises again.
            UnsupportedCodecError: The compression of a batch is unknown.
        """
        ...
