"""Turns the fetch buffer into records, on the application thread.

Fetched data becomes visible only here, so this module also drops stale data: records of a partition
that is no longer assigned, or fetched for a position that a seek has replaced.

This module never moves a position past a record; the `Publication` does. Each collection starts at
the position, so that records of an interrupted poll() are collected again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, MutableSequence
from typing import Final

from tandem_kafka.consumer.reading.deserializers import Deserializers
from tandem_kafka.consumer.reading.iteration import IteratedRecords
from tandem_kafka.consumer.reading.opened_chunk import OpenedChunk, Room
from tandem_kafka.consumer.reading.publication import Handed, Publication
from tandem_kafka.consumer.reading.records import NO_STARTS, ConsumerRecords
from tandem_kafka.errors import KafkaError
from tandem_kafka.records import TakenRecords, join_records
from tandem_kafka.runtime.native import native
from tandem_kafka.state.fetch_buffer import Counts, FetchBuffer
from tandem_kafka.state.partition import (
    AssignedPartition,
    Changes,
    CommittedPosition,
    Consumed,
    FetchState,
    Position,
    Told,
)
from tandem_kafka.state.subscription import SubscriptionState
from tandem_kafka.types import (
    ConsumerRecord,
    OffsetAndMetadata,
    PositionStart,
    TopicPartition,
    may_be_same_topic,
)

#: Records as a reader returns them, or deserialized records.
Records = TakenRecords | MutableSequence[ConsumerRecord]


class FetchCollector:
    """Takes records from one partition after the other in turn, so that none starves.

    Attributes:
        publication: Belongs to the last collection, whose positions move when it is done.
        max_bytes: The limit of a collection; see `Room`.
        busy: Whether this thread is inside `collect()` or `purge()`, or waits until the network
            thread has dropped what was fetched.
    """

    __slots__ = (
        "_buffer",
        "_counting",
        "_deserializers",
        "_finished",
        "_open",
        "_subscription",
        "_wake_network",
        "busy",
        "deserializing",
        "max_bytes",
        "moved",
        "publication",
        "raw",
    )

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
        self.max_bytes = max_bytes
        #: Chunks taken from the buffer, by partition. The first partition is served next.
        self._open: OrderedDict[AssignedPartition, list[OpenedChunk]] = OrderedDict()
        #: An unfinished update of the counters: the chunk, their new values, and whether the chunk
        #: is released. Invariant: noted before the counters change, to be repeated if interrupted.
        self._counting: tuple[OpenedChunk, Counts, bool] | None = None
        self.busy = False
        #: Partitions whose positions the last collection moves by reading.
        self.moved: list[AssignedPartition] = []
        #: Those of them whose chunks it has read to the end, with the last chunk.
        self._finished: list[tuple[AssignedPartition, Handed, OpenedChunk]] = []
        self.publication = Publication()
        #: Whether collecting calls deserializers.
        self.deserializing = deserializers.active
        #: Leave deserialization to the iteration, which supports it for native records only.
        self.raw = False

    @property
    def unpublished(self) -> bool:
        """Whether a call collects, or has collected what it has not returned."""
        return self.busy or not self.publication.done

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
        if self.moved:
            if self._buffer.starved and any(state.wait_for_drain for state in self.moved):
                self._wake_network()
            self.moved = []
        self.busy = True
        try:
            self._begin()
            self._finished = []
            self.publication = Publication()
            batch, room = ConsumerRecords(), None
            subscription = self._subscription
            if subscription.changes.count != subscription.told_at:
                self._tell_starts(batch)
            for state in tuple(self._open):
                position = self._drop_stale(state)
                if position is not None and state.returnable:
                    room = room or Room(max_records, self.max_bytes)
                    self._collect_partition(state, position, room, batch)
                    if room.records <= 0:
                        break
            return batch
        finally:
            self.busy = False

    def purge(self) -> None:
        """Drop the data of partitions that are no longer assigned.

        A signal handler or a deserializer may have called `assign()` amid a collection. The next
        collection drops the data then.
        """
        if self.busy:
            return
        self.busy = True
        try:
            self._begin()
            for state in tuple(self._open):
                self._drop_stale(state)
        finally:
            self.busy = False

    def to_drop(self) -> frozenset[TopicPartition]:
        """Return the partitions that must give up their records."""
        return self._subscription.to_fetch_again() | self.paused_over_budget()

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
        if usual_case is not None:
            usual_case.open_taken(self)
        if self._finished:
            # The usual case. In iteration, another object says how far the records were returned.
            for state, handed, last in self._finished if self.publication.done else ():
                chunks = self._open.get(state)
                # Invariant: nothing was added. A signal handler or an interceptor may have come
                # here before the publication was done, and taken chunks that were not read.
                if state.consumed is handed and chunks and chunks[-1] is last:
                    del self._open[state]
            self._finished = []
        queue = self._buffer.queue
        # Invariant: a chunk is kept here before it is removed; see `publication`.
        while (chunk := queue.first()) is not None:
            chunks = self._open.get(chunk.partition)
            if chunks is None:
                chunks = self._open[chunk.partition] = []
            if not chunks or chunks[-1].chunk is not chunk:
                chunks.append(OpenedChunk(chunk))
            queue.take()

    # --- what has moved without reading --------------------------------------------------------

    def _tell_starts(self, batch: ConsumerRecords) -> None:
        """Tell of every position that the application does not know."""
        subscription = self._subscription
        count = subscription.changes.count  # read first: a later change is seen next time
        untold = False
        for state in subscription.assigned.values():
            untold |= self._tell_start(state, batch)
        if not untold:
            subscription.told_at = count

    def _tell_start(self, state: AssignedPartition, batch: ConsumerRecords) -> bool:
        """Tell where a partition continues, if the application does not know; return whether so.

        The application knows once the call has returned. An interrupted one tells nothing.
        """
        topic_id, valid, known = state.topic_id, state.has_valid_position, state.known
        base, position = state.base, state.position  # read after the topic and the state
        if not valid or base is None or position is None:
            return False
        if known is not None and known.base is base and known.topic_id == topic_id:
            return False
        if state.topic_id != topic_id or state.base is not base:
            return True  # it moves right now
        if known is not None:
            known.before = None  # its call has returned; a chain of them would never be freed
        state.told = Told(base, topic_id, self.publication, known)
        kept = known is not None and (
            known.base is base
            or (
                may_be_same_topic(known.topic_id, topic_id)
                and _end_of(state, known) == position.offset
            )
        )
        if kept and known is not None and known.topic_id == topic_id:
            return True  # the read-ahead was dropped
        start = PositionStart(position.offset, position.leader_epoch, topic_id, kept)
        if not batch.starts:
            batch.starts = {}
        batch.starts[state.tp] = start
        if not (kept or isinstance(base, CommittedPosition)):
            batch.next_offsets[state.tp] = OffsetAndMetadata(
                position.offset, "", position.leader_epoch
            )
        return True

    # --- one partition -------------------------------------------------------------------------

    def _drop_stale(self, state: AssignedPartition) -> Position | None:
        """Drop chunks that are stale or have been returned.

        Returns:
            The position, at which the next record starts; None if no chunk is left.
        """
        # `state.position`, without a call.
        chunks, position, consumed = self._open[state], state.base, state.consumed
        if consumed is not None and consumed.base is position:
            position = consumed.position
        if self._subscription.assigned.get(state.tp) is not state:
            position = None
        while chunks:
            opened = chunks[0]
            if position is not None and opened.chunk.base is state.base:
                offset = position.offset
                if not (opened.released and opened.ends_at(offset)):
                    if opened.taken or opened.reading:
                        opened.forget_before(offset)
                    return position
            if not opened.released:
                self._release(opened)
            del chunks[0]
        del self._open[state]
        return None

    def _collect_partition(
        self, state: AssignedPartition, begin: Position, room: Room, batch: ConsumerRecords
    ) -> None:
        """Add a partition's records to the batch."""
        base = self._open[state][0].chunk.base
        consumed = state.consumed
        if isinstance(consumed, IteratedRecords):
            # Of a loop of a callback or a signal handler, which would return them again.
            consumed.feed.stop()
            if consumed.base is base:
                begin = consumed.position
        if state.told is None or state.told.base is not base:
            self._tell_start(state, batch)
        pieces, at, last = self._read_partition(state, begin, room, first=not batch)
        if pieces:
            batch[state.tp] = join_records(pieces)
            self._serve_last(state)
            state.consumed = handed = Handed(base, begin, at, self.publication)
            if last is not None:
                self._finished.append((state, handed, last))
        elif at is not begin:
            # This skips only data that is never returned, so an interrupt cannot lose records.
            state.consumed = Consumed(base, at)
        if at.offset != begin.offset:
            self.moved.append(state)
            # As its constructor does, at half the cost: it is made for each poll().
            fields = at.offset, "", at.leader_epoch
            batch.next_offsets[state.tp] = tuple.__new__(OffsetAndMetadata, fields)

    def _serve_last(self, state: AssignedPartition) -> None:
        """Move a partition to the end, so that a busy one cannot starve the others.

        Invariant: in a full buffer, the batch that is being returned comes first. Otherwise many
        partitions could each hold a large decoded batch.
        """
        if len(self._open) > 1 and not (self._buffer.is_full and self._has_open_batch(state)):
            self._open.move_to_end(state)

    def _has_open_batch(self, state: AssignedPartition) -> bool:
        """Tell whether a partition holds a decoded batch that has not been returned."""
        return any(
            opened.reader is not None and opened.reader.open_bytes > 0
            for opened in self._open[state]
        )

    def _read_partition(
        self, state: AssignedPartition, at: Position, room: Room, *, first: bool
    ) -> tuple[list[Records], Position, OpenedChunk | None]:
        """Return records of a partition, the position after them, and the last chunk if it ends.

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
            if reader is None or (reader.exhausted and reader.next_offset <= at.offset):
                if not opened.released:
                    self._release(opened)
                index += 1
            else:
                self._recount(opened)
        return pieces, at, chunks[index - 1] if 0 < index == len(chunks) else None

    def _read(
        self, opened: OpenedChunk, at: Position, room: Room, *, raising: bool
    ) -> tuple[Records, Position] | None:
        """Return the next records of a chunk as the user gets them, and the position after them.

        Returns:
            None if there is no room, or if an error follows that must wait until the records
            before it have been returned.
        """
        try:
            if opened.chunk.error is not None:
                return self._raise_in_turn(opened, at, opened.chunk.error, raising=raising)
            found = opened.read(at.offset, room)
            if found is None or not self.deserializing or self._is_raw(found[0]):
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
        done, error = self._deserializers.apply(records)
        if error is None:
            return done, after
        if not len(done):
            raise error
        # Invariant: its own epoch. That of the record before may end before it: between them may be
        # aborted records of a later leader, and the log would seem truncated.
        return done, Position(*records.place_of(len(done)))

    def _raise_in_turn(
        self, opened: OpenedChunk, at: Position, error: Exception, *, raising: bool
    ) -> tuple[Records, Position] | None:
        """Raise a chunk's error if no records precede it in the batch."""
        if opened.released:
            return [], at
        if not raising:
            return None
        if not (opened.chunk.sticky or opened.released):
            self._release(opened)
        raise error

    # --- the buffer ----------------------------------------------------------------------------

    def _recount(self, opened: OpenedChunk) -> None:
        """Update the counted size of a chunk, which changes as batches are decoded and freed.

        Invariant: the buffer counts what a chunk keeps alive, not what was received. Each partition
        therefore has a separate buffer, or a copy (rust/src/fetch/scan.rs, `records.python`).
        """
        chunk = opened.chunk
        if not opened.released and (size := chunk.size_bytes) != chunk.counted_bytes:
            self._counting = opened, self._buffer.counts(chunk, size), False
            self._finish_counting()

    def _release(self, opened: OpenedChunk) -> None:
        """Stop counting a chunk's memory, which is counted."""
        self._counting = opened, self._buffer.counts(opened.chunk, 0), True
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


def _end_of(state: AssignedPartition, known: Told) -> int:
    """Return the last position that was read to from a base, which another one has replaced.

    It is -1 if this is no longer known: an interrupted call has read from a base in between.
    """
    consumed = state.consumed
    if consumed is None:
        return known.base.offset
    return consumed.position.offset if consumed.base is known.base else -1


#: What the native extension needs for the usual case; None without it.
usual_case: Final = (
    None
    if native is None
    else native.UsualCase(
        {
            kind.__name__: kind
            for kind in (
                AssignedPartition,
                Changes,
                Consumed,
                ConsumerRecords,
                FetchBuffer,
                FetchCollector,
                Handed,
                OffsetAndMetadata,
                OpenedChunk,
                Position,
                Publication,
                SubscriptionState,
                Told,
            )
        },
        NO_STARTS,
        FetchState.FETCHING,
    )
)

#: `FetchCollector.collect`. The native function does the usual case in one step, and makes the same
#: objects.
collect: Final[Callable[[FetchCollector, int], ConsumerRecords]] = (
    FetchCollector.collect if usual_case is None else usual_case.collect
)
