"""Decode a partition's batches one after the other: CRC, compression, transactions.

The twin of rust/src/batches/decoder.rs.
"""

from __future__ import annotations

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
from tandem_kafka.records.transactions import AbortedTransactions, is_abort_marker
from tandem_kafka.records.v2 import BatchReader
from tandem_kafka.types import UNKNOWN_EPOCH

__all__ = ["BatchDecoder", "Segment"]

#: In format v2 the CRC covers all from the attributes on (not the offset, which a broker sets).
_V2_CRC_AT: Final = 21


class Segment(NamedTuple):
    """Records as the user is to see them: of one batch, or of a part of a large one.

    Attributes:
        columns: The records; none where the batch is a marker or aborted.
        next_offset: The position behind them.
        leader_epoch: Epoch of their batch.
        size_bytes: Memory that the records take, about.
    """

    columns: RecordColumns
    next_offset: int
    leader_epoch: int
    size_bytes: int


class BatchDecoder:
    """Decodes a partition's batches in order, and follows its aborted transactions.

    Args:
        records: The partition's bytes.
        walk: What a walk over them found.
        aborted: The aborted transactions, in read_committed mode.
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
        #: Where the next batch begins, and where they end.
        self._at = 0
        self._end = walk.end
        self._problem = walk.problem
        self._aborted = AbortedTransactions(aborted) if aborted else None
        #: The batch of which not every part is decoded.
        self._batch: BatchReader | None = None
        self._header: BatchHeader | None = None
        #: What was wrong: finding it once more may take as long as the first time.
        self._failed: MalformedBatchError | UnsupportedCodecError | None = None

    @property
    def finished(self) -> bool:
        """True when there is neither a batch nor a problem to come."""
        return self._batch is None and self._at == self._end and self._problem is None

    @property
    def unpacked_bytes(self) -> int:
        """Memory of the decompressed batch of which not every part is decoded."""
        return 0 if self._batch is None else self._batch.unpacked_bytes

    def next(self) -> Segment:
        """Decode what comes next; not to be called when finished.

        Raises:
            MalformedBatchError: It breaks its format; raised again by the next call.
            UnsupportedCodecError: Its compression is unknown.
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
            raise MalformedBatchError("a batch is cut short")  # the walk has seen its end
        if header.leader_epoch > self._leader_epoch > UNKNOWN_EPOCH:
            header = header._replace(leader_epoch=UNKNOWN_EPOCH)
        try:
            segment = self._begin(header)
        except BatchTooLargeError as error:
            raise BatchTooLargeError(
                f"the batch with offsets {header.base_offset} to {header.last_offset} {error}"
            ) from error
        self._at += header.size
        return segment

    def _begin(self, header: BatchHeader) -> Segment:
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
            f"(it says {header.crc:#010x}, its bytes give {found:#010x})"
        )
