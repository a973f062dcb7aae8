"""What brokers have locked for this consumer of a share group, and what it does with it (KIP-932).

Each class here is used by both threads: the application claims and acknowledges, and the network
thread withdraws, and takes what was acknowledged. A locked offset is in one of these states:

| state      | which offsets                    | what ends it                                |
|------------|----------------------------------|---------------------------------------------|
| waiting    | `given` to `stop` of a partition | `claim`: in work, or given back; `withdraw` |
| in work    | below `given`, of a run          | `done` or `accepted`; `is_over`: forgotten  |
| given back | below `given`, of no run         | the network thread sends it                 |
| done       | in `done`, or below `accepted`   | the network thread sends it                 |
| withdrawn  | from `stop` on                   | the same; `split`: waiting again, renewed   |
| forgotten  | of a run that is `forgotten`     | nothing: its lock has ended                 |
| lost       | of a partition that is `lost`    | nothing: the broker has no lock of it       |

A renewal changes the times of a lock. What waits is offered anew with them. What is in work, and is
locked again, has `_ENDED` for its times: its acknowledgement is dropped.
"""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby, islice
from operator import itemgetter
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tandem_kafka.runtime import Clock
from tandem_kafka.runtime.tuples import replaced
from tandem_kafka.types import TopicPartition

#: A partition, by the id of its topic and its number: a topic of the same name may replace another.
Place = tuple[UUID, int]


class AcknowledgeType(enum.IntEnum):
    """What became of a record; the values are those of the protocol."""

    #: The offset has no record, for example after compaction.
    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


#: A token is an offset and a type in one number, which the garbage collector need not visit. It is
#: larger than the small numbers that Python shares, so each token is an object of its own.
FIRST_TOKEN: Final = 1_000
NEXT_OFFSET: Final = 8


class Acknowledger(Protocol):
    """Takes the acknowledgements of the application; `LockedRecords`."""

    clock: Clock

    def acknowledge(self, run: LockedRun, offset: int, how: AcknowledgeType) -> None:
        """Acknowledge a record."""
        ...


#: First offset, last offset and delivery count.
LockedRange = tuple[int, int, int]

#: Larger than each offset: an end of offsets is one more, and has 64 bits as well.
_OFFSETS: Final = 2**63 - 1


def are_plausible(ranges: Sequence[LockedRange]) -> bool:
    """Tell whether ranges, in order, have each offset once, and only offsets of records."""
    end = 0
    for first, last, _ in ranges:
        if not end <= first <= last < _OFFSETS:
            return False
        end = last + 1
    return True


def joined(ranges: Iterable[LockedRange], most: int) -> list[LockedRange]:
    """Return ranges in order, up to one more than `most`; neighbours with the same count are one.

    A broker names each offset of a batch for itself if it has not locked all of them.
    """
    found: list[LockedRange] = []
    for first, last, count in ranges:
        if found and found[-1][1:] == (first - 1, count) and first <= last:
            found[-1] = found[-1][0], last, count
        elif len(found) <= most:
            found.append((first, last, count))
        else:
            break
    found.sort()
    return found


def overlapping(ranges: Sequence[LockedRange], first: int, last: int) -> Sequence[LockedRange]:
    """Return those of some ranges, in order, that have one of these offsets.

    Invariant: without looking at each of them. A broker decides how many there are.
    """
    begin = bisect_left(ranges, first, key=itemgetter(1))
    return ranges[begin : bisect_right(ranges, last, begin, key=itemgetter(0))]


def count_of(ranges: Iterable[tuple[int, int]]) -> int:
    """Return the number of offsets in ranges."""
    return sum(last - first + 1 for first, last in ranges)


class Feed(Protocol):
    """Gives the application records one by one; see `consumer.reading.iteration`."""

    @property
    def given(self) -> int:
        """The number of records that it has given."""
        ...

    def stop(self) -> None:
        """Give no further record."""
        ...


class _EmptyFeed:
    given = 0

    def stop(self) -> None:
        """Give no further record."""


#: The offset of the first record of a feed, and the feed.
Fed = tuple[int, Feed]
NOT_FED: Final[Fed] = (0, _EmptyFeed())


