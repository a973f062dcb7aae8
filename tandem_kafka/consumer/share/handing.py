"""Hands records of a share group out, and accepts those that were handled.

With implicit acknowledgement, the records of a call are accepted when the next call begins. Until
then, nothing that an interrupt (Ctrl-C) ends is lost: what was not handed out is still there, and
what was is delivered again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from tandem_kafka.consumer.share.unpacking import Chunk, Rest, Unpacked, Unpacker, Unreadable
from tandem_kafka.state.locked_records import LockedRecords
from tandem_kafka.state.locks import (
    Acknowledgement,
    AcknowledgeType,
    LockedPartition,
)

#: For so long, records are given one by one without a look at anything else.
_FOLLOWING_MS: Final = 5

#: A chunk, and the indexes of the first of its records that a call returned, and after the last.
Given = tuple[Chunk, int, int]


class Handing:
    """What the reader has of the locked records. Only the reader uses it.

    Attributes:
        given: The records that the application got last. Writer: each call that returns records,
            as its last action.
        borrower: What has the records that are handed out: a run of workers, None otherwise.
            Writer: that run.
        lent: The borrower of what was handed out last, until `release_all` is complete.
    """

    def __init__(self, records: LockedRecords, unpacker: Unpacker, *, implicit: bool) -> None:
        self._records = records
        self._unpacker = unpacker
        self._implicit = implicit
        #: Locked records before and after they are unpacked, the errors between, and what is to be
        #: given back, in the order of offsets.
        self._ready: deque[LockedPartition | Unpacked] = deque()
        self.given: Sequence[Given] = ()
        self.borrower: object = None
        self.lent: object = None

    def settle(self, now_ms: int) -> None:
        """Note that the application is done with what it got last, and accept it."""
        self._records.begin_call(now_ms)
        if self.lent is not self.borrower:
            if self.lent is not None:
                self.release_all()  # interrupts have kept the end of run() from it
            self.lent = self.borrower
        # Invariant: each step can be repeated after an interrupt.
        handled = 0
        for chunk, _, stop in self.given:
            handled += stop - chunk.index
            chunk.index = stop
            if self._implicit:
                self._records.accept_up_to(chunk.run, chunk.run.first + stop)
        if self.given:
            self._records.pace.note(handled, now_ms, self._records.lock_ms)
            self.given = ()

    def release_all(self) -> None:
        """Release what the application got and has not acknowledged, and what waits for it."""
        self._records.rest()
        # Invariant: in this order. After an interrupt, nothing is accepted that was not handed out.
        self._records.release_all()
        for chunk in self._ready:
            if isinstance(chunk, Chunk):  # also what an interrupt has kept from the application
                chunk.index = max(chunk.index, chunk.run.given - chunk.run.first)
        self.given = ()
        self.lent = None

    def drop_last(self) -> None:
        """Forget that the application got records by the last call: it did not handle them."""
        self.given = [(chunk, start, start) for chunk, start, _ in self.given]

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
            if isinstance(each, Unreadable) and not found:
                self._ready.popleft()
                raise each.error
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

        This accepts that one. `settle` does the rest for all of them together.
        """
        if len(self.given) != 1 or self.lent is not self.borrower:
            return None  # `settle` releases what interrupts have kept from the end of run()
        [(chunk, _, stop)] = self.given
        run, partition = chunk.run, chunk.run.partition
        since_ms, last = now_ms - self._records.pace.given_ms, run.first + stop > run.last
        if last or since_ms >= _FOLLOWING_MS:
            return None
        if partition.lost or now_ms >= partition.usable_until_ms:
            return None
        if self._implicit:
            self._records.accept_up_to(run, run.first + stop)
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
            elif isinstance(first, Unreadable):
                if first.is_given_back:
                    return found_hole
                self._ready.popleft()  # it comes again, and so does its error
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
        if begin < run.given:
            release = AcknowledgeType.RELEASE
            self._ready[0] = Acknowledgement(run.partition, begin, run.given - 1, release, None)
        else:
            self._ready.popleft()
        self._records.cut(run, begin)


def _usable(chunk: Chunk, now_ms: int) -> bool:
    return chunk.run.partition.is_usable(now_ms)
