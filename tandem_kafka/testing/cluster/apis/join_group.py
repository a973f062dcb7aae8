"""JoinGroup of a classic group."""

from __future__ import annotations

from typing import Any

from kafka import errors

from tandem_kafka.testing.cluster.apis.api import Api
from tandem_kafka.testing.cluster.apis.membership import coordinator_error
from tandem_kafka.testing.cluster.call import Call
from tandem_kafka.testing.cluster.groups import SimMember, refused_join
from tandem_kafka.wire.messages import JoinGroupRequest

__all__ = ["API"]

_FIRST_WITH_REQUIRED_IDS = 4


def _handle(call: Call) -> Any:
    request = call.request
    error = coordinator_error(call)
    if error is not None:
        return refused_join(error)
    group = call.cluster.group(request.group_id)
    member_id = request.member_id
    before = group.with_instance(request.group_instance_id)
    if before is not None and member_id not in ("", before.member_id):
        return refused_join(errors.FencedInstanceIdError)
    if not member_id:
        member_id = f"member-{call.cluster.random.getrandbits(32):08x}"
        if call.version >= _FIRST_WITH_REQUIRED_IDS and request.group_instance_id is None:
            group.known_ids.add(member_id)
            return refused_join(errors.MemberIdRequiredError, member_id)
    elif member_id not in group.members and member_id not in group.known_ids:
        return refused_join(errors.UnknownMemberIdError)
    group.known_ids.discard(member_id)
    member = SimMember(
        member_id=member_id,
        instance_id=request.group_instance_id,
        protocols={p.name: bytes(p.metadata) for p in request.protocols},
        session_ms=request.session_timeout_ms,
        rebalance_ms=request.rebalance_timeout_ms,
    )
    if before is not None and before.member_id != member_id:
        group.come_back(before, member, call)
    else:
        group.join(member, call)
    return None


API = Api(JoinGroupRequest, (0, 9), _handle)
