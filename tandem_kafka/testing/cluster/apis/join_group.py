"""JoinGroup of a classic group."""

from __future__ import annotations

from typing import Any

from kafka import errors

from tandem_kafka.testing.cluster.apis.api import Api, error_code
from tandem_kafka.testing.cluster.apis.membership import coordinator_error
from tandem_kafka.testing.cluster.call import Call
from tandem_kafka.testing.cluster.groups import SimMember
from tandem_kafka.wire.messages import JoinGroupRequest, JoinGroupResponse

__all__ = ["API"]

_FIRST_WITH_REQUIRED_IDS = 4


def _handle(call: Call) -> Any:
    request = call.request
    error = coordinator_error(call)
    if error is not None:
        return _refusal(error)
    group = call.cluster.group(request.group_id)
    member_id = request.member_id
    if not member_id:
        member_id = f"member-{call.cluster.random.getrandbits(32):08x}"
        if call.version >= _FIRST_WITH_REQUIRED_IDS and request.group_instance_id is None:
            group.known_ids.add(member_id)
            return _refusal(errors.MemberIdRequiredError, member_id)
    elif member_id not in group.members and member_id not in group.known_ids:
        return _refusal(errors.UnknownMemberIdError)
    group.known_ids.discard(member_id)
    member = SimMember(
        member_id=member_id,
        instance_id=request.group_instance_id,
        protocols={p.name: bytes(p.metadata) for p in request.protocols},
        session_ms=request.session_timeout_ms,
        rebalance_ms=request.rebalance_timeout_ms,
    )
    group.join(member, call)
    return None


def _refusal(error: Any, member_id: str = "") -> Any:
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=error_code(error),
        generation_id=-1,
        protocol_type=None,
        protocol_name="",
        leader="",
        skip_assignment=False,
        member_id=member_id,
        members=[],
    )


API = Api(JoinGroupRequest, (0, 9), _handle)