class LockedPartition:
    """What one response has locked of one partition.

    Attributes:
        tp: Topic and partition.
        place: The id of the topic, and the number of the partition.
        node_id: The broker that holds the locks.
        data: Record batches, which also have records that are not locked.
        ranges: First offset, last offset and delivery count of each range of locked records.
        requested_ms: When the fetch was sent; no lock is older.
        received_ms: When the response arrived; no lock is younger.
        lock_ms: How long a lock lasts.
        since_ms: When they were locked first; since then, the locks may have been renewed.
        renewed_until_ms: When the locks that were renewed have certainly ended; 0 without any.
            Writer: the network thread.
        owner: Where its acknowledgements go.
        fed: What gives the application records one by one, each of which it claims by that.
            Writer: the reader.
        stop: The first offset that the application can no longer claim. Writer: the network thread.
        unacknowledged: How many of its locks have no acknowledgement. Writer: the network thread.
        lost: Whether the locks ended because the connection was lost or the leader has moved.
            Writer: the network thread.
    """

    __slots__ = (
        "_claimed",
        "_claims",
        "data",
        "fed",
        "lock_ms",
        "lost",
        "node_id",
        "owner",
        "place",
        "ranges",
        "received_ms",
        "renewed_until_ms",
        "requested_ms",
        "since_ms",
        "stop",
        "tp",
        "unacknowledged",
    )

    def __init__(
        self,
        tp: TopicPartition,
        topic_id: UUID,
        node_id: int,
        data: memoryview,
        ranges: Sequence[LockedRange],
        owner: Acknowledger,
    ) -> None:
        self.owner = owner
        self.tp = tp
        self.place = topic_id, tp.partition
        self.node_id = node_id
        self.data = data
        self.ranges = ranges
        self.requested_ms = self.received_ms = self.since_ms = self.lock_ms = 0
        self.renewed_until_ms = 0
        self.lost = False
        self._claimed = min((first for first, _, _ in ranges), default=0)
        self.fed = NOT_FED
        self.stop = max((last for _, last, _ in ranges), default=-1) + 1
        #: For each claim its first offset, and the offset after its last; None once withdrawn.
        self._claims: dict[int, int | None] = {}
        self.unacknowledged = self.ahead

    @property
    def given(self) -> int:
        """The first offset that the application has not claimed."""
        first, feed = self.fed  # Invariant: read first, as `end_feed` stores it last
        return max(first + feed.given, self._claimed)

    @property
    def ahead(self) -> int:
        """The number of locked offsets that the application can claim."""
        return count_of(self.ranges_between(self.given, self.stop))

    def ranges_between(self, first: int, stop: int) -> list[tuple[int, int]]:
        """Return the locked ranges between two offsets."""
        cut = [(max(begin, first), min(end, stop - 1)) for begin, end, _ in self.ranges]
        return [(begin, end) for begin, end in cut if begin <= end]

    def claim(self, stop: int) -> bool:
        """Claim the offsets before one, for the application; return False if they are withdrawn."""
        # Invariant: of the two threads, one stores the next claim. After an interrupt, it is found.
        while (given := self.given) < stop:
            claimed = self._claims.setdefault(given, stop)
            if claimed is None:
                return False
            self._claimed = claimed
        return True

    def end_feed(self) -> None:
        """Note what a feed, which was stopped, has claimed."""
        self._claimed = self.given
        self.fed = NOT_FED

    def lose(self) -> None:
        """Note that the locks ended: the application gets no more of them."""
        self.lost = True
        self.fed[1].stop()

    def withdraw(self) -> list[tuple[int, int]]:
        """End the claims of the application; return the ranges that it has not claimed."""
        stop, first = self.stop, self.given
        while True:
            if (claimed := self._claims.setdefault(first, None)) is not None:
                first = claimed
                continue
            # Invariant: behind the mark. A feed that begins later finds it, and gives nothing.
            self.fed[1].stop()
            if self.given <= first:
                break
            first = self.given
        self.stop = min(stop, first)
        return self.ranges_between(first, stop)

    def split(self, most: int) -> tuple[LockedPartition, list[tuple[int, int]]]:
        """Withdraw what the application has not claimed.

        Returns:
            The first `most` offsets of it, to be added again, and the ranges of the others.
        """
        left, kept, others = self.withdraw(), [], list[tuple[int, int]]()
        counts = {last: count for _, last, count in self.ranges}
        for first, last in left:
            stop = min(last + 1, first + most)
            most -= max(0, stop - first)
            if first < stop:
                kept.append((first, stop - 1, counts[last]))
            if stop <= last:
                others.append((max(first, stop), last))
        rest = LockedPartition(self.tp, self.place[0], self.node_id, self.data, kept, self.owner)
        rest.requested_ms, rest.received_ms = self.requested_ms, self.received_ms
        rest.since_ms, rest.lock_ms = self.since_ms, self.lock_ms
        self.unacknowledged -= rest.unacknowledged
        return rest, others

    def can_claim(self, ranges: Sequence[LockedRange]) -> bool:
        """Tell whether the application can still claim an offset of some ranges, in order."""
        left = self.ranges_between(self.given, self.stop)
        return any(overlapping(ranges, first, last) for first, last in left)

    @property
    def ends_ms(self) -> int:
        """When all its locks have certainly ended."""
        return max(self.received_ms + self.lock_ms, self.renewed_until_ms)

    @property
    def sure_until_ms(self) -> int:
        """When the locks of what the application was not given may end at the earliest."""
        return self.requested_ms + self.lock_ms

    @property
    def renew_from_ms(self) -> int:
        """From when on the locks of what waits are renewed: half of them is over."""
        return self.sure_until_ms - self.lock_ms // 2

    @property
    def usable_until_ms(self) -> int:
        """Until when a record that waits here may still be handed out.

        A quarter of its lock is left for the application. Renewal begins after half of it.
        """
        return self.requested_ms + self.lock_ms * 3 // 4

    @property
    def kept_from_ms(self) -> int:
        """From when on it waits within bounds: after half of its lock, and once it is renewed."""
        renewed = self.requested_ms > self.since_ms
        return self.since_ms if renewed else self.requested_ms + self.lock_ms // 2

    def is_usable(self, now_ms: int) -> bool:
        """Tell whether the application may still be given what it has not."""
        withdrawn = self._claims.get(self.given, self.given) is None
        return not self.lost and not withdrawn and now_ms < self.usable_until_ms

    def is_locked(self, now_ms: int) -> bool:
        """Tell whether records that the application was not given are certainly still locked.

        Invariant: no others are given back. They may be locked again, and with an acknowledgement
        that fails, a broker discards all others of the partition in the same request.
        """
        return not self.lost and now_ms < self.sure_until_ms


