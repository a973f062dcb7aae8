"""What the consumer reads: its subscription and the partitions assigned to it.

Writer of every field: the network thread. The application thread reads whole values, which are
replaced, never changed in place: `assigned`, `topics`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from uuid import UUID

from tandem_kafka.errors import IllegalStateError, NotAssignedError
from tandem_kafka.shared.metadata import NO_TOPIC_ID
from tandem_kafka.shared.partition import AssignedPartition, Changes, FetchState
from tandem_kafka.types import OffsetAndMetadata, TopicPartition

__all__ = ["SubscriptionKind", "SubscriptionState"]


class SubscriptionKind(enum.Enum):
    """How partitions come to the consumer."""

    NONE = "nothing"
    TOPICS = "topics"
    PATTERN = "a pattern"
    REGEX = "a pattern that the coordinator matches"
    USER_ASSIGNED = "partitions"


class SubscriptionState:
    """The subscription, and an `AssignedPartition` for each partition that is ours."""

    def __init__(self) -> None:
        self.kind = SubscriptionKind.NONE
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.regex: str | None = None
        #: False between subscribing to a pattern and the metadata that tells what it matches.
        self.resolved = True
        self.assigned: Mapping[TopicPartition, AssignedPartition] = {}
        #: Grows whenever `assigned` is replaced or a partition's source of fetches changes.
        self.version = 0
        #: Partitions that may have to be fetched differently.
        self.changes = Changes()
        # What was found when the changes were counted so many: there may be 10,000 partitions.
        self._topics_of_interest: tuple[int, frozenset[str], frozenset[str]] = (
            -1,
            frozenset(),
            frozenset(),
        )
        self._without_position: tuple[int, tuple[AssignedPartition, ...]] = (-1, ())
        # Writer: the application thread.
        self._settled_at = -1
        self._paused: tuple[int, tuple[AssignedPartition, ...]] = (-1, ())

    # --- read by either thread ---------------------------------------------------------------

    @property
    def auto_assigned(self) -> bool:
        """True when a group hands out the partitions."""
        return self.kind not in (SubscriptionKind.NONE, SubscriptionKind.USER_ASSIGNED)

    def get(self, tp: TopicPartition) -> AssignedPartition:
        """Return the state of an assigned partition.

        Raises:
            NotAssignedError: It is not assigned to this consumer.
        """
        state = self.assigned.get(tp)
        if state is None:
            msg = f"No current assignment for partition {tp.topic}-{tp.partition}"
            raise NotAssignedError(msg)
        return state

    def topics_of_interest(self) -> frozenset[str]:
        """Names whose metadata is needed."""
        version, topics, found = self._topics_of_interest
        if version != self.version or topics is not self.topics:
            found = self.topics | {tp.topic for tp in self.assigned}
            self._topics_of_interest = (self.version, self.topics, found)
        return found

    def paused(self) -> tuple[AssignedPartition, ...]:
        """Partitions that the user has paused; for the application thread."""
        known = self.changes.count  # before looking: a change meanwhile is looked at next time
        count, found = self._paused
        if count != known:
            found = tuple([state for state in self.assigned.values() if state.paused])
            self._paused = (known, found)
        return found

    def topic_ids(self, partitions: Iterable[TopicPartition] | None = None) -> dict[str, UUID]:
        """Return the topics that positions are of, by name; of all that are assigned by default.

        Ask before `consumed_offsets`.
        """
        assigned = self.assigned
        states = (assigned.get(tp) for tp in (assigned if partitions is None else partitions))
        return {
            state.tp.topic: state.topic_id
            for state in states
            if state is not None and state.topic_id != NO_TOPIC_ID
        }

    def consumed_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Positions of what has been handed out, as a commit sends them."""
        offsets = {}
        for tp, state in self.assigned.items():
            position = state.position
            if position is not None and state.state in _POSITIONED:
                offsets[tp] = OffsetAndMetadata(position.offset, "", position.leader_epoch)
        return offsets

    def all_settled(self) -> bool:
        """True when every assigned partition can be read; for the application thread."""
        count = self.changes.count  # before looking: a change meanwhile is looked at next time
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

    # --- network thread ----------------------------------------------------------------------

    def without_position(self) -> tuple[AssignedPartition, ...]:
        """Partitions that cannot be fetched before something is looked up."""
        count, found = self._without_position
        if count != self.changes.count:
            states = self.assigned.values()
            found = tuple([s for s in states if s.state is not FetchState.FETCHING])
            self._without_position = (self.changes.count, found)
        return found

    def subscribe(self, topics: Iterable[str]) -> bool:
        """Subscribe to names; True if they changed."""
        self._become(SubscriptionKind.TOPICS)
        changed = self._set_topics(frozenset(topics))
        self._note_dropped(self.assigned.values())
        return changed

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        """Subscribe to every topic that a pattern matches; `match_pattern` finds them."""
        self._become(SubscriptionKind.PATTERN)
        self.resolved = pattern == self.pattern and self.resolved
        self.pattern = pattern

    def subscribe_regex(self, regex: str) -> None:
        """Subscribe to every topic that the coordinator finds to match."""
        self._become(SubscriptionKind.REGEX)
        self.regex = regex

    def set_matched(self, topics: Iterable[str]) -> bool:
        """Set the topics that the pattern matches now; True if they changed."""
        self.resolved = True
        return self._set_topics(frozenset(topics))

    def assign_by_user(self, partitions: Iterable[TopicPartition]) -> None:
        """Take the partitions the user chose; those already there keep their state."""
        self._become(SubscriptionKind.USER_ASSIGNED)
        self.set_assigned(partitions)

    def set_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment; partitions that stay keep their state."""
        known = self.assigned
        assigned = {tp: known.get(tp) or AssignedPartition(tp, self.changes) for tp in partitions}
        # A group may still hand out what was dropped while it was under way.
        self._note_dropped(state for tp, state in assigned.items() if tp not in known)
        self.assigned = assigned
        self.version += 1
        self.changes.count += 1

    def unsubscribe(self) -> None:
        """Drop subscription and assignment."""
        self.kind = SubscriptionKind.NONE
        self.topics = frozenset()
        self.pattern = self.regex = None
        self.resolved = True
        self.set_assigned(())

    def check_kind(self, kind: SubscriptionKind) -> None:
        """Raise if `kind` does not go with what is subscribed already.

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
        """No more records of a topic that was dropped, even before the group takes it back."""
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


_POSITIONED = frozenset({FetchState.FETCHING, FetchState.AWAIT_VALIDATION})
