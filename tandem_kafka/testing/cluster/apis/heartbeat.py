"""Heartbeat of a classic group."""

from __future__ import annotations

from typing import Any

from kafka import errors

from tandem_kafka.testing.cluster.apis.api import Api, error_code
from tandem_kafka.testing.cluster.apis.membership import coordinator_error
from tandem_kafka.testing.cluster.call import Call
from tandem_kafka.testing.cluster.groups import GroupState
from tandem_kafka.wire.messages import HeartbeatRequest, HeartbeatResponse

__all__ = ["API"]


def _handle(call: Call) -> Any:
    request = call.request
    group = call.cluster.group(request.group_id)
    error = coordinator_error(call) or group.check(
        request.member_id, request.generation_id, request.group_instance_id
    )
    if error is None and group.state is GroupState.JOINING:
        error = errors.RebalanceInProgressError
    return HeartbeatResponse(throttle_time_ms=0, error_code=error_code(error))


API = Api(HeartbeatRequest, (0, 4), _handle)
