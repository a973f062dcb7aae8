"""The subscription of the consumer and its assigned partitions.

Writer of every field, unless noted: the network thread. The application thread reads `assigned` and
`topics`, which are replaced as a whole and never modified in place.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from uuid import UUID

from tandem_kafka.errors import IllegalStateError, NotAssignedError
from tandem_kafka.state.partition import AssignedPartition, Changes, FetchState
from tandem_kafka.types import NO_TOPIC_ID, OffsetAndMetadata, TopicPartition


class SubscriptionKind(enum.Enum):
    """How the consumer gets its partitions."""

    NONE = "nothing"
    TOPICS = "topics"
    PATTERN = "a pattern"
    REGEX = "a pattern that the coordinator matches"
    USER_ASSIGNED = "partitions"


class SubscriptionState:
    """The subscription, and an `AssignedPartition` for each assigned partition."""

    __slots__ = (
        "_on_hold",
        "_settled_at",
        "_topics_of_interest",
        "_without_position",
        "assigned",
        "awaiting_drop",
        "changes",
        "kind",
        "number",
        "pattern",
        "regex",
        "resolved",
        "told_at",
        "topics",
        "version",
    )

    def __init__(self) -> None:
        self.kind = SubscriptionKind.NONE
        #: Increases with each `unsubscribe`.
        self.number = 0
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.regex: str | None = None
        #: False from the subscription to a pattern until metadata show the matching topics.
        self.resolved = True
        self.assigned: Mapping[TopicPartition, AssignedPartition] = {}
        #: Increases when `assigned` is replaced or the broker to fetch a partition from changes.
        self.version = 0
        #: Changes of partitions that affect fetching.
        self.changes = Changes()
        #: Partitions that were told to wait for a drop; some may not any more. Replaced as a whole.
        self.awaiting_drop: frozenset[TopicPartition] = frozenset()
        # Cached results, each with the count for which it is valid: with 10,000 partitions, they
        # are too expensive to compute in each iteration.
        self._topics_of_interest: tuple[int, frozenset[str], frozenset[str]] = (
            -1,
            frozenset(),
            frozenset(),
        )
        self._without_position: tuple[int, tuple[AssignedPartition, ...]] = (-1, ())
        # Writer: the application thread.
        self._settled_at = -1
        #: The count of changes at which the application knew of every position.
        self.told_at = -1
        self._on_hold: tuple[int, tuple[AssignedPartition, ...]] = (-1, ())

    # --- read by either thread ---------------------------------------------------------------

    @property
    def auto_assigned(self) -> bool:
        """True if the partitions come from a subscription."""
        return self.kind not in (SubscriptionKind.NONE, SubscriptionKind.USER_ASSIGNED)

    def get(self, tp: TopicPartition) -> AssignedPartition:
        """Return the state of an assigned partition.

        Raises:
            NotAssignedError: It is not assigned to this consumer.
        """
        state = self.assigned.get(tp)
        if state is None:
            advice = "subscribe() or assign() first"
            if self.auto_assigned:
                advice = "poll() until it is assigned, or make the call in on_partitions_assigned()"
            msg = f"No current assignment for partition {tp.topic}-{tp.partition}: {advice}"
            raise NotAssignedError(msg)
        return state

    def may_assign(self, topic: str) -> bool:
        """Tell whether a coordinator may assign partitions of a topic."""
        return self.kind is SubscriptionKind.REGEX or topic in self.topics

    def has(self, state: AssignedPartition) -> bool:
        """Return whether this is the present assignment of its partition."""
        return self.assigned.get(state.tp) is state

    def to_fetch_again(self) -> frozenset[TopicPartition]:
        """Return the partitions whose records that were fetched in advance must be dropped."""
        assigned = self.assigned
        states = [assigned.get(tp) for tp in self.awaiting_drop]
        return frozenset(
            [each.tp for each in states if each and each.state is FetchState.AWAIT_DROP]
        )

    def topics_of_interest(self) -> frozenset[str]:
        """Return the topics whose metadata is needed."""
        # Invariant: read first. Either thread comes here, and what has changed is found next time.
        version, topics = self.version, self.topics
        known, names, found = self._topics_of_interest
        if known != version or names is not topics:
            found = topics | {tp.topic for tp in self.assigned}
            self._topics_of_interest = (version, topics, found)
        return found

    def on_hold(self) -> tuple[AssignedPartition, ...]:
        """Application thread: return what the application or its workers have paused."""
        known = self.changes.count  # read first, so that a concurrent change is seen next time
        count, found = self._on_hold
        if count != known:
            found = tuple([state for state in self.assigned.values() if state.on_hold])
            self._on_hold = (known, found)
        return found

    def topic_ids(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, UUID]:
        """Return the topic id of each position; by default, of all partitions.

        They may differ in one topic, while it is recreated.

        Call this before `consumed_offsets`: if a topic is recreated in between, the coordinator
        then rejects the commit.
        """
        assigned = self.assigned
        states = (assigned.get(tp) for tp in (assigned if partitions is None else partitions))
        return {
            state.tp: state.topic_id
            for state in states
            if state is not None and state.topic_id != NO_TOPIC_ID
        }

    def consumed_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions after the returned records, for a commit."""
        offsets = {}
        for tp, state in self.assigned.items():
            position = state.position
            if position is not None and state.state in _POSITIONED:
                offsets[tp] = OffsetAndMetadata(position.offset, "", position.leader_epoch)
        return offsets

    def all_settled(self) -> bool:
        """Application thread: return whether every assigned partition can be fetched."""
        count = self.changes.count  # read first, so that a concurrent change is seen next time
        if count == self._settled_at:
            return True
        settled = all(
            s.state is FetchState.FETCHING
            and not (s.awaiting_callback or s.pending_revocation or s.dropped)
            for s in self.assigned.values()
        )
        if settled:
            self._settled_at = count
        return settled

    def tell_again(self, partitions: Iterable[TopicPartition]) -> None:
        """Application thread: let the next poll() tell where these partitions continue."""
        assigned = self.assigned
        for tp in partitions:
            if tp in assigned:
                assigned[tp].told = None
        self.told_at = -1

    # --- network thread ----------------------------------------------------------------------

    def without_position(self) -> tuple[AssignedPartition, ...]:
        """Return the partitions without a valid position."""
        count, found = self._without_position
        if count != self.changes.count:
            states = self.assigned.values()
            found = tuple([s for s in states if s.state is not FetchState.FETCHING])
            self._without_position = (self.changes.count, found)
        return found

    def subscribe(self, topics: Iterable[str]) -> bool:
        """Subscribe to topics by name; return whether the topics changed."""
        self._become(SubscriptionKind.TOPICS)
        changed = self._set_topics(frozenset(topics))
        self._note_dropped(self.assigned.values())
        return changed

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        """Subscribe to every topic that matches a pattern; `set_matched` sets the topics."""
        self._become(SubscriptionKind.PATTERN)
        self.resolved = pattern == self.pattern and self.resolved
        self.pattern = pattern

    def subscribe_regex(self, regex: str) -> None:
        """Subscribe to every topic that the coordinator matches."""
        self._become(SubscriptionKind.REGEX)
        self.regex = regex

    def set_matched(self, topics: Iterable[str]) -> bool:
        """Set the topics that match the pattern; return whether they changed."""
        self.resolved = True
        return self._set_topics(frozenset(topics))

    def assign_by_user(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign the user's partitions; those that were already assigned keep their state."""
        self._become(SubscriptionKind.USER_ASSIGNED)
        self.set_assigned(partitions)

    def set_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment; partitions that stay keep their state."""
        known = self.assigned
        assigned = {tp: known.get(tp) or AssignedPartition(tp, self.changes) for tp in partitions}
        # The assignment may be older than the subscription and contain topics dropped since.
        self._note_dropped(state for tp, state in assigned.items() if tp not in known)
        self.assigned = assigned
        self.version += 1
        self.changes.count += 1

    def unsubscribe(self) -> None:
        """End the subscription or assignment."""
        self.kind = SubscriptionKind.NONE
        self.number += 1
        self.topics = frozenset()
        self.pattern = self.regex = None
        self.resolved = True
        self.set_assigned(())

    def check_kind(self, kind: SubscriptionKind) -> None:
        """Raise if `kind` conflicts with the current subscription.

        Raises:
            IllegalStateError: Topics, patterns and partitions exclude each other.
        """
        if self.kind not in (SubscriptionKind.NONE, kind):
            msg = (
                f"Cannot subscribe to {kind.value}: already subscribed to {self.kind.value}; "
                "topics, patterns and partitions are mutually exclusive, call unsubscribe() first"
            )
            raise IllegalStateError(msg)

    def _become(self, kind: SubscriptionKind) -> None:
        self.check_kind(kind)
        self.kind = kind

    def _note_dropped(self, states: Iterable[AssignedPartition]) -> None:
        """Return no more records of unsubscribed topics, even before the group revokes them."""
        if self.kind is not SubscriptionKind.TOPICS:
            return
        for state in states:
            dropped = state.tp.topic not in self.topics
            if dropped != state.dropped:
                state.dropped = dropped

    def _set_topics(self, topics: frozenset[str]) -> bool:
        changed = topics != self.topics
        self.topics = topics
        return changed


_POSITIONED = frozenset({FetchState.FETCHING, FetchState.AWAIT_VALIDATION, FetchState.AWAIT_DROP})
