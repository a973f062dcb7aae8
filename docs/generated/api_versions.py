"""The versions of requests that a consumer uses with releases of Kafka."""

from __future__ import annotations

from typing import Any, Final

from tandem_kafka.wire.fetch_request import ConsumerFetch
from tandem_kafka.wire.messages import (
    ApiVersionsRequest,
    ConsumerGroupHeartbeatRequest,
    FindCoordinatorRequest,
    GetTelemetrySubscriptionsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
    PushTelemetryRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
    SyncGroupRequest,
)
from tandem_kafka_testing.cluster.releases import RELEASES

__all__ = ["table"]

#: The requests of a consumer, and the lowest version that it sends of each.
_SENT: Final[dict[Any, int]] = {
    ConsumerFetch: ConsumerFetch.min_version,
    ListOffsetsRequest: 1,
    MetadataRequest: 1,
    OffsetCommitRequest: 0,
    OffsetFetchRequest: 0,
    FindCoordinatorRequest: 0,
    JoinGroupRequest: 0,
    HeartbeatRequest: 0,
    LeaveGroupRequest: 0,
    SyncGroupRequest: 0,
    SaslHandshakeRequest: 1,
    ApiVersionsRequest: 0,
    OffsetForLeaderEpochRequest: 3,
    SaslAuthenticateRequest: 0,
    ConsumerGroupHeartbeatRequest: 0,
    GetTelemetrySubscriptionsRequest: 0,
    PushTelemetryRequest: 0,
    ShareGroupHeartbeatRequest: 1,
    ShareFetchRequest: 1,
    ShareAcknowledgeRequest: 1,
}
#: A broker offers these only with a metrics reporter, whatever its release.
_WITH_REPORTER: Final = {GetTelemetrySubscriptionsRequest, PushTelemetryRequest}


def table() -> str:
    """Return the table: the range of the client, and the version used with each release."""
    names = tuple(RELEASES)
    lines = [
        f"| request | key | client | {' | '.join(names)} |",
        f"|---|---:|---|{'---:|' * len(names)}",
    ]
    for request, lowest in sorted(_SENT.items(), key=lambda sent: int(sent[0].API_KEY)):
        used = [_used(request, lowest, name) for name in names]
        name = request.name.removesuffix("Request")
        client = f"{lowest} to {request.max_version}"
        lines.append(f"| {name} | {request.API_KEY} | {client} | {' | '.join(used)} |")
    return "\n".join(lines) + "\n"


def _used(request: Any, lowest: int, name: str) -> str:
    release = RELEASES[name]
    offered = release.versions.get(request.API_KEY)
    if request in _WITH_REPORTER:
        return ""
    if offered is None or request.API_KEY in release.not_enabled:
        return "-"
    version = min(request.max_version, offered[1])
    return str(version) if version >= max(lowest, offered[0]) else "-"
