"""Commits offsets: sync (retried until a deadline), async (once), on an interval (once)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from kafka.errors import IllegalGenerationError, UnknownMemberIdError

from tandem_kafka.errors import (
    CommitDuringRebalanceError,
    CommitFailedError,
    KafkaError,
    RebalanceInProgressError,
    RetriableCommitFailedError,
)
from tandem_kafka.events.completable import Completion
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.request import ClientResponse, ToNode, UnsentRequest
from tandem_kafka.request_managers.base import IDLE, PollResult, RequestManager, RequestState
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.coordinator import CoordinatorManager
from tandem_kafka.request_managers.reactions import (
    COMMIT,
    COMMIT_RELEASING,
    Reaction,
    reaction_to,
)
from tandem_kafka.shared.group import NO_GENERATION
from tandem_kafka.shared.metadata import NO_TOPIC_ID
from tandem_kafka.types import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    TopicPartition,
    described,
    named,
)
from tandem_kafka.wire.messages import OffsetCommitRequest
from tandem_kafka.wire.topic_partitions import answered_entries, by_topic, raise_error_of

__all__ = ["CommitManager"]

log = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]

#: A coordinator that answers a commit with one of these has removed the member.
_MEMBERSHIP_OVER = (UnknownMemberIdError, IllegalGenerationError)
#: How long close() lets the coordinator be looked for.
CLOSE_GRACE_MS = 1_000
NO_TOPIC_IDS: Mapping[str, UUID] = {}
#: Topics go by their ids from this version on.
FIRST_VERSION_WITH_IDS = 10


@dataclass(slots=True, eq=False)
class _Commit:
    """A commit; `requested_by` is who the member was when it was asked for, with a generation.

    `topic_ids` are the topics that the offsets are of; of the others the metadata tell.
    """

    offsets: Offsets
    topic_ids: Mapping[str, UUID]
    future: Completion[Any]
    state: RequestState
    retry: bool
    releasing: bool
    requested_by: ConsumerGroupMetadata | None


class CommitManager(RequestManager):
    """Sends commits in the order they were asked for; several may be in flight.

    They reach the coordinator in that order: all take one connection, and a commit waits for an
    older one of the same partition that may have to be sent again.
    """

    def __init__(
        self,
        context: ManagerContext,
        coordinator: CoordinatorManager,
        refresh_metadata: Callable[[Iterable[str]], None],
    ) -> None:
        self._context = context
        self._coordinator = coordinator
        self._refresh_metadata = refresh_metadata
        self._commits: list[_Commit] = []
        self._auto_commit: Completion[Any] | None = None
        self._on_rejected: Callable[[Exception], None] = lambda _: None
        #: When commits fail if the coordinator is still not known: set by close.
        self._give_up_ms: int | None = None
        coordinator.on_fatal(self._fail_all)

    def on_rejected(self, callback: Callable[[Exception], None]) -> None:
        """Have `callback` take an error that says that the member of now is none any more."""
        self._on_rejected = callback

    # --- what is asked -------------------------------------------------------------------------

    def commit(
        self,
        offsets: Offsets,
        future: Completion[Any],
        topic_ids: Mapping[str, UUID] = NO_TOPIC_IDS,
        *,
        retry: bool,
        releasing: bool = False,
    ) -> None:
        """Commit `offsets`; with `retry` until somebody ends the future (a deadline).

        With `releasing` a topic that is gone is no reason to try again: a rebalance must not
        wait for it (KAFKA-16224); and a member epoch that has moved on meanwhile is one.

        Who has lost its membership and the partitions with it commits nothing of them: as somebody
        without membership it could, in a group that is empty by then, and take back what others
        have committed meanwhile.
        """
        if not offsets:
            future.complete(offsets)
            return
        group, subscription = self._context.group.metadata, self._context.subscription
        member = subscription.auto_assigned and group.generation_id != NO_GENERATION
        if (
            subscription.auto_assigned
            and not member
            and not subscription.assigned.keys().isdisjoint(offsets)
        ):
            lost = UnknownMemberIdError("this consumer is no member of the group any more")
            future.fail(_fenced(offsets, lost))
            return
        state = self._context.request_state()
        requested_by = group if member else None
        self._commits.append(
            _Commit(offsets, topic_ids, future, state, retry, releasing, requested_by)
        )

    def auto_commit(
        self,
        offsets: Offsets,
        future: Completion[Any],
        topic_ids: Mapping[str, UUID] = NO_TOPIC_IDS,
    ) -> None:
        """Commit on the interval: never two at a time, not retried, the next interval does."""
        if self._auto_commit is not None and not self._auto_commit.done:
            future.fail(CommitFailedError("the automatic commit before is still under way"))
            return
        future.then(partial(self._log_auto_commit, offsets))
        self._auto_commit = future
        self.commit(offsets, future, topic_ids, retry=False)

    def drain(self) -> None:
        """The consumer is closing: a coordinator that is not found soon is not waited for."""
        self._give_up_ms = self._context.clock.now_ms() + CLOSE_GRACE_MS

    @property
    def waiting(self) -> int:
        """How many commits have not come to an end, sent or not."""
        return len(self._commits)

    # --- the turn ------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> PollResult:
        """Send every commit whose back-off is over, none before an older one of its partitions."""
        if self._commits:
            self._fail_recreated_topics()
            self._commits = [c for c in self._commits if not c.future.done]
        if not self._commits:
            return IDLE
        destination = self._coordinator.offsets_destination()
        if destination is None:
            return self._without_coordinator(now_ms)
        unsent = []
        wait_ms = FOREVER_MS
        #: Partitions of commits that may have to be sent again.
        unsettled: set[TopicPartition] = set()
        for commit in self._commits:
            if unsettled.isdisjoint(commit.offsets):
                if commit.state.can_send(now_ms):
                    unsent.append(self._send(commit, destination))
                wait_ms = min(wait_ms, commit.state.wait_ms(now_ms))
            if commit.retry:
                unsettled.update(commit.offsets)
        return PollResult(tuple(unsent), wait_ms)

    def close(self, now_ms: int) -> PollResult:
        """Send what is there now; without a coordinator it fails."""
        self._give_up_ms = now_ms
        return self.poll(now_ms)

    def _without_coordinator(self, now_ms: int) -> PollResult:
        if self._give_up_ms is None:
            return IDLE
        if now_ms < self._give_up_ms:
            return PollResult(wait_ms=self._give_up_ms - now_ms)
        self._fail_all(CommitFailedError("Coordinator unknown and consumer is closing"))
        return IDLE

    def _send(self, commit: _Commit, destination: ToNode) -> UnsentRequest:
        topic_ids = self._topic_ids(commit)
        member = self._context.group.metadata
        if member.generation_id == NO_GENERATION and commit.requested_by is not None:
            member = commit.requested_by  # the coordinator knows whether that still is somebody
        return self._context.request(
            self._message(commit.offsets, topic_ids, member),
            destination,
            on_response=partial(self._handle_response, commit, topic_ids),
            on_error=partial(self._handle_error, commit, member),
            state=commit.state,
        )

    def _topic_ids(self, commit: _Commit) -> dict[str, UUID] | None:
        """Return the topics' ids, if all are known: only then may version 10 be spoken."""
        snapshot = self._context.metadata.snapshot
        ids = {tp.topic: snapshot.topic_id(tp.topic) for tp in commit.offsets}
        ids.update({name: commit.topic_ids.get(name, ids[name]) for name in ids})
        return None if NO_TOPIC_ID in ids.values() else ids

    def _message(
        self, offsets: Offsets, topic_ids: dict[str, UUID] | None, member: ConsumerGroupMetadata
    ) -> OffsetCommitRequest:
        topic_entry = OffsetCommitRequest.OffsetCommitRequestTopic
        partition_entry = topic_entry.OffsetCommitRequestPartition
        entries = by_topic(
            offsets,
            lambda tp, offset: partition_entry(
                partition_index=tp.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            ),
        )
        return OffsetCommitRequest(
            group_id=member.group_id,
            generation_id_or_member_epoch=member.generation_id,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            retention_time_ms=-1,
            topics=[
                topic_entry(
                    name=topic,
                    topic_id=topic_ids[topic] if topic_ids else NO_TOPIC_ID,
                    partitions=partitions,
                )
                for topic, partitions in entries.items()
            ],
            max_version=None if topic_ids else FIRST_VERSION_WITH_IDS - 1,
        )

    # --- the answer ----------------------------------------------------------------------------

    def _handle_response(
        self, commit: _Commit, topic_ids: dict[str, UUID] | None, response: ClientResponse
    ) -> None:
        self._context.metrics.record("commit-latency", response.latency_ms)
        names = None
        if topic_ids is not None and response.version >= FIRST_VERSION_WITH_IDS:
            names = {topic_id: name for name, topic_id in topic_ids.items()}
        raise_error_of(answered_entries(response.message.topics, commit.offsets, names))
        self._finish(commit)
        commit.future.complete(commit.offsets)

    def _handle_error(
        self, commit: _Commit, member: ConsumerGroupMetadata, error: Exception
    ) -> None:
        rebalanced = self._context.group.rebalanced_since(member)
        if isinstance(error, IllegalGenerationError) and rebalanced:
            # It was overtaken by the end of a JoinGroup: the member has lost nothing.
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
        if reaction is Reaction.REDISCOVER:
            self._coordinator.mark_unknown(error)
        elif reaction is Reaction.REFRESH:
            self._refresh_metadata({tp.topic for tp in commit.offsets})
        if reaction is Reaction.FENCED:
            self._fail(commit, _fenced(commit.offsets, error))
        elif reaction is Reaction.FAIL:
            self._fail(commit, error)
        elif not commit.retry:
            passing = RetriableCommitFailedError(f"the commit failed for a passing reason: {error}")
            passing.__cause__ = error
            self._fail(commit, passing)

    def _fail_recreated_topics(self) -> None:
        """Where a topic was made anew, the offsets of the old one are none of the new one."""
        snapshot = self._context.metadata.snapshot
        for commit in self._commits:
            for tp in commit.offsets:
                old, now = commit.topic_ids.get(tp.topic), snapshot.topic_id(tp.topic)
                if old is not None and NO_TOPIC_ID != now != old:
                    reason = f"topic {tp.topic} has been deleted and created again"
                    commit.future.fail(CommitFailedError(f"{reason}: {named(commit.offsets)}"))
                    break

    def _fail(self, commit: _Commit, error: BaseException) -> None:
        self._finish(commit)
        commit.future.fail(error)

    def _finish(self, commit: _Commit) -> None:
        if commit in self._commits:
            self._commits.remove(commit)

    def _log_auto_commit(self, offsets: Offsets, future: Completion[Any]) -> None:
        if future.error is None:
            return
        passing = isinstance(future.error, KafkaError) and future.error.retriable
        closing = self._give_up_ms is not None
        log.log(
            logging.INFO if passing else logging.WARNING,
            "auto-commit of %s failed%s: %s",
            described(offsets),
            "" if closing else ", the next interval tries again",
            future.error,
        )

    def _fail_all(self, error: Exception) -> None:
        commits, self._commits = self._commits, []
        for commit in commits:
            commit.future.fail(error)


def _fenced(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: BaseException) -> Exception:
    """Say whether the commit may be tried again: a member that is rebalancing still is one."""
    failure: Exception
    if isinstance(error, RebalanceInProgressError):
        failure = CommitDuringRebalanceError(
            f"the group is rebalancing and does not take the commit of {named(offsets)} now: "
            "poll(), which goes through with the rebalance, and commit what is still yours"
        )
    else:
        failure = CommitFailedError(
            f"the group has moved on and the commit of {named(offsets)} cannot be "
            f"done any more ({error}); poll() more often, or take fewer records at a time"
        )
    failure.__cause__ = error
    return failure
