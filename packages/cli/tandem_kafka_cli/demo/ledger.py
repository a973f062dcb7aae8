"""The account of the demo: records written, read and committed, and whether they add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class PartitionAccount:
    """One partition's part of the account.

    Attributes:
        produced: Numbers whose delivery was confirmed.
        reads: How often each number was read.
        position: Offset after the last record read.
        committed: Offset that the group committed last.

    """

    produced: set[int] = field(default_factory=set)
    reads: Counter[int] = field(default_factory=Counter)
    position: int = 0
    committed: int = 0

    @property
    def uncommitted(self) -> int:
        """Records read whose offsets are not committed yet."""
        return max(0, self.position - self.committed)

    @property
    def behind(self) -> int:
        """Records written and not read yet."""
        return max(0, len(self.produced) - self.position)


class Ledger:
    """The accounts of all partitions, and their sums.

    Attributes:
        gaps: Places where a member did not continue at the expected offset.

    """

    def __init__(self, partitions: int) -> None:
        self.partitions = [PartitionAccount() for _ in range(partitions)]
        self.gaps: list[str] = []
        self._due_again = 0

    # Entries

    def produced(self, partition: int, number: int) -> None:
        """A record was delivered."""
        self.partitions[partition].produced.add(number)

    def read(self, partition: int, offset: int, numbers: Sequence[int]) -> None:
        """Records were read, the first one at `offset`."""
        account = self.partitions[partition]
        if offset != account.position:
            due = account.position
            self.gaps.append(f"partition {partition}: expected offset {due}, read {offset}")
        account.reads.update(numbers)
        account.position = offset + len(numbers)

    def committed(self, offsets: Mapping[int, int]) -> None:
        """The group committed these offsets."""
        for partition, offset in offsets.items():
            self.partitions[partition].committed = offset

    def crashed(self, partitions: Iterable[int]) -> int:
        """Their owner crashed; returns how many records the next owner must read again."""
        again = self.uncommitted(partitions)
        self._due_again += again
        for partition in partitions:
            account = self.partitions[partition]
            account.position = account.committed
        return again

    # Sums

    @property
    def produced_total(self) -> int:
        """Records delivered."""
        return sum(len(account.produced) for account in self.partitions)

    @property
    def read_distinct(self) -> int:
        """Records read at least once."""
        return sum(len(account.reads) for account in self.partitions)

    @property
    def read_again(self) -> int:
        """Reads beyond the first of each record."""
        return sum(account.reads.total() - len(account.reads) for account in self.partitions)

    @property
    def committed_total(self) -> int:
        """Records before the committed offsets."""
        return sum(account.committed for account in self.partitions)

    def uncommitted(self, partitions: Iterable[int]) -> int:
        """Records of these partitions that were read and are not committed yet."""
        return sum(self.partitions[partition].uncommitted for partition in partitions)

    def faults(self, total: int) -> list[str]:
        """Everything that does not add up after `total` records; empty if nothing was missed."""
        found = list(self.gaps)
        if self.produced_total != total:
            found.append(f"{self.produced_total} of {total} records were delivered")
        for number, account in enumerate(self.partitions):
            if account.reads.keys() != account.produced:
                missing = len(account.produced - account.reads.keys())
                found.append(f"partition {number}: {missing} records were not read")
        if self.read_again != self._due_again:
            found.append(f"{self.read_again} records were read again instead of {self._due_again}")
        if self.committed_total != total:
            found.append(f"{self.committed_total} of {total} records are committed")
        return found
