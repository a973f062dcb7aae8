"""Tables of reactions to the errors in responses, used by the managers.

An error that is not in a table is retried if kafka-python declares it retriable. Otherwise, the
table's reaction to `KafkaError` counts; without one, it fails the call.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from kafka import errors as broker

from tandem_kafka.errors import InvalidRegularExpressionError


class Reaction(enum.Enum):
    """How a manager reacts to an error."""

    #: Retry after a backoff.
    RETRY = enum.auto()
    #: Find the new coordinator, then retry.
    REDISCOVER = enum.auto()
    #: A leader has moved or a topic is unknown: refresh metadata, then retry.
    REFRESH = enum.auto()
    #: Fail the call with this error.
    FAIL = enum.auto()
    #: The membership has ended, so the commit cannot succeed.
    FENCED = enum.auto()
    #: There is no such offset; the result is None.
    NONE = enum.auto()
    #: The fetch offset is out of range: apply the reset policy.
    RESET = enum.auto()
    #: The group is rebalancing: rejoin.
    REJOIN = enum.auto()
    #: The coordinator has removed this member: partitions are lost, join as a new member.
    LOST = enum.auto()
    #: Raise from poll(), and retry after a backoff.
    RAISE = enum.auto()


Table = Mapping[type[Exception], Reaction]

#: Coordinator lookup (FindCoordinator).
COORDINATOR: Table = {
    broker.CoordinatorNotAvailableError: Reaction.RETRY,
    broker.CoordinatorLoadInProgressError: Reaction.RETRY,
    broker.GroupAuthorizationFailedError: Reaction.FAIL,
    broker.InvalidGroupIdError: Reaction.FAIL,
    broker.CorrelationIdError: Reaction.RETRY,
    broker.KafkaProtocolError: Reaction.RAISE,
    # Also any unknown error code, which may be corrupted or from a newer broker.
    broker.UnknownError: Reaction.RAISE,
}

#: OffsetCommit, per partition.
COMMIT: Table = {
    broker.CoordinatorNotAvailableError: Reaction.REDISCOVER,
    broker.NotCoordinatorError: Reaction.REDISCOVER,
    broker.RequestTimedOutError: Reaction.REDISCOVER,
    broker.KafkaConnectionError: Reaction.REDISCOVER,
    broker.CoordinatorLoadInProgressError: Reaction.RETRY,
    broker.UnknownTopicOrPartitionError: Reaction.REFRESH,
    broker.UnknownTopicIdError: Reaction.REFRESH,
    broker.UnknownMemberIdError: Reaction.FENCED,
    broker.IllegalGenerationError: Reaction.FENCED,
    broker.StaleMemberEpochError: Reaction.FENCED,
    broker.FencedInstanceIdError: Reaction.FAIL,
    broker.RebalanceInProgressError: Reaction.FENCED,
    broker.GroupAuthorizationFailedError: Reaction.FAIL,
    broker.TopicAuthorizationFailedError: Reaction.FAIL,
    broker.OffsetMetadataTooLargeError: Reaction.FAIL,
    broker.InvalidCommitOffsetSizeError: Reaction.FAIL,
}

#: OffsetCommit while partitions are being released. A stale member epoch is retried with the new
#: one (KIP-848), and a deleted topic must not delay the rebalance (KAFKA-16224).
COMMIT_RELEASING: Table = {
    **COMMIT,
    broker.StaleMemberEpochError: Reaction.RETRY,
    broker.UnknownTopicOrPartitionError: Reaction.FAIL,
    broker.UnknownTopicIdError: Reaction.FAIL,
}

#: OffsetFetch, for the group and per partition.
OFFSET_FETCH: Table = {
    broker.CoordinatorNotAvailableError: Reaction.REDISCOVER,
    broker.NotCoordinatorError: Reaction.REDISCOVER,
    broker.RequestTimedOutError: Reaction.REDISCOVER,
    broker.KafkaConnectionError: Reaction.REDISCOVER,
    broker.CoordinatorLoadInProgressError: Reaction.RETRY,
    broker.UnstableOffsetCommitError: Reaction.RETRY,
    broker.UnknownTopicOrPartitionError: Reaction.REFRESH,
    broker.UnknownTopicIdError: Reaction.REFRESH,
    broker.StaleMemberEpochError: Reaction.RETRY,
    broker.GroupAuthorizationFailedError: Reaction.FAIL,
    broker.TopicAuthorizationFailedError: Reaction.FAIL,
}

#: JoinGroup, SyncGroup and Heartbeat. What fails the membership is final: to ask again would harm
#: the other owner of an id, or needs other options.
MEMBERSHIP: Table = {
    broker.CoordinatorNotAvailableError: Reaction.REDISCOVER,
    broker.NotCoordinatorError: Reaction.REDISCOVER,
    broker.KafkaConnectionError: Reaction.REDISCOVER,
    broker.RequestTimedOutError: Reaction.REDISCOVER,
    broker.CoordinatorLoadInProgressError: Reaction.RETRY,
    broker.RebalanceInProgressError: Reaction.REJOIN,
    broker.MemberIdRequiredError: Reaction.REJOIN,
    broker.IllegalGenerationError: Reaction.LOST,
    broker.UnknownMemberIdError: Reaction.LOST,
    broker.FencedInstanceIdError: Reaction.FAIL,
    broker.GroupMaxSizeReachedError: Reaction.RAISE,
    broker.InconsistentGroupProtocolError: Reaction.FAIL,
    broker.GroupAuthorizationFailedError: Reaction.RAISE,
    broker.InvalidSessionTimeoutError: Reaction.FAIL,
    broker.CorrelationIdError: Reaction.RETRY,
    broker.KafkaProtocolError: Reaction.RAISE,
    # Also any unknown error code, which may be corrupted or from a newer broker.
    broker.UnknownError: Reaction.RAISE,
    broker.KafkaError: Reaction.RAISE,
}

#: ConsumerGroupHeartbeat and ShareGroupHeartbeat; as with `MEMBERSHIP`, what fails is final.
GROUP_HEARTBEAT: Table = {
    broker.CoordinatorNotAvailableError: Reaction.REDISCOVER,
    broker.NotCoordinatorError: Reaction.REDISCOVER,
    broker.KafkaConnectionError: Reaction.REDISCOVER,
    broker.RequestTimedOutError: Reaction.REDISCOVER,
    broker.CoordinatorLoadInProgressError: Reaction.RETRY,
    broker.UnknownMemberIdError: Reaction.LOST,
    broker.FencedMemberEpochError: Reaction.LOST,
    broker.TopicAuthorizationFailedError: Reaction.RAISE,
    broker.GroupAuthorizationFailedError: Reaction.RAISE,
    broker.InvalidRequestError: Reaction.FAIL,
    InvalidRegularExpressionError: Reaction.FAIL,
    broker.GroupMaxSizeReachedError: Reaction.RAISE,
    broker.UnsupportedAssignorError: Reaction.FAIL,
    broker.UnsupportedVersionError: Reaction.FAIL,
    broker.UnreleasedInstanceIdError: Reaction.FAIL,
    broker.FencedInstanceIdError: Reaction.FAIL,
    broker.CorrelationIdError: Reaction.RETRY,
    broker.KafkaProtocolError: Reaction.RAISE,
    # Also any unknown error code, which may be corrupted or from a newer broker.
    broker.UnknownError: Reaction.RAISE,
    broker.KafkaError: Reaction.RAISE,
}

#: ListOffsets and OffsetForLeaderEpoch, per partition.
LIST_OFFSETS: Table = {
    broker.NotLeaderForPartitionError: Reaction.REFRESH,
    broker.ReplicaNotAvailableError: Reaction.REFRESH,
    broker.KafkaStorageError: Reaction.REFRESH,
    broker.OffsetNotAvailableError: Reaction.REFRESH,
    broker.LeaderNotAvailableError: Reaction.REFRESH,
    broker.FencedLeaderEpochError: Reaction.REFRESH,
    broker.UnknownLeaderEpochError: Reaction.REFRESH,
    broker.UnknownTopicOrPartitionError: Reaction.REFRESH,
    broker.KafkaConnectionError: Reaction.REFRESH,
    broker.UnsupportedForMessageFormatError: Reaction.NONE,
    broker.TopicAuthorizationFailedError: Reaction.FAIL,
}

#: Fetch, per partition.
FETCH: Table = {
    broker.NotLeaderForPartitionError: Reaction.REFRESH,
    broker.ReplicaNotAvailableError: Reaction.REFRESH,
    broker.KafkaStorageError: Reaction.REFRESH,
    broker.FencedLeaderEpochError: Reaction.REFRESH,
    broker.OffsetNotAvailableError: Reaction.REFRESH,
    broker.UnknownTopicOrPartitionError: Reaction.REFRESH,
    broker.UnknownTopicIdError: Reaction.REFRESH,
    broker.InconsistentTopicIdError: Reaction.REFRESH,
    broker.UnknownLeaderEpochError: Reaction.RETRY,
    broker.UnknownError: Reaction.RETRY,
    broker.OffsetOutOfRangeError: Reaction.RESET,
    broker.TopicAuthorizationFailedError: Reaction.RAISE,
    broker.CorruptRecordError: Reaction.RAISE,
}


def reaction_to(table: Table, error: BaseException | type[BaseException]) -> Reaction:
    """Return the reaction to an error, by its class or the nearest base class in the table."""
    error_type = error if isinstance(error, type) else type(error)
    for ancestor in error_type.__mro__:
        if ancestor in table and ancestor is not broker.KafkaError:
            return table[ancestor]
    if getattr(error_type, "retriable", False):
        return Reaction.RETRY
    return table.get(broker.KafkaError, Reaction.FAIL)
