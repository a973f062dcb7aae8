"""The Python twin of the record path: batches are decoded when their records are taken."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Final
from zlib import crc32

from crc32c import crc32c

from tandem_kafka.errors import CorruptRecordError, UnsupportedCodecError
from tandem_kafka.records.batches import BatchHeader, MalformedBatchError, walk_batches
from tandem_kafka.records.columns import RecordColumns, Records
from tandem_kafka.records.decoder import FetchedPartition, ReaderOptions, RecordReader
from tandem_kafka.records.legacy import CRC_AT, decode_legacy
from tandem_kafka.records.transactions import AbortedTransactions, is_abort_marker
from tandem_kafka.records.v2 import decode_v2
from tandem_kafka.types import UNKNOWN_EPOCH, ConsumerRecord

__all__ = ["PythonRecordReader", "chain_records", "join_records", "open_reader", "rewind"]

#: In format v2 the CRC covers all from the attributes on (not the offset, which a broker sets).
_V2_CRC_AT: Final = 21


def open_reader(
    topic: str,
    partition: int,
    fetch_offset: int,
    fetched: FetchedPartition,
    options: ReaderOptions,
) -> RecordReader:
    """Return a reader of the partition's records from `fetch_offset` on; decodes none yet."""
    return PythonRecordReader(topic, partition, fetch_offset, fetched, options)


def chain_records(parts: Sequence[Sequence[ConsumerRecord]]) -> Sequence[ConsumerRecord]:
    """Return the records of several sequences of one partition as one."""
    return parts[0] if len(parts) == 1 else list(chain.from_iterable(parts))


join_records = chain_records


def rewind(reader: RecordReader, offset: int) -> None:
    """Have a reader whose `take` was interrupted go on at `offset`.

    A native reader stands there already: no interrupt comes between its steps.
    """
    if isinstance(reader, PythonRecordReader):
        reader.rewind(offset)


