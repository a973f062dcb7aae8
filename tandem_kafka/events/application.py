"""What the application thread asks of the network thread.

Every event carries a future and an absolute deadline. The network thread looks at each one once,
in order (`engine/application_event_processor.py`); the future may end much later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import UUID

from tandem_kafka.events.completable import NO_DEADLINE_MS, Completion
from tandem_kafka.types import (
    LeaveOperation,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)

__all__ = [
    "ApplicationEvent",
    "ApplyAssignment",
    "Assign",
    "AutoCommit",
    "Bootstrap",
    "CallbackCompleted",
    "Close",
    "CommitAsync",
    "CommitSync",
    "CurrentLag",
    "DrainCommits",
    "DropReadAhead",
    "EnforceRebalance",
    "Event",
    "FetchCommitted",
    "LeaveGroup",
    "ListOffsets",
    "ListTopics",
    "PartitionsForTopic",
    "Pause",
    "Poll",
    "PrepareToLeave",
    "ResetOffsets",
    "Resume",
    "Seek",
    "StopAt",
    "Subscribe",
    "SubscribePattern",
    "SubscribeRegex",
    "Unsubscribe",
    "UpdatePositions",
]

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
TopicIds = Mapping[str, UUID]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Event:
    """What all events have.

    Attributes:
        deadline_ms: When the caller stops waiting, in the clock's time.
        future: The result.
    """

    operation: ClassVar[str] = ""
    #: A metadata error (an invalid topic, a refused log-in) fails an event of this kind.
    needs_metadata: ClassVar[bool] = False

    deadline_ms: int = NO_DEADLINE_MS
    future: Completion[Any] = field(default_factory=Completion, repr=False)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Poll(Event):
    """The application is in poll(), and something waits for that: join, look positions up."""

    operation: ClassVar[str] = "poll()"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AutoCommit(Event):
    """The auto-commit interval is over; `offsets` are those of the records handed out."""

    operation: ClassVar[str] = "auto-commit"
    offsets: Offsets
    topic_ids: TopicIds = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CommitSync(Event):
    """Commit, retrying until the deadline.

    `topic_ids` are the topics that the positions are of, where they are known.
    `releasing`: the partitions are about to be given back, so a topic that is gone is not
    waited for, and the member epoch that counts is the newest, not the one at the call.
    """

    operation: ClassVar[str] = "commit()"
    offsets: Offsets
    topic_ids: TopicIds = field(default_factory=dict)
    releasing: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CommitAsync(Event):
    """Commit once; what comes of it goes to a callback."""

    operation: ClassVar[str] = "commit_async()"
    offsets: Offsets
    topic_ids: TopicIds = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FetchCommitted(Event):
    """Look committed offsets up; the result has None for a partition without one."""

    operation: ClassVar[str] = "committed()"
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ListOffsets(Event):
    """Look offsets up by timestamp (-1 end, -2 beginning); None where there is no such record."""

    operation: ClassVar[str] = "looking offsets up"
    needs_metadata: ClassVar[bool] = True
    timestamps: Mapping[TopicPartition, int]
    future: Completion[dict[TopicPartition, OffsetAndTimestamp | None]] = field(
        default_factory=Completion, repr=False
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class UpdatePositions(Event):
    """Give every assigned partition a valid position; done when `partition` has one."""

    operation: ClassVar[str] = "position()"
    needs_metadata: ClassVar[bool] = True
    partition: TopicPartition


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Seek(Event):
    """Go on at an offset; with a leader epoch the position is validated first (KIP-320)."""

    operation: ClassVar[str] = "seek()"
    partition: TopicPartition
    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StopAt(Event):
    """Fetch nothing of a partition from an offset on; None ends that."""

    operation: ClassVar[str] = "stop_at()"
    partition: TopicPartition
    offset: int | None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ResetOffsets(Event):
    """Look the position up anew by timestamp (-1 end, -2 beginning)."""

    operation: ClassVar[str] = "seek_to_beginning() or seek_to_end()"
    partitions: frozenset[TopicPartition]
    timestamp: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Assign(Event):
    """Read these partitions, without a group's say."""

    operation: ClassVar[str] = "assign()"
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Subscribe(Event):
    """Read what the group assigns of these topics; the next poll joins."""

    operation: ClassVar[str] = "subscribe()"
    topics: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SubscribePattern(Event):
    """Read what the group assigns of the topics that match here, in the client."""

    operation: ClassVar[str] = "subscribe(pattern=...)"
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SubscribeRegex(Event):
    """Read what the group assigns of the topics that match at the coordinator (KIP-848)."""

    operation: ClassVar[str] = "subscribe(pattern=SubscriptionPattern(...))"
    regex: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Unsubscribe(Event):
    """Drop subscription and assignment (the group has been left before)."""

    operation: ClassVar[str] = "unsubscribe()"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LeaveGroup(Event):
    """Leave the group; done when the coordinator answered or cannot be asked."""

    operation: ClassVar[str] = "leaving the group"
    reason: str
    leave: LeaveOperation = LeaveOperation.DEFAULT


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PrepareToLeave(Event):
    """The application is leaving the group: its listener runs next."""

    operation: ClassVar[str] = "leaving the group"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Pause(Event):
    """Hand out nothing of these partitions."""

    operation: ClassVar[str] = "pause()"
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Resume(Event):
    """Hand out records of these partitions again."""

    operation: ClassVar[str] = "resume()"
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DropReadAhead(Event):
    """Fetch these partitions again from where they are, when they are resumed."""

    operation: ClassVar[str] = "poll()"
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CurrentLag(Event):
    """Records between the position and the end; None (and a look-up begins) while unknown."""

    operation: ClassVar[str] = "current_lag()"
    partition: TopicPartition
    future: Completion[int | None] = field(default_factory=Completion, repr=False)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PartitionsForTopic(Event):
    """Describe one topic; None if it is not there."""

    operation: ClassVar[str] = "partitions_for_topic()"
    topic: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ListTopics(Event):
    """Describe all topics that may be seen."""

    operation: ClassVar[str] = "topics()"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Bootstrap(Event):
    """Reach the cluster: done with the first metadata, or with the next if `refresh`."""

    refresh: bool = False
    operation: ClassVar[str] = "bootstrap()"
    needs_metadata: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EnforceRebalance(Event):
    """Ask the group to rebalance (KIP-568)."""

    operation: ClassVar[str] = "enforce_rebalance()"
    reason: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ApplyAssignment(Event):
    """The application is inside poll(): the new assignment may take effect."""

    operation: ClassVar[str] = "applying an assignment"
    number: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CallbackCompleted(Event):
    """A rebalance callback has run, well or badly."""

    operation: ClassVar[str] = "a rebalance callback"
    number: int
    error: Exception | None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DrainCommits(Event):
    """The consumer is closing: commits that cannot be sent soon fail."""

    operation: ClassVar[str] = "close()"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Close(Event):
    """Send what must still be sent, then end the network thread."""

    operation: ClassVar[str] = "close()"


ApplicationEvent = (
    Poll
    | AutoCommit
    | CommitSync
    | CommitAsync
    | FetchCommitted
    | ListOffsets
    | UpdatePositions
    | Seek
    | StopAt
    | ResetOffsets
    | Assign
    | Subscribe
    | SubscribePattern
    | SubscribeRegex
    | Unsubscribe
    | LeaveGroup
    | PrepareToLeave
    | Pause
    | DropReadAhead
    | Resume
    | CurrentLag
    | PartitionsForTopic
    | ListTopics
    | Bootstrap
    | EnforceRebalance
    | ApplyAssignment
    | CallbackCompleted
    | DrainCommits
    | Close
)
