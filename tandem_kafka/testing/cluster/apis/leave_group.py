"""LeaveGroup of a classic group."""

from __future__ import annotations

from typing import Any

from kafka import errors

from tandem_kafka.testing.cluster.apis.api import Api, error_code
from tandem_kafka.testing.cluster.apis.membership import coordinator_error
from tandem_kafka.testing.cluster.call import Call
from tandem_kafka.wire.messages import LeaveGroupRequest, LeaveGroupResponse

__all__ = ["API"]

_FIRST_WITH_MEMBERS = 3


def _handle(call: Call) -> Any:
    request = call.request
    error = coordinator_error(call)
    many = call.version >= _FIRST_WITH_MEMBERS
    ids = [m.member_id for m in request.members] if many else [request.member_id]
    if error is not None:
        return LeaveGroupResponse(throttle_time_ms=0, error_code=error_code(error), members=[])
    members = [
        LeaveGroupResponse.MemberResponse(
            member_id=member_id,
            group_instance_id=None,
            error_code=error_code(_leave(call, member_id)),
        )
        for member_id in ids
    ]
    code = 0 if many else members[0].error_code
    return LeaveGroupResponse(throttle_time_ms=0, error_code=code, members=members)


def _leave(call: Call, member_id: str) -> Any:
    group = call.cluster.group(call.request.group_id)
    if member_id not in group.members:
        return errors.UnknownMemberIdError
    group.remove(member_id)
    return None


API = Api(LeaveGroupRequest, (0, 5), _handle)
