"""LeaveGroup of classic members."""

from __future__ import annotations

from typing import Any

from tandem_kafka.wire.messages import LeaveGroupRequest, LeaveGroupResponse
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.membership import coordinator_error
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.coordinator.requests import LeaveGroup

_FIRST_WITH_MEMBERS = 3


def _handle(call: Call) -> Any:
    request = call.request
    error = coordinator_error(call)
    if error is not None:
        return LeaveGroupResponse(throttle_time_ms=0, error_code=error_code(error), members=[])
    if call.version < _FIRST_WITH_MEMBERS:
        error = _leave(call, request.member_id, None)
        return LeaveGroupResponse(throttle_time_ms=0, error_code=error_code(error), members=[])
    members = [
        LeaveGroupResponse.MemberResponse(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            error_code=error_code(_leave(call, member.member_id, member.group_instance_id)),
        )
        for member in request.members
    ]
    return LeaveGroupResponse(throttle_time_ms=0, error_code=0, members=members)


def _leave(call: Call, member_id: str, instance_id: str | None) -> Any:
    forwarded = LeaveGroup(member_id=member_id, instance_id=instance_id)
    return call.cluster.coordination.execute(call.request.group_id, forwarded)


API = Api(LeaveGroupRequest, (0, 5), _handle)
