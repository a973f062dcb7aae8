"""Records of a share group that brokers have locked for this consumer (KIP-932).

A broker locks records when it sends them, and counts each delivery. Until the lock ends, only this
consumer gets the record, and must acknowledge it.

    network thread    LockedRecords.add ------------------> application: move_to, hand_out
    network thread    LockedRecords.take_acknowledgements <- any thread: acknowledge

The application claims records when it hands them out. The network thread withdraws the others if
they wait too long, wherever they wait, and releases them.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from tandem_kafka.errors import ForkedConsumerError, IllegalStateError, RecordLockLostError
from tandem_kafka.runtime import Clock
from tandem_kafka.runtime.process import PROCESS
from tandem_kafka.types import TopicPartition

T = TypeVar("T")

#: How long an application that found nothing and did not wait counts as waiting.
ASKED_MS: Final = 1_500


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


#: Looking a member up takes as long as the rest of an acknowledgement.
_RENEW: Final = AcknowledgeType.RENEW
#: A token is an offset and a type in one number, which the garbage collector need not know. It is
#: greater than the numbers of which Python has one object each.
_FIRST: Final = 1_000
_NEXT_OFFSET: Final = 8


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
        owner: Where its acknowledgements go.
        given: The first offset that the application has not claimed. Writer: the reader.
        stop: The first offset that the application can no longer claim. Writer: the network thread.
        unacknowledged: How many of its locks have no acknowledgement. Writer: the network thread.
        lost: Whether the locks ended because the connection was lost or the leader has moved.
            Writer: the network thread.
    """

    __slots__ = (
        "_claims",
        "data",
        "given",
        "lock_ms",
        "lost",
        "node_id",
        "owner",
        "place",
        "ranges",
        "received_ms",
        "requested_ms",
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
        ranges: Sequence[tuple[int, int, int]],
        owner: LockedRecords,
    ) -> None:
        self.owner = owner
        self.tp = tp
        self.place = topic_id, tp.partition
        self.node_id = node_id
        self.data = data
        self.ranges = ranges
        self.requested_ms = self.received_ms = self.lock_ms = 0
        self.lost = False
        self.given = min((first for first, _, _ in ranges), default=0)
        self.stop = max((last for _, last, _ in ranges), default=-1) + 1
        #: For each claim its first offset, and the offset after its last; None once withdrawn.
        self._claims: dict[int, int | None] = {}
        self.unacknowledged = self.ahead

    @property
    def ahead(self) -> int:
        """The number of locked offsets that the application can claim."""
        return sum(last - first + 1 for first, last in self.ranges_between(self.given, self.stop))

    def ranges_between(self, first: int, stop: int) -> list[tuple[int, int]]:
        """Return the locked ranges between two offsets."""
        cut = [(max(begin, first), min(end, stop - 1)) for begin, end, _ in self.ranges]
        return [(begin, end) for begin, end in cut if begin <= end]

    def claim(self, stop: int) -> bool:
        """Claim the offsets before one, for the application; return False if they are withdrawn."""
        # Invariant: of the two threads, one stores the next claim. After an interrupt, it is found.
        while self.given < stop:
            claimed = self._claims.setdefault(self.given, stop)
            if claimed is None:
                return False
            self.given = claimed
        return True

    def withdraw(self) -> list[tuple[int, int]]:
        """End the claims of the application; return the ranges that it has not claimed."""
        stop, first = self.stop, self.given
        while (claimed := self._claims.setdefault(first, None)) is not None:
            first = claimed
        self.stop = min(stop, first)
        return self.ranges_between(first, stop)

    def overlaps(self, first: int, last: int) -> bool:
        """Tell whether a range has one of the offsets."""
        return any(begin <= last and first <= end for begin, end, _ in self.ranges)

    @property
    def usable_until_ms(self) -> int:
        """Until when a record that waits here may still be handed out: half of its lock is over."""
        return self.requested_ms + self.lock_ms // 2

    def is_usable(self, now_ms: int) -> bool:
        """Tell whether the application may still be given what it has not."""
        withdrawn = self._claims.get(self.given, self.given) is None
        return not self.lost and not withdrawn and now_ms < self.usable_until_ms

    def is_locked(self, now_ms: int) -> bool:
        """Tell whether records that the application was not given are certainly still locked.

        Invariant: no others are given back. They may be locked again, and with an acknowledgement
        that fails, a broker discards all others of the partition in the same request.
        """
        return not self.lost and now_ms < self.requested_ms + self.lock_ms


