"""From the fetch buffer to records, on the application thread.

What a fetch brought becomes visible here and nowhere else, so this is where stale data is
dropped: records of a partition that is not ours any more, or fetched for a position that a seek
has replaced.

Nothing here moves a position past a record; that is left to the `Publication`. What has been
returned is known by the position alone: the next collection begins there, so that what an
interrupted poll() had collected is collected again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable

from tandem_kafka.consumer.deserializers import Deserializers
from tandem_kafka.consumer.opened import OpenedChunk, Room
from tandem_kafka.consumer.publication import Handed, Publication
from tandem_kafka.consumer.records import ConsumerRecords
from tandem_kafka.errors import KafkaError
from tandem_kafka.native import native
from tandem_kafka.records import TakenRecords, join_records
from tandem_kafka.shared.fetch_buffer import Counts, FetchBuffer
from tandem_kafka.shared.partition import AssignedPartition, Consumed, FetchState, Position
from tandem_kafka.shared.subscription import SubscriptionState
from tandem_kafka.types import ConsumerRecord, OffsetAndMetadata, TopicPartition

__all__ = ["Collector"]

#: As a reader hands them out, or deserialized.
Records = TakenRecords | list[ConsumerRecord]


class Collector:
    """Takes records partition by partition, in turn, so that none starves.

    Attributes:
        publication: Of the last collection; its positions move when it is done.
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
        #: What has been taken from the buffer, by partition; whose turn it is comes first.
        self._open: OrderedDict[AssignedPartition, deque[OpenedChunk]] = OrderedDict()
        #: A count that has begun: the chunk, what the counters are to be, and whether it is the
        #: chunk's last.
        self._counting: tuple[OpenedChunk, Counts, bool] | None = None
        #: Partitions whose positions the last collection moves.
        self._moved: list[AssignedPartition] = []
        self.publication = Publication()
        #: The loop deserializes records itself, those that it can.
        self.raw = False

    def collect(self, max_records: int) -> ConsumerRecords:
        """Return up to `max_records` records; positions move when `publication` is done.

        The batch ends by bytes too: what a few batches unpack to may be larger than memory.

        Raises:
            KafkaError: The next thing in line is an error (a corrupt batch, a record that cannot
                be deserialized, an offset out of range). Records before it came first.
        """
        # A reset that waits for the position to reach what was read ahead was asleep when the last
        # collection was published.
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
        """Drop what was fetched for partitions that are not assigned any more."""
        self._begin()
        for state in tuple(self._open):
            self._drop_stale(state)

    def paused_over_budget(self) -> frozenset[TopicPartition]:
        """Return paused partitions whose records leave the others too little room.

        Half of a full buffer is theirs. Those that hold most come first.
        """
        paused = self._subscription.paused() if self._buffer.is_full else ()
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
        """Finish what an interrupt may have left half done, and take over what has arrived."""
        self._finish_counting()
        while (chunk := self._buffer.first) is not None:
            chunks = self._open.setdefault(chunk.partition, deque())
            if not chunks or chunks[-1].chunk is not chunk:
                chunks.append(OpenedChunk(chunk))
            self._buffer.take()

    # --- one partition -------------------------------------------------------------------------

    def _drop_stale(self, state: AssignedPartition) -> Position | None:
        """Drop what is stale or has been returned; None if nothing is left.

        Else the position, which is where the next record to return is.
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
                # To the end of the turn, so that a busy partition cannot starve the others.
                self._open.move_to_end(state)
            state.consumed = Handed(base, begin, at, self.publication)
        elif at is not begin:
            # There is nothing to lose: what is passed over is never shown.
            state.consumed = Consumed(base, at)
        if at.offset != begin.offset:
            self._moved.append(state)
            batch.next_offsets[state.tp] = OffsetAndMetadata(at.offset, "", at.leader_epoch)

    def _must_finish_batch(self, state: AssignedPartition) -> bool:
        """Tell whether a partition's decoded batch is to be used up before another is decoded.

        Otherwise each of many partitions could have a large batch decoded at the same time.
        """
        return self._buffer.is_full and any(
            opened.reader is not None and opened.reader.open_bytes > 0
            for opened in self._open[state]
        )

    def _read_partition(
        self, state: AssignedPartition, at: Position, room: Room, *, first: bool
    ) -> tuple[list[Records], Position]:
        """Return records of a partition, and the position behind them.

        Only what comes `first` in the batch may raise.
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
                break  # an old message format beside a newer one
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
        """Return the next records of a chunk, and the position behind them.

        None when there is no room for them, or an error is in the way that may not be raised
        before what comes first.
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
        """Tell whether the loop deserializes these; it cannot do that with Python's."""
        return self.raw and native is not None and type(records) is native.Records

    def _deserialize(self, records: TakenRecords, behind: Position) -> tuple[Records, Position]:
        """Deserialize until one fails; those before it come first."""
        done: list[ConsumerRecord] = []
        error = self._deserializers.apply(records, done)
        if error is None:
            return done, behind
        if not done:
            raise error
        return done, Position(error.offset, done[-1].leader_epoch)

    def _raise_in_turn(
        self, opened: OpenedChunk, at: Position, error: Exception, *, raising: bool
    ) -> tuple[Records, Position] | None:
        """Raise what a fetch brought in place of records, if it has its turn."""
        if opened.released:
            return [], at
        if not raising:
            return None
        if not opened.chunk.sticky:
            self._release(opened)
        raise error

    # --- the buffer ----------------------------------------------------------------------------

    def _recount(self, opened: OpenedChunk) -> None:
        """Count what a chunk holds now: batches of it were decoded, or used up."""
        chunk = opened.chunk
        if not opened.released and chunk.size_bytes != chunk.counted_bytes:
            self._counting = (opened, self._buffer.counts_with(chunk), False)
            self._finish_counting()

    def _release(self, opened: OpenedChunk) -> None:
        """Count a chunk's memory no longer."""
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
