"""Asynchronous commits: their callbacks, and their order at the coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.runtime import Random
from tandem_kafka.types import OffsetAndMetadata, TopicPartition
from tests.scenarios.violation import Violation

if TYPE_CHECKING:
    from tests.scenarios.members import Members

__all__ = ["AsyncCommits"]

#: Time in which a commit without faults is answered, including the search for the coordinator.
ANSWERED_MS = 60_000

Offsets = dict[TopicPartition, OffsetAndMetadata]


class AsyncCommits:
    """Commits asynchronously and counts the callbacks.

    The metadata of a commit has the number of its member and its own. The log of the coordinator
    thus shows which commits arrived, and in which order.
    """

    def __init__(self, members: Members) -> None:
        self._members = members
        self._cluster = members.simulation.cluster
        #: Commits and finished callbacks of each member.
        self._made: dict[KafkaConsumer, int] = {}
        self._called: dict[KafkaConsumer, int] = {}
        self._seen = 0
        #: The newest commit accepted by the coordinator, by member and partition.
        self._accepted: dict[tuple[str, TopicPartition], int] = {}
        #: The metadata last accepted by the coordinator, and last reported by a callback.
        self._held: dict[TopicPartition, str] = {}
        self._succeeded: dict[TopicPartition, str] = {}
        #: The metadata of failed commits; the coordinator may have accepted those without response.
        self._failed: set[str] = set()

    def commit(self, member: KafkaConsumer, offsets: Offsets | None = None) -> None:
        """Commit the given offsets, or all positions, and expect the callback."""
        number = self._made[member] = self._made.get(member, 0) + 1

        def called(committed: Any, error: Any) -> None:
            self._members.invariants.check_thread("a commit callback")
            self._check_called(member, number)
            if offsets is not None and committed != offsets:
                self._report(f"the callback of {offsets} received {committed}")
            if error is None and offsets:
                self._check_succeeded(offsets)
            elif offsets:
                self._failed.update(offset.metadata or "" for offset in offsets.values())

        member.commit_async(offsets, callback=called)

    def commit_repeatedly(self, member: KafkaConsumer, random: Random) -> None:
        """Commit up to three times in a row, sometimes without offsets, which completes at once."""
        for _ in range(random.randrange(1, 4)):
            self.commit(member, self._tagged(member))
            if random.random() < 0.3:
                self.commit(member, {})

    def _tagged(self, member: KafkaConsumer) -> Offsets:
        listener = self._members.listeners[member]
        tag = f"{listener.number}/{self._made.get(member, 0) + 1}"
        handed_out = self._members.invariants.handed_out_to(listener)
        return {tp: OffsetAndMetadata(offset, tag, -1) for tp, offset in handed_out.items()}

    # --- checks --------------------------------------------------------------------------------

    def _check_called(self, member: KafkaConsumer, number: int) -> None:
        """Check that callbacks run once each, in the order of the commits."""
        due = self._called.get(member, 0) + 1
        if number != due:
            self._report(f"the callback of commit {number} ran, that of {due} was due")
        self._called[member] = max(due, number)

    def _check_succeeded(self, offsets: Offsets) -> None:
        """Check that the coordinator has accepted a commit that succeeded."""
        self.check()
        for tp, offset in offsets.items():
            self._succeeded[tp] = offset.metadata or ""
            number, _, commit = (offset.metadata or "").partition("/")
            if self._accepted.get((number, tp), 0) < int(commit):
                self._report(f"{tp}: {offset} succeeded, but the coordinator has not accepted it")

    def check(self) -> None:
        """Check that commits of a member arrive in order, each at most once."""
        log = self._cluster.commit_log
        for tp, (_, _, metadata), _ in log[self._seen :]:
            number, _, commit = metadata.partition("/")
            if not commit:
                continue
            if int(commit) <= self._accepted.get((number, tp), 0):
                self._report(f"{tp}: commit {metadata} after {self._accepted[number, tp]}")
            self._accepted[number, tp] = int(commit)
            self._held[tp] = metadata
        self._seen = len(log)

    def check_closed(self, member: KafkaConsumer) -> None:
        """Check that every callback of a closed member has run."""
        missing = self._made.pop(member, 0) - self._called.pop(member, 0)
        if missing:
            raise Violation(f"closed, and {missing} commit callbacks have not run")

    def conclude(self) -> None:
        """Check that the coordinator has the last commit that succeeded, or a later one."""
        self._succeeded.clear()
        members = self._members
        for _ in range(2):
            for member in members.listeners:
                self.commit(member, self._tagged(member))
                self.commit(member, {})
        until_ms = members.simulation.clock.now_ms() + ANSWERED_MS
        while self._made != self._called:
            if members.simulation.clock.now_ms() > until_ms:
                raise Violation(f"commits {self._made}, callbacks {self._called}")
            members.poll_all()
        self.check()
        for tp, metadata in self._succeeded.items():
            if self._held[tp] not in {metadata, *self._failed}:
                raise Violation(
                    f"{tp}: {metadata} succeeded last, the coordinator has {self._held[tp]}"
                )

    def _report(self, what: str) -> None:
        """Note a violation: an error raised in a callback might be caught by its caller."""
        self._members.invariants.violations.append(what)