_ENDED: Final = (-1, -1)


class Run:
    """Records in a row that were locked together, some of which the application has been given.

    Attributes:
        partition: What they were locked with.
        first: The first offset.
        last: The last offset. Each offset between has a record. Writer: the reader.
        delivery_count: How often they have been delivered, with this time.
        accepted: The first offset that is not accepted because the application went on. Writer: the
            reader.
        settled: The first offset that other threads may acknowledge. Writer: the reader, before it
            stores `accepted`.
        done: How the application has acknowledged offsets itself, as tokens. Writers: any thread,
            each for its offsets.
        taken: How many of them the network thread has taken. Writer: the network thread.
        handed: The first offset, and the time, of what the application was given in the same
            millisecond. Writer: the reader.
        forgotten: Whether its locks ended before all was acknowledged. Writer: the network thread.
        sure_until_ms: When their locks may end at the earliest. Writer: the network thread.
        ends_ms: When they have certainly ended. Writer: the network thread.
        renewed: The same two times of an offset that was renewed alone, or locked again since.
            Writer: the network thread.
    """

    __slots__ = (
        "accepted",
        "delivery_count",
        "done",
        "ends_ms",
        "first",
        "forgotten",
        "handed",
        "last",
        "partition",
        "renewed",
        "settled",
        "sure_until_ms",
        "taken",
    )

    def __init__(
        self, partition: LockedPartition, first: int, last: int, delivery_count: int
    ) -> None:
        self.partition = partition
        self.first = self.accepted = self.settled = first
        self.last = last
        self.delivery_count = delivery_count
        self.done: dict[int, int] = {}
        self.taken = 0
        self.handed: list[tuple[int, int]] = []
        self.forgotten = False
        self.sure_until_ms = partition.requested_ms + partition.lock_ms
        self.ends_ms = partition.received_ms + partition.lock_ms
        self.renewed: dict[int, tuple[int, int]] = {}

    @property
    def given(self) -> int:
        """The first offset that the application has not been given."""
        return min(max(self.partition.given, self.first), self.last + 1)

    @property
    def is_finished(self) -> bool:
        """Whether each record has an acknowledgement."""
        return self.accepted > self.last or len(self.done) > self.last - self.first

    def take_done(self) -> Iterator[Acknowledgement]:
        """Yield what was acknowledged since the last call, in that order."""
        made = _values_from(self.done, self.taken)
        self.taken += len(made)
        if not made:
            return
        begin = end = made[0]
        for token in made[1:]:
            if token != end + _NEXT_OFFSET:
                yield self._acknowledgement(begin, end)
                begin = token
            end = token
        yield self._acknowledgement(begin, end)

    def _acknowledgement(self, begin: int, end: int) -> Acknowledgement:
        (first, how), (last, _) = divmod(begin, _NEXT_OFFSET), divmod(end, _NEXT_OFFSET)
        how = AcknowledgeType(how)
        return Acknowledgement(self.partition, first - _FIRST, last - _FIRST, how, self)

    @property
    def handed_ms(self) -> int:
        """When the application was given the first of them."""
        return self.handed[0][1] if self.handed else 0

    def given_ms(self, offset: int) -> int:
        """Return when the application was given a record."""
        at = bisect_right(self.handed, offset, key=itemgetter(0))
        return self.handed[max(0, at - 1)][1]

    def is_open(self, offset: int) -> bool:
        """Tell whether a record can be acknowledged, unless its time is over."""
        taken = offset < self.settled or offset in self.done
        return not (taken or self.forgotten or self.partition.lost)

    def lock_times(self, offset: int) -> tuple[int, int]:
        """Return when the lock of a record may end, and when it has certainly ended."""
        if self.partition.lost:
            return _ENDED
        of_run, alone = (self.sure_until_ms, self.ends_ms), self.renewed.get(offset)
        return of_run if alone is None else alone if alone is _ENDED else max(of_run, alone)

    def end_locks(self, first: int, last: int) -> None:
        """Note that records are locked again, so these locks have ended.

        Invariant: nothing is acknowledged by the old lock. The broker would take it for the new
        one, whose record the application has not been given, and is given afterwards.
        """
        for offset in range(max(first, self.first), min(last, self.last) + 1):
            if offset >= self.partition.stop:  # released meanwhile
                return
            if offset >= self.given:  # nobody has released it: its leader has forgotten all locks
                self.partition.lost = True
                return
            if offset not in self.done:
                self.renewed[offset] = _ENDED

    def is_over(self, now_ms: int) -> bool:
        """Tell whether all locks have certainly ended."""
        if now_ms < self.ends_ms:
            return self.partition.lost
        renewed = tuple(self.renewed.values())
        return self.partition.lost or all(now_ms >= ends_ms for _, ends_ms in renewed)

    def open_ranges(self, first: int, stop: int) -> list[tuple[int, int]]:
        """Return the ranges between two offsets that the application has not acknowledged."""
        found: list[tuple[int, int]] = []
        for offset in (*sorted(tuple(self.done)), stop):  # noqa: C414 - it may grow meanwhile
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
    run: Run | None

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1

    @property
    def run_is_over(self) -> bool:
        """Whether the records were forgotten because their locks had ended."""
        return self.run is not None and self.run.forgotten

    def is_sure(self, now_ms: int) -> bool:
        """Tell whether the records are certainly still locked."""
        run = self.run
        if run is None:
            return self.partition.is_locked(now_ms)
        ends_ms = run.sure_until_ms
        if run.renewed:
            offsets = range(self.first, self.last + 1)
            ends_ms = min(run.lock_times(offset)[0] for offset in offsets)
        return not self.partition.lost and now_ms < ends_ms


