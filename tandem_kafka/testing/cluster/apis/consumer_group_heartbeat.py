"""ConsumerGroupHeartbeat of a KIP-848 group."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kafka import errors

from tandem_kafka.testing.cluster.apis.api import Api, error_code
from tandem_kafka.testing.cluster.apis.membership import coordinator_error
from tandem_kafka.testing.cluster.apis.topic_partitions import by_topic, named
from tandem_kafka.testing.cluster.call import Call
from tandem_kafka.testing.cluster.consumer_groups import (
    JOIN_EPOCH,
    ConsumerGroup,
    ConsumerGroupMember,
)
from tandem_kafka.testing.coordinator.client_assignors import ClientAssignor
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

__all__ = ["API"]

_ASSIGNMENT = ConsumerGroupHeartbeatResponse.Assignment
_INVALID_REGULAR_EXPRESSION = 128


def _handle(call: Call) -> Any:
    request = call.request
    error = coordinator_error(call)
    if error is not None:
        return _answer(error)
    group = call.cluster.consumer_group(request.group_id)
    if request.member_epoch < JOIN_EPOCH:
        return _leave(group, request)
    owned = _owned(call)
    error = _announcement_error(request) or group.find(
        request.member_id, request.instance_id, request.member_epoch, owned
    )
    if error is None and request.member_id not in group.members:
        error = _assignor_error(group, request) or group.add(request.member_id, request.instance_id)
    if error is not None:
        return _answer(error)
    member = group.members[request.member_id]
    group.touch(member)
    if not _subscribe(call, member):
        group.write(member)
        return _answer(_INVALID_REGULAR_EXPRESSION)
    group.update_target()
    before = member.assigned
    group.advance(member, owned)
    group.write(member)
    everything = request.rebalance_timeout_ms > 0 and owned is not None
    told = everything or request.member_epoch == JOIN_EPOCH or member.assigned != before
    return _answer(
        None,
        epoch=member.epoch,
        interval_ms=group.heartbeat_interval_ms,
        assignment=_assignment(call, member.assigned) if told else None,
        compute=group.computations.is_chosen(member.member_id),
    )


def _leave(group: ConsumerGroup, request: Any) -> Any:
    error = group.leave(request.member_id, request.instance_id, request.member_epoch)
    return _answer(error, epoch=0 if error else request.member_epoch)


def _assignor_error(group: ConsumerGroup, request: Any) -> Any:
    known = request.server_assignor is None or request.server_assignor in group.assignors
    return None if known else errors.UnsupportedAssignorError


def _announcement_error(request: Any) -> Any:
    announced = request.client_assignors
    if announced is None:
        return None
    names = {each.name for each in announced}
    sound = len(names) == len(announced) and all(
        each.name and each.minimum_version <= each.metadata_version <= each.maximum_version
        for each in announced
    )
    both = announced and request.server_assignor is not None
    return None if sound and not both else errors.InvalidRequestError


def _announced(request: Any) -> tuple[ClientAssignor, ...]:
    return tuple(
        ClientAssignor(
            each.name,
            each.minimum_version,
            each.maximum_version,
            each.metadata_version,
            bytes(each.metadata_bytes),
            each.reason,
        )
        for each in request.client_assignors
    )


def _subscribe(call: Call, member: ConsumerGroupMember) -> bool:
    """Take in what has changed; False if the expression cannot be read."""
    request = call.request
    if request.rebalance_timeout_ms > 0:
        member.rebalance_ms = request.rebalance_timeout_ms
    if request.subscribed_topic_names is not None:
        member.topics = frozenset(request.subscribed_topic_names)
    if request.client_assignors is not None:
        member.assignors = _announced(request)
    if call.version > 0 and request.subscribed_topic_regex is not None:
        try:
            re.compile(request.subscribed_topic_regex)
        except re.error:
            return False
        member.regex = request.subscribed_topic_regex
    return True


def _owned(call: Call) -> frozenset[TopicPartition] | None:
    if call.request.topic_partitions is None:
        return None
    return frozenset(tp for tp in named(call, call.request.topic_partitions) if tp is not None)


def _assignment(call: Call, partitions: Iterable[TopicPartition]) -> Any:
    return _ASSIGNMENT(
        topic_partitions=[
            _ASSIGNMENT.TopicPartitions(topic_id=topic_id, partitions=numbers)
            for _, topic_id, numbers in by_topic(call, partitions)
        ]
    )


def _answer(
    error: Any,
    *,
    epoch: int = 0,
    interval_ms: int = 0,
    assignment: Any = None,
    compute: bool = False,
) -> Any:
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=error if isinstance(error, int) else error_code(error),
        error_message=None,
        member_id=None,
        member_epoch=epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=assignment,
        should_compute_assignment=compute,
    )


API = Api(ConsumerGroupHeartbeatRequest, (0, 1), _handle)
