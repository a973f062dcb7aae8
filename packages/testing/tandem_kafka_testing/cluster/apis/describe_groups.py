"""DescribeGroups: the state of classic groups."""

from __future__ import annotations

from typing import Any, Final

from kafka import errors
from kafka.protocol.admin.groups import DescribeGroupsRequest, DescribeGroupsResponse

from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.membership import coordinator_error
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.cluster.coordination import CLIENT_HOST
from tandem_kafka_testing.coordinator.classic import ClassicGroup
from tandem_kafka_testing.coordinator.classic_group_member import ClassicGroupState, ClassicMember

_GROUP = DescribeGroupsResponse.DescribedGroup
_FIRST_WITH_NOT_FOUND = 6
#: Kafka's names of the states.
STATES: Final = {
    ClassicGroupState.EMPTY: "Empty",
    ClassicGroupState.JOINING: "PreparingRebalance",
    ClassicGroupState.SYNCING: "CompletingRebalance",
    ClassicGroupState.STABLE: "Stable",
}
_NO_GROUP = "Dead"


def _handle(call: Call) -> Any:
    groups = [_described(call, group_id) for group_id in call.request.groups]
    return DescribeGroupsResponse(throttle_time_ms=0, groups=groups)


def _described(call: Call, group_id: str) -> Any:
    error = coordinator_error(call, group_id)
    if error is not None:
        return _GROUP(group_id=group_id, error_code=error_code(error))
    known = call.cluster.coordination.coordinators.get(group_id)
    if known is None or not known.exists or known.consumer.exists or known.share.exists:
        reports_unknown = call.version >= _FIRST_WITH_NOT_FOUND
        error = errors.GroupIdNotFoundError if reports_unknown else None
        return _GROUP(group_id=group_id, error_code=error_code(error), group_state=_NO_GROUP)
    group = known.classic
    return _GROUP(
        error_code=0,
        group_id=group_id,
        group_state=STATES[group.state],
        protocol_type=group.protocol_type,
        protocol_data=group.protocol if group.state is ClassicGroupState.STABLE else "",
        members=[_member(call, group_id, group, member) for member in group.members.values()],
    )


def _member(call: Call, group_id: str, group: ClassicGroup, member: ClassicMember) -> Any:
    """Describe a member; its metadata is shown only in a stable group."""
    at_rest = group.state is ClassicGroupState.STABLE
    return _GROUP.DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=call.cluster.coordination.client_of(group_id, member.member_id),
        client_host=CLIENT_HOST,
        member_metadata=member.protocols[group.protocol] if at_rest else b"",
        member_assignment=member.assignment,
    )


API = Api(DescribeGroupsRequest, (0, 6), _handle)
