"""JoinGroup of a classic member."""

from __future__ import annotations

from typing import Any

from tandem_kafka.wire.messages import JoinGroupRequest, JoinGroupResponse
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.membership import coordinator_error
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.coordinator.requests import JoinGroup, JoinResult

_FIRST_WITH_REBALANCE_TIMEOUT = 1
_FIRST_WITH_REQUIRED_IDS = 4
_FIRST_WITH_SKIPPED_ASSIGNMENTS = 9


def _handle(call: Call) -> Any:
    request = call.request
    error = coordinator_error(call)
    if error is not None:
        return join_response(JoinResult(error))
    new_id = ""
    if not request.member_id:
        new_id = f"member-{call.cluster.random.getrandbits(32):08x}"
    forwarded = JoinGroup(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        session_ms=request.session_timeout_ms,
        rebalance_ms=_rebalance_ms(call),
        protocol_type=request.protocol_type,
        protocols={p.name: bytes(p.metadata) for p in request.protocols},
        new_id=new_id,
        needs_id=call.version >= _FIRST_WITH_REQUIRED_IDS and request.group_instance_id is None,
        may_skip=call.version >= _FIRST_WITH_SKIPPED_ASSIGNMENTS,
    )
    return call.cluster.coordination.forward(call, request.group_id, forwarded, join_response)


def _rebalance_ms(call: Call) -> int:
    """Return the rebalance timeout; older versions use the session timeout (KIP-62)."""
    named = call.version >= _FIRST_WITH_REBALANCE_TIMEOUT
    request = call.request
    return int(request.rebalance_timeout_ms if named else request.session_timeout_ms)


def join_response(result: JoinResult) -> JoinGroupResponse:
    """Return the response message."""
    entry = JoinGroupResponse.JoinGroupResponseMember
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=error_code(result.error),
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            entry(member_id=member_id, group_instance_id=instance_id, metadata=metadata)
            for member_id, instance_id, metadata in result.members
        ],
    )


API = Api(JoinGroupRequest, (0, 9), _handle)
