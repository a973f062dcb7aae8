"""SyncGroup of a classic group."""

from __future__ import annotations

from typing import Any

from kafka import errors

from tandem_kafka.testing.cluster.apis.api import Api, error_code
from tandem_kafka.testing.cluster.apis.membership import coordinator_error
from tandem_kafka.testing.cluster.call import Call
from tandem_kafka.testing.cluster.groups import GroupState
from tandem_kafka.wire.messages import SyncGroupRequest, SyncGroupResponse

__all__ = ["API"]


def _handle(call: Call) -> Any:
    request = call.request
    group = call.cluster.group(request.group_id)
    error = coordinator_error(call) or group.check(
        request.member_id, request.generation_id, request.group_instance_id
    )
    if error is None and group.state is GroupState.JOINING:
        error = errors.RebalanceInProgressError
    if error is not None:
        return SyncGroupResponse(
            throttle_time_ms=0,
            error_code=error_code(error),
            protocol_type=None,
            protocol_name=None,
            assignment=b"",
        )
    assignments = {a.member_id: bytes(a.assignment) for a in request.assignments}
    group.sync(group.members[request.member_id], assignments, call)
    return None


API = Api(SyncGroupRequest, (0, 5), _handle)
