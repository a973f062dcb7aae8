"""Members of a group for tests: each consumes on its own thread and records everything."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, ClassVar

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from tandem_kafka import ConsumerRecord, KafkaConsumer, SubscriptionPattern, TopicPartition
from tandem_kafka.errors import (
    CommitDuringRebalanceError,
    CommitFailedError,
    KafkaTimeoutError,
)
from tests.histories.ledger import GroupLedger
from tests.histories.operations import Assigned, Operation, Polled, Released
from tests.integration.polling import Listener
from tests.waiting import wait_until

__all__ = [
    "PROTOCOLS",
    "SESSION_TIMEOUT_MS",
    "Member",
    "MemberLedger",
    "check_pairs",
    "commit_if_possible",
    "options_of",
    "owned",
    "rebalance_calls",
    "settled",
    "stop_all",
]

#: The kinds of members that tests of both protocols cover.
PROTOCOLS = ("eager", "cooperative", "consumer")

SESSION_TIMEOUT_MS = 6_000

_CLASSIC = {
    "group_protocol": "classic",
    "session_timeout_ms": SESSION_TIMEOUT_MS,
    "heartbeat_interval_ms": 300,
}
_OPTIONS: dict[str, dict[str, Any]] = {
    "eager": _CLASSIC,
    "cooperative": {**_CLASSIC, "partition_assignment_strategy": [CooperativeStickyAssignor]},
    "consumer": {"group_protocol": "consumer"},
}


def options_of(protocol: str) -> dict[str, Any]:
    """Return the options of a member of this kind."""
    return dict(_OPTIONS[protocol])


class _Listener(Listener):
    """Commits the remaining records before their partitions are revoked."""

    def __init__(self, name: str, commit: Callable[[], None]) -> None:
        super().__init__()
        self._name = name
        self._commit = commit
        self.operations: list[Operation] = []

    def _note(self, what: str, partitions: set[TopicPartition]) -> None:
        super()._note(what, partitions)
        which = self._name, time.monotonic(), tuple(sorted(tp.partition for tp in partitions))
        assigned = what == "assigned"
        certain = what == "revoked"
        self.operations.append(Assigned(*which) if assigned else Released(*which, certain))

    def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
        self._commit()
        super().on_partitions_revoked(partitions)


class Member:
    """A consumer that polls on a thread; `handler` is called for every batch.

    Attributes:
        operations: What it has done, for a ledger.
    """

    running: ClassVar[set[Member]] = set()
    doubtful: ClassVar[tuple[float, ...]] = ()
    _numbers: ClassVar[Iterator[int]] = count(1)

    def __init__(
        self,
        consumer: KafkaConsumer,
        topics: Iterable[str],
        handler: Callable[[Member], None] = lambda _: None,
        *,
        commit: bool = True,
        pattern: str | SubscriptionPattern | None = None,
    ) -> None:
        self.consumer = consumer
        self.name = f"member {next(self._numbers)}"
        self.listener = _Listener(self.name, self._commit_rest)
        self.operations = self.listener.operations
        self.records: list[ConsumerRecord] = []
        #: How many of the records have been handled and committed.
        self.handled = 0
        self.generations: list[int] = []
        self.error: BaseException | None = None
        self._handler = handler
        self._commit = commit
        self._stopping = False
        if pattern is None:
            consumer.subscribe(list(topics), listener=self.listener)
        else:
            consumer.subscribe(pattern=pattern, listener=self.listener)
        self._thread = threading.Thread(target=self._run, name="member", daemon=True)
        self._thread.start()
        Member.running.add(self)

    def _run(self) -> None:
        try:
            while not self._stopping or self._rest:
                begin = time.monotonic()
                batch = self.consumer.poll(timeout_ms=100)
                self._note_records([each for records in batch.values() for each in records], begin)
                self._note_generation()
                if batch:
                    self._handler(self)
                # poll() completes a rebalance that has begun; the commit comes after it.
                with contextlib.suppress(CommitDuringRebalanceError):
                    self._commit_rest()
        except BaseException as error:  # noqa: BLE001 - the test checks it
            self.error = error

    @property
    def _rest(self) -> int:
        """The number of records that are not committed."""
        return len(self.records) - self.handled

    def _commit_rest(self) -> None:
        if self._rest:
            if self._commit:
                self.consumer.commit()
            self.handled = len(self.records)

    def _note_records(self, records: list[ConsumerRecord], begin: float) -> None:
        self.records += records
        if records:
            found = tuple((r.partition, r.offset, (r.value or b"").decode()) for r in records)
            self.operations.append(Polled(self.name, begin, time.monotonic(), found))

    def _note_generation(self) -> None:
        generation = self.consumer.group_metadata().generation_id
        if generation not in self.generations[-1:]:
            self.generations.append(generation)

    @property
    def values(self) -> list[bytes]:
        """The values that were read, in order."""
        return [record.value for record in self.records]

    def stop(self, **how: Any) -> None:
        """End the thread, then close the consumer."""
        self.stall()
        self.consumer.close(**how)

    def stall(self) -> None:
        """End the thread and leave the consumer open, like a program that hangs."""
        Member.running.discard(self)
        self._stopping = True
        self._thread.join(90)
        assert not self._thread.is_alive(), "the handler has not ended"


class MemberLedger(GroupLedger):
    """The ledger of members that read what a stream writes.

    Args:
        observer: A consumer of the group that is not a member.
        partitions: All of them, of one topic.
    """

    def __init__(self, observer: KafkaConsumer, partitions: list[TopicPartition]) -> None:
        super().__init__(len(partitions))
        self.members: list[Member] = []
        self._observer = observer
        self._tps = partitions

    @property
    def running(self) -> list[Member]:
        """The members that have not left and do not hang."""
        return [member for member in self.members if member in Member.running]

    def leave(self, member: Member, **how: Any) -> None:
        """Close the consumer of a member."""
        member.stop(**how)
        assert member.error is None
        check_pairs(member.listener)

    def check_commits(self) -> dict[int, int]:
        """Check the history so far; return the commits, none without a coordinator.

        Commits are read first, because the records that were read only grow.
        """
        try:
            offsets = {tp: self._observer.committed(tp, timeout_ms=500) or 0 for tp in self._tps}
        except KafkaTimeoutError:
            return {}
        committed = {tp.partition: offset for tp, offset in offsets.items()}
        self.check(committed)
        return committed

    def _count(self) -> int:
        for member in self.running:
            assert member.error is None, member.error
        return len({(number, offset) for _, number, offset in self.reads()})

    def read_more(self) -> None:
        """Wait until the members have read 100 records more."""
        goal = self._count() + 100
        wait_until(lambda: self._count() >= goal, "100 more records")

    def close(self, sent: int, *, once: bool = False) -> None:
        """Check that each record was read and committed, then leave.

        Args:
            sent: The number of records in each partition.
            once: No record may have been returned twice.
        """
        everything = {tp.partition: sent for tp in self._tps}
        wait_until(lambda: self.check_commits() == everything, "the last commits")
        settled(self.running, self.partitions)
        for member in self.running:
            self.leave(member)
        self.check(everything, sent)
        if once:
            assert self.repeated() == 0


def stop_all() -> None:
    """End the threads of members that a test has not stopped; their consumers stay open."""
    for member in list(Member.running):
        member.stall()


def commit_if_possible(member: Member) -> None:
    """Commit, unless the member has lost its partitions; for members with `commit=False`."""
    with contextlib.suppress(CommitFailedError):
        member.consumer.commit()


def rebalance_calls(listener: Listener) -> list[tuple[str, set[TopicPartition]]]:
    """Return the calls of a listener that have partitions; empty calls may come at any time."""
    return [(what, partitions) for what, partitions in listener.calls if partitions]


def owned(member: Member) -> set[TopicPartition]:
    """Return the partitions of a member, by the calls of its listener."""
    mine: set[TopicPartition] = set()
    for what, partitions in member.listener.calls:
        mine = mine | partitions if what == "assigned" else mine - partitions
    return mine


def check_pairs(listener: Listener) -> None:
    """Check that each assigned partition was revoked once, and that no revocation was empty."""
    mine: set[TopicPartition] = set()
    for what, partitions in listener.calls:
        if what == "assigned":
            assert not mine & partitions
            mine |= partitions
        else:
            assert partitions
            assert partitions <= mine
            mine -= partitions
    assert not mine


def settled(members: Iterable[Member], count: int) -> bool:
    """Wait until the members own all `count` partitions, none twice, in shares of one size.

    While partitions still move, each may have an owner too, but one member has two more than
    another. The sizes may differ by one.
    """
    members = list(members)

    def fully_assigned() -> bool:
        for member in members:
            if member.error is not None:
                raise member.error
        shares = [owned(member) for member in members]
        sizes = sorted(map(len, shares))
        even = sizes[0] > 0 and sizes[-1] - sizes[0] <= 1
        return even and sum(sizes) == count == len(set.union(*shares))

    wait_until(fully_assigned)
    return True
