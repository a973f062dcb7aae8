"""A group of verifiable consumers, each in a process of its own."""

from __future__ import annotations

import json
import signal
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Self

from tests.reporting_process import ReportingProcess
from tests.waiting import wait_until

_TIMEOUT_S = 90.0


class Member:
    """One process, and what its events say.

    Attributes:
        owned: Its partitions.
        assignments: How often it was assigned partitions.
        revocations: How often partitions were revoked.
        consumed: The number of records that it has read.
        read: The first and the last offset of each batch, by partition.
    """

    def __init__(self, arguments: list[str]) -> None:
        self.owned: set[int] = set()
        self.assignments = self.revocations = self.consumed = 0
        self.positions: dict[int, int] = {}
        self.committed: dict[int, int] = {}
        self.read: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self.events: list[dict[str, Any]] = []
        self._process = ReportingProcess("tests.verifiable_consumer", arguments, self._listen)

    def _listen(self, line: str) -> None:
        event = json.loads(line)
        self._note(event)
        self.events.append(event)

    @property
    def errors(self) -> list[str]:
        """What it has written to its standard error."""
        return self._process.errors

    def _note(self, event: dict[str, Any]) -> None:
        match event["name"]:
            case "partitions_assigned":
                self.assignments += 1
                self.owned |= {each["partition"] for each in event["partitions"]}
            case "partitions_revoked":
                self.revocations += bool(event["partitions"])
                self.owned -= {each["partition"] for each in event["partitions"]}
            case "records_consumed":
                self.consumed += event["count"]
                for each in event["partitions"]:
                    self.positions[each["partition"]] = each["maxOffset"] + 1
                    self.read[each["partition"]].append((each["minOffset"], each["maxOffset"]))
            case "offsets_committed" if event["success"]:
                self.committed.update({e["partition"]: e["offset"] for e in event["offsets"]})

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.status is None

    def stop(self, *, clean: bool = True) -> None:
        """Let it close its consumer, or kill it; returns when the process has ended."""
        self._process.send(signal.SIGTERM if clean else signal.SIGKILL)
        self.join()

    def join(self) -> None:
        """Wait for the end of the process."""
        self._process.join(_TIMEOUT_S)
        self.owned.clear()


class Group:
    """Members of one group on one topic; as a context manager, it ends them.

    Attributes:
        name: The name of the group and of its topic.
        members: The present members, and those that have ended by themselves.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, *options: str) -> None:
        self.name = topic
        self._arguments = ["--bootstrap-server", bootstrap, "--topic", topic]
        self._arguments += ["--group-id", topic, *options]
        self._partitions = set(range(partitions))
        self.members: list[Member] = []
        self._gone: list[Member] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.alive:
            member.stop(clean=False)

    def start(self, *options: str) -> Member:
        """Start a member, with further options."""
        member = Member([*self._arguments, *options])
        self.members.append(member)
        return member

    def stop(self, member: Member, *, clean: bool = True) -> None:
        """End a member."""
        member.stop(clean=clean)
        self.members.remove(member)
        self._gone.append(member)

    @property
    def alive(self) -> list[Member]:
        """The members whose process runs."""
        return [member for member in self.members if member.alive]

    def await_members(self, count: int) -> None:
        """Wait until so many members own equal shares of all partitions."""
        what = f"{count} members own equal shares of {sorted(self._partitions)}"
        wait_until(lambda: self.is_shared_by(count), what)

    def is_shared_by(self, count: int) -> bool:
        """Tell whether so many members own equal shares of all partitions.

        While partitions still move, each may have an owner too, but the shares are not equal.
        """
        owned = [set(member.owned) for member in self.alive]
        share = len(self._partitions) // count
        whole = set[int]().union(*owned) == self._partitions
        return [len(each) for each in owned] == [share] * count and whole

    def await_records(self, count: int = 500) -> None:
        """Wait until so many further records are read."""
        begin = self.consumed
        wait_until(lambda: self.consumed >= begin + count, f"{count} more records")

    @property
    def everybody(self) -> list[Member]:
        """All members that there ever were."""
        return [*self._gone, *self.members]

    @property
    def consumed(self) -> int:
        """The number of records that were read."""
        return sum(member.consumed for member in self.everybody)

    @property
    def rebalances(self) -> int:
        """How often members were assigned partitions."""
        return sum(member.assignments for member in self.everybody)

    def positions(self) -> dict[int, int]:
        """Return the offsets behind the last records, by partition."""
        return _highest(member.positions for member in self.everybody)

    def commits(self) -> dict[int, int]:
        """Return the last commits, by partition."""
        return _highest(member.committed for member in self.everybody)

    def end(self) -> None:
        """Let all members close their consumers."""
        for member in self.alive:
            self.stop(member)

    @property
    def repeated(self) -> int:
        """The number of records that were read more than once."""
        return self.consumed - sum(map(len, self._offsets().values()))

    @property
    def skipped(self) -> int:
        """The number of records before a position that nobody has read."""
        offsets = self._offsets()
        return sum(at - len(offsets[partition]) for partition, at in self.positions().items())

    def _offsets(self) -> dict[int, set[int]]:
        """Return all offsets that were read, by partition."""
        found: dict[int, set[int]] = defaultdict(set)
        for member in self.everybody:
            for partition, batches in member.read.items():
                for first, last in batches:
                    found[partition].update(range(first, last + 1))
        return found


def _highest(each_members: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Return the highest offset of each partition."""
    found: dict[int, int] = defaultdict(int)
    for offsets in each_members:
        for partition, offset in offsets.items():
            found[partition] = max(found[partition], offset)
    return found
