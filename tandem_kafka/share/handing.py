"""Hands records of a share group out, and accepts those that were handled.

With implicit acknowledgement, the records of a call are accepted when the next call begins. Until
then, nothing that an interrupt (Ctrl-C) ends is lost: what was not handed out is still there, and
what was is delivered again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from tandem_kafka.errors import KafkaError
from tandem_kafka.share.unpacking import Chunk, Rest, Unpacked, Unpacker
from tandem_kafka.shared.locked_records import LockedRecords
from tandem_kafka.shared.locks import (
    Acknowledgement,
    AcknowledgeType,
    LockedPartition,
    Run,
)

#: So many records are accepted at once, or those of this time.
_ACCEPTED_RECORDS: Final = 500
_ACCEPTED_MS: Final = 5

#: A chunk, and the indexes of the first of its records that a call returned, and after the last.
Given = tuple[Chunk, int, int]


class Handing:
    """What the reader has of the locked records. Only the reader uses it.

    Attributes:
        given: The records that the application got last. Writer: each call that returns records,
            as its last action.
    """

    def __init__(self, records: LockedRecords, unpacker: Unpacker, *, implicit: bool) -> None:
        self._records = records
        self._unpacker = unpacker
        self._implicit = implicit
        #: Locked records before and after they are unpacked, the errors between, and what is to be
        #: given back, in the order of offsets.
        self._ready: deque[LockedPartition | Unpacked] = deque()
        self.given: Sequence[Given] = ()
        self._accepted_ms = 0

    def settle(self, now_ms: int) -> None:
        """Note that the application is done with what it got last, and accept it.

        Perhaps it is accepted together with records that follow, or by `flush`.
        """
        self._records.begin_call(now_ms)
        # Invariant: each step can be repeated after an interrupt.
        handled = 0
        for chunk, _, stop in self.given:
            handled += stop - chunk.index
            chunk.index = stop
            self._settle(chunk, now_ms)
        if self.given:
            self._records.pace.note(handled, now_ms, self._records.lock_ms)
            self.given = ()

    def flush(self) -> None:
        """Accept now what the application is done with: all but what it got last."""
        done = [(chunk, start) for chunk, start, _ in self.given]
        if not done:  # the first chunk may have ended, and the next one have begun
            done = [(each, each.index) for each in self._ready if isinstance(each, Chunk)]
        for chunk, index in done:
            self._accept(chunk.run, chunk.run.first + index)

    def release_all(self) -> None:
        """Release what the application got and has not acknowledged, and what waits for it."""
        self._records.rest()
        self.flush()
        # Invariant: in this order. After an interrupt, nothing is accepted that was not handed out.
        for run in self._records.handed():
            self._records.settle_up_to(run, run.given, AcknowledgeType.RELEASE)
        for chunk in self._ready:
            if isinstance(chunk, Chunk):  # also what an interrupt has kept from the application
                chunk.index = max(chunk.index, chunk.run.given - chunk.run.first)
        self.given = ()

    def drop_last(self) -> None:
        """Forget that the application got records by the last call: it did not handle them."""
        self.given = [(chunk, start, start) for chunk, start, _ in self.given]

    def _settle(self, chunk: Chunk, now_ms: int) -> None:
        run, ended = chunk.run, chunk.index == len(chunk.records)
        stop = run.first + chunk.index
        many = stop - run.accepted >= _ACCEPTED_RECORDS
        if ended or many or now_ms - self._accepted_ms >= _ACCEPTED_MS:
            self._accepted_ms = now_ms
            self._accept(run, stop)

    def _accept(self, run: Run, stop: int) -> None:
        if self._implicit and stop > run.accepted:
            self._records.settle_up_to(run, stop)

    def next(self, count: int, now_ms: int, *, waits: bool) -> list[Given]:
        """Return up to `count` records, which stay here until they are settled.

        Args:
            count: The most records.
            now_ms: The time.
            waits: Whether the application waits if there are none.

        Raises:
            KafkaError: The next record cannot be read. It is raised once.
        """
        found: list[Given] = []
        self._records.wanted = count
        found_hole = self._fill(now_ms)
        for each in self._ready:
            if isinstance(each, Acknowledgement):
                continue  # `_fill` gives it back once it is the first
            if isinstance(each, KafkaError) and not found:
                self._ready.popleft()
                raise each
            if not isinstance(each, Chunk) or count <= 0 or not _usable(each, now_ms):
                break  # what is not usable, `_fill` removes in the next call
            stop = min(len(each.records), each.index + count)
            if not self._records.hand_out(each.run, each.run.first + stop, now_ms):
                return found or self.next(count, now_ms, waits=waits)
            count -= stop - each.index
            found.append((each, each.index, stop))
        if found:
            self._records.pace.given_ms = now_ms
            self._records.holes = 0
        else:
            self._records.holes += found_hole
            self._records.ask(waits=waits)
        return found

    def following(self, now_ms: int) -> Given | None:
        """Return the record after the one that the application got last, if it is at hand.

        The records before it are settled later, together.
        """
        if len(self.given) != 1:
            return None
        [(chunk, _, stop)] = self.given
        run, partition = chunk.run, chunk.run.partition
        since_ms = now_ms - self._records.pace.given_ms
        behind = stop - chunk.index >= _ACCEPTED_RECORDS or since_ms >= _ACCEPTED_MS
        if behind or run.first + stop > run.last:
            return None
        if partition.lost or now_ms >= partition.usable_until_ms:
            return None
        # `hand_out` also tells whether the record has been withdrawn meanwhile.
        if not self._records.hand_out(run, run.first + stop + 1, now_ms):
            return None
        return chunk, stop, stop + 1

    def _fill(self, now_ms: int) -> bool:
        """Remove what can no longer be handed out, and unpack until there is a record.

        Returns:
            Whether offsets without a record were given back.
        """
        found_hole = False
        # Invariant: each step is one store or one call, so it can be repeated after an interrupt.
        while self._ready or self._records.move_to(self._ready):
            first = self._ready[0]
            if isinstance(first, LockedPartition | Rest):  # and nothing behind it
                usable = first.is_usable(now_ms)
                self._ready = deque(self._unpacker.unpack(first) if usable else ())
            elif isinstance(first, Acknowledgement):
                found_hole |= first.how is AcknowledgeType.GAP
                self._records.give_back(self._ready)
            elif isinstance(first, KafkaError):
                return found_hole
            elif first.index == len(first.records):
                self._ready.popleft()
            elif _usable(first, now_ms):
                return found_hole
            else:
                self._drop(first)
        return found_hole

    def _drop(self, chunk: Chunk) -> None:
        """Replace the first chunk by the release of what was claimed, and kept by an interrupt."""
        run, begin = chunk.run, chunk.run.first + chunk.index
        self._accept(run, begin)
        if begin < run.given:
            release = AcknowledgeType.RELEASE
            self._ready[0] = Acknowledgement(run.partition, begin, run.given - 1, release, None)
        else:
            self._ready.popleft()
        self._records.cut(run, begin)


def _usable(chunk: Chunk, now_ms: int) -> bool:
    return chunk.run.partition.is_usable(now_ms)
