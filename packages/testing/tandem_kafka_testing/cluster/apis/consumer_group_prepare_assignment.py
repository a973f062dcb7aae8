"""ConsumerGroupPrepareAssignment: the input of a member that computes an assignment."""

from __future__ import annotations

from typing import Any

from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import (
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.membership import coordinator_error
from tandem_kafka_testing.cluster.apis.topic_partitions import by_topic
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.coordinator.client_assignors import ClientAssignor, find_assignor
from tandem_kafka_testing.coordinator.kip848 import ConsumerGroup
from tandem_kafka_testing.coordinator.requests import PrepareAssignment, PrepareResult

_MEMBER = ConsumerGroupPrepareAssignmentResponse.Member
_TOPIC = ConsumerGroupPrepareAssignmentResponse.Topic


def _handle(call: Call) -> Any:
    request = call.request
    error = coordinator_error(call)
    if error is not None:
        return _respond(error_code(error))
    forwarded = PrepareAssignment(member_id=request.member_id, epoch=request.member_epoch)
    return call.cluster.coordination.forward(
        call, request.group_id, forwarded, lambda result: _response(call, result)
    )


def _response(call: Call, result: PrepareResult) -> Any:
    computation = result.computation
    if computation is None:
        return _respond(error_code(result.error))
    group = call.cluster.consumer_group(call.request.group_id)
    prepared = computation.prepared_for or ()
    return _respond(
        0,
        epoch=computation.epoch,
        assignor=computation.assignor,
        members=[
            _member(call, group, member_id, computation.assignor, wanted)
            for member_id, wanted in prepared
        ],
        topics=_topics(call, frozenset().union(*(wanted for _, wanted in prepared))),
    )


def _member(
    call: Call, group: ConsumerGroup, member_id: str, name: str, wanted: frozenset[TopicPartition]
) -> Any:
    member = group.members[member_id]
    # As of the epoch: versions announced later may be unsupported by others.
    assignor = find_assignor(group.announced.get(member_id, ()), name) or ClientAssignor(name)
    return _MEMBER(
        member_id=member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack,
        subscribed_topic_ids=[topic_id for _, topic_id, _ in by_topic(call, wanted)],
        reason=assignor.reason,
        metadata_version=assignor.version,
        metadata_bytes=assignor.metadata,
        owned_partitions=[
            _MEMBER.OwnedPartitions(topic_id=topic_id, partitions=numbers)
            for _, topic_id, numbers in by_topic(call, member.assigned | member.revoking)
        ],
        target_partitions=[
            _MEMBER.TargetPartitions(topic_id=topic_id, partitions=numbers)
            for _, topic_id, numbers in by_topic(call, group.target.get(member_id, ()))
        ],
    )


def _topics(call: Call, wanted: frozenset[TopicPartition]) -> list[Any]:
    return [
        _TOPIC(topic_id=topic_id, topic_name=name, num_partitions=len(numbers))
        for name, topic_id, numbers in by_topic(call, wanted)
    ]


def _respond(
    error: int, *, epoch: int = -1, assignor: str = "", members: Any = (), topics: Any = ()
) -> Any:
    return ConsumerGroupPrepareAssignmentResponse(
        throttle_time_ms=0,
        error_code=error,
        error_message=None,
        group_epoch=epoch,
        assignor_name=assignor,
        members=list(members),
        topics=list(topics),
    )


API = Api(ConsumerGroupPrepareAssignmentRequest, (0, 0), _handle)
