"""A share partition: the records of one partition that a share group has in flight.

The members of the group acquire ranges of offsets and acknowledge them. Batches are kept as they
were acquired: they are offered again as a whole, even if that exceeds MaxRecords. A batch whose
records have different states is kept by offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from kafka import errors

from tandem_kafka_testing.coordinator.settings import GroupSettings
from tandem_kafka_testing.coordinator.step import Error
from tandem_kafka_testing.share.acquiring import Acquired, Acquiring, Acquisition, without
from tandem_kafka_testing.share.in_flight import Delivery, InFlightBatch, RecordState, Span
from tandem_kafka_testing.share.persisted import PersistedState

#: The types of acknowledgements.
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)

_STATES: Final = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}


class Acknowledgement(NamedTuple):
    """One type for all offsets of a range, or one for each."""

    first: int
    last: int
    types: Sequence[int]

    def of(self, offset: int) -> int:
        """Return the type for an offset."""
        return self.types[0] if len(self.types) == 1 else self.types[offset - self.first]


class SharePartition:
    """The records in flight.

    Args:
        saved: What earlier leaders wrote.
        reset_offset: Where to begin if they wrote nothing.
        settings: Returns the settings of the group.

    Attributes:
        start_offset: All records before it are acknowledged or archived.
    """

    def __init__(
        self, saved: PersistedState, reset_offset: int, settings: Callable[[], GroupSettings]
    ) -> None:
        self._saved = saved
        self._settings = settings
        begin = saved.start_offset
        self.start_offset = reset_offset if begin is None else begin
        self._batches = saved.batches(self.start_offset)
        #: The offset behind those in flight.
        self._next = self._batches[-1].last + 1 if self._batches else self.start_offset
        self._advance()

    @property
    def in_flight(self) -> int:
        """Number of offsets from the first one that is not done to the last acquired one."""
        return self._next - self.start_offset if self._batches else 0

    @property
    def fetch_offset(self) -> int:
        """The offset from which records can be acquired."""
        for batch in self._batches:
            for span, delivery in batch.parts():
                if delivery.available and span.last >= self.start_offset:
                    return max(span.first, self.start_offset)
        return self._next

    @property
    def can_acquire(self) -> bool:
        """True if there may be records to acquire: released ones, or room for new ones."""
        most = self._settings().share_max_record_locks
        return self.fetch_offset != self._next or self.in_flight < most

    @property
    def lock_ends_ms(self) -> int | None:
        """When the next record is released; None without acquired records."""
        return min((delivery.lock_ends_ms for _, delivery in self._acquired()), default=None)

    # --- acquiring -----------------------------------------------------------------------------

    def acquire(
        self,
        request: Acquisition,
        fetch_offset: int,
        log_batches: Sequence[Span],
        now_ms: int,
        aborted: Sequence[Span] = (),
    ) -> list[Acquired]:
        """Acquire records for a member; returns their ranges.

        Args:
            request: The limits.
            fetch_offset: The offset from which the log was read.
            log_batches: The batches that were read.
            now_ms: The time.
            aborted: The batches among them that belong to aborted transactions. They are archived.
        """
        if request.max_records <= 0 or not log_batches:
            return []
        last, most = self._room(fetch_offset, request.max_records, log_batches[-1].last)
        if log_batches[-1].last < self.start_offset or most <= 0:
            return []
        self._archive(fetch_offset, log_batches[0].first - 1, RecordState.AVAILABLE)
        settings = self._settings()
        lock_ends_ms = now_ms + settings.share_record_lock_duration_ms
        most_deliveries = settings.share_delivery_count_limit
        acquiring = Acquiring(request, log_batches, last, lock_ends_ms, most_deliveries)
        acquired = self._acquire(acquiring, most)
        for span in aborted:
            self._archive(*span, RecordState.ACQUIRED)
        return without(acquired, aborted)

    def _room(self, fetch_offset: int, max_records: int, last: int) -> tuple[int, int]:
        """Return the last offset to acquire and the number of records.

        If too many are in flight, only released ones can be acquired.
        """
        room = self._settings().share_max_record_locks - self.in_flight
        if room > 0:
            return last, min(max_records, room)
        behind = self._next - fetch_offset
        return min(last, self._next - 1), min(max_records, max(0, behind))

    def _acquire(self, acquiring: Acquiring, most: int) -> list[Acquired]:
        base = log_first = acquiring.log_batches[0].first
        floor = self._floor(base)
        if floor is None:
            base = max(base, self.start_offset)
        elif floor.last >= base:
            base = floor.first
        begin, last = min(log_first, base), acquiring.last
        known = [batch for batch in self._batches if begin <= batch.first <= last]
        if not known:
            return self._acquire_new(acquiring, base, most)
        found, more = acquiring.again(known, most)
        if more and known[-1].last < last:
            count = sum(each.last - each.first + 1 for each in found)
            found += self._acquire_new(acquiring, known[-1].last + 1, most - count)
        return found

    def _acquire_new(self, acquiring: Acquiring, first: int, most: int) -> list[Acquired]:
        if not self._batches:
            first = max(first, self._next)
        if first > acquiring.last:
            return []
        if not self._batches or first < self._batches[0].first:
            self.start_offset = first
        batches, found = acquiring.new(first, acquiring.last, most)
        if batches[0].first < self.start_offset:
            batches[0].split()  # what is deleted is not offered again
        self._batches = sorted([*self._batches, *batches], key=lambda batch: batch.first)
        self._next = max(self._next, batches[-1].last + 1)
        return found

    # --- ending acquisitions -------------------------------------------------------------------

    def acknowledge(self, member_id: str, batches: Iterable[Acknowledgement], now_ms: int) -> Error:
        """Acknowledge records; with an error, none of them. They stay acquired until `finish`.

        Returns:
            InvalidRecordStateError if the member has not acquired a record, InvalidRequestError if
            a range ends behind the acquired ones, None if all were acknowledged.
        """
        ended: list[Delivery] = []
        for batch in batches:
            if batch.last < self.start_offset:
                continue
            error = self._acknowledge(member_id, batch, now_ms, ended)
            if error is not None:
                for delivery in ended:
                    delivery.ending = None
                return error
        return None

    def _acknowledge(
        self, member_id: str, wanted: Acknowledgement, now_ms: int, ended: list[Delivery]
    ) -> Error:
        known, error = self._known(wanted)
        for batch in known:
            if batch.each is None and not _owns(batch.whole, member_id):
                return errors.InvalidRecordStateError
            moved = batch.first < self.start_offset
            if moved or len(wanted.types) > 1 or not batch.within(wanted.first, wanted.last):
                batch.split()
            begin = max(wanted.first, self.start_offset)
            for span, delivery in batch.parts():
                if begin <= span.first <= wanted.last and error is None:
                    owned = _owns(delivery, member_id)
                    error = None if owned else errors.InvalidRecordStateError
                    if owned:
                        error = self._end(delivery, wanted.of(span.first), now_ms, ended)
        return error

    def _known(self, wanted: Acknowledgement) -> tuple[list[InFlightBatch], Error]:
        """Return the batches of a range that are not done, or an error if it is not in flight."""
        floor = self._floor(wanted.first) or self._floor(self.start_offset)
        if floor is None or floor.first > wanted.first >= self.start_offset:
            return [], errors.InvalidRecordStateError
        known = [b for b in self._batches if floor.first <= b.first <= wanted.last]
        if not known or known[-1].last < wanted.last:
            return [], errors.InvalidRequestError
        return [batch for batch in known if batch.last >= self.start_offset], None

    def _end(self, delivery: Delivery, kind: int, now_ms: int, ended: list[Delivery]) -> Error:
        """Begin to end an acquisition, or renew it."""
        settings = self._settings()
        if kind != RENEW:
            delivery.ending = _STATES[kind]
            ended.append(delivery)
            return None
        if not settings.share_renew_acknowledge_enable:
            return errors.InvalidRecordStateError
        delivery.lock_ends_ms = now_ms + settings.share_record_lock_duration_ms
        return None

    def finish(self) -> None:
        """Write what was acknowledged."""
        most = self._settings().share_delivery_count_limit
        ended = [part for part in self._acquired() if part[1].ending is not None]
        for _, delivery in ended:
            delivery.end(delivery.ending or RecordState.AVAILABLE, most)
        self._write(ended)

    def release(self, member_id: str) -> bool:
        """Release all records of a member; returns whether it had any."""
        return self._release(lambda delivery: delivery.member_id == member_id)

    def expire(self, now_ms: int) -> bool:
        """Release the first records whose lock has ended; returns whether there were any.

        Records that were acknowledged or renewed one by one have locks of their own. Those that
        end at the same time are released one after the other.
        """
        due = (d for _, d in self._acquired() if d.lock_ends_ms <= now_ms and d.ending is None)
        first = next(due, None)
        return first is not None and self._release(lambda delivery: delivery is first)

    def _release(self, chosen: Callable[[Delivery], bool]) -> bool:
        released = [(span, delivery) for span, delivery in self._acquired() if chosen(delivery)]
        most = self._settings().share_delivery_count_limit
        for span, delivery in released:
            gone = span.last < self.start_offset
            delivery.end(RecordState.ARCHIVED if gone else RecordState.AVAILABLE, most)
        self._write(released)
        return bool(released)

    def begin_at(self, log_start: int) -> None:
        """Archive what retention has deleted from the log."""
        if log_start <= self.start_offset:
            return
        self._archive(self.start_offset, log_start - 1, RecordState.AVAILABLE)
        for batch in self._batches:
            if batch.first < log_start <= batch.last:
                batch.split()
        self.start_offset = log_start
        self._next = max(self._next, log_start)

    # --- the batches in flight -----------------------------------------------------------------

    def _acquired(self) -> Iterable[tuple[Span, Delivery]]:
        return (part for batch in self._batches for part in batch.parts() if part[1].acquired)

    def _floor(self, offset: int) -> InFlightBatch | None:
        """Return the last batch that begins at or before an offset."""
        return next((b for b in reversed(self._batches) if b.first <= offset), None)

    def _archive(self, first: int, last: int, state: RecordState) -> None:
        """Archive the records in a range that have a state; not durable."""
        for batch in self._batches:
            if batch.last < first or batch.first > last:
                continue
            if batch.each is None and batch.whole.state is not state:
                continue
            if not batch.within(first, last):
                batch.split()
            for span, delivery in batch.parts():
                if first <= span.first <= last and delivery.state is state:
                    delivery.end(RecordState.ARCHIVED, 0)

    def _write(self, changed: Iterable[tuple[Span, Delivery]]) -> None:
        """Make the new states durable, then move the start offset."""
        changes = [(span, delivery.state, delivery.count) for span, delivery in changed]
        if changes:
            self._saved.write(self.start_offset, changes)
            self._advance()

    def _advance(self) -> None:
        """Move the start offset over acknowledged and archived records."""
        while self._batches:
            batch = self._batches[0]
            first = next((s.first for s, d in batch.parts() if not d.state.terminal), None)
            if first is not None:
                self.start_offset = max(self.start_offset, first)
                return
            del self._batches[0]
            behind = self._batches[0].first if self._batches else self._next
            self.start_offset = max(self.start_offset, behind)


def _owns(delivery: Delivery, member_id: str) -> bool:
    return delivery.acquired and delivery.member_id == member_id and delivery.ending is None
