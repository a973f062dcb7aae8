"""ShareGroupHeartbeat of a member of a share group."""

from __future__ import annotations

from typing import Any

from kafka import errors

from tandem_kafka.wire.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.membership import coordinator_error
from tandem_kafka_testing.cluster.apis.plain import Plain
from tandem_kafka_testing.cluster.apis.topic_partitions import by_topic
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.coordinator.members import JOIN_EPOCH, LEAVE_EPOCH
from tandem_kafka_testing.coordinator.requests import ShareHeartbeat, ShareHeartbeatResult

_ASSIGNMENT = ShareGroupHeartbeatResponse.Assignment


def _handle(call: Call) -> Any:
    request = call.request
    error = coordinator_error(call) or (None if _is_valid(request) else errors.InvalidRequestError)
    if error is not None:
        return _response(call, ShareHeartbeatResult(error))
    topics = request.subscribed_topic_names
    forwarded = ShareHeartbeat(
        member_id=request.member_id,
        epoch=request.member_epoch,
        topics=None if topics is None else frozenset(topics),
    )
    return call.cluster.coordination.forward(
        call, request.group_id, forwarded, lambda result: _response(call, result)
    )


def _is_valid(request: Any) -> bool:
    """Return whether a request has the fields that its epoch requires."""
    if not request.group_id or not request.member_id or request.rack_id == "":
        return False
    subscribes = bool(request.subscribed_topic_names)
    return request.member_epoch >= LEAVE_EPOCH and (
        request.member_epoch != JOIN_EPOCH or subscribes
    )


def _response(call: Call, result: ShareHeartbeatResult) -> Any:
    fields = {
        "throttle_time_ms": 0,
        "error_code": error_code(result.error),
        "error_message": None,
        "member_id": call.request.member_id if result.error is None else None,
        "member_epoch": result.epoch,
        "heartbeat_interval_ms": result.interval_ms,
    }
    if result.assigned is None:
        return Plain(ShareGroupHeartbeatResponse, assignment=None, **fields)
    topics = [
        _ASSIGNMENT.TopicPartitions(topic_id=topic_id, partitions=numbers)
        for _, topic_id, numbers in by_topic(call, result.assigned)
    ]
    assignment = _ASSIGNMENT(topic_partitions=topics)
    return ShareGroupHeartbeatResponse(assignment=assignment, **fields)


API = Api(ShareGroupHeartbeatRequest, (1, 1), _handle)
