"""What a group has committed, what waits for the end of a transaction, and what is too old."""

from __future__ import annotations

from collections.abc import Iterator

from kafka import errors

from tandem_kafka.testing.coordinator import embedded
from tandem_kafka.testing.coordinator.classic import ClassicGroup
from tandem_kafka.testing.coordinator.classic_group_member import GroupState
from tandem_kafka.testing.coordinator.consumer import ConsumerGroup
from tandem_kafka.testing.coordinator.context import GroupContext
from tandem_kafka.testing.coordinator.records import OffsetCommit, PendingOffsetCommit
from tandem_kafka.testing.coordinator.requests import (
    CommitOffsets,
    EndTransaction,
    FetchedOffsets,
    FetchOffsets,
)
from tandem_kafka.testing.coordinator.step import Error
from tandem_kafka.types import TopicPartition

__all__ = ["Offsets"]


class Offsets:
    """The offsets of one group; both protocols share them.

    Attributes:
        committed: By partition.
        pending: What transactions have committed that are not over, by producer id.
    """

    def __init__(
        self, context: GroupContext, classic: ClassicGroup, consumer: ConsumerGroup
    ) -> None:
        self._context = context
        self._classic = classic
        self._consumer = consumer
        self._step = context.step
        self.committed: dict[TopicPartition, OffsetCommit] = {}
        self.pending: dict[int, dict[TopicPartition, OffsetCommit]] = {}
        #: Tells the timer of the next look for what is too old from older ones; 0 if there is none.
        self._armed = 0
        self._arms = 0

    @property
    def group_exists(self) -> bool:
        """True from the first member or commit on, until nothing of the group remains."""
        offsets = self.committed or self.pending
        return self._classic.exists or self._consumer.exists or bool(offsets)

    def _forget_group_if_empty(self) -> None:
        """Forget a group without offsets, unless it has members."""
        if not self._classic.members and not self._consumer.members:
            self._classic.dissolve(errors.UnknownMemberIdError)
            self._consumer.dissolve()

    # --- committing ----------------------------------------------------------------------------

    def handle_commit(self, request: CommitOffsets) -> None:
        """Somebody commits: a member at its generation or epoch, or anybody while there is none."""
        error = self._error(request)
        if error is None:
            for tp, (offset, epoch, metadata) in request.offsets.items():
                commit = OffsetCommit(offset, epoch, metadata, self._step.now_ms)
                if request.producer_id is None:
                    self._store(tp, commit)
                else:
                    self._store_pending(request.producer_id, tp, commit)
            self._look_later()
        self._step.respond(request, error)

    def _store(self, tp: TopicPartition, commit: OffsetCommit) -> None:
        self._context.log.write(commit, tp)
        self.committed[tp] = commit

    def _store_pending(self, producer_id: int, tp: TopicPartition, commit: OffsetCommit) -> None:
        self._context.log.write(PendingOffsetCommit(commit), (producer_id, tp))
        self.pending.setdefault(producer_id, {})[tp] = commit

    def _error(self, request: CommitOffsets) -> Error:
        classic, consumer = self._classic, self._consumer
        transactional = request.producer_id is not None
        if request.generation < 0 and not classic.members and not consumer.members:
            return None  # a simple consumer, without membership
        if not self.group_exists:
            return errors.IllegalGenerationError if transactional else errors.GroupIdNotFoundError
        named = request.generation >= 0 or request.member_id or request.instance_id is not None
        if transactional and not named:
            return None  # a producer that does not say for whom it commits
        if not consumer.exists:
            return self._classic_error(request)
        error = consumer.check_commit(request.member_id, request.generation, request.offsets)
        stale = transactional and error is errors.StaleMemberEpochError
        return errors.IllegalGenerationError if stale else error

    def _classic_error(self, request: CommitOffsets) -> Error:
        classic = self._classic
        error = classic.check(request.member_id, request.generation, request.instance_id)
        if error is not None or request.producer_id is not None:
            return error
        if classic.state is GroupState.SYNCING:
            return errors.RebalanceInProgressError  # who has what is about to change
        classic.touch(classic.members[request.member_id])
        return None

    def handle_end(self, request: EndTransaction) -> None:
        """The marker of a transaction: what it committed counts, or never was."""
        log = self._context.log
        counts: dict[TopicPartition, int] = {}
        for tp, commit in self.pending.pop(request.producer_id, {}).items():
            pending = (PendingOffsetCommit, (request.producer_id, tp))
            # What was committed outside of the transaction since is the newer one.
            newest = log.position(*pending) > log.position(OffsetCommit, tp)
            log.forget((request.producer_id, tp))
            if request.committed and newest:
                self._store(tp, commit)
                counts[tp] = commit.offset
        self._step.respond(request, counts)

    # --- asking --------------------------------------------------------------------------------

    def handle_fetch(self, request: FetchOffsets) -> None:
        """Somebody asks what is committed; who says that it is a KIP-848 member has to be one."""
        consumer = self._consumer
        says_who = request.member_id is not None or request.epoch >= 0
        if consumer.exists and says_who:
            error = consumer.check(request.member_id or "", request.epoch)
            if error is not None:
                self._step.respond(request, FetchedOffsets({}, error=error))
                return
        unstable = frozenset(self._unstable()) if request.require_stable else frozenset()
        self._step.respond(request, FetchedOffsets(dict(self.committed), unstable))

    def _unstable(self) -> Iterator[TopicPartition]:
        for commits in self.pending.values():
            yield from commits

    def forget_topic(self, name: str) -> None:
        """A topic was deleted, and with it what was committed of it."""
        for tp in [tp for tp in self.committed if tp.topic == name]:
            self._context.log.forget(tp)
            del self.committed[tp]
        for producer_id, commits in self.pending.items():
            for tp in [tp for tp in commits if tp.topic == name]:
                self._context.log.forget((producer_id, tp))
                del commits[tp]

    # --- too old -------------------------------------------------------------------------------

    def _look_later(self) -> None:
        """Have a look for what is too old; not if there is one to come."""
        if not self._armed:
            self._arms += 1
            self._armed = self._arms
            interval_ms = self._context.settings.offsets_retention_check_interval_ms
            self._step.set_timer(self._step.now_ms + interval_ms, "offsets", number=self._armed)

    def look(self, number: int) -> None:
        """Drop what is too old, and the group if nothing is left of it."""
        if number != self._armed:
            return
        self._armed = 0
        unstable = set(self._unstable())
        for tp in [tp for tp in self.committed if tp not in unstable and self._is_too_old(tp)]:
            self._step.note(f"what was committed of {tp.topic}-{tp.partition} is too old")
            self._context.log.forget(tp)
            del self.committed[tp]
        if self.committed or unstable:
            self._look_later()
        else:
            self._forget_group_if_empty()

    def _is_too_old(self, tp: TopicPartition) -> bool:
        since_ms = self._kept_since(tp)
        retention_ms = self._context.settings.offsets_retention_ms
        return since_ms is not None and self._step.now_ms - since_ms >= retention_ms

    def _kept_since(self, tp: TopicPartition) -> int | None:
        """Return from when on the retention of a commit counts; None as long as it is in use."""
        committed_ms = self.committed[tp].committed_ms
        classic, consumer = self._classic, self._consumer
        if consumer.members:
            return None if consumer.subscribes(tp.topic) else committed_ms
        if not classic.protocol_type:
            return committed_ms
        if classic.state is GroupState.EMPTY:
            return classic.since_ms
        quiet = classic.state is GroupState.STABLE and classic.protocol_type == embedded.CONSUMER
        return committed_ms if quiet and not classic.subscribes(tp.topic) else None

    # --- the log -------------------------------------------------------------------------------

    def reload(self) -> None:
        """Another coordinator reads the log."""
        log = self._context.log
        self.committed = log.partitions(OffsetCommit)
        self.pending = {}
        for (producer_id, tp), pending in log.partitions(PendingOffsetCommit).items():
            self.pending.setdefault(producer_id, {})[tp] = pending.commit
        self._armed = 0
        if self.committed or self.pending:
            self._look_later()
