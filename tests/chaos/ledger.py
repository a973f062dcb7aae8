"""What the members of one group have read and owned: its history, and how long it did not read."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tests.chaos.members import MemberProcess
from tests.histories.operations import (
    Assigned,
    Committed,
    Operation,
    Polled,
    Produced,
    Released,
    moment,
)

__all__ = ["Ledger"]


class Ledger:
    """The ledger of one group, with all its past members.

    Attributes:
        partitions: The number of partitions.
    """

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.members: list[MemberProcess] = []

    def history(self, committed: Mapping[int, int], sent: int = 0) -> list[Operation]:
        """Return all operations in their order.

        Args:
            committed: The commits of the group, as they are now.
            sent: How many records of each partition are known to be written.
        """
        now = time.monotonic()
        written = [
            Produced("stream", 0.0, 0.0, number, f"{number}-{offset}", "acknowledged", offset)
            for number in range(self.partitions)
            for offset in range(sent)
        ]
        done = sorted(itertools.chain(*map(_operations, self.members)), key=moment)
        return [*written, *done, Committed("the group", now, now, tuple(committed.items()))]

    def _reads(self) -> Iterator[tuple[float, int, int]]:
        """Return the time, the partition and the offset of each record that was handed out."""
        for member in self.members:
            for operation in tuple(member.operations):
                if isinstance(operation, Polled):
                    for number, offset, _ in operation.records:
                        yield operation.end, number, offset

    def first_read_after(self, moment: float) -> dict[int, float]:
        """Return the time of the first read of each partition after a moment, if it was read."""
        first: dict[int, float] = {}
        for at, number, _ in self._reads():
            if at > moment:
                first[number] = min(at, first.get(number, at))
        return first

    def longest_silence(self, begin: float, end: float) -> float:
        """Return the longest time within these bounds in which a partition was not read."""
        times: dict[int, list[float]] = {number: [begin, end] for number in range(self.partitions)}
        for at, number, _ in self._reads():
            if begin < at < end:
                times[number].append(at)
        gaps = (itertools.pairwise(sorted(each)) for each in times.values())
        return max(after - before for pairs in gaps for before, after in pairs)

    def repeated(self) -> int:
        """Return the number of records that were returned more than once."""
        reads = [(number, offset) for _, number, offset in self._reads()]
        return len(reads) - len(set(reads))


def _operations(member: MemberProcess) -> Sequence[Operation]:
    """Return the operations of a member, and which tenures are certain.

    A member that was paused or killed owned its partitions until an unknown time before.
    """
    found: list[Operation] = []
    begun: dict[int, float] = {}

    def doubtful(numbers: Iterable[int], until: float) -> set[int]:
        """End the tenures of these partitions; return those that may have been lost before."""
        begins = {number: begun.pop(number, until) for number in numbers}
        return {n for n, at in begins.items() if any(at < d < until for d in member.doubtful)}

    for operation in tuple(member.operations):
        match operation:
            case Assigned(at=at, partitions=numbers):
                begun.update(dict.fromkeys(numbers, at))
                found.append(operation)
            case Released(at=at, partitions=numbers, certain=certain):
                doubts = doubtful(numbers, at)
                sure = set(numbers) - doubts if certain else set[int]()
                found += [
                    replace(operation, partitions=tuple(sorted(some)), certain=some is sure)
                    for some in (set(numbers) - sure, sure)
                    if some
                ]
            case _:
                found.append(operation)
    last = max([*member.doubtful, *map(moment, found[-1:])], default=0.0)
    if lost := doubtful(list(begun), last + 1.0):
        found.append(Released(member.name, last, tuple(sorted(lost)), certain=False))
    return found
