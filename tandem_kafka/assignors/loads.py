"""Members ordered by their number of partitions."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping


class Loads:
    """The number of partitions of each member."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = dict(counts)
        self._ascending = sorted((count, member_id) for member_id, count in counts.items())

    def __getitem__(self, member_id: str) -> int:
        """Return the number of a member's partitions."""
        return self._counts[member_id]

    def add(self, member_id: str, change: int) -> None:
        """Change the number of a member's partitions."""
        count = self._counts[member_id]
        del self._ascending[bisect_left(self._ascending, (count, member_id))]
        self._counts[member_id] = count + change
        insort(self._ascending, (count + change, member_id))

    def lightest(self, candidates: Collection[str]) -> str:
        """Return the candidate with the fewest partitions, or the first of them by id.

        Args:
            candidates: Some of the members; at least one.
        """
        # Few candidates are compared directly; otherwise the first member that is one is chosen.
        if len(candidates) ** 2 <= len(self._counts):
            return min((self._counts[each], each) for each in candidates)[1]
        return next(member_id for _, member_id in self._ascending if member_id in candidates)

    def even(self, candidates: Collection[str]) -> bool:
        """Tell whether no candidate has at least two partitions more than another."""
        if len(candidates) ** 2 <= len(self._counts):
            counts = [self._counts[each] for each in candidates]
            return max(counts) - min(counts) < 2
        descending = reversed(self._ascending)
        most = next(count for count, member_id in descending if member_id in candidates)
        return most - self._counts[self.lightest(candidates)] < 2
