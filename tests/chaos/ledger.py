"""The ledger of reads, commits and ownership, and its invariants under any faults."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.chaos.members import MemberProcess

__all__ = ["Ledger", "Tenure"]


@dataclass(frozen=True)
class Tenure:
    """A time in which a member certainly owned a partition."""

    member: str
    partition: int
    begin: float
    end: float


class Ledger:
    """The ledger of one group, with all its past members."""

    def __init__(self, partitions: int) -> None:
        self._partitions = range(partitions)
        self.members: list[MemberProcess] = []

    def read(self) -> dict[int, set[int]]:
        """Return the offsets that were returned, by partition."""
        offsets: dict[int, set[int]] = {number: set() for number in self._partitions}
        for member in self.members:
            for _, what, about in tuple(member.events):
                if what == "read":
                    number, first, last, _ = _integers(about)
                    offsets[number].update(range(first, last + 1))
        return offsets

    def first_read_after(self, moment: float) -> dict[int, float]:
        """Return the time of the first read of each partition after a moment, if it was read."""
        first: dict[int, float] = {}
        for member in self.members:
            for at, what, about in tuple(member.events):
                if what == "read" and at > moment:
                    number = _integers(about)[0]
                    first[number] = min(at, first.get(number, at))
        return first

    def longest_silence(self, begin: float, end: float) -> float:
        """Return the longest time within these bounds in which a partition was not read."""
        times: dict[int, list[float]] = {number: [begin, end] for number in self._partitions}
        for member in self.members:
            for at, what, about in tuple(member.events):
                if what == "read" and begin < at < end:
                    times[_integers(about)[0]].append(at)
        gaps = (itertools.pairwise(sorted(each)) for each in times.values())
        return max(after - before for pairs in gaps for before, after in pairs)

    def check_commits(self, committed: Mapping[int, int]) -> None:
        """Check that no commit is ahead of the reads; reads may have continued meanwhile."""
        read = self.read()
        for number, offset in committed.items():
            ahead = offset > max(read[number], default=-1) + 1
            assert not ahead, f"partition {number}: {offset} is committed and not read"

    def check_order(self) -> None:
        """Check that each member read each partition in order and without a gap."""
        for member in self.members:
            follows: dict[int, int] = {}
            for _, what, about in tuple(member.events):
                if what == "read":
                    number, first, last, count = _integers(about)
                    where = f"{member.name}, partition {number}"
                    assert count == last - first + 1, f"{where}: {count} from {first} to {last}"
                    expected = follows.get(number, first)
                    assert first == expected, f"{where}: {first} was read instead of {expected}"
                    follows[number] = last + 1
                elif what in {"revoked", "lost"}:
                    for number in _numbers(about):
                        follows.pop(number, None)

    def check_owners(self) -> None:
        """Check that no two members owned a partition at the same time."""
        tenures = sorted(
            (tenure for member in self.members for tenure in _tenures(member)),
            key=lambda tenure: (tenure.partition, tenure.begin),
        )
        for before, after in itertools.pairwise(tenures):
            if before.partition == after.partition and before.member != after.member:
                assert before.end <= after.begin, f"both own it: {before} and {after}"

    def repeated(self) -> int:
        """Return the number of records that were returned more than once."""
        times: dict[int, int] = defaultdict(int)
        for member in self.members:
            for _, what, about in member.events:
                if what == "read":
                    number, _, _, count = _integers(about)
                    times[number] += count
        return sum(times.values()) - sum(map(len, self.read().values()))


def _tenures(member: MemberProcess) -> Iterable[Tenure]:
    """Return the certain tenures of a member.

    A member that was paused or killed, or that lost its partitions, owned them until an unknown
    time before. Such a tenure is not certain.
    """
    begun: dict[int, float] = {}
    for at, what, about in tuple(member.events):
        if what == "assigned":
            for number in _numbers(about):
                assert number not in begun, f"{member.name}: partition {number} is assigned twice"
                begun[number] = at
        elif what in {"revoked", "lost"}:
            for number in _numbers(about):
                assert number in begun, (
                    f"{member.name}: partition {number} is {what} before it is assigned"
                )
                begin = begun.pop(number)
                certain = what == "revoked" and not any(begin < d < at for d in member.doubtful)
                if certain:
                    yield Tenure(member.name, number, begin, at)


def _numbers(about: list[object]) -> list[int]:
    numbers = about[0]
    assert isinstance(numbers, list)
    return numbers


def _integers(about: list[object]) -> list[int]:
    assert all(isinstance(each, int) for each in about)
    return about  # type: ignore[return-value]
