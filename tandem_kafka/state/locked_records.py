"""Records of a share group that brokers have locked for this consumer (KIP-932).

A broker locks records when it sends them, and counts each delivery. Until the lock ends, only this
consumer gets the record, and must acknowledge it.

    network thread    LockedRecords.add ------------------> application: move_to, hand_out
    network thread    LockedRecords.take_acknowledgements <- any thread: acknowledge

The application claims records when it hands them out. The network thread withdraws the others if
they wait too long, wherever they wait, and releases them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, TypeVar

from tandem_kafka.errors import ForkedConsumerError, IllegalStateError, RecordLockLostError
from tandem_kafka.runtime import Clock
from tandem_kafka.runtime.clock import nanoseconds_of
from tandem_kafka.runtime.process import PROCESS
from tandem_kafka.state.deliveries import Deliveries, add_delivery
from tandem_kafka.state.locks import (
    FIRST_TOKEN,
    NEXT_OFFSET,
    Acknowledgement,
    AcknowledgeType,
    LockedPartition,
    LockedRange,
    LockedRun,
    count_of,
    overlapping,
)
from tandem_kafka.types import TopicPartition

T = TypeVar("T")

#: The lock's duration of Kafka's default.
DEFAULT_LOCK_MS: Final = 30_000
#: How long an application that found nothing and did not wait counts as waiting.
ASKED_MS: Final = 1_500

#: Acknowledgements are gathered for so long, before a request that has nothing else.
GATHERED_MS: Final = 5

#: Looking a member up takes as long as the rest of an acknowledgement.
_RENEW: Final = AcknowledgeType.RENEW


class LockedRecords:
    """The records and acknowledgements between the two threads."""

    #: Those that native code reads, and all others.
    __slots__ = ("__dict__", "_noticed", "_pid", "now_ns")

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        #: The time in nanoseconds.
        self.now_ns = nanoseconds_of(clock)
        self._pid = PROCESS.pid
        self._waiting: deque[LockedPartition] = deque()
        #: What the application has not claimed as a whole. Writer: the network thread.
        self._ahead: list[LockedPartition] = []
        self._acknowledged: deque[Acknowledgement] = deque()
        #: What the application works on.
        self._handed: dict[LockedRun, None] = {}
        #: What it has acknowledged, or worked on when the locks had ended, and may get again.
        self._deliveries = Deliveries()
        self._noticed = False
        #: When the network thread takes what is accepted, without a notice of it; None if it needs
        #: one. Writer: the network thread.
        self.gathered_ms: int | None = None
        #: Tells the network thread of acknowledgements. Writer: the consumer, before it starts.
        self.notice: Callable[[], None] = lambda: None
        #: For how long the lock of a record is renewed while the application works on it, in ms; 0
        #: for not at all. Writer: the application thread.
        self.renew_ms: float = 0
        #: The partitions of the member. Writer: the network thread.
        self.assigned: tuple[TopicPartition, ...] = ()
        #: How many partitions were ever added. Writer: the network thread.
        self.added = 0
        #: How fast the application is.
        self.pace = Pace()
        #: Whether the application has released everything, and has not asked for records since.
        #: Writer: the reader.
        self.resting = False
        #: How long a lock lasts, as the last response has told. Writer: the network thread.
        self.lock_ms = DEFAULT_LOCK_MS
        #: How many records the last call wanted. Writer: the reader.
        self.wanted = 1
        #: How often in a row it found only offsets without a record. Writer: the reader.
        self.holes = 0
        #: When that call began, and how long after the one before. Writer: the reader.
        self.called_ms = self._paused_ms = 0
        #: When the application found nothing, None if it got a record since. Writer: the reader.
        self._asked_ms: int | None = None
        #: Whether it waits since, or its calls come often enough. Writer: the reader.
        self.comes_soon = False
        #: When records were last released because it did not come for them. Writer: the network
        #: thread.
        self.unused_ms = -1

    # --- network thread --------------------------------------------------------------------------

    def add(self, partition: LockedPartition) -> None:
        """Append what a response has locked."""
        self._ahead.append(partition)
        self._waiting.append(partition)
        self.added += 1

    def add_again(self, partition: LockedPartition) -> None:
        """Put what was withdrawn before all that was locked later."""
        self._ahead.append(partition)
        later = sum(each.since_ms >= partition.since_ms for each in self._waiting.copy())
        # Counted from the end, as the reader may take from the beginning meanwhile.
        self._waiting.insert(-later if later else len(self._waiting), partition)
        self.added += 1

    def waiting(self) -> int:
        """Return how many locked offsets wait for the application; any thread may call this."""
        return sum(each.ahead for each in self._ahead if not each.lost)

    def in_work(self) -> int:
        """Return how many records the application has; any thread may call this."""
        return sum(count_of(run.in_work) for run in self.handed())

    def ahead(self) -> list[LockedPartition]:
        """Return what the application can still claim, wherever it waits."""
        for each in self._ahead:
            if each.lost:
                self.discard(each)
        self._ahead = [each for each in self._ahead if not each.lost and each.given < each.stop]
        return self._ahead

    def discard(self, partition: LockedPartition) -> None:
        """Forget what the application has not begun with."""
        with suppress(ValueError):  # the application has taken it
            self._waiting.remove(partition)

    def withdraw(self, partition: LockedPartition) -> list[tuple[int, int]]:
        """Withdraw what the application has not claimed, and return its ranges."""
        self.discard(partition)
        return partition.withdraw()

    def take_acknowledgements(self) -> list[Acknowledgement]:
        """Remove and return the acknowledgements that were made."""
        # Invariant: first, so that one that is made meanwhile is noticed again.
        self._noticed, self.gathered_ms = False, None
        found, accepts = [], False
        while self._acknowledged:  # first: renewals come before the end of a lock
            found.append(self._acknowledged.popleft())
        for run in self.handed():
            # Invariant: read first. What finishes the run after this is taken by another call.
            finished, before = run.is_finished, run.taken[1]
            made = [*run.take_done()]
            found += made
            for each in made:
                self._note(run, each.first, each.last)
            accepts |= run.taken[1] > before
            if finished:
                self._handed.pop(run, None)  # Invariant: behind the notes, see `earlier`
        if accepts:
            self.gathered_ms = self.clock.now_ms() + GATHERED_MS
        return found

    def expect_no_notice(self) -> None:
        """Let the application make acknowledgements without a notice until they are next taken."""
        self._noticed = True

    def handed(self) -> tuple[LockedRun, ...]:
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

    def forget_ended(self, now_ms: int) -> list[LockedRun]:
        """Forget, and return, what the application works on without a lock."""
        found = []
        for run in self.handed():
            if run.is_over(now_ms):
                run.forgotten = True
                run.partition.fed[1].stop()
                # Invariant: before it is removed, as in `earlier`, and behind that: the reader may
                # claim others between, and adds only a run that is not there.
                self._note(run, run.first, run.given - 1)
                self._handed.pop(run, None)
                self._note(run, run.first, run.given - 1)
                # Invariant: after the flag, which other threads look at after they acknowledge.
                self._acknowledged += run.take_done()
                found.append(run)
        return found

    def _note(self, run: LockedRun, first: int, last: int) -> None:
        if first <= last:
            self._deliveries.add(run.partition.tp, (first, last, run.delivery_count))

    def note_stored(self, made: Iterable[Acknowledgement]) -> None:
        """Note that a broker has stored acknowledgements; what is not released comes no more."""
        for each in made:
            if each.run is not None and each.how is not AcknowledgeType.RELEASE:
                self._deliveries.remove(each.partition.tp, each.first, each.last)

    # --- application ---------------------------------------------------------------------------

    def move_to(self, ready: deque[Any]) -> bool:
        """Move what was received first to the end of `ready`; return False if there is nothing."""
        try:
            _move(self._waiting, ready)
        except IndexError:
            return False
        return True

    def earlier(self, tp: TopicPartition, ranges: Sequence[LockedRange]) -> list[LockedRange]:
        """Return what the application was given before of a partition.

        Args:
            tp: The partition.
            ranges: Offsets that are locked again, in order. Of others, some may be left out.

        Returns:
            Ranges in order, and each offset once, with the highest delivery count.
        """
        handed = [run for run in self.handed() if run.partition.tp == tp]
        # Invariant: read last. The network thread moves what ends meanwhile.
        found = self._deliveries.of(tp)
        for run in handed:
            first, last = run.first, run.given - 1
            if first <= last and overlapping(ranges, first, last):
                add_delivery(found, (first, last, run.delivery_count))
        return found

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    @property
    def asked(self) -> int:
        """How many records the application waits for, or has asked for a short time ago."""
        asked_ms = self._asked_ms
        recent = asked_ms is not None and self.clock.now_ms() - asked_ms <= ASKED_MS
        return self.wanted if recent else 0

    @property
    def comes_too_late(self) -> bool:
        """Whether it did not come for what was acquired last, and may not come for others."""
        # Invariant: it gets others only if it comes in time now. Their deliveries would be used up.
        return not self.comes_soon and self.pace.given_ms <= self.unused_ms

    @property
    def advice(self) -> str:
        """What to do against that."""
        return (
            "this has counted as a delivery, so this consumer gets others only if poll() waits for "
            f"them (timeout_ms), or is called at least twice in {self.lock_ms // 2} ms"
        )

    def begin_call(self, now_ms: int) -> None:
        """Note that the application calls poll(), or asks for the next record."""
        self.called_ms, self._paused_ms = now_ms, now_ms - self.called_ms

    def ask(self, *, waits: bool) -> None:
        """Note that the application has found nothing; the network thread may have held back.

        Args:
            waits: Whether it waits for records, or does something else.
        """
        comes_soon = waits or self._comes_often
        self.resting = False
        is_known = self.asked and (self.comes_soon or not comes_soon)
        self.comes_soon = comes_soon
        self._asked_ms = self.clock.now_ms()
        if not is_known:
            self._notify()

    def rest(self) -> None:
        """Let the network thread release what waits, and acquire nothing until `ask`."""
        self._asked_ms, self.resting = None, True
        self._notify()

    def end_waiting(self) -> None:
        """Note that the application waits no longer; it may come again soon."""
        self.comes_soon = self._comes_often

    @property
    def _comes_often(self) -> bool:
        return self._paused_ms < self.lock_ms // 2

    def hand_out(self, run: LockedRun, stop: int, now_ms: int) -> bool:
        """Claim the records before an offset for the application; False if they are withdrawn."""
        self._asked_ms = None
        first = run.given
        # Invariant: before the claim and behind it. The network thread looks here for what was
        # claimed, and may have just forgotten the run.
        self._handed.setdefault(run)
        if not run.partition.claim(stop):
            return False
        self._handed.setdefault(run)
        if run.handed and run.handed[-1][1] == now_ms:
            return True
        run.handed.append((first, now_ms))
        if run.came_late:
            self._notify()  # the network thread renews it
        return True

    def acknowledge(self, run: LockedRun, offset: int, how: AcknowledgeType) -> None:
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
            is_first = offset >= run.accepted and offset not in run.done
            if is_first:
                self._acknowledged.append(Acknowledgement(run.partition, offset, offset, how, run))
        else:
            token = (offset + FIRST_TOKEN) * NEXT_OFFSET + how
            is_first = run.acknowledge(offset, token)
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

    def accept_up_to(self, run: LockedRun, stop: int) -> None:
        """Accept the records before an offset that the application has not acknowledged.

        The broker decides whether their locks have ended, and `commit()` tells.
        """
        if stop <= run.accepted:
            return
        # Invariant: one store, so it can be called again after an interrupt.
        begin, run.accepted = run.accepted, stop
        if run.forgotten:  # `forget_ended` may have taken them before
            how = AcknowledgeType.ACCEPT
            self._acknowledged.append(Acknowledgement(run.partition, begin, stop - 1, how, run))
        if self.gathered_ms is None:
            self._notify()

    def release_all(self) -> None:
        """Release what the application was given and has not acknowledged."""
        for run in self.handed():
            run.release()
        self._notify()

    def cut(self, run: LockedRun, stop: int) -> None:
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


def _check_lock(run: LockedRun, offset: int, now_ms: int) -> None:
    """Raise an error if the lock of a record has ended."""
    if now_ms >= run.lock_times(offset)[0] or run.partition.lost:
        raise _lock_lost(run, offset, now_ms)


def _lock_lost(run: LockedRun, offset: int, now_ms: int) -> RecordLockLostError:
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


#: An application that takes longer than this share of a lock between two calls is slow.
SHARE_OF_LOCK: Final = 4
#: For so many locks, an application counts as slow after it was.
CAREFUL_LOCKS: Final = 2
#: The pace is known after so many records, or so much time.
_KNOWN_RECORDS: Final = 8
_KNOWN_MS: Final = 20
#: What came before so many records, or so much time, counts half.
_RECENT_RECORDS: Final = 500
_RECENT_MS: Final = 10_000


class Pace:
    """What the reader measures between two calls. Writer: the reader.

    Attributes:
        per_ms: How many records the application handles in a millisecond, None before it is known.
        handled: How many records it has handled since it was last slow.
        given_ms: When it last got records.
        careful_until_ms: Until when nothing is to wait for it, as it was slow.
    """

    def __init__(self) -> None:
        self.per_ms: float | None = None
        self.handled = 0
        self.given_ms = 0
        self.careful_until_ms = 0
        self._records = self._busy_ms = 0.0

    def note(self, count: int, now_ms: int, lock_ms: int) -> None:
        """Note that the application is done with records, which it got at `given_ms`.

        Args:
            count: Their number.
            now_ms: The time.
            lock_ms: How long their locks last.
        """
        busy_ms = now_ms - self.given_ms
        self.handled += count
        if busy_ms * SHARE_OF_LOCK >= lock_ms:
            self.handled = 0
            self.careful_until_ms = now_ms + CAREFUL_LOCKS * lock_ms
        self._records += count
        self._busy_ms += busy_ms
        if self._records >= _KNOWN_RECORDS or self._busy_ms >= _KNOWN_MS:
            self.per_ms = self._records / max(1, self._busy_ms)
        if self._records >= _RECENT_RECORDS or self._busy_ms >= _RECENT_MS:
            self._records /= 2
            self._busy_ms /= 2