_ENDED: Final = (-1, -1)


class LockedRun:
    """Records in a row that were locked together, some of which the application has been given.

    Attributes:
        partition: What they were locked with.
        first: The first offset.
        last: The last offset. Each offset between has a record. Writer: the reader.
        delivery_count: How often they have been delivered, with this time; see `deliveries.py`.
        fed: What accepts records by giving the next one. Writer: the reader.
        done: How the application has acknowledged offsets itself, as tokens. Writers: any thread,
            each for its offsets.
        taken: How many of them the network thread has taken, and up to which offset what is
            accepted. Writer: the network thread.
        handed: The first offset, and the time, of what the application was given in the same
            millisecond. Writer: the reader.
        forgotten: Whether its locks ended before all was acknowledged. Writer: the network thread.
        sure_until_ms: When their locks may end at the earliest. Writer: the network thread.
        ends_ms: When they have certainly ended. Writer: the network thread.
        renewed: The same two times of an offset that was renewed alone, or locked again since.
            Writer: the network thread.
    """

    __slots__ = (
        "_accepted",
        "delivery_count",
        "done",
        "ends_ms",
        "fed",
        "first",
        "forgotten",
        "handed",
        "last",
        "partition",
        "renewed",
        "sure_until_ms",
        "taken",
    )

    def __init__(
        self, partition: LockedPartition, first: int, last: int, delivery_count: int
    ) -> None:
        self.partition = partition
        self.first = self._accepted = first
        self.fed = NOT_FED
        self.last = last
        self.delivery_count = delivery_count
        self.done: dict[int, int] = {}
        self.taken = 0, first
        self.handed: list[tuple[int, int]] = []
        self.forgotten = False
        self.sure_until_ms = partition.sure_until_ms
        self.ends_ms = partition.received_ms + partition.lock_ms
        self.renewed: dict[int, tuple[int, int]] = {}

    @property
    def accepted(self) -> int:
        """The first offset that is not accepted because the application went on.

        Other threads may acknowledge it and those behind it. Writer: the reader.
        """
        first, feed = self.fed  # read first, as in `LockedPartition.given`
        return max(first + feed.given - 1, self._accepted)

    @accepted.setter
    def accepted(self, stop: int) -> None:
        self._accepted = stop

    def begin_feed(self, first: int, feed: Feed, now_ms: int, *, accepts: bool) -> None:
        """Let a feed give the application records from an offset on, unless they are withdrawn.

        Args:
            first: The offset, which the application has claimed.
            feed: The feed, which has given nothing.
            now_ms: The time.
            accepts: Whether each record accepts the one before it.
        """
        self.partition.fed = first, feed
        if accepts:
            self.fed = first, feed
        # Invariant: behind these. The network thread stops what it finds there.
        if self.forgotten or not self.partition.is_usable(now_ms):
            feed.stop()

    def end_feed(self) -> None:
        """Note what a feed, which was stopped, has claimed and accepted."""
        self.partition.end_feed()
        self._accepted = self.accepted
        self.fed = NOT_FED

    def acknowledge(self, offset: int, token: int) -> bool:
        """Store the token of an acknowledgement; return False if the offset has one already."""
        # Invariant: the reader does not come between the comparison and the call, so there is no
        # other call: Python switches threads behind each. Of several threads, one stores its token,
        # which is another object than those of the others.
        return (
            offset >= self._accepted
            and offset >= (fed := self.fed)[0] + fed[1].given - 1
            and self.done.setdefault(offset, token) is token
        )

    @property
    def given(self) -> int:
        """The first offset that the application has not been given."""
        return min(max(self.partition.given, self.first), self.last + 1)

    @property
    def is_finished(self) -> bool:
        """Whether each record has an acknowledgement."""
        return self.accepted > self.last or len(self.done) > self.last - self.first

    @property
    def in_work(self) -> list[tuple[int, int]]:
        """The ranges that the application was given, and has not acknowledged."""
        return self.open_ranges(self.accepted, self.given)

    def release(self) -> None:
        """Release what is in work."""
        given = self.given
        for first, last in self.in_work:
            for offset in range(first, last + 1):
                token = (offset + FIRST_TOKEN) * NEXT_OFFSET + AcknowledgeType.RELEASE
                self.done.setdefault(offset, token)
        # Invariant: behind them. What has a token is not accepted.
        self.accepted = given

    def take_done(self) -> Iterator[Acknowledgement]:
        """Yield what was acknowledged since the last call, in that order, and what was accepted."""
        (count, taken), accepted = self.taken, self.accepted
        made = _values_from(self.done, count)
        self.taken = count + len(made), accepted
        if made:
            begin = end = made[0]
            for token in made[1:]:
                if token != end + NEXT_OFFSET:
                    yield self._acknowledgement(begin, end)
                    begin = token
                end = token
            yield self._acknowledgement(begin, end)
        if accepted > taken:
            for first, last in self.open_ranges(taken, accepted):
                yield Acknowledgement(self.partition, first, last, AcknowledgeType.ACCEPT, self)

    def _acknowledgement(self, begin: int, end: int) -> Acknowledgement:
        (first, how), (last, _) = divmod(begin, NEXT_OFFSET), divmod(end, NEXT_OFFSET)
        how = AcknowledgeType(how)
        return Acknowledgement(self.partition, first - FIRST_TOKEN, last - FIRST_TOKEN, how, self)

    @property
    def handed_ms(self) -> int:
        """When the application was given the first of them."""
        return self.handed[0][1] if self.handed else 0

    @property
    def came_late(self) -> bool:
        """Whether the application got some with less than three quarters of their lock."""
        left_ms = self.sure_until_ms - (self.handed[-1][1] if self.handed else 0)
        return left_ms < self.partition.lock_ms * 3 // 4

    @property
    def renew_from_ms(self) -> int:
        """From when on its locks are renewed: half of them is over, or some came late.

        Invariant: what has waited is handed out with the time of a lock for the application.
        """
        return 0 if self.came_late else self.sure_until_ms - self.partition.lock_ms // 2

    def given_ms(self, offset: int) -> int:
        """Return when the application was given a record."""
        at = bisect_right(self.handed, offset, key=itemgetter(0))
        return self.handed[max(0, at - 1)][1]

    def is_open(self, offset: int) -> bool:
        """Tell whether a record can be acknowledged, unless its time is over."""
        taken = offset < self.accepted or offset in self.done
        return not (taken or self.forgotten or self.partition.lost)

    def lock_times(self, offset: int) -> tuple[int, int]:
        """Return when the lock of a record may end, and when it has certainly ended."""
        if self.partition.lost:
            return _ENDED
        of_run, alone = (self.sure_until_ms, self.ends_ms), self.renewed.get(offset)
        return of_run if alone is None else alone if alone is _ENDED else max(of_run, alone)

    def end_locks(self, first: int, last: int) -> None:
        """Note that what the application was given is locked again, so these locks have ended.

        Invariant: nothing is acknowledged by the old lock. The broker would take it for the new
        one, whose record the application has not been given, and is given afterwards.
        """
        offsets = range(max(first, self.first), min(last + 1, self.given))
        self.renewed.update(dict.fromkeys(offsets, _ENDED))

    def renew_all(self, times: tuple[int, int]) -> None:
        """Note until when all locks were renewed."""
        self.sure_until_ms, self.ends_ms = times
        self.partition.renewed_until_ms = max(self.partition.renewed_until_ms, times[1])

    def renew_locks(self, first: int, last: int, times: tuple[int, int]) -> None:
        """Note until when locks were renewed. Those of records that are locked again have ended."""
        self.partition.renewed_until_ms = max(self.partition.renewed_until_ms, times[1])
        offsets = range(first, last + 1)
        self.renewed.update(
            {offset: times for offset in offsets if self.renewed.get(offset) is not _ENDED}
        )

    def is_over(self, now_ms: int) -> bool:
        """Tell whether all locks have certainly ended."""
        if now_ms < self.ends_ms:
            return self.partition.lost
        renewed = tuple(self.renewed.values())
        return self.partition.lost or all(now_ms >= ends_ms for _, ends_ms in renewed)

    def renewable_ranges(self, first: int, stop: int) -> list[tuple[int, int]]:
        """Return the `open_ranges` without what is locked again."""
        again = {offset for offset, times in tuple(self.renewed.items()) if times is _ENDED}
        return self._ranges_without({*tuple(self.done), *again}, first, stop)

    def open_ranges(self, first: int, stop: int) -> list[tuple[int, int]]:
        """Return the ranges between two offsets that the application has not acknowledged."""
        return self._ranges_without(tuple(self.done), first, stop)  # it may grow meanwhile

    @staticmethod
    def _ranges_without(offsets: Iterable[int], first: int, stop: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for offset in (*sorted(offsets), stop):
            if not first <= offset < stop:
                continue
            if first < offset:
                found.append((first, offset - 1))
            first = offset + 1
        if first < stop:
            found.append((first, stop - 1))
        return found


class Acknowledgement(NamedTuple):
    """What became of a range of offsets; `run` is None if the application was not given them."""

    partition: LockedPartition
    first: int
    last: int
    how: AcknowledgeType
    run: LockedRun | None

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1

    def overlaps(self, first: int, last: int) -> bool:
        """Tell whether it has one of these offsets."""
        return self.first <= last and first <= self.last

    def within(self, first: int, last: int) -> Acknowledgement:
        """Return the part of it with these offsets."""
        return replaced(self, first=max(self.first, first), last=min(self.last, last))

    def without(self, first: int, last: int) -> list[Acknowledgement]:
        """Return what is left of it without some offsets."""
        parts = (self.first, min(self.last, first - 1)), (max(self.first, last + 1), self.last)
        return [replaced(self, first=begin, last=end) for begin, end in parts if begin <= end]

    @property
    def run_is_over(self) -> bool:
        """Whether the records were forgotten because their locks had ended."""
        return self.run is not None and self.run.forgotten

    def parts(self, now_ms: int) -> Iterator[tuple[Acknowledgement, bool]]:
        """Yield its parts, and whether their records are certainly still locked."""
        run = self.run
        if run is None:
            yield self, self.partition.is_locked(now_ms)
        elif self.partition.lost or not run.renewed:
            yield self, not self.partition.lost and now_ms < run.sure_until_ms
        else:  # some were renewed alone, or are locked again
            offsets = range(self.first, self.last + 1)
            rows = groupby(offsets, key=lambda offset: now_ms < run.lock_times(offset)[0])
            for is_sure, row in rows:
                first, *others = row
                yield replaced(self, first=first, last=(others or [first])[-1]), is_sure


def _values_from(made: dict[int, int], begin: int) -> list[int]:
    """Return the values of a dict from one on, while other threads add some."""
    while True:
        count = len(made)
        # From the end: there may be many that were taken before.
        with suppress(RuntimeError):  # one was added meanwhile
            found = list(islice(reversed(made.values()), count - begin))
            if len(made) == count:
                return found[::-1]
