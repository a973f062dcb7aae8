"""Commits that nobody waits for: their callbacks, and what the coordinator makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.runtime import Random
from tandem_kafka.testing.stories.violation import Violation
from tandem_kafka.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from tandem_kafka.testing.stories.members import Members

__all__ = ["AsyncCommits"]

#: Without faults a commit is answered by then, also of who still has to find the coordinator.
ANSWERED_MS = 60_000

Offsets = dict[TopicPartition, OffsetAndMetadata]


class AsyncCommits:
    """Makes them, and counts their callbacks.

    What a commit says in its metadata is its member's number and its own: so the coordinator's
    books show which commits came to it, and in which order.
    """

    def __init__(self, members: Members) -> None:
        self._members = members
        self._cluster = members.simulation.cluster
        #: How many commits each member has made, and how many callbacks have run.
        self._made: dict[KafkaConsumer, int] = {}
        self._called: dict[KafkaConsumer, int] = {}
        self._seen = 0
        #: The newest commit of a member that the coordinator has taken, by partition.
        self._taken: dict[tuple[str, TopicPartition], int] = {}
        #: What the coordinator has taken, and the last that a callback has told of, by partition.
        self._held: dict[TopicPartition, str] = {}
        self._succeeded: dict[TopicPartition, str] = {}

    def commit(self, member: KafkaConsumer, offsets: Offsets | None = None) -> None:
        """Commit what was handed out, or these offsets; the callback is expected."""
        number = self._made[member] = self._made.get(member, 0) + 1

        def called(committed: Any, error: Any) -> None:
            self._members.invariants.check_thread("a commit's callback")
            self._check_called(member, number)
            if offsets is not None and committed != offsets:
                self._broken(f"the callback of {offsets} is told {committed}")
            if error is None and offsets:
                self._check_succeeded(offsets)

        member.commit_async(offsets, callback=called)

    def commit_repeatedly(self, member: KafkaConsumer, random: Random) -> None:
        """Commit some times in a row, also nothing at all, which is over at once."""
        for _ in range(random.randrange(1, 4)):
            self.commit(member, self._tagged(member))
            if random.random() < 0.3:
                self.commit(member, {})

    def _tagged(self, member: KafkaConsumer) -> Offsets:
        listener = self._members.listeners[member]
        tag = f"{listener.number}/{self._made.get(member, 0) + 1}"
        handed_out = self._members.invariants.handed_out_to(listener)
        return {tp: OffsetAndMetadata(offset, tag, -1) for tp, offset in handed_out.items()}

    # --- what must hold ------------------------------------------------------------------------

    def _check_called(self, member: KafkaConsumer, number: int) -> None:
        """Callbacks come in the order of the commits, each once."""
        due = self._called.get(member, 0) + 1
        if number != due:
            self._broken(f"the callback of commit {number} came where that of {due} was due")
        self._called[member] = max(due, number)

    def _check_succeeded(self, offsets: Offsets) -> None:
        """The coordinator has taken what a callback says it has."""
        self.check()
        for tp, offset in offsets.items():
            self._succeeded[tp] = offset.metadata or ""
            number, _, commit = (offset.metadata or "").partition("/")
            if self._taken.get((number, tp), 0) < int(commit):
                self._broken(f"{tp}: {offset} succeeded, and the coordinator has not taken it")

    def check(self) -> None:
        """Commits of a member come to the coordinator in their order, each at most once."""
        log = self._cluster.commit_log
        for tp, (_, _, metadata), _ in log[self._seen :]:
            number, _, commit = metadata.partition("/")
            if not commit:
                continue
            if int(commit) <= self._taken.get((number, tp), 0):
                self._broken(f"{tp}: commit {metadata} after {self._taken[number, tp]}")
            self._taken[number, tp] = int(commit)
            self._held[tp] = metadata
        self._seen = len(log)

    def check_closed(self, member: KafkaConsumer) -> None:
        """By then every callback has run."""
        left = self._made.pop(member, 0) - self._called.pop(member, 0)
        if left:
            raise Violation(f"closed, and the callbacks of {left} commits have not run")

    def conclude(self) -> None:
        """Without faults the coordinator holds what the last commit that succeeded has brought."""
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
            if self._held[tp] != metadata:
                raise Violation(f"{tp}: {metadata} succeeded last, {self._held[tp]} is held")

    def _broken(self, what: str) -> None:
        """Whatever calls a callback may hide what it raises."""
        self._members.invariants.broken.append(what)
