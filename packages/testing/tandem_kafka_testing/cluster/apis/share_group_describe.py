"""ShareGroupDescribe: the state of share groups."""

from __future__ import annotations

from typing import Any

from kafka import errors

from tandem_kafka.wire.messages import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.membership import coordinator_error
from tandem_kafka_testing.cluster.apis.topic_partitions import by_topic
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.cluster.coordination import CLIENT_HOST
from tandem_kafka_testing.coordinator.share_group import ShareGroupMember

_GROUP = ShareGroupDescribeResponse.DescribedGroup
_MEMBER = _GROUP.Member


def _handle(call: Call) -> Any:
    groups = [_described(call, group_id) for group_id in call.request.group_ids]
    return ShareGroupDescribeResponse(throttle_time_ms=0, groups=groups)


def _described(call: Call, group_id: str) -> Any:
    error = coordinator_error(call, group_id) if group_id else errors.InvalidGroupIdError
    if error is not None:
        return _GROUP(group_id=group_id, error_code=error_code(error))
    known = call.cluster.coordination.coordinators.get(group_id)
    if known is None or not known.share.exists:
        other = known is not None and known.exists
        return _GROUP(
            group_id=group_id,
            error_code=error_code(errors.GroupIdNotFoundError),
            error_message=f"Group {group_id} {'is not a share group' if other else 'not found'}.",
        )
    group = known.share
    return _GROUP(
        error_code=0,
        group_id=group_id,
        group_state="Stable" if group.members else "Empty",
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name="simple",
        members=[_member(call, group_id, member) for member in group.members.values()],
    )


def _member(call: Call, group_id: str, member: ShareGroupMember) -> Any:
    entry = _MEMBER.Assignment.TopicPartitions
    return _MEMBER(
        member_id=member.member_id,
        rack_id=None,
        member_epoch=member.epoch,
        client_id=call.cluster.coordination.client_of(group_id, member.member_id),
        client_host=CLIENT_HOST,
        subscribed_topic_names=sorted(member.topics),
        assignment=_MEMBER.Assignment(
            topic_partitions=[
                entry(topic_id=topic_id, topic_name=name, partitions=numbers)
                for name, topic_id, numbers in by_topic(call, member.assigned)
            ]
        ),
    )


API = Api(ShareGroupDescribeRequest, (1, 1), _handle)
