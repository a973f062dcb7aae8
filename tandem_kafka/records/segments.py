"""Decodes a partition's batches one after the other: CRC, compression and transactions.

The native implementation is rust/src/batches/decoder.rs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from zlib import crc32

from crc32c import crc32c

from tandem_kafka.errors import UnsupportedCodecError
from tandem_kafka.records.batches import (
    BatchHeader,
    BatchTooLargeError,
    BatchWalk,
    MalformedBatchError,
    read_header,
)
from tandem_kafka.records.columns import RecordColumns
from tandem_kafka.records.decoder import ReaderOptions
from tandem_kafka.records.legacy import CRC_AT, decode_legacy
from tandem_kafka.records.v2 import BatchReader
from tandem_kafka.runtime.tuples import replaced
from tandem_kafka.types import UNKNOWN_EPOCH

#: The key of a marker has two 16-bit numbers: its version and its type (0 abort, 1 commit).
_KIND = slice(2, 4)
_ABORT = b"\x00\x00"


def is_abort_marker(key: bytes | None) -> bool:
    """Tell whether a control record with this key marks an aborted transaction."""
    return key is not None and key[_KIND] == _ABORT


class AbortedTransactions:
    """Tracks which producers are inside an aborted transaction, batch by batch.

    The broker sends the aborted transactions in the fetched range, as pairs of producer id and
    first offset. A producer's transactional batches are hidden from this offset up to its abort
    marker. Its other batches are not hidden.
    """

    __slots__ = ("_open", "_upcoming")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        #: In descending order of their first offsets.
        self._upcoming = sorted(aborted, key=lambda pair: -pair[1])
        self._open: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        """Move to a batch, and tell whether it belongs to an aborted transaction."""
        while self._upcoming and self._upcoming[-1][1] <= header.last_offset:
            self._open.add(self._upcoming.pop()[0])
        return header.transactional and header.producer_id in self._open

    def end(self, producer_id: int) -> None:
        """Process the abort marker of a producer."""
        self._open.discard(producer_id)


#: In format v2, the CRC covers the bytes from the attributes on, not the offset set by the broker.
_V2_CRC_AT: Final = 21


class Segment(NamedTuple):
    """The visible records of one batch, or of a part of a large batch.

    Attributes:
        columns: The records; empty for a transaction marker or an aborted batch.
        next_offset: The position after them.
        leader_epoch: The epoch of their batch.
        size_bytes: An estimate of the memory that the records use.
    """

    columns: RecordColumns
    next_offset: int
    leader_epoch: int
    size_bytes: int


class BatchDecoder:
    """Decodes a partition's batches in order, and tracks its aborted transactions.

    Args:
        records: The partition's bytes.
        walk: The result of reading all headers.
        aborted: The aborted transactions, in read_committed mode.
        options: The reader options.
        leader_epoch: The highest epoch that a batch can have, -1 if unknown.
    """

    __slots__ = (
        "_aborted",
        "_at",
        "_batch",
        "_end",
        "_failed",
        "_header",
        "_leader_epoch",
        "_options",
        "_problem",
        "_records",
    )

    def __init__(
        self,
        records: bytes | memoryview,
        walk: BatchWalk,
        aborted: tuple[tuple[int, int], ...],
        options: ReaderOptions,
        leader_epoch: int = UNKNOWN_EPOCH,
    ) -> None:
        self._records = records
        self._leader_epoch = leader_epoch
        self._options = options
        #: The start of the next batch, and the end of all batches.
        self._at = 0
        self._end = walk.end
        self._problem = walk.problem
        self._aborted = AbortedTransactions(aborted) if aborted else None
        #: A batch that is not completely decoded.
        self._batch: BatchReader | None = None
        self._header: BatchHeader | None = None
        #: The error found; finding it again could take as long as the first time.
        self._failed: MalformedBatchError | UnsupportedCodecError | None = None

    @property
    def finished(self) -> bool:
        """True if neither a batch nor an error remains."""
        return self._batch is None and self._at == self._end and self._problem is None

    @property
    def unpacked_bytes(self) -> int:
        """The memory of a decompressed batch that is not completely decoded."""
        return 0 if self._batch is None else self._batch.unpacked_bytes

    @property
    def end_of_batch(self) -> int | None:
        """The offset after the batch that is decoded next, None if there is no valid header."""
        header = self._header
        if self._batch is None and self._at < self._end:
            header = read_header(memoryview(self._records), self._at)
        return None if header is None else header.last_offset + 1

    def next(self) -> Segment:
        """Decode the next segment; must not be called when finished.

        Raises:
            MalformedBatchError: A batch violates its format; the next call raises again.
            UnsupportedCodecError: The compression of a batch is unknown.
        """
        if self._failed is None:
            try:
                return self._next()
            except (MalformedBatchError, UnsupportedCodecError) as error:
                self._failed = error
        raise self._failed.with_traceback(None)

    def _next(self) -> Segment:
        if self._batch is not None and self._header is not None:
            return self._next_part(self._batch, self._header)
        if self._at == self._end:
            raise MalformedBatchError(f"{self._problem}")
        header = read_header(memoryview(self._records), self._at)
        if header is None:
            raise MalformedBatchError("a batch is truncated")  # a defect: its end was found before
        if header.leader_epoch > self._leader_epoch > UNKNOWN_EPOCH:
            header = replaced(header, leader_epoch=UNKNOWN_EPOCH)
        try:
            segment = self._decode_batch(header)
        except BatchTooLargeError as error:
            raise BatchTooLargeError(
                f"the batch with offsets {header.base_offset} to {header.last_offset} {error}"
            ) from error
        self._at += header.size
        return segment

    def _decode_batch(self, header: BatchHeader) -> Segment:
        batch = memoryview(self._records)[header.start : header.start + header.size]
        if self._options.check_crcs:
            _check_crc(header, batch)
        if header.magic < 2:
            return _whole(header, decode_legacy(header, batch, self._options))
        hidden = self._aborted is not None and self._aborted.hides(header)
        if header.control:
            self._note_marker(header)
        if hidden or header.control:
            return _whole(header, RecordColumns())
        reader = BatchReader.open(header, self._records, self._options)
        return self._next_part(reader, header)

    def _next_part(self, reader: BatchReader, header: BatchHeader) -> Segment:
        columns = reader.next_part()
        next_offset = header.last_offset + 1 if reader.exhausted else columns.offsets[-1] + 1
        self._batch, self._header = (None, None) if reader.exhausted else (reader, header)
        return Segment(columns, next_offset, header.leader_epoch, reader.part_bytes)

    def _note_marker(self, header: BatchHeader) -> None:
        if self._options.read_committed and header.record_count:
            marker = BatchReader.open(header, self._records, self._options).next_part()
            if self._aborted is not None and is_abort_marker(marker.keys[0]):
                self._aborted.end(header.producer_id)


def _whole(header: BatchHeader, columns: RecordColumns) -> Segment:
    size_bytes = (header.size + columns.overhead_bytes()) if len(columns) else 0
    return Segment(columns, header.last_offset + 1, header.leader_epoch, size_bytes)


def _check_crc(header: BatchHeader, batch: memoryview) -> None:
    found = crc32(batch[CRC_AT:]) if header.magic < 2 else crc32c(batch[_V2_CRC_AT:])
    if found != header.crc:
        raise MalformedBatchError(
            f"the batch at offset {header.base_offset} fails its CRC "
            f"(stored {header.crc:#010x}, computed {found:#010x})"
        )