class LockedRecords:
    """The records and acknowledgements between the two threads."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._pid = PROCESS.pid
        self._waiting: deque[LockedPartition] = deque()
        #: What the application has not claimed as a whole. Writer: the network thread.
        self._ahead: list[LockedPartition] = []
        self._acknowledged: deque[Acknowledgement] = deque()
        #: What the application works on.
        self._handed: dict[Run, None] = {}
        self._noticed = False
        #: Tells the network thread of acknowledgements. Writer: the consumer, before it starts.
        self.notice: Callable[[], None] = lambda: None
        #: For how long the lock of a record is renewed while the application works on it, in ms; 0
        #: for not at all. Writer: the application thread.
        self.renew_ms: float = 0
        #: The partitions of the member. Writer: the network thread.
        self.assigned: tuple[TopicPartition, ...] = ()
        #: How many partitions were ever added. Writer: the network thread.
        self.added = 0
        #: How many records the application handles in a millisecond, None before the first.
        #: Writer: the application thread.
        self.pace: float | None = None
        #: Whether the application has released everything, and has not asked for records since.
        #: Writer: the reader.
        self.resting = False
        #: When the application found nothing, None if it got a record since. Writer: the reader.
        self._asked_ms: int | None = None

    # --- network thread --------------------------------------------------------------------------

    def add(self, partition: LockedPartition) -> None:
        """Append what a response has locked."""
        self._ahead.append(partition)
        self._waiting.append(partition)
        self.added += 1

    def waiting(self) -> int:
        """Return how many locked offsets wait for the application; any thread may call this."""
        return sum(each.ahead for each in self._ahead if not each.lost)

    def in_work(self) -> int:
        """Return how many records the application has; any thread may call this."""
        return sum(
            last - first + 1
            for run in self.handed()
            for first, last in run.open_ranges(run.accepted, run.given)
        )

    def ahead(self) -> list[LockedPartition]:
        """Return what the application can still claim, wherever it waits."""
        for each in self._ahead:
            if each.lost:
                self._discard(each)
        self._ahead = [each for each in self._ahead if not each.lost and each.given < each.stop]
        return self._ahead

    def _discard(self, partition: LockedPartition) -> None:
        with suppress(ValueError):  # the application has taken it
            self._waiting.remove(partition)

    def withdraw(self, partition: LockedPartition) -> list[tuple[int, int]]:
        """Withdraw what the application has not claimed, and return its ranges."""
        self._discard(partition)
        return partition.withdraw()

    def take_acknowledgements(self) -> list[Acknowledgement]:
        """Remove and return the acknowledgements that were made."""
        # Invariant: first, so that one that is made meanwhile is noticed again.
        self._noticed = False
        found = []
        while self._acknowledged:  # first: renewals come before the end of a lock
            found.append(self._acknowledged.popleft())
        for run in self.handed():
            # Invariant: read first. What finishes the run after this is taken by another call.
            finished = run.is_finished
            found += run.take_done()
            if finished:
                self._handed.pop(run, None)
        return found

    def expect_no_notice(self) -> None:
        """Let the application make acknowledgements without a notice until they are next taken."""
        self._noticed = True

    def handed(self) -> tuple[Run, ...]:
        """Return what the application works on."""
        while True:
            try:
                return tuple(self._handed)
            except RuntimeError:  # another thread has changed it meanwhile
                continue

    def renewed_until_ms(self) -> int:
        """Return until when locks of what the application works on are renewed; 0 for not at all.

        It is in the past if it works on nothing, or for too long.
        """
        renew_ms = int(self.renew_ms)
        return renew_ms and max((run.handed_ms + renew_ms for run in self.handed()), default=0)

    def forget_ended(self, now_ms: int) -> list[Run]:
        """Forget, and return, what the application works on without a lock."""
        found = []
        for run in self.handed():
            if run.is_over(now_ms):
                run.forgotten = True
                self._handed.pop(run, None)
                # Invariant: after the flag, which other threads look at after they acknowledge.
                self._acknowledged += run.take_done()
                found.append(run)
        return found

    # --- application ---------------------------------------------------------------------------

    def move_to(self, ready: deque[Any]) -> bool:
        """Move what was received first to the end of `ready`; return False if there is nothing."""
        try:
            _move(self._waiting, ready)
        except IndexError:
            return False
        return True

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    @property
    def asking(self) -> bool:
        """Whether the application waits for records, or has asked a short time ago without."""
        asked_ms = self._asked_ms
        return asked_ms is not None and self.clock.now_ms() - asked_ms <= ASKED_MS

    def ask(self) -> None:
        """Note that the application has found nothing; the network thread may have held back."""
        self.resting = False
        asking, self._asked_ms = self.asking, self.clock.now_ms()
        if not asking:
            self._notify()

    def rest(self) -> None:
        """Let the network thread release what waits, and acquire nothing until `ask`."""
        self._asked_ms, self.resting = None, True
        self._notify()

    def end_waiting(self) -> None:
        """Note that the application waits no longer."""
        self._asked_ms = None

    def hand_out(self, run: Run, stop: int, now_ms: int) -> bool:
        """Claim the records before an offset for the application; False if they are withdrawn."""
        self._asked_ms = None
        if run.handed and run.handed[-1][1] == now_ms:
            return run.partition.claim(stop)
        first = run.given
        if not run.partition.claim(stop):
            return False
        self._handed.setdefault(run)
        run.handed.append((first, now_ms))
        return True

    def acknowledge(self, run: Run, offset: int, how: AcknowledgeType) -> None:
        """Acknowledge a record that the application was given; any thread may call this.

        Raises:
            RecordLockLostError: The lock has ended.
            IllegalStateError: The record has been acknowledged before.
            ForkedConsumerError: This process is a fork, and cannot acknowledge it.
        """
        if self._pid != PROCESS.pid:
            raise ForkedConsumerError.between(self._pid, PROCESS.pid)
        now_ms = self.clock.now_ms()
        if now_ms >= run.sure_until_ms or run.renewed or run.partition.lost:
            _check_lock(run, offset, now_ms)
        if how is _RENEW:
            is_first = offset >= run.settled and offset not in run.done
            if is_first:
                self._acknowledged.append(Acknowledgement(run.partition, offset, offset, how, run))
        else:
            token = (offset + _FIRST) * _NEXT_OFFSET + how
            # Invariant: the reader does not come between the comparison and the call. Of several
            # threads, one stores its token, which is another object than those of the others.
            is_first = offset >= run.settled and run.done.setdefault(offset, token) is token
            if run.forgotten:
                raise _lock_lost(run, offset, now_ms)
        if not is_first:
            tp = run.partition.tp
            msg = (
                f"the record at offset {offset} of {tp.topic}-{tp.partition} has been acknowledged "
                "before"
            )
            raise IllegalStateError(msg)
        if not self._noticed:  # most programs come here for each record
            self._notify()

    def settle_up_to(
        self, run: Run, stop: int, how: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Acknowledge the records before an offset that the application has not acknowledged.

        The broker decides whether their locks have ended, and `commit()` tells.
        """
        run.settled = max(run.settled, stop)
        found = [
            Acknowledgement(run.partition, begin, end, how, run)
            for begin, end in run.open_ranges(run.accepted, stop)
        ]
        append = self._acknowledged.extend
        # Invariant: no interrupt comes between these two, so it can be called again after one.
        run.accepted = stop
        append(found)
        self._notify()

    def cut(self, run: Run, stop: int) -> None:
        """Note that the application is not given the records from an offset on."""
        run.last = stop - 1

    def give_back(self, ready: deque[Any]) -> None:
        """Take the acknowledgement at the beginning of `ready`, of what is not handed out.

        Those of withdrawn offsets are dropped: the network thread has released them.
        """
        each: Acknowledgement = ready[0]
        partition, now_ms = each.partition, self.clock.now_ms()
        claimed = each.last < partition.given
        claimed = claimed or (partition.is_usable(now_ms) and partition.claim(each.last + 1))
        if not claimed or not partition.is_locked(now_ms):
            ready.popleft()
            return
        _move(ready, self._acknowledged)
        self._notify()

    def _notify(self) -> None:
        if not self._noticed:
            self._noticed = True
            self.notice()


