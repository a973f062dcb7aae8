"""API versions and settings of Kafka releases that brokers can simulate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeTransactionsRequest,
    IncrementalAlterConfigsRequest,
    ListGroupsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.admin.groups import DescribeGroupsRequest
from kafka.protocol.consumer import OffsetDeleteRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)

from tandem_kafka.wire.messages import (
    AlterShareGroupOffsetsRequest,
    ApiVersionsRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    SyncGroupRequest,
)

_NAMES: Final = ("0.11", "2.8", "3.9", "4.3")

#: The lowest and the highest offered version of each request, for each release in `_NAMES`; None
#: where the release does not have the request.
_VERSIONS: Final[dict[Any, tuple[tuple[int, int] | None, ...]]] = {
    FetchRequest: ((0, 5), (0, 12), (0, 17), (4, 18)),
    ListOffsetsRequest: ((0, 2), (0, 6), (0, 9), (1, 11)),
    MetadataRequest: ((0, 4), (0, 11), (0, 12), (0, 13)),
    OffsetCommitRequest: ((0, 3), (0, 8), (0, 9), (2, 10)),
    OffsetFetchRequest: ((0, 3), (0, 7), (0, 9), (1, 10)),
    FindCoordinatorRequest: ((0, 1), (0, 3), (0, 6), (0, 6)),
    JoinGroupRequest: ((0, 2), (0, 7), (0, 9), (0, 9)),
    HeartbeatRequest: ((0, 1), (0, 4), (0, 4), (0, 4)),
    LeaveGroupRequest: ((0, 1), (0, 4), (0, 5), (0, 5)),
    SyncGroupRequest: ((0, 1), (0, 5), (0, 5), (0, 5)),
    SaslHandshakeRequest: ((0, 0), (0, 1), (0, 1), (0, 1)),
    SaslAuthenticateRequest: (None, (0, 2), (0, 2), (0, 2)),
    ApiVersionsRequest: ((0, 1), (0, 3), (0, 4), (0, 4)),
    OffsetForLeaderEpochRequest: ((0, 0), (0, 4), (0, 4), (2, 4)),
    ConsumerGroupHeartbeatRequest: (None, None, (0, 0), (0, 1)),
    ConsumerGroupDescribeRequest: (None, None, (0, 0), (0, 1)),
    DescribeGroupsRequest: ((0, 1), (0, 5), (0, 5), (0, 6)),
    ListGroupsRequest: ((0, 1), (0, 4), (0, 5), (0, 5)),
    DeleteGroupsRequest: (None, (0, 2), (0, 2), (0, 2)),
    OffsetDeleteRequest: (None, (0, 0), (0, 0), (0, 0)),
    ProduceRequest: ((0, 3), (0, 9), (0, 11), (0, 13)),
    InitProducerIdRequest: ((0, 0), (0, 4), (0, 5), (0, 5)),
    AddPartitionsToTxnRequest: ((0, 0), (0, 3), (0, 5), (0, 5)),
    AddOffsetsToTxnRequest: ((0, 0), (0, 3), (0, 4), (0, 4)),
    TxnOffsetCommitRequest: ((0, 0), (0, 3), (0, 4), (0, 5)),
    EndTxnRequest: ((0, 0), (0, 3), (0, 4), (0, 5)),
    ListTransactionsRequest: (None, None, (0, 1), (0, 2)),
    DescribeTransactionsRequest: (None, None, (0, 0), (0, 0)),
    CreateTopicsRequest: ((0, 2), (0, 7), (0, 7), (2, 7)),
    DeleteTopicsRequest: ((0, 1), (0, 6), (0, 6), (1, 6)),
    CreatePartitionsRequest: (None, (0, 3), (0, 3), (0, 3)),
    DeleteRecordsRequest: ((0, 0), (0, 2), (0, 2), (0, 2)),
    DescribeConfigsRequest: ((0, 0), (0, 4), (0, 4), (1, 4)),
    IncrementalAlterConfigsRequest: (None, (0, 1), (0, 1), (0, 1)),
    DescribeLogDirsRequest: (None, (0, 2), (0, 4), (1, 5)),
    DescribeClusterRequest: (None, (0, 0), (0, 1), (0, 2)),
    ShareGroupHeartbeatRequest: (None, None, None, (1, 1)),
    ShareFetchRequest: (None, None, None, (1, 2)),
    ShareAcknowledgeRequest: (None, None, None, (1, 2)),
    ShareGroupDescribeRequest: (None, None, None, (1, 1)),
    DescribeShareGroupOffsetsRequest: (None, None, None, (0, 1)),
    AlterShareGroupOffsetsRequest: (None, None, None, (0, 0)),
    DeleteShareGroupOffsetsRequest: (None, None, None, (0, 0)),
}


@dataclass(frozen=True, slots=True)
class Release:
    """One release with its default settings.

    Attributes:
        name: The number of the release.
        versions: The lowest and the highest version offered, by API key.
        not_enabled: Keys of requests that are offered but rejected: 3.9 announces the requests of
            KIP-848, but its `group.coordinator.rebalance.protocols` does not include the protocol.
        names_own_versions: Whether the rejection of an ApiVersions request has the supported
            versions of it (KIP-511, since 2.4).
        throttles_late: Whether the broker delays throttled responses. Since 2.0 it sends them at
            once, and the client waits (KIP-219).
    """

    name: str
    versions: Mapping[int, tuple[int, int]]
    not_enabled: frozenset[int] = frozenset()
    names_own_versions: bool = True
    throttles_late: bool = False


def _release(name: str, *not_enabled: Any, **differences: bool) -> Release:
    column = _NAMES.index(name)
    versions = {request.API_KEY: row[column] for request, row in _VERSIONS.items()}
    return Release(
        name,
        {key: offered for key, offered in versions.items() if offered is not None},
        frozenset(request.API_KEY for request in not_enabled),
        **differences,
    )


#: By name.
RELEASES: Final = {
    release.name: release
    for release in (
        _release("0.11", names_own_versions=False, throttles_late=True),
        _release("2.8"),
        _release("3.9", ConsumerGroupHeartbeatRequest, ConsumerGroupDescribeRequest),
        _release("4.3"),
    )
}


def release_named(name: str) -> Release:
    """Return a release.

    Raises:
        ValueError: The release is not in the table.
    """
    if name not in RELEASES:
        msg = f"kafka: {name!r} is not simulated; there are {', '.join(map(repr, RELEASES))}"
        raise ValueError(msg)
    return RELEASES[name]
