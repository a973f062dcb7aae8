"""The anomalies of Jepsen's Kafka workload in a history, and some of ours.

Values are unique. Reads are those of consumers that see committed records only. Times are compared
within a consumer, and between consumers only for owners.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tests.histories.operations import (
    Assigned,
    Committed,
    Operation,
    Polled,
    Produced,
    Released,
    Sought,
)

#: Behind each partition that was not read.
_NOTHING: Final = -1


@dataclass(frozen=True, slots=True)
class Anomaly:
    """What is wrong, and the operations that prove it."""

    kind: str
    what: str
    proof: tuple[Operation, ...]

    def __str__(self) -> str:
        lines = "".join(f"\n    {operation}" for operation in self.proof)
        return f"{self.kind}: {self.what}{lines}"


class _History:
    """The operations, with the indexes that several checks need."""

    def __init__(self, operations: Sequence[Operation], transactions: int) -> None:
        self.operations = operations
        self._transactions = transactions
        self.produced = [each for each in operations if isinstance(each, Produced)]
        self.polled = [each for each in operations if isinstance(each, Polled)]
        #: The operations that show a value at an offset.
        self.seen: dict[tuple[int, int], dict[str, Operation]] = defaultdict(dict)
        self.places: dict[str, dict[tuple[int, int], Operation]] = defaultdict(dict)
        self.read_to: dict[int, int] = defaultdict(lambda: _NOTHING)
        self.read: set[tuple[int, str]] = set()
        self.sought_to: dict[int, int] = defaultdict(int)
        for sought in (each for each in operations if isinstance(each, Sought)):
            partition = sought.partition
            self.sought_to[partition] = max(self.sought_to[partition], sought.offset)
        self._unknown: dict[int, int] = defaultdict(int)
        self._written_to: dict[int, int] = defaultdict(int)
        for produced in self.produced:
            partition, offset = produced.partition, produced.offset
            self._unknown[partition] += offset is None
            at = _NOTHING if offset is None else offset
            self._written_to[partition] = max(self._written_to[partition], at)
            if offset is not None and produced.outcome == "acknowledged":
                self._show(partition, offset, produced.value, produced)
        for polled in self.polled:
            for partition, offset, value in polled.records:
                self._show(partition, offset, value, polled)
                self.read.add((partition, value))
                self.read_to[partition] = max(self.read_to[partition], offset)
        self._offsets: dict[int, list[int]] = defaultdict(list)
        for partition, offset in sorted(self.seen):
            self._offsets[partition].append(offset)

    def _show(self, partition: int, offset: int, value: str, by: Operation) -> None:
        self.seen[partition, offset].setdefault(value, by)
        self.places[value].setdefault((partition, offset), by)

    def between(self, partition: int, first: int, behind: int) -> list[int]:
        """Return the offsets in a range that have a record."""
        offsets = self._offsets[partition]
        return offsets[bisect_left(offsets, first) : bisect_left(offsets, behind)]

    def end(self, partition: int) -> int:
        """Return an offset that no commit can pass: behind the last record and the markers.

        Each value that is not known to be stored may have been, and may have ended a transaction.
        """
        last = max([self._written_to[partition], *self._offsets[partition][-1:]])
        return last + 1 + self._transactions + 2 * self._unknown[partition]

    def missed(self) -> Iterator[Produced]:
        """Return the acknowledged records that nobody has read and no seek has skipped."""
        for each in self.produced:
            skipped = each.offset is not None and each.offset < self.sought_to[each.partition]
            unread = (each.partition, each.value) not in self.read
            if each.outcome == "acknowledged" and unread and not skipped:
                yield each


# --- the log -------------------------------------------------------------------------------------


def lost_writes(history: _History) -> Iterator[Anomaly]:
    """An acknowledged record was never read, although one behind it was; seeks may skip it."""
    for each in history.missed():
        if each.offset is not None and each.offset < history.read_to[each.partition]:
            what = f"{each.value} at {each.partition}/{each.offset} was never read"
            yield Anomaly("lost write", what, (each,))


def unseen(history: _History) -> Iterator[Anomaly]:
    """An acknowledged record at the end of a partition was never read; seeks may skip it."""
    for each in history.missed():
        if each.offset is None or each.offset > history.read_to[each.partition]:
            yield Anomaly("unseen", f"{each.value} was never read", (each,))


def duplicates(history: _History) -> Iterator[Anomaly]:
    """A value has two places."""
    for value, places in history.places.items():
        if len(places) > 1:
            where = ", ".join(f"{partition}/{offset}" for partition, offset in sorted(places))
            yield Anomaly("duplicate", f"{value} is at {where}", tuple(places.values()))


def inconsistent_offsets(history: _History) -> Iterator[Anomaly]:
    """A place has two values."""
    for (partition, offset), values in history.seen.items():
        if len(values) > 1:
            what = f"{partition}/{offset} has {', '.join(sorted(values))}"
            yield Anomaly("inconsistent offsets", what, tuple(values.values()))


def phantom_reads(history: _History) -> Iterator[Anomaly]:
    """A value was read that nobody has produced; only for histories with producers."""
    produced = {each.value for each in history.produced}
    for polled in history.polled if produced else ():
        for partition, offset, value in polled.records:
            if value not in produced:
                yield Anomaly("phantom read", f"{value} at {partition}/{offset}", (polled,))


def aborted_reads(history: _History) -> Iterator[Anomaly]:
    """A record of an aborted transaction was read (G1a)."""
    aborted = {each.value: each for each in history.produced if each.outcome == "aborted"}
    for polled in history.polled:
        for _, _, value in polled.records:
            if value in aborted:
                what = f"{value} was read and aborted"
                yield Anomaly("aborted read", what, (aborted[value], polled))


# --- the order of reads --------------------------------------------------------------------------


def internal_order(history: _History) -> Iterator[Anomaly]:
    """Within one call, records are missing or not in order."""
    for polled in history.polled:
        last: dict[int, int] = {}
        for partition, offset, _ in polled.records:
            before = last.get(partition)
            last[partition] = offset
            if before is not None:
                yield from _order("internal ", history, partition, before, offset, (polled,))


def order_between_polls(history: _History) -> Iterator[Anomaly]:
    """Between two calls of a consumer, records are missing or not in order.

    An assignment begins anew, a seek before its offset.
    """
    last: dict[tuple[str, int], tuple[int, Polled | Sought]] = {}
    for each in history.operations:
        if isinstance(each, Assigned | Released):
            for partition in each.partitions:
                last.pop((each.consumer, partition), None)
        elif isinstance(each, Sought):
            last[each.consumer, each.partition] = each.offset - 1, each
        elif isinstance(each, Polled):
            newest: dict[int, int] = {}
            for partition, offset, _ in each.records:
                before = last.get((each.consumer, partition))
                if before is not None and partition not in newest:
                    proof = (before[1], each)
                    yield from _order("", history, partition, before[0], offset, proof)
                newest[partition] = offset
            last.update({(each.consumer, p): (offset, each) for p, offset in newest.items()})


def _order(
    where: str,
    history: _History,
    partition: int,
    before: int,
    offset: int,
    proof: tuple[Operation, ...],
) -> Iterator[Anomaly]:
    if offset <= before:
        what = f"{partition}/{offset} after {partition}/{before}"
        yield Anomaly(f"{where}nonmonotonic poll", what, proof)
    elif missing := history.between(partition, before + 1, offset):
        what = f"{partition}/{missing[0]} is missing between {before} and {offset}"
        yield Anomaly(f"{where}poll skip", what, proof)


# --- groups --------------------------------------------------------------------------------------


def reads_without_ownership(history: _History) -> Iterator[Anomaly]:
    """A consumer was given records of a partition that it certainly did not own.

    Only for consumers that are given partitions. After an uncertain release, a worker may still
    begin with a record.
    """
    owned: dict[str, set[int]] = {}
    released: dict[tuple[str, int], Operation] = {}
    for each in history.operations:
        if isinstance(each, Assigned):
            owned.setdefault(each.consumer, set()).update(each.partitions)
        elif isinstance(each, Released) and each.certain:
            owned.get(each.consumer, set()).difference_update(each.partitions)
            released.update({(each.consumer, partition): each for partition in each.partitions})
        elif isinstance(each, Polled) and each.consumer in owned:
            read = {partition for partition, _, _ in each.records}
            for partition in sorted(read - owned[each.consumer]):
                before = released.get((each.consumer, partition))
                proof = (each,) if before is None else (before, each)
                what = f"{each.consumer}: partition {partition}"
                yield Anomaly("read without ownership", what, proof)


def commits_ahead(history: _History) -> Iterator[Anomaly]:
    """A consumer has committed more than any call had handed out to anybody, or a seek named."""
    handed_out: dict[int, int] = defaultdict(int)
    for each in history.operations:
        if isinstance(each, Polled):
            for partition, offset, _ in each.records:
                handed_out[partition] = max(handed_out[partition], offset + 1)
        elif isinstance(each, Sought):
            handed_out[each.partition] = max(handed_out[each.partition], each.offset)
        elif isinstance(each, Committed):
            for partition, offset in each.offsets:
                # Markers of transactions are behind the last record.
                ahead = history.between(partition, handed_out[partition], offset)
                if ahead or offset > history.end(partition):
                    what = f"{partition}/{offset} is committed, {handed_out[partition]} handed out"
                    yield Anomaly("commit ahead", what, (each,))


def unpaired_calls(history: _History) -> Iterator[Anomaly]:
    """A consumer is given a partition that it owns, or gives up one that it does not own."""
    owned: dict[tuple[str, int], Operation] = {}
    for each in history.operations:
        if not isinstance(each, Assigned | Released):
            continue
        for partition in each.partitions:
            before = owned.pop((each.consumer, partition), None)
            if isinstance(each, Assigned):
                owned[each.consumer, partition] = each
            if isinstance(each, Assigned) != (before is None):
                what = f"{each.consumer}: partition {partition}"
                proof = (each,) if before is None else (before, each)
                yield Anomaly("unpaired calls", what, proof)


def two_owners(history: _History) -> Iterator[Anomaly]:
    """Two consumers certainly owned a partition at the same time."""
    for partition, tenures in _tenures(history).items():
        for (first, released), (second, last) in pairwise(tenures):
            if second.at < released.at and first.consumer != second.consumer:
                what = f"partition {partition} has two owners"
                yield Anomaly("two owners", what, (first, released, second, last))


def _tenures(history: _History) -> dict[int, list[tuple[Assigned, Released]]]:
    """Return the certain tenures of each partition, in the order of their beginnings."""
    begun: dict[tuple[str, int], Assigned] = {}
    tenures: dict[int, list[tuple[Assigned, Released]]] = defaultdict(list)
    last: dict[str, float] = {}
    for each in history.operations:
        if isinstance(each, Assigned):
            begun.update({(each.consumer, partition): each for partition in each.partitions})
        elif isinstance(each, Released):
            for partition in each.partitions:
                begin = begun.pop((each.consumer, partition), None)
                if begin is not None and each.certain:
                    tenures[partition].append((begin, each))
        elif isinstance(each, Polled):
            last[each.consumer] = each.end
    # A consumer that has never released a partition owned it until its last poll.
    for (consumer, partition), begin in begun.items():
        end = Released(consumer, last.get(consumer, begin.at), (partition,))
        tenures[partition].append((begin, end))
    return {n: sorted(owned, key=lambda tenure: tenure[0].at) for n, owned in tenures.items()}


_CHECKS: Final[Sequence[Callable[[_History], Iterable[Anomaly]]]] = (
    lost_writes,
    unseen,
    duplicates,
    inconsistent_offsets,
    phantom_reads,
    aborted_reads,
    internal_order,
    order_between_polls,
    reads_without_ownership,
    commits_ahead,
    unpaired_calls,
    two_owners,
)


def anomalies(operations: Sequence[Operation], transactions: int = 0) -> list[Anomaly]:
    """Return everything that is wrong with a history.

    Args:
        operations: The history, in its order.
        transactions: How many may be open at once: the last offsets of a partition may be their
            markers.
    """
    history = _History(operations, transactions)
    return [anomaly for check in _CHECKS for anomaly in check(history)]