def _move(source: deque[T], target: deque[T]) -> None:
    """Move the first item to the end of another deque; an interrupt comes before or after.

    Raises:
        IndexError: There is none.
    """
    target.extend(islice(iter(source.popleft, None), 1))


def _values_from(made: dict[int, int], begin: int) -> list[int]:
    """Return the values of a dict from one on, while other threads add some."""
    while True:
        count = len(made)
        # From the end: there may be many that were taken before.
        with suppress(RuntimeError):  # one was added meanwhile
            found = list(islice(reversed(made.values()), count - begin))
            if len(made) == count:
                return found[::-1]


def _check_lock(run: Run, offset: int, now_ms: int) -> None:
    """Raise an error if the lock of a record has ended."""
    if now_ms >= run.lock_times(offset)[0] or run.partition.lost:
        raise _lock_lost(run, offset, now_ms)


def _lock_lost(run: Run, offset: int, now_ms: int) -> RecordLockLostError:
    """Return the error for a record whose lock has ended."""
    tp = run.partition.tp
    why = (
        "the connection to the broker was lost, or the leader has moved"
        if run.partition.lost
        else f"it lasted {run.partition.lock_ms} ms, and was handed out {now_ms - run.handed_ms} "
        "ms ago; call renew() before it ends, or raise share.record.lock.duration.ms of the group"
    )
    return RecordLockLostError(
        f"the lock of the record at offset {offset} of {tp.topic}-{tp.partition} has ended, "
        f"so it is delivered again: {why}"
    )
