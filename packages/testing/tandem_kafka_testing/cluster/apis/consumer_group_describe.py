"""ConsumerGroupDescribe: the state of KIP-848 groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka import errors

from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.membership import coordinator_error
from tandem_kafka_testing.cluster.apis.topic_partitions import by_topic
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.cluster.coordination import CLIENT_HOST
from tandem_kafka_testing.coordinator.kip848 import ConsumerGroup
from tandem_kafka_testing.coordinator.members import ConsumerGroupMember, MemberState

_GROUP = ConsumerGroupDescribeResponse.DescribedGroup
_MEMBER = _GROUP.Member
_OF_KIP_848 = 1


def _handle(call: Call) -> Any:
    groups = [_described(call, group_id) for group_id in call.request.group_ids]
    return ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=groups)


def _described(call: Call, group_id: str) -> Any:
    error = coordinator_error(call, group_id)
    if error is not None:
        return _GROUP(group_id=group_id, error_code=error_code(error))
    known = call.cluster.coordination.coordinators.get(group_id)
    if known is None or not known.consumer.exists:
        return _GROUP(group_id=group_id, error_code=error_code(errors.GroupIdNotFoundError))
    group = known.consumer
    current = group.computations.current
    return _GROUP(
        error_code=0,
        error_message=None,
        group_id=group_id,
        group_state=state_of(group),
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_member(call, group_id, group, member) for member in group.members.values()],
        computing_member_id=(current.member_id or None) if current is not None else None,
    )


def state_of(group: ConsumerGroup) -> str:
    """Return Kafka's name of the state of a group."""
    if not group.members:
        return "Empty"
    if group.epoch != group.assignment_epoch:
        return "Assigning"
    there = all(
        member.epoch == group.assignment_epoch and member.state is MemberState.STABLE
        for member in group.members.values()
        if not member.away
    )
    return "Stable" if there else "Reconciling"


def _member(call: Call, group_id: str, group: ConsumerGroup, member: ConsumerGroupMember) -> Any:
    target = group.target.get(member.member_id, frozenset())
    has = member.assigned | member.revoking
    return _MEMBER(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack,
        member_epoch=member.epoch,
        client_id=call.cluster.coordination.client_of(group_id, member.member_id),
        client_host=CLIENT_HOST,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex or None,
        assignment=_MEMBER.Assignment(
            topic_partitions=_topics(call, _MEMBER.Assignment.TopicPartitions, has)
        ),
        target_assignment=_MEMBER.TargetAssignment(
            topic_partitions=_topics(call, _MEMBER.TargetAssignment.TargetPartitions, target)
        ),
        member_type=_OF_KIP_848,
        client_assignors=_assignors(member),
    )


def _topics(call: Call, entry: Any, partitions: Iterable[TopicPartition]) -> list[Any]:
    return [
        entry(topic_id=topic_id, topic_name=name, partitions=numbers)
        for name, topic_id, numbers in by_topic(call, partitions)
    ]


def _assignors(member: ConsumerGroupMember) -> list[Any] | None:
    if not member.assignors:
        return None
    return [
        _MEMBER.ClientAssignor(
            name=each.name,
            minimum_version=each.minimum_version,
            maximum_version=each.maximum_version,
            reason=each.reason,
            metadata_version=each.version,
            metadata_bytes=each.metadata,
        )
        for each in member.assignors
    ]


API = Api(ConsumerGroupDescribeRequest, (0, 1), _handle)
