"""The Python implementation of the record path, which decodes batches when they are needed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import partial
from itertools import accumulate

from tandem_kafka.errors import CorruptRecordError, UnsupportedCodecError
from tandem_kafka.records.batches import (
    BatchWalk,
    MalformedBatchError,
    check_beginning,
    walk_batches,
)
from tandem_kafka.records.columns import RecordColumns, Records, chain_records
from tandem_kafka.records.decoder import (
    FetchedPartition,
    ReaderOptions,
    RecordReader,
)
from tandem_kafka.records.segments import BatchDecoder, Segment
from tandem_kafka.types import UNKNOWN_EPOCH


def open_reader(
    topic: str,
    partition: int,
    fetch_offset: int,
    fetched: FetchedPartition,
    options: ReaderOptions,
    leader_epoch: int = UNKNOWN_EPOCH,
) -> RecordReader:
    """Return a reader of the partition's records from `fetch_offset` on, without decoding them.

    `leader_epoch` is the leader epoch of the metadata, -1 if unknown. No batch can have a higher
    one, and the CRC does not cover it. A higher one is therefore corrupted and treated as unknown.
    """
    return PythonRecordReader(topic, partition, fetch_offset, fetched, options, leader_epoch)


join_records = chain_records


def rewind(reader: RecordReader, offset: int) -> None:
    """Let a reader whose `take` was interrupted continue at `offset`."""
    if isinstance(reader, PythonRecordReader):
        reader.rewind(offset)


class PythonRecordReader:
    """A `RecordReader` that holds the encoded bytes and at most one decoded batch."""

    __slots__ = (
        "_cursor",
        "_decoder",
        "_encoded_bytes",
        "_new_decoder",
        "_segment",
        "end_offset",
        "exhausted",
        "leader_epoch",
        "next_offset",
        "partition",
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
        leader_epoch: int = UNKNOWN_EPOCH,
    ) -> None:
        self.topic = topic
        self.partition = partition
        records, self._encoded_bytes = _owned_bytes(fetched)
        walk = _walk(memoryview(records), fetch_offset, fetched.high_watermark)
        aborted = fetched.aborted_transactions if options.read_committed else ()
        self._new_decoder = partial(BatchDecoder, records, walk, aborted, options, leader_epoch)
        self.end_offset = fetch_offset
        if walk.last_offset is not None:
            self.end_offset = max(fetch_offset, walk.last_offset + 1)
        self.taken_bytes = 0
        self.rewind(fetch_offset)

    def rewind(self, offset: int) -> None:
        """Continue at `offset`, even if `take` was interrupted at any point."""
        self._decoder = self._new_decoder()
        #: The segment that is being returned, and the index of its next record.
        self._segment: Segment | None = None
        self._cursor = 0
        self.next_offset = offset
        self.leader_epoch = UNKNOWN_EPOCH
        self.exhausted = self._decoder.finished

    @property
    def size_bytes(self) -> int:
        """The memory in use."""
        return self._encoded_bytes + self.open_bytes

    @property
    def open_bytes(self) -> int:
        """The part of it that `take` has decoded but not returned."""
        decoded = 0 if self._segment is None else self._segment.size_bytes
        return decoded + self._decoder.unpacked_bytes

    def take(self, max_records: int, max_bytes: int | None = None) -> Records:
        """Return up to `max_records` records and move past them; see `RecordReader.take`."""
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
                if self._segment is not None or (left == 0 and len(taken)):
                    break
        except (CorruptRecordError, UnsupportedCodecError):
            # Return the records before the invalid batch first; the next call raises.
            if not len(taken):
                raise
        return Records(self.topic, self.partition, taken)

    def _take_from_batch(
        self, count: int, max_bytes: int | None, *, at_least_one: bool
    ) -> tuple[RecordColumns, int]:
        """Return records of the current batch, or of the next one, and their size.

        The size is 0 if it is not limited.
        """
        segment = self._segment if self._segment is not None else self._open_next()
        columns, start = segment.columns, self._cursor
        stop = min(start + count, len(columns))
        used = 0
        if max_bytes is not None:
            stop, used = _stop_at(columns, start, stop, max_bytes, at_least_one=at_least_one)
        self._cursor = stop
        if stop < len(columns):
            self._segment = segment
            if stop > start:
                self.next_offset = columns.offsets[stop - 1] + 1
        else:
            self._segment = None
            self.next_offset = max(self.next_offset, segment.next_offset)
            self.exhausted = self._decoder.finished
        return (columns if stop - start == len(columns) else columns.part(start, stop)), used

    def _open_next(self) -> Segment:
        """Decode the next segment, and skip records before `next_offset`."""
        try:
            segment = self._decoder.next()
        except MalformedBatchError as error:
            raise CorruptRecordError.at(*self._unreadable(str(error))) from error
        except UnsupportedCodecError as error:
            raise UnsupportedCodecError.at(*self._unreadable(str(error.args[0]))) from error
        self.leader_epoch = segment.leader_epoch
        self._cursor = bisect_left(segment.columns.offsets, self.next_offset)
        return segment

    def _unreadable(self, problem: str) -> tuple[str, int, int, str, int | None]:
        """Return the arguments of an error about the batch that could not be decoded."""
        end = self._decoder.end_of_batch
        return self.topic, self.partition, self.next_offset, problem, end


def _owned_bytes(fetched: FetchedPartition) -> tuple[bytes | memoryview, int]:
    """Return the partition's bytes, and how much memory they keep from being freed.

    If they are small compared with their frame, they are copied, so that the frame can be freed.
    """
    view = memoryview(b"" if fetched.records is None else fetched.records)
    frame_bytes = memoryview(view.obj).nbytes
    if isinstance(view.obj, bytes) and frame_bytes == view.nbytes:
        return view.obj, view.nbytes
    if 2 * view.nbytes < frame_bytes:
        return bytes(view), view.nbytes
    return view, frame_bytes


def _walk(records: memoryview, fetch_offset: int, high_watermark: int) -> BatchWalk:
    walk = walk_batches(records, high_watermark)
    problem = check_beginning(records, walk, fetch_offset, high_watermark)
    return walk if problem is None else BatchWalk(0, None, problem)


def _stop_at(
    columns: RecordColumns, start: int, stop: int, max_bytes: int, *, at_least_one: bool
) -> tuple[int, int]:
    """Return where the records from `start` on reach the limit, and their size up to there."""
    whole = columns.size_bytes(start, stop)
    if whole <= max_bytes:
        return stop, whole
    ends = list(accumulate(columns.record_sizes(start, stop)))
    count = bisect_right(ends, max_bytes)
    if not count and at_least_one and ends:
        count = 1
    return start + count, ends[count - 1] if count else 0
