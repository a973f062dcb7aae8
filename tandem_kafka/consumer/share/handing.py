"""Hands records of a share group out, and accepts those that were handled.

With implicit acknowledgement, the records of a call are accepted when the next call begins. Until
then, nothing that an interrupt (Ctrl-C) ends is lost: what was not handed out is still there, and
what was is delivered again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from tandem_kafka.consumer.reading.iteration import Feed, feed_of
from tandem_kafka.consumer.share.record import ShareRecord
from tandem_kafka.consumer.share.unpacking import Chunk, Rest, Unpacked, Unpacker, Unreadable
from tandem_kafka.state.locked_records import LockedRecords
from tandem_kafka.state.locks import (
    Acknowledgement,
    AcknowledgeType,
    LockedPartition,
)

#: For so long, and for so many records, iteration looks at nothing else.
_FOLLOWING_MS: Final = 5
_FOLLOWING_RECORDS: Final = 500

#: A chunk, and the indexes of the first of its records that a call returned, and after the last.
Given = tuple[Chunk, int, int]


class Fed(NamedTuple):
    """What iteration gives the application.

    Attributes:
        feed: The feed.
        chunk: What its records are from.
        start: The index of the first one.
        until_ms: Until when it may be followed.
    """

    feed: Feed
    chunk: Chunk
    start: int
    until_ms: int


class Handing:
    """What the reader has of the locked records. Only the reader uses it.

    Attributes:
        given: The records that the application got last. Writer: each call that returns records,
            as its last action, and `end_feed`.
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
        #: What iteration gives, which is not in `given` yet.
        self._fed: Fed | None = None
        #: Whether the application has handled what it got last, and each within this time.
        self._is_quick = False
        self.borrower: object = None
        self.lent: object = None

    def settle(self, now_ms: int) -> None:
        """Note that the application is done with what it got last, and accept it."""
        self._records.begin_call(now_ms)
        self.end_feed()
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
        self._is_quick = now_ms - self._records.pace.given_ms < handled * _FOLLOWING_MS
        if self.given:
            self._records.pace.note(handled, now_ms, self._records.lock_ms)
            self.given = ()

    def release_all(self) -> None:
        """Release what the application got and has not acknowledged, and what waits for it."""
        self._records.rest()
        self.end_feed()
        # Invariant: in this order. After an interrupt, nothing is accepted that was not handed out.
        self._records.release_all()
        for chunk in self._ready:
            if isinstance(chunk, Chunk):  # also what an interrupt has kept from the application
                chunk.index = max(chunk.index, chunk.run.given - chunk.run.first)
        self.given = ()
        self.lent = None

    def drop_last(self) -> None:
        """Forget that the application got records by the last call: it did not handle them."""
        self.end_feed()
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

    # --- iteration -----------------------------------------------------------------------------

    def begin_feed(
        self,
        given: Given,
        made: Callable[[Chunk, int, int], Sequence[ShareRecord[Any, Any]]],
        now_ms: int,
    ) -> Fed:
        """Return what gives a record that `next` has found, and perhaps those after it.

        If the application accepts by going on, each record accepts the one before it. The network
        thread needs no notice of that: it has one of what was accepted before this, and then looks
        for more as long as there is some.

        Args:
            given: The record.
            made: Returns records of a chunk, or the first of them.
            now_ms: The time.
        """
        chunk, start, stop = given
        # Invariant: one record if the reader has waited. The network thread may have looked since,
        # and needs another notice.
        if self._is_quick and (now_ms == self._records.called_ms or not self._implicit):
            stop = min(start + _FOLLOWING_RECORDS, len(chunk.records))
        run = chunk.run
        until_ms = min(now_ms + _FOLLOWING_MS, run.partition.usable_until_ms)
        self._fed = fed = Fed(feed_of(made(chunk, start, stop)), chunk, start, until_ms)
        run.begin_feed(run.first + start, fed.feed, now_ms, accepts=self._implicit)
        return fed

    def fed(self, now_ms: int) -> Fed | None:
        """Return what has the next record for iteration, if nothing else is to be done."""
        fed = self._fed
        if fed is None or fed.feed.stopped or fed.feed.given == len(fed.feed):
            return None
        # `settle` releases what interrupts have kept from the end of run().
        return fed if now_ms < fed.until_ms and self.lent is self.borrower else None

    def end_feed(self) -> None:
        """Let iteration give nothing more, and note what it has given."""
        if self._fed is None:
            return
        feed, chunk, start, _ = self._fed
        feed.stop()
        # Invariant: each step can be repeated after an interrupt.
        stop = start + feed.given
        if stop > chunk.index:
            self.given = ((chunk, stop - 1, stop),)
        chunk.run.end_feed()
        self._fed = None

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
                locked = first.locked if isinstance(first, Rest) else first
                usable = first.is_usable(now_ms)
                earlier = self._records.earlier(locked.tp, first.ranges)
                self._ready = deque(self._unpacker.unpack(first, earlier) if usable else ())
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
