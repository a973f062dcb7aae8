"""SyncGroup of a classic member."""

from __future__ import annotations

from typing import Any

from tandem_kafka.wire.messages import SyncGroupRequest, SyncGroupResponse
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.membership import coordinator_error
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.coordinator.requests import SyncGroup, SyncResult


def _handle(call: Call) -> Any:
    request = call.request
    error = coordinator_error(call)
    if error is not None:
        return _response(SyncResult(error))
    forwarded = SyncGroup(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol=request.protocol_name,
        assignments={a.member_id: bytes(a.assignment) for a in request.assignments},
    )
    return call.cluster.coordination.forward(call, request.group_id, forwarded, _response)


def _response(result: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        throttle_time_ms=0,
        error_code=error_code(result.error),
        protocol_type=None if result.protocol is None else "consumer",
        protocol_name=result.protocol,
        assignment=result.assignment,
    )


API = Api(SyncGroupRequest, (0, 5), _handle)
