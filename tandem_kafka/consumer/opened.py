"""A fetched chunk whose records are being handed out."""

from __future__ import annotations

from tandem_kafka.errors import KafkaError
from tandem_kafka.records import TakenRecords, rewind
from tandem_kafka.shared.fetch_buffer import FetchedChunk
from tandem_kafka.shared.partition import Position
from tandem_kafka.types import ConsumerRecord

__all__ = ["OpenedChunk", "Room"]


class Room:
    """How many records, and how many bytes of them, one poll() may still add to its batch.

    A record counts as the bytes of its key, value and headers as they were received, and as one
    byte at least. The first record of a batch always has room.

    Attributes:
        records: How many records; 0 as well when there is no room for further bytes.
        bytes: How many bytes.
        empty: True while the batch is empty.
    """

    __slots__ = ("bytes", "empty", "records")

    def __init__(self, records: int, max_bytes: int) -> None:
        self.records = records
        self.bytes = max_bytes
        self.empty = True

    def add(self, count: int, size: int) -> bool:
        """Take room for records of so many bytes; False if there is too little."""
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
        """Return the first of some records, as many as there is room for."""
        count = 0
        for record in records.part(0, self.records):
            if not self.add(1, _size_of(record)):
                break
            count += 1
        return records if count == len(records) else records.part(0, count)


class OpenedChunk:
    """Keeps what was read until poll() has returned it: a reader hands each record out once.

    An interrupted poll() loses nothing by that: what it read is in `taken`, and the next poll()
    begins there.

    Attributes:
        chunk: What the network thread put into the buffer.
        taken: What was read and may not have been returned yet, in order.
        released: Its memory is no longer counted.
    """

    __slots__ = ("_reading", "_start", "chunk", "reader", "released", "taken")

    def __init__(self, chunk: FetchedChunk) -> None:
        self.chunk = chunk
        self.reader = chunk.reader
        self.taken: list[TakenRecords] = []
        self.released = False
        self._start = 0 if chunk.reader is None else chunk.reader.next_offset
        #: True while the reader works. If it is True before, the reader was interrupted.
        self._reading = False

    def forget_before(self, offset: int) -> None:
        """Forget the records before `offset`, which have been returned."""
        reader = self.reader
        if reader is None or not (self.taken or self._reading):
            return
        if self._reading:
            self._rewind(offset)
        if reader.next_offset <= offset:
            self.taken = []
        else:
            self.taken = [rest for piece in self.taken if len(rest := _from(piece, offset))]

    def _rewind(self, offset: int) -> None:
        """Stand behind what was taken: an interrupted reader may stand anywhere."""
        if self.reader is None:
            return
        pieces = [piece for piece in self.taken if len(piece)]
        start = _end_of(pieces[-1])[0] + 1 if pieces else max(offset, self._start)
        rewind(self.reader, start)
        self._reading = False

    def read(self, offset: int, room: Room) -> tuple[TakenRecords, Position] | None:
        """Return records from `offset` on, those first that were taken before, and what follows.

        None if there is no room for the next one.

        Raises:
            KafkaError: The next batch cannot be read.
        """
        if self._reading:
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
        self._reading = True
        try:
            # Between a call and the store of its result an interrupt would lose the result: the
            # cursor has moved. list.extend() calls the reader and keeps its result in one step.
            self.taken.extend(map(reader.take, (room.records,), (room.bytes,)))
        except KafkaError:
            self._reading = False  # the reader has not moved
            raise
        self._reading = False
        records = self.taken[-1]
        if not room.add(len(records), reader.taken_bytes - bytes_before):
            return None
        # Behind control batches and aborted records too.
        return records, Position(reader.next_offset, reader.leader_epoch)

    def _position_after(self, records: TakenRecords) -> Position:
        """Return the position behind some of the records that were taken."""
        newest, reader, (offset, epoch) = self.taken[-1], self.reader, _end_of(records)
        if reader is not None and len(newest) and _end_of(newest)[0] == offset:
            return Position(reader.next_offset, reader.leader_epoch)
        return Position(offset + 1, epoch)

    def ends_at(self, offset: int) -> bool:
        """Tell whether nothing is left from `offset` on."""
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
