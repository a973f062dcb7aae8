"""All messages that this client uses: those of kafka-python, and additional ones.

The additional messages are defined by the JSON schema files in this folder, with kafka-python's
message class.

Invariant: the response classes have module-level names, although nothing uses some of them.
kafka-python finds them through a registry of weak references.
"""

from __future__ import annotations

from tandem_kafka.runtime.kafka_python import schemas_may_be_read

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

__all__ = [
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
    "SyncGroupRequest",
    "SyncGroupResponse",
]

_SCHEMAS = "tandem_kafka.wire"


with schemas_may_be_read():

    class ConsumerGroupHeartbeatRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """The heartbeat of a member of a KIP-848 group."""

    class ConsumerGroupHeartbeatResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """The coordinator's response to a heartbeat."""

    class ConsumerGroupDescribeRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """A request for the state of KIP-848 groups."""

    class ConsumerGroupDescribeResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """The state of KIP-848 groups."""

    class ConsumerGroupPrepareAssignmentRequest(  # type: ignore[call-arg]
        ApiMessage, load_json=_SCHEMAS
    ):
        """A request for the data from which a member computes the assignment of its group.

        No released broker supports it.
        """

    class ConsumerGroupPrepareAssignmentResponse(  # type: ignore[call-arg]
        ApiMessage, load_json=_SCHEMAS
    ):
        """The data from which a member computes the assignment."""

    class ConsumerGroupInstallAssignmentRequest(  # type: ignore[call-arg]
        ApiMessage, load_json=_SCHEMAS
    ):
        """The computed assignment. No released broker supports it."""

    class ConsumerGroupInstallAssignmentResponse(  # type: ignore[call-arg]
        ApiMessage, load_json=_SCHEMAS
    ):
        """Whether the coordinator has accepted the assignment."""

    class GetTelemetrySubscriptionsRequest(  # type: ignore[call-arg]
        ApiMessage, load_json=_SCHEMAS
    ):
        """A request for the metrics to push (KIP-714)."""

    class GetTelemetrySubscriptionsResponse(  # type: ignore[call-arg]
        ApiMessage, load_json=_SCHEMAS
    ):
        """The metrics that a broker subscribes to."""

    class PushTelemetryRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """Metrics for a broker that subscribes to them."""

    class PushTelemetryResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """Whether the broker has accepted the metrics."""
