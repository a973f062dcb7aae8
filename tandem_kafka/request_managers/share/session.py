"""The share session with one broker: its partitions, and the acknowledgements for it.

The broker keeps a session for each member and connection, and numbers its requests. Each request
has only what changes: partitions to add or to forget, and acknowledgements. The first request of a
session can have no acknowledgements, as nothing is locked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final
from uuid import UUID

from tandem_kafka.dataclass import dataclass, field
from tandem_kafka.request_managers.base import RequestState
from tandem_kafka.state.locks import (
    Acknowledgement,
    AcknowledgeType,
    LockedPartition,
    LockedRange,
    LockedRun,
    Place,
    overlapping,
)
from tandem_kafka.types import Node, TopicPartition
from tandem_kafka.wire.messages import ShareAcknowledgeRequest, ShareFetchRequest

#: Version 0 was an early access, with other fields.
FIRST_VERSION: Final = 1
#: The first version with renewals (KIP-1222) and a strict limit of records (KIP-1206).
FIRST_VERSION_WITH_RENEWAL: Final = 2
#: A range of so many offsets stands alone: that has as many bytes as a type for some of them.
_LONG: Final = 100
#: An error so long ago is over, even if there is nothing to read.
_UNCERTAIN_MS: Final = 2_000
OPENING_EPOCH: Final = 0
CLOSING_EPOCH: Final = -1
_LAST_EPOCH: Final = 2**31 - 1

#: First offset, last offset, and what became of the records.
Range = tuple[int, int, AcknowledgeType]


def batches_of(ranges: Iterable[Range]) -> list[tuple[int, int, list[int]]]:
    """Return ranges as the protocol has them: in a row, with one type for all or one for each."""
    rows: list[list[Range]] = []
    for each in sorted(ranges):
        before = rows[-1][-1] if rows else None
        if before and before[1] == each[0] - 1 and not (_is_long(before) or _is_long(each)):
            rows[-1].append(each)
        else:
            rows.append([each])
    return [(row[0][0], row[-1][1], _types_of(row)) for row in rows]


def _is_long(each: Range) -> bool:
    """Tell whether a range is not to be sent as one type for each offset.

    Invariant: a broker can lock any range, and would have a list of its length made of it.
    """
    return each[1] - each[0] >= _LONG


def _types_of(row: Sequence[Range]) -> list[int]:
    types = {how for _, _, how in row}
    if len(types) == 1:
        return [int(how) for how in types]
    return [int(how) for first, last, how in row for _ in range(first, last + 1)]


@dataclass()
class Acknowledged:
    """The acknowledgements of one partition.

    Attributes:
        tp: The partition.
        made: What became of which offsets.
        asked: The renewals that the application has asked for.
        whole: The runs that are renewed, and the offsets that the application had been given.
        kept: What waits for the application, and is renewed.
    """

    tp: TopicPartition
    made: list[Acknowledgement] = field(default_factory=list)
    asked: list[Acknowledgement] = field(default_factory=list)
    whole: dict[LockedRun, tuple[int, int]] = field(default_factory=dict)
    kept: list[LockedPartition] = field(default_factory=list)

    @property
    def of_application(self) -> bool:
        """Whether the application was given one of the records."""
        return any(each.run is not None for each in self.made)

    @property
    def ranges(self) -> list[Range]:
        """What became of which offsets, as ranges."""
        return [(each.first, each.last, each.how) for each in self.made]

    def renewals(self) -> list[Range]:
        """Return the ranges to renew: without records that are acknowledged or locked again by now.

        Invariant: first what waits. What the application claims meanwhile is renewed as well.
        """
        rows = [
            row
            for each in self.kept
            if not each.lost
            for row in each.ranges_between(each.given, each.stop)
        ]
        self.whole = {run: (run.accepted, run.given - 1) for run in self.whole}
        wanted = [(run, *offsets) for run, offsets in self.whole.items()]
        wanted += [(each.run, each.first, each.last) for each in self.asked if each.run is not None]
        for run, first, last in wanted:
            if not run.forgotten:
                rows += run.renewable_ranges(max(first, run.accepted), last + 1)
        found, end = list[Range](), -1
        for first, last in sorted(rows):  # a broker refuses ranges that overlap
            if last > end:
                found.append((max(first, end + 1), last, AcknowledgeType.RENEW))
                end = last
        return found


@dataclass()
class Batch:
    """Acknowledgements that are sent together.

    Attributes:
        number: The number of commits before the first of them.
        by_partition: Each partition's.
    """

    number: int = 0
    by_partition: dict[Place, Acknowledged] = field(default_factory=dict)

    def of(self, partition: LockedPartition, number: int) -> Acknowledged:
        """Return those of a partition."""
        if not self.by_partition:
            self.number = number
        return self.by_partition.setdefault(partition.place, Acknowledged(partition.tp))


class ShareSession:
    """One broker's session.

    Attributes:
        node: The broker.
        state: Whether a request is in flight, and the backoff after a failure.
        epoch: The number of the next request.
        locked: What was received in this session and may be locked.
        waiting: Acknowledgements for the next request.
        renewals: Locks to renew with a request of its own.
        sent: Acknowledgements in flight.
        partitions: What the broker's session has. Each fetch tells what is to be changed.
        refused: Partitions that the broker refuses: how often in a row, and when to ask again.
        failed: The last error of a fetch or of a partition, and when; None if it has ended.
        acknowledged_ms: When the last request with nothing but acknowledgements was made.
        empty: The number of responses without records since the last with some.
        empty_until_ms: When to fetch again after a response without records that came at once.
    """

    def __init__(self, node: Node, state: RequestState) -> None:
        self.node = node
        self.state = state
        self.epoch = OPENING_EPOCH
        self.locked: list[LockedPartition] = []
        self.waiting, self.renewals = Batch(), Batch()
        self.sent = Batch()
        self.refused: dict[Place, tuple[int, int]] = {}
        self.failed: tuple[Exception, int] | None = None
        self.empty = self.empty_until_ms = self.acknowledged_ms = 0
        self.partitions: frozenset[Place] = frozenset()
        #: Whether the last request was a fetch.
        self._fetches = False

    @property
    def is_open(self) -> bool:
        """Whether the broker knows the session."""
        return self.epoch != OPENING_EPOCH

    @property
    def fetching(self) -> bool:
        """Whether a fetch is in flight."""
        return self.state.in_flight and self._fetches

    @property
    def oldest(self) -> int | None:
        """The number of the oldest acknowledgement without a response, None without any."""
        numbers = [each.number for each in (self.waiting, self.sent) if each.by_partition]
        if any(each.asked for each in self.renewals.by_partition.values()):
            numbers.append(self.renewals.number)
        return min(numbers, default=None)

    def acknowledge(self, each: Acknowledgement, number: int) -> None:
        """Add an acknowledgement for the next request."""
        if each.how is AcknowledgeType.RENEW and each.run is not None:
            self.renewals.of(each.partition, number).asked.append(each)
            return
        found = self.waiting.of(each.partition, number)
        found.made.append(each)
        each.partition.unacknowledged -= each.last - each.first + 1

    def renew(self, run: LockedRun, number: int) -> None:
        """Renew the locks of all records of a run that the application works on."""
        self.renewals.of(run.partition, number).whole[run] = run.accepted, run.given - 1

    def keep(self, partition: LockedPartition, number: int) -> None:
        """Renew the locks of what waits for the application."""
        self.renewals.of(partition, number).kept.append(partition)

    def drop_ended(self, now_ms: int) -> list[Acknowledgement]:
        """Drop acknowledgements and renewals whose locks may have ended while they waited.

        Invariant: none is sent. This member may have the same record with another lock, which it
        has not handled yet; a broker cannot tell the two apart.

        Returns:
            Those that were dropped.
        """
        found: list[Acknowledgement] = []
        for place, each in tuple(self.waiting.by_partition.items()):
            each.made = _without_ended(each.made, now_ms, found)
            if not each.made:
                del self.waiting.by_partition[place]
        for each in self.renewals.by_partition.values():
            each.asked = _without_ended(each.asked, now_ms, found)
        return found

    def drop_locked_again(
        self, place: Place, ranges: Sequence[LockedRange]
    ) -> list[Acknowledgement]:
        """Drop acknowledgements of what is locked again, as their locks have ended.

        Args:
            place: The partition.
            ranges: Its new locks, in order.

        Returns:
            Those that were dropped.
        """
        waiting, found = self.waiting.by_partition.get(place), list[Acknowledgement]()
        if waiting is None:
            return found
        left: list[Acknowledgement] = []
        for each in waiting.made:
            left.append(each)
            for first, last, _ in overlapping(ranges, each.first, each.last):
                found.append(each.within(first, last))
                left += left.pop().without(first, last)  # in order: behind the range before
        waiting.made = left
        return found

    @property
    def busy(self) -> bool:
        """Whether an acknowledgement is to be expected."""
        return any(each.unacknowledged > 0 for each in self.locked)

    # --- requests ------------------------------------------------------------------------------

    def ready(self, wanted: AbstractSet[Place], now_ms: int) -> tuple[AbstractSet[Place], int]:
        """Return which partitions to fetch now, and when the first of them may be fetched.

        Without those that were refused a short time ago: with one of them, the broker answers at
        once, and the others would be asked for as fast as the network allows.
        """
        self.refused = {place: each for place, each in self.refused.items() if place in wanted}
        due_ms = {place: retry_ms for place, (_, retry_ms) in self.refused.items()}
        ready = {place for place in wanted if due_ms.get(place, now_ms) <= now_ms}
        return ready, now_ms if ready else min(due_ms.values(), default=now_ms)

    def recovered(self, now_ms: int) -> list[Place]:
        """Forget, and return, what was refused before, and was not by the last response."""
        # A response has no partition without records.
        found = [
            place
            for place, (_, retry_ms) in self.refused.items()
            if place in self.partitions and retry_ms <= now_ms
        ]
        for place in found:
            del self.refused[place]
        return found

    def lasting_error(self, now_ms: int, *, got: bool) -> Exception | None:
        """Return the error that a response without errors does not end; None if it does.

        Args:
            now_ms: The time.
            got: Whether it has records.
        """
        if self.failed is None:
            return None
        error, at_ms = self.failed
        # Without a partition in its pause, responses have no error, and may have no records.
        if self.refused or (not got and now_ms - at_ms < _UNCERTAIN_MS):
            return error
        self.failed = None
        return None

    def fetch(
        self,
        identity: Mapping[str, str],
        wanted: AbstractSet[Place],
        limits: Mapping[str, int],
    ) -> ShareFetchRequest:
        """Return the next fetch, with the acknowledgements that wait."""
        batch = self._take_waiting().by_partition
        # Invariant: an acknowledgement adds its partition to the session, which would then bring
        # records of a partition that this member does not have.
        forgotten = (self.partitions | batch.keys()) - wanted
        named = dict.fromkeys(sorted(wanted - self.partitions), ()) | {
            place: each.ranges for place, each in batch.items()
        }
        self.partitions = frozenset(wanted)
        self._fetches = True
        entry = ShareFetchRequest.FetchTopic
        gone: dict[UUID, list[int]] = {}
        for topic_id, number in sorted(forgotten):
            gone.setdefault(topic_id, []).append(number)
        return ShareFetchRequest(
            **identity,
            **limits,
            share_session_epoch=self._next_epoch(),
            topics=_topics(entry, entry.FetchPartition, named),
            forgotten_topics_data=[
                ShareFetchRequest.ForgottenTopic(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in gone.items()
            ],
            min_version=FIRST_VERSION,
        )

    def acknowledgement(
        self, identity: Mapping[str, str], *, closing: bool = False
    ) -> ShareAcknowledgeRequest:
        """Return a request with the acknowledgements that wait; the last one ends the session."""
        batch = self._take_waiting().by_partition
        ranges = {place: each.ranges for place, each in batch.items()}
        return self._message(identity, ranges, closing=closing)

    def renewal(self, identity: Mapping[str, str]) -> ShareAcknowledgeRequest | None:
        """Return a request that renews locks, None if their records are acknowledged by now."""
        self.sent, self.renewals = self.renewals, Batch()
        ranges = {place: each.renewals() for place, each in self.sent.by_partition.items()}
        for place in [place for place, found in ranges.items() if not found]:
            del self.sent.by_partition[place], ranges[place]
        if not ranges:
            return None
        return self._message(identity, ranges, renews=True)

    def _message(
        self,
        identity: Mapping[str, str],
        ranges: Mapping[Place, Iterable[Range]],
        *,
        closing: bool = False,
        renews: bool = False,
    ) -> ShareAcknowledgeRequest:
        self._fetches = False
        entry = ShareAcknowledgeRequest.AcknowledgeTopic
        return ShareAcknowledgeRequest(
            **identity,
            share_session_epoch=CLOSING_EPOCH if closing else self._next_epoch(),
            is_renew_ack=renews,
            topics=_topics(entry, entry.AcknowledgePartition, ranges),
            min_version=FIRST_VERSION_WITH_RENEWAL if renews else FIRST_VERSION,
        )

    def _next_epoch(self) -> int:
        epoch = self.epoch
        self.epoch = 1 if epoch >= _LAST_EPOCH else epoch + 1
        return epoch

    def _take_waiting(self) -> Batch:
        self.sent, self.waiting = self.waiting, Batch()
        return self.sent

    def unsent(self) -> None:
        """Note that the last request could not be sent."""
        self.epoch -= 1

    def take_sent(self) -> dict[Place, Acknowledged]:
        """Return the acknowledgements in flight, which are answered or lost."""
        sent, self.sent = self.sent, Batch()
        return sent.by_partition

    # --- the end of locks ------------------------------------------------------------------------

    def end(self) -> list[Acknowledged]:
        """Note that the broker has ended the session and all its locks.

        Returns:
            What waits, and cannot succeed.
        """
        for each in self.locked:
            each.lose()
        self.locked = []
        self.partitions = frozenset()
        self.refused.clear()
        self.epoch = OPENING_EPOCH
        batches = self.waiting, self.renewals
        self.waiting, self.renewals = Batch(), Batch()
        return [each for batch in batches for each in batch.by_partition.values()]

    def lose(self, place: Place) -> list[Acknowledged]:
        """Note that this broker has no locks of a partition any more; return what waits for it.

        Invariant: the partition stays in the book until the broker is told to forget it.
        """
        for each in self.locked:
            if each.place == place:
                each.lose()
        self.locked = [each for each in self.locked if not each.lost]
        batches = self.waiting.by_partition, self.renewals.by_partition
        return [batch.pop(place) for batch in batches if place in batch]

    def forget_old_locks(self, now_ms: int) -> None:
        """Forget what has no locks any more: all is acknowledged, or the last renewal is over."""
        self.locked = [
            each
            for each in self.locked
            if not each.lost and each.unacknowledged > 0 and now_ms < each.ends_ms
        ]


def _without_ended(
    made: Iterable[Acknowledgement], now_ms: int, ended: list[Acknowledgement]
) -> list[Acknowledgement]:
    """Return what is certainly still locked; append the rest to `ended`."""
    found: list[Acknowledgement] = []
    for each in made:
        for part, is_sure in each.parts(now_ms):
            (found if is_sure else ended).append(part)
    return found


def _topics(topic: Any, partition: Any, ranges: Mapping[Place, Iterable[Range]]) -> list[Any]:
    """Return the acknowledgements of partitions as a request has them, in its own types."""
    found: dict[UUID, list[Any]] = {}
    for (topic_id, number), each in ranges.items():
        batches = [
            partition.AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=types
            )
            for first, last, types in batches_of(each)
        ]
        made = partition(partition_index=number, acknowledgement_batches=batches)
        found.setdefault(topic_id, []).append(made)
    return [topic(topic_id=topic_id, partitions=each) for topic_id, each in found.items()]
