"""Heartbeat of a classic member."""

from __future__ import annotations

from typing import Any

from tandem_kafka.wire.messages import HeartbeatRequest, HeartbeatResponse
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.membership import coordinator_error
from tandem_kafka_testing.cluster.apis.plain import Plain
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.coordinator.requests import Heartbeat


def _handle(call: Call) -> Any:
    request = call.request
    error = coordinator_error(call)
    if error is not None:
        return _response(error)
    forwarded = Heartbeat(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
    )
    return call.cluster.coordination.forward(call, request.group_id, forwarded, _response)


def _response(error: Any) -> Any:
    return Plain(HeartbeatResponse, throttle_time_ms=0, error_code=error_code(error))


API = Api(HeartbeatRequest, (0, 4), _handle)