class PythonRecordReader:
    """A `RecordReader` that holds the encoded bytes and at most one batch decoded."""

    __slots__ = (
        "_aborted",
        "_aborted_transactions",
        "_batch_end",
        "_batches",
        "_columns",
        "_cursor",
        "_index",
        "_options",
        "_problem",
        "_view",
        "end_offset",
        "exhausted",
        "leader_epoch",
        "next_offset",
        "partition",
        "size_bytes",
        "taken_bytes",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        fetch_offset: int,
        fetched: FetchedPartition,
        options: ReaderOptions,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self._options = options
        self._view = memoryview(b"" if fetched.records is None else fetched.records)
        self._batches, self._problem = walk_batches(self._view)
        self._aborted_transactions = fetched.aborted_transactions if options.read_committed else ()
        self.size_bytes = len(self._view)
        self.end_offset = fetch_offset
        if self._batches:
            self.end_offset = max(fetch_offset, self._batches[-1].last_offset + 1)
        self.taken_bytes = 0
        self.rewind(fetch_offset)

    def rewind(self, offset: int) -> None:
        """Go on at `offset`, whatever was taken: `take` may have been interrupted anywhere."""
        self._aborted = AbortedTransactions(self._aborted_transactions)
        #: The batch being handed out, how far it is, and the offset behind it.
        self._columns: RecordColumns | None = None
        self._cursor = 0
        self._batch_end = offset
        #: Which batch comes next.
        self._index = 0
        self.next_offset = offset
        self.leader_epoch = UNKNOWN_EPOCH
        self.exhausted = not self._batches and self._problem is None

    def take(self, max_records: int, max_bytes: int | None = None) -> Records:
        """Return up to `max_records` records and move on; see `RecordReader.take`."""
        taken = RecordColumns()
        left = max_bytes
        try:
            while len(taken) < max_records and not self.exhausted:
                part, used = self._take_from_batch(
                    max_records - len(taken), left, at_least_one=not len(taken)
                )
                if len(taken):
                    taken.extend(part)
                else:
                    taken = part
                if left is not None:
                    left = max(0, left - used)
                    self.taken_bytes += used
                if self._columns is not None or (left == 0 and len(taken)):
                    break
        except (CorruptRecordError, UnsupportedCodecError):
            # What stands before the bad batch goes out first; the next call meets it again.
            if not len(taken):
                raise
        return Records(self.topic, self.partition, taken)

    def _take_from_batch(
        self, count: int, max_bytes: int | None, *, at_least_one: bool
    ) -> tuple[RecordColumns, int]:
        """Return records of the current batch, opening the next one if needed, and their bytes.

        The bytes are 0 where there is no bound on them.
        """
        if self._columns is None:
            self._columns = self._open_batch()
        columns, start = self._columns, self._cursor
        stop = min(start + count, len(columns))
        used = 0
        if max_bytes is not None:
            stop, used = _stop_at(columns, start, stop, max_bytes, at_least_one=at_least_one)
        self._cursor = stop
        if stop < len(columns):
            if stop > start:
                self.next_offset = columns.offsets[stop - 1] + 1
        else:
            self.next_offset = max(self.next_offset, self._batch_end)
            self._columns = None
            self.exhausted = self._index == len(self._batches) and self._problem is None
        return (columns if stop - start == len(columns) else columns.part(start, stop)), used

    def _open_batch(self) -> RecordColumns:
        """Decode the next batch and stand at its first record that is wanted."""
        if self._index == len(self._batches):
            raise CorruptRecordError(self._where(f"{self._problem}"))
        header = self._batches[self._index]
        try:
            columns = self._decode(header)
        except MalformedBatchError as error:
            raise CorruptRecordError(self._where(str(error))) from error
        except UnsupportedCodecError as error:
            raise UnsupportedCodecError(self._where(str(error.args[0]))) from error
        self._index += 1
        self._batch_end = header.last_offset + 1
        self.leader_epoch = header.leader_epoch
        self._cursor = bisect_left(columns.offsets, self.next_offset)
        return columns

    def _decode(self, header: BatchHeader) -> RecordColumns:
        """Return the records of a batch that the user is to see."""
        batch = self._view[header.start : header.start + header.size]
        if self._options.check_crcs:
            _check_crc(header, batch)
        limit = self._options.max_batch_bytes
        if header.magic < 2:
            return decode_legacy(header, batch, limit, check_crcs=self._options.check_crcs)
        hidden = self._aborted.hides(header)
        if header.control:
            self._note_marker(header, batch)
            return RecordColumns()
        return RecordColumns() if hidden else decode_v2(header, batch, limit)

    def _note_marker(self, header: BatchHeader, batch: memoryview) -> None:
        if self._options.read_committed and header.record_count:
            marker = decode_v2(header, batch, self._options.max_batch_bytes)
            if is_abort_marker(marker.keys[0]):
                self._aborted.end(header.producer_id)

    def _where(self, problem: str) -> str:
        return (
            f"cannot read {self.topic}-{self.partition} at offset {self.next_offset}: {problem}; "
            "seek past it to go on"
        )


def _stop_at(
    columns: RecordColumns, start: int, stop: int, max_bytes: int, *, at_least_one: bool
) -> tuple[int, int]:
    """Return where the records from `start` on reach the bound, and the bytes before that."""
    whole = columns.size_bytes(start, stop)
    if whole <= max_bytes:
        return stop, whole
    ends = list(accumulate(columns.record_sizes(start, stop)))
    count = bisect_right(ends, max_bytes)
    if not count and at_least_one and ends:
        count = 1
    return start + count, ends[count - 1] if count else 0


def _check_crc(header: BatchHeader, batch: memoryview) -> None:
    found = crc32(batch[CRC_AT:]) if header.magic < 2 else crc32c(batch[_V2_CRC_AT:])
    if found != header.crc:
        raise MalformedBatchError(
            f"the batch at offset {header.base_offset} fails its CRC "
            f"(it says {header.crc:#010x}, its bytes give {found:#010x})"
        )
