"""From the fetch buffer to records, on the application thread.

What a fetch brought becomes visible here and nowhere else, so this is where stale data is
dropped: records of a partition that is not ours any more, or fetched for a position that a seek
has replaced. The position moves before a chunk is released, never after.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tandem_kafka.consumer.deserializers import Deserializers
from tandem_kafka.consumer.records import ConsumerRecords
from tandem_kafka.errors import KafkaError
from tandem_kafka.records import join_records
from tandem_kafka.records.decoder import RecordReader
from tandem_kafka.shared.fetch_buffer import FetchBuffer, FetchedChunk
from tandem_kafka.shared.partition import AssignedPartition, Consumed, FetchState, Position
from tandem_kafka.shared.subscription import SubscriptionState
from tandem_kafka.types import ConsumerRecord, OffsetAndMetadata

__all__ = ["Collector"]

Records = Sequence[ConsumerRecord]


class _Open:
    """A chunk being handed out; `held` was read but could not be deserialized yet."""

    __slots__ = ("chunk", "held")

    def __init__(self, chunk: FetchedChunk) -> None:
        self.chunk = chunk
        self.held: Records = ()


class Collector:
    """Takes records partition by partition, in turn, so that none starves."""

    def __init__(
        self,
        subscription: SubscriptionState,
        buffer: FetchBuffer,
        deserializers: Deserializers,
        wake_network: Callable[[], None],
    ) -> None:
        self._subscription = subscription
        self._buffer = buffer
        self._deserializers = deserializers
        self._wake_network = wake_network
        #: What has been taken from the buffer, by partition; whose turn it is comes first.
        self._open: dict[AssignedPartition, deque[_Open]] = {}

    def collect(self, max_records: int) -> ConsumerRecords:
        """Return up to `max_records` records and move the positions behind them.

        Raises:
            KafkaError: The next thing in line is an error (a corrupt batch, a record that cannot
                be deserialized, an offset out of range). Records before it came first.
        """
        self._take_from_buffer()
        batch = ConsumerRecords()
        left = max_records
        for state in tuple(self._open):
            if left <= 0:
                break
            if self._subscription.assigned.get(state.tp) is not state:
                self._drop(state)
            elif state.returnable:
                try:
                    left -= self._collect_partition(state, left, batch)
                except KafkaError:
                    if not batch:
                        raise
                    # What came before is returned; the error has its turn next time.
                    break
        return batch

    def purge(self) -> None:
        """Drop what was fetched for partitions that are not assigned any more."""
        self._take_from_buffer()
        for state in tuple(self._open):
            if self._subscription.assigned.get(state.tp) is not state:
                self._drop(state)

    # --- one partition -------------------------------------------------------------------------

    def _collect_partition(
        self, state: AssignedPartition, limit: int, batch: ConsumerRecords
    ) -> int:
        chunks = self._open[state]
        before = state.position
        pieces: list[Records] = []
        left = limit
        try:
            while chunks and left > 0:
                opened = chunks[0]
                fetching = state.state is FetchState.FETCHING  # read before the base
                if opened.chunk.base is not state.base:
                    self._release(chunks)
                    continue
                if not fetching:
                    break
                piece = self._collect_chunk(state, opened, left, raising=not (pieces or batch))
                if piece is None:
                    break
                if piece:
                    pieces.append(piece)
                    left -= len(piece)
                if _finished(opened):
                    self._release(chunks)
        finally:
            self._hand_out(state, before, pieces, batch)
        return limit - left

    def _hand_out(
        self,
        state: AssignedPartition,
        before: Position | None,
        pieces: list[Records],
        batch: ConsumerRecords,
    ) -> None:
        if pieces:
            batch[state.tp] = join_records(pieces)
            chunks = self._open[state]
            if not (chunks and self._buffer.comes_first(chunks[0].chunk)):
                # To the end of the turn, so that a busy partition cannot starve the others.
                self._open[state] = self._open.pop(state)
        consumed = state.consumed
        if consumed is not None and consumed.base is state.base:
            position = consumed.position
            # Also without a record: behind aborted transactions, for one.
            if before is None or position.offset != before.offset:
                batch.next_offsets[state.tp] = OffsetAndMetadata(
                    position.offset, "", position.leader_epoch
                )
        if not self._open[state]:
            del self._open[state]

    def _collect_chunk(
        self, state: AssignedPartition, opened: _Open, limit: int, *, raising: bool
    ) -> Records | None:
        """Return records of one chunk; None when an error is in the way and may not be raised."""
        chunk = opened.chunk
        if chunk.error is not None:
            if not raising:
                return None
            if not chunk.sticky:
                self._release(self._open[state])
            raise chunk.error
        reader = chunk.reader
        if reader is None:
            return ()
        try:
            records = opened.held or self._take(chunk, reader, limit)
            if self._deserializers.active:
                records = self._deserialize(opened, records[:limit], records)
        except KafkaError:
            if raising:
                raise
            return None
        self._advance(state, opened, reader, records)
        return records

    def _take(self, chunk: FetchedChunk, reader: RecordReader, limit: int) -> Records:
        records = reader.take(limit)
        self._buffer.recount(chunk)
        return records

    def _deserialize(self, opened: _Open, wanted: Records, records: Records) -> Records:
        """Deserialize until one fails; that one and those behind it are held for the next time."""
        done: list[ConsumerRecord] = []
        opened.held = records
        try:
            done.extend(map(self._deserializers.apply, wanted))
        except KafkaError:
            if not done:
                raise
        opened.held = records[len(done) :]
        return done

    def _advance(
        self, state: AssignedPartition, opened: _Open, reader: RecordReader, records: Records
    ) -> None:
        if opened.held:
            offset = opened.held[0].offset
            epoch = records[-1].leader_epoch
        else:
            offset, epoch = reader.next_offset, reader.leader_epoch
        state.consumed = Consumed(opened.chunk.base, Position(offset, epoch))

    # --- the buffer ----------------------------------------------------------------------------

    def _take_from_buffer(self) -> None:
        while (chunk := self._buffer.take()) is not None:
            self._open.setdefault(chunk.partition, deque()).append(_Open(chunk))

    def _release(self, chunks: deque[_Open]) -> None:
        self._buffer.release(chunks.popleft().chunk)
        if self._buffer.starved:
            self._wake_network()

    def _drop(self, state: AssignedPartition) -> None:
        chunks = self._open.pop(state)
        while chunks:
            self._release(chunks)


def _finished(opened: _Open) -> bool:
    reader = opened.chunk.reader
    return reader is not None and reader.exhausted and not opened.held
