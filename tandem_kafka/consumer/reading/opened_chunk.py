"""A fetched chunk whose records are being returned."""

from __future__ import annotations

from tandem_kafka.errors import KafkaError
from tandem_kafka.records import TakenRecords, rewind
from tandem_kafka.state.fetch_buffer import CompletedFetch
from tandem_kafka.state.partition import Position
from tandem_kafka.types import ConsumerRecord


class Room:
    """The number of records and bytes that one poll() may still add to its batch.

    The size of a record is the received size of its key, value and headers, but at least one byte.
    The first record of a batch always fits.

    Attributes:
        records: Remaining records; also 0 if no bytes remain.
        bytes: Remaining bytes.
        empty: True while the batch is empty.
    """

    __slots__ = ("bytes", "empty", "records")

    def __init__(self, records: int, max_bytes: int) -> None:
        self.records = records
        self.bytes = max_bytes
        self.empty = True

    def add(self, count: int, size: int) -> bool:
        """Reserve room for records of `size` bytes in total; False if they do not fit."""
        left = self.bytes - size
        if left < 0 and not self.empty:
            self.records = 0
            return False
        self.bytes = left
        self.records = self.records - count if left > 0 else 0
        if count:
            self.empty = False
        return True

    def fill(self, records: TakenRecords) -> TakenRecords:
        """Return as many of the first records as fit."""
        count = 0
        for record in records.part(0, self.records):
            if not self.add(1, _size_of(record)):
                break
            count += 1
        return records if count == len(records) else records.part(0, count)


class OpenedChunk:
    """Keeps records until poll() has returned them, because a reader returns each record once.

    An interrupted poll() therefore loses nothing: the next poll() starts with the records in
    `taken`.

    Attributes:
        chunk: The chunk from the buffer.
        taken: Records that were read and may not have been returned yet, in order.
        reading: True while the reader works. If it is already True before, it was interrupted.
        released: Whether the buffer no longer counts the chunk's memory.
    """

    __slots__ = ("_start", "chunk", "reader", "reading", "released", "taken")

    def __init__(self, chunk: CompletedFetch) -> None:
        self.chunk = chunk
        self.reader = chunk.reader
        self.taken: list[TakenRecords] = []
        self.released = False
        self._start = 0 if chunk.reader is None else chunk.reader.next_offset
        self.reading = False

    def forget_before(self, offset: int) -> None:
        """Drop the records before `offset`, which have been returned."""
        reader = self.reader
        if reader is None or not (self.taken or self.reading):
            return
        if self.reading:
            self._rewind(offset)
        if reader.next_offset <= offset:
            self.taken = []
        else:
            self.taken = [rest for piece in self.taken if len(rest := _from(piece, offset))]

    def _rewind(self, offset: int) -> None:
        """Move an interrupted reader, which may be anywhere, to the end of the taken records."""
        if self.reader is None:
            return
        pieces = [piece for piece in self.taken if len(piece)]
        start = _end_of(pieces[-1])[0] + 1 if pieces else max(offset, self._start)
        rewind(self.reader, start)
        self.reading = False

    def read(self, offset: int, room: Room) -> tuple[TakenRecords, Position] | None:
        """Return records from `offset` on, and the position after them; taken records come first.

        Returns:
            None if there is no room for the next record.

        Raises:
            KafkaError: The next batch cannot be read.
        """
        if self.reading:
            self._rewind(offset)
        for piece in self.taken:
            rest = _from(piece, offset)
            if len(rest):
                records = room.fill(rest)
                return (records, self._position_after(records)) if len(records) else None
        reader = self.reader
        if reader is None:
            return None
        bytes_before = reader.taken_bytes
        self.reading = True
        try:
            # Invariant: list.extend() calls and stores in one step. An interrupt between a call and
            # the store of its result would lose the records, because the reader has moved on.
            self.taken.extend(map(reader.take, (room.records,), (room.bytes,)))
        except KafkaError:
            self.reading = False  # the reader has not moved
            raise
        self.reading = False
        records = self.taken[-1]
        if not room.add(len(records), reader.taken_bytes - bytes_before):
            return None
        # This position is also past control batches and aborted records.
        return records, Position(reader.next_offset, reader.leader_epoch)

    def _position_after(self, records: TakenRecords) -> Position:
        """Return the position after some of the taken records."""
        newest, reader, (offset, epoch) = self.taken[-1], self.reader, _end_of(records)
        if reader is not None and len(newest) and _end_of(newest)[0] == offset:
            return Position(reader.next_offset, reader.leader_epoch)
        return Position(offset + 1, epoch)

    def ends_at(self, offset: int) -> bool:
        """Tell whether there are no records from `offset` on."""
        reader = self.reader
        return reader is None or (reader.exhausted and reader.next_offset <= offset)


def _from(records: TakenRecords, offset: int) -> TakenRecords:
    """Return the records from an offset on."""
    index = records.before(offset)
    return records.part(index, len(records)) if index else records


def _end_of(records: TakenRecords) -> tuple[int, int]:
    """Return the offset and the leader epoch of the last record."""
    return records.place_of(len(records) - 1)


def _size_of(record: ConsumerRecord) -> int:
    sizes = (
        record.serialized_key_size,
        record.serialized_value_size,
        record.serialized_header_size,
    )
    return max(1, sum(size for size in sizes if size > 0))
