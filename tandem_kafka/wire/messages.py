"""All messages that this client uses: those of kafka-python, and additional ones.

The additional messages are defined by the JSON schema files in this folder, with kafka-python's
message class. kafka-python reads a schema when it defines a message, so messages are imported on
first use.

Invariant: a request and its response are in one module, which has both. kafka-python finds
responses through a registry of weak references.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
    from kafka.protocol.consumer.group import (
        HeartbeatRequest,
        HeartbeatResponse,
        JoinGroupRequest,
        JoinGroupResponse,
        LeaveGroupRequest,
        LeaveGroupResponse,
        OffsetCommitRequest,
        OffsetCommitResponse,
        OffsetFetchRequest,
        OffsetFetchResponse,
        SyncGroupRequest,
        SyncGroupResponse,
    )
    from kafka.protocol.consumer.offsets import (
        ListOffsetsRequest,
        ListOffsetsResponse,
        OffsetForLeaderEpochRequest,
        OffsetForLeaderEpochResponse,
    )
    from kafka.protocol.metadata.api_versions import ApiVersionsRequest, ApiVersionsResponse
    from kafka.protocol.metadata.find_coordinator import (
        FindCoordinatorRequest,
        FindCoordinatorResponse,
    )
    from kafka.protocol.metadata.metadata import MetadataRequest, MetadataResponse
    from kafka.protocol.sasl import (
        SaslAuthenticateRequest,
        SaslAuthenticateResponse,
        SaslHandshakeRequest,
        SaslHandshakeResponse,
    )

    from tandem_kafka.wire.assignment_messages import (
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse,
        ConsumerGroupInstallAssignmentRequest,
        ConsumerGroupInstallAssignmentResponse,
        ConsumerGroupPrepareAssignmentRequest,
        ConsumerGroupPrepareAssignmentResponse,
    )
    from tandem_kafka.wire.heartbeat_messages import (
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
    )
    from tandem_kafka.wire.share_group_messages import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsResponse,
        DeleteShareGroupOffsetsRequest,
        DeleteShareGroupOffsetsResponse,
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsResponse,
        ShareGroupDescribeRequest,
        ShareGroupDescribeResponse,
    )
    from tandem_kafka.wire.share_messages import (
        ShareAcknowledgeRequest,
        ShareAcknowledgeResponse,
        ShareFetchRequest,
        ShareFetchResponse,
        ShareGroupHeartbeatRequest,
        ShareGroupHeartbeatResponse,
    )
    from tandem_kafka.wire.telemetry_messages import (
        GetTelemetrySubscriptionsRequest,
        GetTelemetrySubscriptionsResponse,
        PushTelemetryRequest,
        PushTelemetryResponse,
    )

__all__ = [
    "AlterShareGroupOffsetsRequest",
    "AlterShareGroupOffsetsResponse",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
    "ConsumerGroupInstallAssignmentRequest",
    "ConsumerGroupInstallAssignmentResponse",
    "ConsumerGroupPrepareAssignmentRequest",
    "ConsumerGroupPrepareAssignmentResponse",
    "DeleteShareGroupOffsetsRequest",
    "DeleteShareGroupOffsetsResponse",
    "DescribeShareGroupOffsetsRequest",
    "DescribeShareGroupOffsetsResponse",
    "FetchRequest",
    "FetchResponse",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "GetTelemetrySubscriptionsRequest",
    "GetTelemetrySubscriptionsResponse",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "JoinGroupRequest",
    "JoinGroupResponse",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "MetadataRequest",
    "MetadataResponse",
    "OffsetCommitRequest",
    "OffsetCommitResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "PushTelemetryRequest",
    "PushTelemetryResponse",
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "ShareAcknowledgeRequest",
    "ShareAcknowledgeResponse",
    "ShareFetchRequest",
    "ShareFetchResponse",
    "ShareGroupDescribeRequest",
    "ShareGroupDescribeResponse",
    "ShareGroupHeartbeatRequest",
    "ShareGroupHeartbeatResponse",
    "SyncGroupRequest",
    "SyncGroupResponse",
]

_GROUP: Final = "kafka.protocol.consumer.group"
_OFFSETS: Final = "kafka.protocol.consumer.offsets"
_SASL: Final = "kafka.protocol.sasl"
_ASSIGNMENT: Final = "tandem_kafka.wire.assignment_messages"
_SHARE: Final = "tandem_kafka.wire.share_messages"
_SHARE_GROUP: Final = "tandem_kafka.wire.share_group_messages"
_TELEMETRY: Final = "tandem_kafka.wire.telemetry_messages"

#: The modules of the messages by API.
_HOMES: Final = {
    "AlterShareGroupOffsets": _SHARE_GROUP,
    "ApiVersions": "kafka.protocol.metadata.api_versions",
    "ConsumerGroupDescribe": _ASSIGNMENT,
    "ConsumerGroupHeartbeat": "tandem_kafka.wire.heartbeat_messages",
    "ConsumerGroupInstallAssignment": _ASSIGNMENT,
    "ConsumerGroupPrepareAssignment": _ASSIGNMENT,
    "DeleteShareGroupOffsets": _SHARE_GROUP,
    "DescribeShareGroupOffsets": _SHARE_GROUP,
    "Fetch": "kafka.protocol.consumer.fetch",
    "FindCoordinator": "kafka.protocol.metadata.find_coordinator",
    "GetTelemetrySubscriptions": _TELEMETRY,
    "Heartbeat": _GROUP,
    "JoinGroup": _GROUP,
    "LeaveGroup": _GROUP,
    "ListOffsets": _OFFSETS,
    "Metadata": "kafka.protocol.metadata.metadata",
    "OffsetCommit": _GROUP,
    "OffsetFetch": _GROUP,
    "OffsetForLeaderEpoch": _OFFSETS,
    "PushTelemetry": _TELEMETRY,
    "SaslAuthenticate": _SASL,
    "SaslHandshake": _SASL,
    "ShareAcknowledge": _SHARE,
    "ShareFetch": _SHARE,
    "ShareGroupDescribe": _SHARE_GROUP,
    "ShareGroupHeartbeat": _SHARE,
    "SyncGroup": _GROUP,
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES[name.removesuffix("Request").removesuffix("Response")]
    found = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
