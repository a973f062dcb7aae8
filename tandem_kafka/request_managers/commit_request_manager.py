"""Commits offsets: synchronously (with retries), asynchronously (once), on an interval (once)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any
from uuid import UUID

from kafka.errors import (
    IllegalGenerationError,
    InvalidCommitOffsetSizeError,
    OffsetMetadataTooLargeError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)

from tandem_kafka.config import Config
from tandem_kafka.dataclass import dataclass
from tandem_kafka.errors import (
    BrokerResponseError,
    CommitDuringRebalanceError,
    CommitFailedError,
    FencedInstanceIdError,
    KafkaError,
    RebalanceInProgressError,
    RetriableCommitFailedError,
    for_code,
)
from tandem_kafka.events.application import AutoCommit, CommitAsync, CommitSync
from tandem_kafka.events.completable import Completion
from tandem_kafka.logs import client_logger
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.outages import Outage
from tandem_kafka.network.request import ClientResponse, ToNode, UnsentRequest
from tandem_kafka.request_managers.base import IDLE, PollResult, RequestManager, RequestState
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.coordinator_request_manager import CoordinatorRequestManager
from tandem_kafka.request_managers.group_errors import advised
from tandem_kafka.request_managers.reactions import (
    COMMIT,
    COMMIT_RELEASING,
    Reaction,
    reaction_to,
)
from tandem_kafka.state.group import NO_GENERATION
from tandem_kafka.types import (
    NO_TOPIC_ID,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    Offsets,
    TopicPartition,
    names_of,
    offsets_text,
)
from tandem_kafka.wire.messages import OffsetCommitRequest
from tandem_kafka.wire.topic_partitions import raise_error_of, requested_entries

log = client_logger(__name__)


#: Errors that mean that the coordinator has removed the member.
_MEMBERSHIP_OVER = (UnknownMemberIdError, IllegalGenerationError)
#: Errors of single partitions; the broker sends the others to the coordinator nevertheless.
_OF_ONE_TOPIC = frozenset(
    error.errno
    for error in (
        UnknownTopicOrPartitionError,
        UnknownTopicIdError,
        TopicAuthorizationFailedError,
        OffsetMetadataTooLargeError,
        InvalidCommitOffsetSizeError,
    )
)
#: How long close() waits for the coordinator to be found.
CLOSE_GRACE_MS = 1_000
#: Automatic commits that fail for a shorter time are not worth a warning.
AUTO_PATIENCE_MS = 3_000
#: From this version on, requests identify topics by id.
FIRST_VERSION_WITH_IDS = 10


CommitEvent = CommitSync | CommitAsync | AutoCommit


@dataclass(eq=False)
class _Commit:
    """A commit.

    Attributes:
        offsets: What the coordinator has not confirmed yet.
        topic_missing: The last attempt failed because a topic does not exist.
        requested_by: The membership at the time of the call, None without a generation.
    """

    event: CommitEvent
    offsets: dict[TopicPartition, OffsetAndMetadata]
    state: RequestState
    requested_by: ConsumerGroupMetadata | None
    topic_missing: bool = False

    @property
    def retry(self) -> bool:
        """Whether transient errors are retried, until the future is done."""
        return isinstance(self.event, CommitSync)

    @property
    def releasing(self) -> bool:
        """See `CommitSync`."""
        return isinstance(self.event, CommitSync) and self.event.releasing


class CommitRequestManager(RequestManager):
    """Sends commits in the order of the calls; several may be in flight.

    They must reach the coordinator in this order. All use one connection, and a commit waits for
    an older one of the same partition if that may be sent again.
    """

    def __init__(
        self,
        context: ManagerContext,
        coordinator: CoordinatorRequestManager,
        refresh_metadata: Callable[[Iterable[str]], None],
    ) -> None:
        self._context = context
        self._coordinator = coordinator
        self._refresh_metadata = refresh_metadata
        self._commits: list[_Commit] = []
        #: The outage of automatic commits.
        self._outage = Outage(AUTO_PATIENCE_MS)
        self._auto_commit: Completion[Any] | None = None
        self._on_rejected: Callable[[Exception], None] = lambda _: None
        #: When commits fail if the coordinator is still unknown; set by close.
        self._give_up_ms: int | None = None
        coordinator.on_fatal(self._fail_all)

    def on_rejected(self, callback: Callable[[Exception], None]) -> None:
        """Call `callback` with an error that means that the current membership has ended."""
        self._on_rejected = callback

    # --- calls ---------------------------------------------------------------------------------

    def commit(self, event: CommitEvent) -> None:
        """Commit offsets.

        If the consumer has lost its membership, commits of its former partitions fail. A request
        without a membership would succeed in a group that has become empty, and could overwrite
        later commits of other members.
        """
        offsets, future = event.offsets, event.future
        if not offsets:
            future.complete(offsets)
            return
        group, subscription = self._context.group.metadata, self._context.subscription
        member = subscription.auto_assigned and group.generation_id != NO_GENERATION
        if (
            subscription.auto_assigned
            and not member
            and not {*subscription.assigned, *event.assigned}.isdisjoint(offsets)
        ):
            future.fail(_fenced(offsets, UnknownMemberIdError(), self._context.config))
            return
        state = self._context.request_state()
        self._commits.append(_Commit(event, dict(offsets), state, group if member else None))

    def auto_commit(self, event: AutoCommit) -> None:
        """Commit once without retries, unless the previous automatic commit is in flight."""
        future = event.future
        if self._auto_commit is not None and not self._auto_commit.done:
            future.fail(CommitFailedError("the previous automatic commit is still in flight"))
            return
        future.then(partial(self._log_auto_commit, event.offsets))
        self._auto_commit = future
        self.commit(event)

    def drain(self) -> None:
        """Wait only briefly for an unknown coordinator, because the consumer is closing."""
        self._give_up_ms = self._context.clock.now_ms() + CLOSE_GRACE_MS

    @property
    def waiting(self) -> int:
        """The number of commits that are not done, sent or not."""
        return len(self._commits)

    # --- requests ------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> PollResult:
        """Send every commit whose backoff is over, but not before older ones of its partitions."""
        if self._commits:
            self._fail_outdated()
            self._commits = [c for c in self._commits if not c.event.future.done]
        if not self._commits:
            return IDLE
        destination = self._coordinator.offsets_destination()
        if destination is None:
            return self._without_coordinator(now_ms)
        unsent = []
        wait_ms = FOREVER_MS
        #: Partitions of commits that may have to be sent again, and of those that wait for a topic.
        unsettled: set[TopicPartition] = set()
        missing: set[TopicPartition] = set()
        for commit in self._commits:
            # Invariant: a rebalance does not wait for a deleted topic, also if a commit does.
            if unsettled.isdisjoint(commit.offsets) and (
                commit.releasing or missing.isdisjoint(commit.offsets)
            ):
                if commit.state.can_send(now_ms):
                    unsent.append(self._send(commit, destination))
                wait_ms = min(wait_ms, commit.state.wait_ms(now_ms))
            if commit.retry:
                (missing if commit.topic_missing else unsettled).update(commit.offsets)
        return PollResult(tuple(unsent), wait_ms)

    def close(self, now_ms: int) -> PollResult:
        """Send all commits now; without a coordinator, they fail."""
        self._give_up_ms = now_ms
        return self.poll(now_ms)

    def _without_coordinator(self, now_ms: int) -> PollResult:
        if self._give_up_ms is None:
            return IDLE
        if now_ms < self._give_up_ms:
            return PollResult(wait_ms=self._give_up_ms - now_ms)
        self._fail_all(
            CommitFailedError(
                "the consumer is closing and has found no group coordinator to commit to"
            )
        )
        return IDLE

    def _send(self, commit: _Commit, destination: ToNode) -> UnsentRequest:
        topic_ids = self._topic_ids(commit)
        member = self._context.group.metadata
        if member.generation_id == NO_GENERATION and commit.requested_by is not None:
            member = commit.requested_by  # the coordinator decides whether it is still valid
        return self._context.request(
            self._message(commit.offsets, topic_ids, member),
            destination,
            on_response=partial(self._handle_response, commit, topic_ids),
            on_error=partial(self._handle_error, commit, member),
            state=commit.state,
        )

    def _topic_ids(self, commit: _Commit) -> dict[TopicPartition, UUID] | None:
        """Return the topic ids if all are known, as version 10 requires."""
        snapshot, known = self._context.metadata.snapshot, commit.event.topic_ids
        ids = {tp: known.get(tp, snapshot.topic_id(tp.topic)) for tp in commit.offsets}
        return None if NO_TOPIC_ID in ids.values() else ids

    def _message(
        self,
        offsets: Offsets,
        topic_ids: Mapping[TopicPartition, UUID] | None,
        member: ConsumerGroupMetadata,
    ) -> OffsetCommitRequest:
        topic_entry = OffsetCommitRequest.OffsetCommitRequestTopic
        partition_entry = topic_entry.OffsetCommitRequestPartition
        entries: dict[tuple[str, UUID], list[Any]] = {}
        for tp, offset in offsets.items():
            entry = partition_entry(
                partition_index=tp.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
            topic_id = topic_ids[tp] if topic_ids else NO_TOPIC_ID
            entries.setdefault((tp.topic, topic_id), []).append(entry)
        return OffsetCommitRequest(
            group_id=member.group_id,
            generation_id_or_member_epoch=member.generation_id,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            retention_time_ms=-1,
            topics=[
                topic_entry(name=topic, topic_id=topic_id, partitions=partitions)
                for (topic, topic_id), partitions in entries.items()
            ],
            max_version=None if topic_ids else FIRST_VERSION_WITH_IDS - 1,
        )

    # --- responses -----------------------------------------------------------------------------

    def _handle_response(
        self,
        commit: _Commit,
        topic_ids: Mapping[TopicPartition, UUID] | None,
        response: ClientResponse,
    ) -> None:
        self._context.metrics.record("commit-latency", response.latency_ms)
        names = None
        if topic_ids is not None and response.version >= FIRST_VERSION_WITH_IDS:
            names = {topic_id: tp.topic for tp, topic_id in topic_ids.items()}
        asked = tuple(commit.offsets)
        entries = requested_entries(response.message.topics, asked, names)
        self._note_stored(commit, [tp for tp, entry in entries.items() if not entry.error_code])
        failed = {tp: e.error_code for tp, e in entries.items() if e.error_code}
        self._note_errors(commit, {tp: for_code(number)() for tp, number in failed.items()})
        # Invariant: an error of the group first, which all partitions have that could be committed.
        # What follows from a deleted topic would otherwise befall the others, which are not stored.
        raise_error_of({tp: e for tp, e in entries.items() if e.error_code not in _OF_ONE_TOPIC})
        raise_error_of(entries, asked)
        self._context.metrics.happened("last-commit-seconds-ago")
        self._finish(commit)
        offsets = commit.event.offsets
        if log.isEnabledFor(logging.DEBUG):
            at = [f"{tp.topic}-{tp.partition} at {at.offset}" for tp, at in offsets.items()]
            log.debug("committed %s", ", ".join(at))
        commit.event.future.complete(offsets)

    @staticmethod
    def _note_stored(commit: _Commit, stored: Iterable[TopicPartition]) -> None:
        """Do not send these offsets again, which would set back later commits."""
        for tp in stored:
            del commit.offsets[tp]
            if isinstance(commit.event, CommitSync):
                commit.event.stored.add(tp)

    @staticmethod
    def _note_errors(commit: _Commit, errors: Mapping[TopicPartition, Exception]) -> None:
        """Note the errors, in case that the time of the caller is over before a retry succeeds."""
        if isinstance(commit.event, CommitSync):
            commit.event.last_errors.clear()
            commit.event.last_errors.update(errors)

    def _handle_error(
        self, commit: _Commit, member: ConsumerGroupMetadata, error: Exception
    ) -> None:
        if not isinstance(error, BrokerResponseError):  # of the request
            self._note_errors(commit, dict.fromkeys(commit.offsets, error))
        rebalanced = self._context.group.rebalanced_since(member)
        if isinstance(error, IllegalGenerationError) and rebalanced:
            # A JoinGroup completed before the commit arrived; the membership has not ended.
            overtaken = RebalanceInProgressError(str(error))
            overtaken.__cause__ = error
            error = overtaken
        self._react(commit, error)
        now = self._context.group.metadata
        same = (now.generation_id, now.member_id) == (member.generation_id, member.member_id)
        if isinstance(error, _MEMBERSHIP_OVER) and same and now.generation_id != NO_GENERATION:
            self._on_rejected(error)

    def _react(self, commit: _Commit, error: Exception) -> None:
        table = COMMIT_RELEASING if commit.releasing else COMMIT
        reaction = reaction_to(table, error)
        commit.topic_missing = reaction is Reaction.REFRESH
        if reaction is Reaction.REDISCOVER:
            self._coordinator.mark_unknown(error)
        elif reaction is Reaction.REFRESH:
            self._refresh_metadata({tp.topic for tp in commit.offsets})
        if reaction is Reaction.FENCED:
            self._fail(commit, _fenced(commit.offsets, error, self._context.config))
        elif reaction is Reaction.FAIL:
            self._fail(commit, advised(error, self._context.config))
        elif not commit.retry:
            transient = RetriableCommitFailedError(
                f"the commit failed with a transient error: {error}; commit again"
            )
            transient.__cause__ = error
            self._fail(commit, transient)

    def _fail_outdated(self) -> None:
        """Fail commits that must not be sent, or sent again."""
        for commit in self._commits:
            reason = self._recreated(commit) or self._released(commit)
            if reason is not None:
                names = names_of(commit.offsets)
                commit.event.future.fail(CommitFailedError(f"cannot commit {names}: {reason}"))

    def _recreated(self, commit: _Commit) -> str | None:
        """Find a recreated topic: offsets of the old topic are not valid in the new."""
        snapshot = self._context.metadata.snapshot
        for tp in commit.offsets:
            old, now = commit.event.topic_ids.get(tp), snapshot.topic_id(tp.topic)
            if old is not None and NO_TOPIC_ID != now != old:
                return (
                    f"topic {tp.topic} has been deleted and recreated, so the offsets are no "
                    "longer valid"
                )
        return None

    def _released(self, commit: _Commit) -> str | None:
        """Find partitions that this member has released since the call.

        Invariant: a commit is not sent in a later tenure of its partitions. A request that is in
        flight has the generation or epoch of its tenure, so that the coordinator can reject it; one
        that is sent again would have a newer one, and set back what the next owner has committed.
        """
        before, now = commit.event.assigned, self._context.subscription.assigned
        if commit.requested_by is None or before is now or commit.state.in_flight:
            return None
        released = [tp for tp in commit.offsets if before.get(tp) not in (None, now.get(tp))]
        if not released:
            return None
        return f"{names_of(released)} had been released before, and may belong to another member"

    def _fail(self, commit: _Commit, error: BaseException) -> None:
        self._finish(commit)
        commit.event.future.fail(error)

    def _finish(self, commit: _Commit) -> None:
        if commit in self._commits:
            self._commits.remove(commit)

    def _log_auto_commit(self, offsets: Offsets, future: Completion[Any]) -> None:
        now_ms = self._context.clock.now_ms()
        if future.error is None:
            if self._outage.succeeded(now_ms):
                log.warning(
                    "auto-commits succeed again after %d s; failed commits: %d",
                    self._outage.lasted_s,
                    self._outage.failures,
                )
            return
        transient = isinstance(future.error, KafkaError) and future.error.retriable
        retried = self._give_up_ms is None and (
            isinstance(future.error, CommitDuringRebalanceError)
            or not isinstance(future.error, (CommitFailedError, FencedInstanceIdError))
        )
        due = self._outage.failed(now_ms, patient=transient)
        log.log(
            logging.WARNING if due else logging.DEBUG,
            "auto-commit of %s failed: %s%s",
            offsets_text(offsets),
            future.error,
            "; it is retried after auto_commit_interval_ms" if retried else "",
        )

    def _fail_all(self, error: Exception) -> None:
        commits, self._commits = self._commits, []
        for commit in commits:
            commit.event.future.fail(error)


def _fenced(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], error: BaseException, config: Config
) -> Exception:
    """Return the error for a rejected commit; during a rebalance, it can be retried."""
    failure: Exception
    if isinstance(error, RebalanceInProgressError):
        failure = CommitDuringRebalanceError(
            f"the group is rebalancing and rejected the commit of {names_of(offsets)}; call poll() "
            "to complete the rebalance, then commit the partitions that are still assigned"
        )
    else:
        failure = CommitFailedError(
            f"the commit of {names_of(offsets)} was rejected, because this consumer is no longer a "
            f"member of the group {config.group_id!r} ({type(error).__name__}); call poll() at "
            f"least every {config.max_poll_interval_ms} ms (max_poll_interval_ms), or reduce "
            "max_poll_records"
        )
    failure.__cause__ = error
    return failure
