"""The requests of administrators for groups: list, delete, delete offsets."""

from __future__ import annotations

from typing import Any, Final

from kafka.protocol.admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer import OffsetDeleteRequest, OffsetDeleteResponse

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.consumer_group_describe import state_of
from tandem_kafka_testing.cluster.apis.describe_groups import STATES
from tandem_kafka_testing.cluster.apis.membership import coordinator_error
from tandem_kafka_testing.cluster.apis.share_group_offsets import forget_share_states
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.coordinator.coordinator import GroupCoordinator
from tandem_kafka_testing.coordinator.requests import DeleteGroup, DeleteOffsets

_LISTED: Final = ListGroupsResponse.ListedGroup
_DELETED: Final = DeleteGroupsResponse.DeletableGroupResult
_TOPIC: Final = OffsetDeleteResponse.OffsetDeleteResponseTopic
_CONSUMER: Final = "consumer"
_SHARE: Final = "share"


def _list(call: Call) -> Any:
    states = {each.lower() for each in call.request.states_filter or () if call.version >= 4}
    types = {each.lower() for each in call.request.types_filter or () if call.version >= 5}
    groups = [
        entry
        for group_id, group in call.cluster.coordination.coordinators.items()
        if group.exists and coordinator_error(call, group_id) is None
        for entry in (_listed(group_id, group),)
        if not states or entry.group_state.lower() in states
        if not types or entry.group_type in types
    ]
    return ListGroupsResponse(throttle_time_ms=0, error_code=0, groups=groups)


def _listed(group_id: str, group: GroupCoordinator) -> Any:
    if group.share.exists:
        state = "Stable" if group.share.members else "Empty"
        return _LISTED(
            group_id=group_id, protocol_type=_SHARE, group_state=state, group_type=_SHARE
        )
    modern = group.consumer.exists
    return _LISTED(
        group_id=group_id,
        protocol_type=_CONSUMER if modern else group.classic.protocol_type,
        group_state=state_of(group.consumer) if modern else STATES[group.classic.state],
        group_type=_CONSUMER if modern else "classic",
    )


def _delete(call: Call) -> Any:
    results = []
    for group_id in call.request.groups_names:
        error = coordinator_error(call, group_id)
        if error is None:
            error = call.cluster.coordination.execute(group_id, DeleteGroup())
        if error is None:
            forget_share_states(call, group_id)
        results.append(_DELETED(group_id=group_id, error_code=error_code(error)))
    return DeleteGroupsResponse(throttle_time_ms=0, results=results)


def _delete_offsets(call: Call) -> Any:
    request = call.request
    wanted = frozenset(
        TopicPartition(topic.name, p.partition_index)
        for topic in request.topics
        for p in topic.partitions
    )
    found = coordinator_error(call)
    if found is None:
        forwarded = DeleteOffsets(partitions=wanted)
        found = call.cluster.coordination.execute(request.group_id, forwarded)
    if not isinstance(found, dict):
        return OffsetDeleteResponse(error_code=error_code(found), throttle_time_ms=0, topics=[])
    entry = _TOPIC.OffsetDeleteResponsePartition
    topics = [
        _TOPIC(
            name=topic.name,
            partitions=[
                entry(
                    partition_index=p.partition_index,
                    error_code=error_code(found[TopicPartition(topic.name, p.partition_index)]),
                )
                for p in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetDeleteResponse(error_code=0, throttle_time_ms=0, topics=topics)


APIS = (
    Api(ListGroupsRequest, (0, 5), _list),
    Api(DeleteGroupsRequest, (0, 2), _delete),
    Api(OffsetDeleteRequest, (0, 0), _delete_offsets),
)
