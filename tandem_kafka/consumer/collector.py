"""Turns the fetch buffer into records, on the application thread.

Fetched data becomes visible only here, so this module also drops stale data: records of a partition
that is no longer assigned, or fetched for a position that a seek has replaced.

This module never moves a position past a record; the `Publication` does. Each collection starts at
the position, so that records of an interrupted poll() are collected again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable

from tandem_kafka.consumer.deserializers import Deserializers
from tandem_kafka.consumer.opened import OpenedChunk, Room
from tandem_kafka.consumer.publication import Handed, Publication
from tandem_kafka.consumer.records import ConsumerRecords
from tandem_kafka.errors import KafkaError
from tandem_kafka.records import TakenRecords, join_records
from tandem_kafka.runtime.native import native
from tandem_kafka.shared.fetch_buffer import Counts, FetchBuffer
from tandem_kafka.shared.partition import AssignedPartition, Consumed, FetchState, Position
from tandem_kafka.shared.subscription import SubscriptionState
from tandem_kafka.types import ConsumerRecord, OffsetAndMetadata, TopicPartition

#: Records as a reader returns them, or deserialized records.
Records = TakenRecords | list[ConsumerRecord]


class Collector:
    """Takes records from one partition after the other in turn, so that none starves.

    Attributes:
        publication: Belongs to the last collection, whose positions move when it is done.
    """

    def __init__(
        self,
        subscription: SubscriptionState,
        buffer: FetchBuffer,
        deserializers: Deserializers,
        wake_network: Callable[[], None],
        max_bytes: int,
    ) -> None:
        self._subscription = subscription
        self._buffer = buffer
        self._deserializers = deserializers
        self._wake_network = wake_network
        self._max_bytes = max_bytes
        #: Chunks taken from the buffer, by partition. The first partition is served next.
        self._open: OrderedDict[AssignedPartition, deque[OpenedChunk]] = OrderedDict()
        #: An unfinished update of the counters: the chunk, their new values, and whether the chunk
        #: is released. Invariant: noted before the counters change, to be repeated if interrupted.
        self._counting: tuple[OpenedChunk, Counts, bool] | None = None
        #: Partitions whose positions the last collection moves.
        self._moved: list[AssignedPartition] = []
        self.publication = Publication()
        #: Leave deserialization to the iteration, which supports it for native records only.
        self.raw = False

    def collect(self, max_records: int) -> ConsumerRecords:
        """Return up to `max_records` records; positions move when `publication` is done.

        The result is limited in bytes as well: a few batches may decompress to more than memory
        can hold.

        Raises:
            KafkaError: The next item is an error: a corrupt batch, a record that cannot be
                deserialized, an offset out of range. All records before it have been returned.
        """
        # A partition may wait until the position has reached its read-ahead. Publishing the last
        # collection moved the position but did not wake the network thread.
        if self._buffer.starved and any(state.wait_for_drain for state in self._moved):
            self._wake_network()
        self._moved = []
        self.publication = Publication()
        self._begin()
        batch = ConsumerRecords()
        room = Room(max_records, self._max_bytes)
        for state in tuple(self._open):
            if room.records <= 0:
                break
            position = self._drop_stale(state)
            if position is not None and state.returnable:
                self._collect_partition(state, position, room, batch)
        return batch

    def purge(self) -> None:
        """Drop the data of partitions that are no longer assigned."""
        self._begin()
        for state in tuple(self._open):
            self._drop_stale(state)

    def paused_over_budget(self) -> frozenset[TopicPartition]:
        """Return the paused partitions that must give up their records.

        Together, paused partitions may hold half of a full buffer. The partitions that hold most
        are returned first.
        """
        paused = self._subscription.on_hold() if self._buffer.is_full else ()
        if not paused or len(paused) == len(self._subscription.assigned):
            return frozenset()
        surplus = sum(state.held_bytes for state in paused) - self._buffer.limit_bytes // 2
        chosen = []
        for state in sorted(paused, key=lambda state: -state.held_bytes):
            if surplus <= 0:
                break
            chosen.append(state.tp)
            surplus -= state.held_bytes
        return frozenset(chosen)

    def _begin(self) -> None:
        """Finish an interrupted update of the counters, and take new chunks from the buffer."""
        self._finish_counting()
        # Invariant: a chunk is kept here before it is removed; see `publication`.
        while (chunk := self._buffer.first) is not None:
            chunks = self._open.setdefault(chunk.partition, deque())
            if not chunks or chunks[-1].chunk is not chunk:
                chunks.append(OpenedChunk(chunk))
            self._buffer.take()

    # --- one partition -------------------------------------------------------------------------

    def _drop_stale(self, state: AssignedPartition) -> Position | None:
        """Drop chunks that are stale or have been returned.

        Returns:
            The position, at which the next record starts; None if no chunk is left.
        """
        chunks, position = self._open[state], state.position
        if self._subscription.assigned.get(state.tp) is not state:
            position = None
        while chunks:
            opened = chunks[0]
            if position is not None and opened.chunk.base is state.base:
                offset = position.offset
                if not (opened.released and opened.ends_at(offset)):
                    opened.forget_before(offset)
                    return position
            self._release(opened)
            chunks.popleft()
        del self._open[state]
        return None

    def _collect_partition(
        self, state: AssignedPartition, begin: Position, room: Room, batch: ConsumerRecords
    ) -> None:
        """Add a partition's records to the batch."""
        base = self._open[state][0].chunk.base
        pieces, at = self._read_partition(state, begin, room, first=not batch)
        if pieces:
            batch[state.tp] = join_records(pieces)
            if not self._must_finish_batch(state):
                # Move it to the end, so that a busy partition cannot starve the others.
                self._open.move_to_end(state)
            state.consumed = Handed(base, begin, at, self.publication)
        elif at is not begin:
            # This skips only data that is never returned, so an interrupt cannot lose records.
            state.consumed = Consumed(base, at)
        if at.offset != begin.offset:
            self._moved.append(state)
            batch.next_offsets[state.tp] = OffsetAndMetadata(at.offset, "", at.leader_epoch)

    def _must_finish_batch(self, state: AssignedPartition) -> bool:
        """Tell whether to finish a partition's decoded batch before decoding another one.

        Invariant: in a full buffer, the batch that is being handed out comes first. Otherwise many
        partitions could each hold a large decoded batch at the same time.
        """
        return self._buffer.is_full and any(
            opened.reader is not None and opened.reader.open_bytes > 0
            for opened in self._open[state]
        )

    def _read_partition(
        self, state: AssignedPartition, at: Position, room: Room, *, first: bool
    ) -> tuple[list[Records], Position]:
        """Return records of a partition, and the position after them.

        Only the first partition of a batch may raise an error.
        """
        chunks, index = self._open[state], 0
        pieces: list[Records] = []
        base = chunks[0].chunk.base
        while room.records > 0 and index < len(chunks):
            opened = chunks[index]
            fetching = state.state is FetchState.FETCHING  # read before the base
            if not fetching or state.base is not base or opened.chunk.base is not base:
                break
            found = self._read(opened, at, room, raising=first and not pieces)
            if found is None:
                break
            if pieces and self.raw and self._is_raw(pieces[0]) != self._is_raw(found[0]):
                break  # one chunk has an old message format, the other does not
            records, at = found
            if len(records):
                pieces.append(records)
            reader = opened.reader
            if reader is None or (reader.exhausted and opened.ends_at(at.offset)):
                self._release(opened)
                index += 1
            else:
                self._recount(opened)
        return pieces, at

    def _read(
        self, opened: OpenedChunk, at: Position, room: Room, *, raising: bool
    ) -> tuple[Records, Position] | None:
        """Return the next records of a chunk, and the position after them.

        Returns:
            None if there is no room, or if an error follows that must wait until the records
            before it have been returned.
        """
        try:
            if opened.chunk.error is not None:
                return self._raise_in_turn(opened, at, opened.chunk.error, raising=raising)
            found = opened.read(at.offset, room)
            if found is None or not self._deserializers.active or self._is_raw(found[0]):
                return found
            return self._deserialize(*found)
        except KafkaError:
            if raising:
                raise
            return None

    def _is_raw(self, records: Records) -> bool:
        """Tell whether the iteration deserializes these records; it needs native records."""
        return self.raw and native is not None and type(records) is native.Records

    def _deserialize(self, records: TakenRecords, after: Position) -> tuple[Records, Position]:
        """Deserialize up to the first failure; raise it only if no record precedes it."""
        done: list[ConsumerRecord] = []
        error = self._deserializers.apply(records, done)
        if error is None:
            return done, after
        if not done:
            raise error
        return done, Position(error.offset, done[-1].leader_epoch)

    def _raise_in_turn(
        self, opened: OpenedChunk, at: Position, error: Exception, *, raising: bool
    ) -> tuple[Records, Position] | None:
        """Raise a chunk's error if no records precede it in the batch."""
        if opened.released:
            return [], at
        if not raising:
            return None
        if not opened.chunk.sticky:
            self._release(opened)
        raise error

    # --- the buffer ----------------------------------------------------------------------------

    def _recount(self, opened: OpenedChunk) -> None:
        """Update the counted size of a chunk, which changes as batches are decoded and freed.

        Invariant: the buffer counts what a chunk keeps alive, not what was received. Each partition
        therefore has a buffer of its own, or a copy (rust/src/fetch/scan.rs, `records.python`).
        """
        chunk = opened.chunk
        if not opened.released and chunk.size_bytes != chunk.counted_bytes:
            self._counting = (opened, self._buffer.counts_with(chunk), False)
            self._finish_counting()

    def _release(self, opened: OpenedChunk) -> None:
        """Stop counting a chunk's memory."""
        if not opened.released:
            self._counting = (opened, self._buffer.counts_without(opened.chunk), True)
            self._finish_counting()

    def _finish_counting(self) -> None:
        if self._counting is None:
            return
        opened, counts, released = self._counting
        self._buffer.count(opened.chunk, counts)
        if released and self._buffer.starved:
            self._wake_network()
        opened.released = released
        self._counting = None
