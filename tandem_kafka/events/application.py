"""Events from the application thread to the network thread.

Every event has a future and an absolute deadline. The network thread processes each event once,
in order (`engine/application_event_processor.py`). The future may complete much later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar, dataclass_transform
from uuid import UUID

from tandem_kafka.dataclass import dataclass, field
from tandem_kafka.errors import KafkaError
from tandem_kafka.events.completable import NO_DEADLINE_MS, Completion
from tandem_kafka.state.partition import AssignedPartition
from tandem_kafka.types import (
    NO_TOPIC_ID,
    ClusterSnapshot,
    LeaveOperation,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Offsets,
    TopicInfo,
    TopicPartition,
)

TopicIds = Mapping[TopicPartition, UUID]
Assigned = Mapping[TopicPartition, AssignedPartition]

R = TypeVar("R")
T = TypeVar("T")


@dataclass_transform(
    kw_only_default=True, eq_default=False, frozen_default=True, field_specifiers=(field,)
)
def _event(cls: type[T]) -> type[T]:
    return dataclass(eq=False, kw_only=True)(cls)


@_event
class Event(Generic[R]):
    """The fields of all events; an event of a result `R`.

    Attributes:
        deadline_ms: When the caller stops waiting, in the time of the clock.
        future: The result.
    """

    operation: ClassVar[str] = ""
    #: Whether a metadata error (an invalid topic, a rejected login) fails an event of this kind.
    needs_metadata: ClassVar[bool] = False

    deadline_ms: int = NO_DEADLINE_MS
    future: Completion[R] = field(default_factory=Completion, repr=False)

    def obstacles(self) -> Mapping[TopicPartition, Exception]:
        """Return the last error of each partition that is not done, for the error of a timeout."""
        return {}


@_event
class Retried(Event[R]):
    """An event that is retried for each partition until its deadline.

    Attributes:
        last_errors: The last error of each partition that is not done. Writer: the network thread.
    """

    last_errors: dict[TopicPartition, Exception] = field(default_factory=dict, repr=False)

    def obstacles(self) -> Mapping[TopicPartition, Exception]:
        """Return the last errors."""
        return self.last_errors


@_event
class Withdraw(Event[None]):
    """The caller of an event has ended its wait: fail the event, so that nothing is retried."""

    operation: ClassVar[str] = "an interrupted call"
    event: Event[Any]


@_event
class Poll(Event[None]):
    """The application is in poll(): join the group and look up positions, if necessary."""

    operation: ClassVar[str] = "poll()"


@_event
class AutoCommit(Event[Any]):
    """The auto-commit interval is over; `offsets` are the positions of the returned records."""

    operation: ClassVar[str] = "auto-commit"
    offsets: Offsets
    topic_ids: TopicIds = field(default_factory=dict)
    assigned: Assigned = field(default_factory=dict)


@_event
class CommitSync(Retried[Any]):
    """Commit and retry until the deadline.

    Attributes:
        topic_ids: The ids of the topics that the positions belong to, if known.
        assigned: The assignment at the time of the call. What is no longer assigned in the same
            way is not committed.
        stored: The partitions whose offsets the coordinator has confirmed. Writer: the network
            thread.
        releasing: The partitions are about to be released. The commit does not wait for a topic
            that no longer exists, and uses the newest member epoch instead of that of the call.
    """

    operation: ClassVar[str] = "commit()"
    offsets: Offsets
    topic_ids: TopicIds = field(default_factory=dict)
    assigned: Assigned = field(default_factory=dict)
    stored: set[TopicPartition] = field(default_factory=set)
    releasing: bool = False


@_event
class CommitAsync(Event[Any]):
    """Commit once; a callback receives the outcome."""

    operation: ClassVar[str] = "commit_async()"
    offsets: Offsets
    topic_ids: TopicIds = field(default_factory=dict)
    assigned: Assigned = field(default_factory=dict)


@_event
class FetchCommitted(Retried[dict[TopicPartition, OffsetAndMetadata | None]]):
    """Look up committed offsets; the result has None for a partition without one."""

    operation: ClassVar[str] = "committed()"
    partitions: frozenset[TopicPartition]


@_event
class ListOffsets(Retried[dict[TopicPartition, OffsetAndTimestamp | None]]):
    """Look up offsets by timestamp (-1 end, -2 beginning); None if there is no such record."""

    operation: ClassVar[str] = "an offset lookup"
    needs_metadata: ClassVar[bool] = True
    timestamps: Mapping[TopicPartition, int]


@_event
class UpdatePositions(Event[None]):
    """Find a valid position for every assigned partition; done when `partition` has one.

    Attributes:
        lookups: The last errors of the lookups, which all such events share, once there are any.
            Writer: the network thread.
    """

    operation: ClassVar[str] = "position()"
    needs_metadata: ClassVar[bool] = True
    partition: TopicPartition
    lookups: list[Mapping[TopicPartition, Exception]] = field(default_factory=list, repr=False)

    def obstacles(self) -> Mapping[TopicPartition, Exception]:
        """Return the last error of the partition; those of the others do not prevent it."""
        every = (item for errors in self.lookups for item in errors.items())
        return {tp: error for tp, error in every if tp == self.partition}


@_event
class Seek(Event[None]):
    """Continue at an offset; with a leader epoch, the position is validated first (KIP-320).

    Attributes:
        topic_id: The topic that the offset belongs to; in another one, the position stays.
    """

    operation: ClassVar[str] = "seek()"
    partition: TopicPartition
    offset: int
    leader_epoch: int
    topic_id: UUID = NO_TOPIC_ID


@_event
class StopAt(Event[None]):
    """Stop fetching a partition at an offset; None removes the limit."""

    operation: ClassVar[str] = "stop_at()"
    partition: TopicPartition
    offset: int | None


@_event
class ResetOffsets(Event[None]):
    """Look up new positions by timestamp (-1 end, -2 beginning)."""

    operation: ClassVar[str] = "seek_to_beginning() or seek_to_end()"
    partitions: frozenset[TopicPartition]
    timestamp: int


@_event
class Assign(Event[None]):
    """Assign these partitions manually, without group management."""

    operation: ClassVar[str] = "assign()"
    partitions: tuple[TopicPartition, ...]


@_event
class Subscribe(Event[None]):
    """Subscribe to these topics; the next poll joins the group."""

    operation: ClassVar[str] = "subscribe()"
    topics: frozenset[str]


@_event
class SubscribePattern(Event[None]):
    """Subscribe to the topics that match in the client."""

    operation: ClassVar[str] = "subscribe(pattern=...)"
    pattern: re.Pattern[str]


@_event
class SubscribeRegex(Event[None]):
    """Subscribe to the topics that the coordinator matches (KIP-848)."""

    operation: ClassVar[str] = "subscribe(pattern=SubscriptionPattern(...))"
    regex: str


@_event
class Unsubscribe(Event[None]):
    """End the subscription or assignment, after the consumer has left the group."""

    operation: ClassVar[str] = "unsubscribe()"


@_event
class LeaveGroup(Event[None]):
    """Leave the group; done when the coordinator has responded or cannot be reached."""

    operation: ClassVar[str] = "leaving the group"
    reason: str
    leave: LeaveOperation = LeaveOperation.DEFAULT


@_event
class PrepareToLeave(Event[None]):
    """The application is about to leave the group; its listener runs first."""

    operation: ClassVar[str] = "leaving the group"


@_event
class Pause(Event[None]):
    """Stop returning records of these partitions."""

    operation: ClassVar[str] = "pause()"
    paused: ClassVar[bool] = True
    partitions: frozenset[TopicPartition]
    by_workers: bool = False


@_event
class Resume(Pause):
    """Return records of these partitions again."""

    operation: ClassVar[str] = "resume()"
    paused: ClassVar[bool] = False


@_event
class DropReadAhead(Event[None]):
    """Drop the read-ahead of these partitions, and fetch from their positions again."""

    operation: ClassVar[str] = "poll()"
    partitions: frozenset[TopicPartition]


@_event
class CurrentLag(Event[int | None]):
    """Return the lag; while the end is unknown, return None and start a lookup."""

    operation: ClassVar[str] = "current_lag()"
    partition: TopicPartition


@_event
class PartitionsForTopic(Event[TopicInfo | None]):
    """Describe one topic; None if it does not exist."""

    operation: ClassVar[str] = "partitions_for_topic()"
    topic: str


@_event
class ListTopics(Event[ClusterSnapshot]):
    """Describe the brokers, and all topics that the client may see; the result is a snapshot."""

    operation: ClassVar[str] = "topics()"


@_event
class GetClientInstanceId(Event[UUID]):
    """Done with the id that a broker has given to this client (KIP-714)."""

    operation: ClassVar[str] = "client_instance_id()"


@_event
class Bootstrap(Event[None]):
    """Done with the first metadata response, or with the next one if `refresh` is set."""

    refresh: bool = False
    operation: ClassVar[str] = "bootstrap()"
    needs_metadata: ClassVar[bool] = True


@_event
class EnforceRebalance(Event[None]):
    """Ask the group to rebalance (KIP-568)."""

    operation: ClassVar[str] = "enforce_rebalance()"
    reason: str


@_event
class ApplyAssignment(Event[bool]):
    """Apply the new assignment, inside poll(); the result is False if it was cancelled."""

    operation: ClassVar[str] = "applying an assignment"
    number: int
    partitions: frozenset[TopicPartition]


@_event
class CallbackCompleted(Event[None]):
    """A rebalance callback has returned or raised."""

    operation: ClassVar[str] = "a rebalance callback"
    number: int
    error: Exception | None


@_event
class DrainCommits(Event[None]):
    """The consumer is closing: fail the commits that cannot be sent soon."""

    operation: ClassVar[str] = "close()"


@_event
class Acknowledge(Event[None]):
    """Acknowledgements wait in the queue of a share group's records (KIP-932)."""

    operation: ClassVar[str] = "an acknowledgement"


@_event
class CommitAcknowledgements(Event[dict[TopicPartition, KafkaError | None]]):
    """Send all acknowledgements that were made before; done when brokers have answered.

    The result has each partition with acknowledgements since the last event of this kind, with the
    error of the last one that failed.

    Attributes:
        closing: Acquire nothing any more, and end the sessions, which releases all other records.
    """

    operation: ClassVar[str] = "commit()"
    closing: bool = False


@_event
class Close(Event[None]):
    """Send the final requests, then end the network thread."""

    operation: ClassVar[str] = "close()"


ApplicationEvent = (
    Withdraw
    | Poll
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
    | GetClientInstanceId
    | Bootstrap
    | EnforceRebalance
    | ApplyAssignment
    | CallbackCompleted
    | DrainCommits
    | Acknowledge
    | CommitAcknowledgements
    | Close
)
