"""The committed offsets of a group, those of open transactions, and their retention."""

from __future__ import annotations

from collections.abc import Iterator

from kafka import errors

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.coordinator import consumer_protocol
from tandem_kafka_testing.coordinator.classic import ClassicGroup
from tandem_kafka_testing.coordinator.classic_group_member import ClassicGroupState
from tandem_kafka_testing.coordinator.context import GroupContext
from tandem_kafka_testing.coordinator.kip848 import ConsumerGroup
from tandem_kafka_testing.coordinator.records import OffsetCommit, PendingOffsetCommit
from tandem_kafka_testing.coordinator.requests import (
    Commit,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    EndTransaction,
    FetchedOffsets,
    FetchOffsets,
)
from tandem_kafka_testing.coordinator.share_group import ShareGroup
from tandem_kafka_testing.coordinator.step import Error


class GroupOffsets:
    """The offsets of one group; both protocols share them.

    Attributes:
        committed: The committed offsets by partition.
        pending: Offsets of open transactions, by producer id.
    """

    def __init__(
        self,
        context: GroupContext,
        classic: ClassicGroup,
        consumer: ConsumerGroup,
        share: ShareGroup,
    ) -> None:
        self._context = context
        self._classic = classic
        self._consumer = consumer
        self._share = share
        self._step = context.step
        self.committed: dict[TopicPartition, OffsetCommit] = {}
        self.pending: dict[int, dict[TopicPartition, OffsetCommit]] = {}
        #: The number of the present retention timer; 0 without one.
        self._armed = 0
        self._arms = 0

    @property
    def group_exists(self) -> bool:
        """True from the first member or commit on, until nothing of the group remains."""
        offsets = self.committed or self.pending
        exists = self._classic.exists or self._consumer.exists or self._share.exists
        return exists or bool(offsets)

    @property
    def _has_members(self) -> bool:
        return any((self._classic.members, self._consumer.members, self._share.members))

    def _forget_group_if_empty(self) -> None:
        """Forget a group without offsets, unless it has members."""
        if not self._has_members:
            self._classic.dissolve(errors.UnknownMemberIdError)
            self._consumer.dissolve()
            self._share.dissolve()

    # --- committing ----------------------------------------------------------------------------

    def handle_commit(self, request: CommitOffsets) -> None:
        """Handle a commit: of a member, or of any client while the group has no members."""
        error = self._error(request)
        if error is None:
            for tp, (offset, epoch, metadata) in request.offsets.items():
                commit = OffsetCommit(offset, epoch, metadata, self._step.now_ms)
                if request.producer_id is None:
                    self._store(tp, commit)
                else:
                    self._store_pending(request.producer_id, tp, commit)
            self._check_later()
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
        if self._share.exists:
            return errors.GroupIdNotFoundError
        if request.generation < 0 and not classic.members and not consumer.members:
            return None  # a simple consumer, without membership
        if not self.group_exists:
            return errors.IllegalGenerationError if transactional else errors.GroupIdNotFoundError
        named = request.generation >= 0 or request.member_id or request.instance_id is not None
        if transactional and not named:
            return None  # a producer that names no member
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
        if classic.state is ClassicGroupState.SYNCING:
            return errors.RebalanceInProgressError  # the assignment is about to change
        classic.touch(classic.members[request.member_id])
        return None

    def handle_end(self, request: EndTransaction) -> None:
        """Handle the end of a transaction: apply or drop its offsets."""
        log = self._context.log
        applied: dict[TopicPartition, Commit] = {}
        for tp, commit in self.pending.pop(request.producer_id, {}).items():
            pending = (PendingOffsetCommit, (request.producer_id, tp))
            # A later commit outside the transaction is newer.
            newest = log.position(*pending) > log.position(OffsetCommit, tp)
            log.forget((request.producer_id, tp))
            if request.committed and newest:
                self._store(tp, commit)
                applied[tp] = commit.offset, commit.leader_epoch, commit.metadata
        self._step.respond(request, applied)

    # --- fetching ------------------------------------------------------------------------------

    def handle_fetch(self, request: FetchOffsets) -> None:
        """Handle a lookup of committed offsets; a given member id and epoch must be valid."""
        consumer = self._consumer
        names_member = request.member_id is not None or request.epoch >= 0
        if consumer.exists and names_member:
            error = consumer.check(request.member_id or "", request.epoch)
            if error is not None:
                self._step.respond(request, FetchedOffsets({}, error=error))
                return
        unstable = frozenset(self._unstable()) if request.require_stable else frozenset()
        self._step.respond(request, FetchedOffsets(dict(self.committed), unstable))

    # --- deleting ------------------------------------------------------------------------------

    def handle_delete(self, request: DeleteOffsets) -> None:
        """Delete offsets of topics that no member subscribes to (KIP-496)."""
        if not self.group_exists:
            self._step.respond(request, errors.GroupIdNotFoundError)
            return
        found: dict[TopicPartition, Error] = {}
        for tp in request.partitions:
            in_use = self._consumer.subscribes(tp.topic) or self._classic.subscribes(tp.topic)
            found[tp] = errors.GroupSubscribedToTopicError if in_use else None
            if not in_use and tp in self.committed:
                self._forget(tp)
        self._step.respond(request, found)

    def handle_delete_group(self, request: DeleteGroup) -> None:
        """Delete the group with its offsets, if it has no members."""
        error: Error = None
        if not self.group_exists:
            error = errors.GroupIdNotFoundError
        elif self._has_members:
            error = errors.NonEmptyGroupError
        else:
            for tp in tuple(self.committed):
                self._forget(tp)
            self._forget_group_if_empty()
        self._step.respond(request, error)

    def _forget(self, tp: TopicPartition) -> None:
        self._context.log.forget(tp)
        del self.committed[tp]

    def _unstable(self) -> Iterator[TopicPartition]:
        for commits in self.pending.values():
            yield from commits

    def forget_topic(self, name: str) -> None:
        """Drop the offsets of a deleted topic."""
        for tp in [tp for tp in self.committed if tp.topic == name]:
            self._forget(tp)
        for producer_id, commits in self.pending.items():
            for tp in [tp for tp in commits if tp.topic == name]:
                self._context.log.forget((producer_id, tp))
                del commits[tp]

    # --- retention -----------------------------------------------------------------------------

    def _check_later(self) -> None:
        """Set the retention timer, unless it is set."""
        if not self._armed:
            self._arms += 1
            self._armed = self._arms
            interval_ms = self._context.settings.offsets_retention_check_interval_ms
            self._step.set_timer(self._step.now_ms + interval_ms, "offsets", number=self._armed)

    def drop_expired(self, number: int) -> None:
        """Drop expired offsets, and the group if nothing remains of it."""
        if number != self._armed:
            return
        self._armed = 0
        unstable = set(self._unstable())
        for tp in [tp for tp in self.committed if tp not in unstable and self._is_expired(tp)]:
            self._step.note(f"the committed offset of {tp.topic}-{tp.partition} has expired")
            self._forget(tp)
        if self.committed or unstable:
            self._check_later()
        else:
            self._forget_group_if_empty()

    def _is_expired(self, tp: TopicPartition) -> bool:
        since_ms = self._kept_since(tp)
        retention_ms = self._context.settings.offsets_retention_ms
        return since_ms is not None and self._step.now_ms - since_ms >= retention_ms

    def _kept_since(self, tp: TopicPartition) -> int | None:
        """Return when the retention of a commit began; None while it is in use."""
        committed_ms = self.committed[tp].committed_ms
        classic, consumer = self._classic, self._consumer
        if consumer.members:
            return None if consumer.subscribes(tp.topic) else committed_ms
        if not classic.protocol_type:
            return committed_ms
        if classic.state is ClassicGroupState.EMPTY:
            return classic.since_ms
        quiet = (
            classic.state is ClassicGroupState.STABLE
            and classic.protocol_type == consumer_protocol.CONSUMER
        )
        return committed_ms if quiet and not classic.subscribes(tp.topic) else None

    # --- the log -------------------------------------------------------------------------------

    def reload(self) -> None:
        """Read the log, as another coordinator does."""
        log = self._context.log
        self.committed = log.partitions(OffsetCommit)
        self.pending = {}
        for (producer_id, tp), pending in log.partitions(PendingOffsetCommit).items():
            self.pending.setdefault(producer_id, {})[tp] = pending.commit
        self._armed = 0
        if self.committed or self.pending:
            self._check_later()
