"""ConsumerGroupHeartbeat of a KIP-848 member."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka import errors

from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.membership import coordinator_error
from tandem_kafka_testing.cluster.apis.plain import Plain
from tandem_kafka_testing.cluster.apis.topic_partitions import by_topic, partitions_in
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.coordinator.client_assignors import AssignorMetadata, ClientAssignor
from tandem_kafka_testing.coordinator.members import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
)
from tandem_kafka_testing.coordinator.requests import ConsumerHeartbeat, ConsumerHeartbeatResult

_ASSIGNMENT = ConsumerGroupHeartbeatResponse.Assignment
_FIRST_WITH_IDS_OF_CLIENTS = 1
_NOT_SAID_MS = -1


def _handle(call: Call) -> Any:
    request = call.request
    error = coordinator_error(call) or (None if _is_valid(call) else errors.InvalidRequestError)
    if error is not None:
        return _response(call, ConsumerHeartbeatResult(error))
    topics = request.subscribed_topic_names
    forwarded = ConsumerHeartbeat(
        member_id=request.member_id or f"member-{call.cluster.random.getrandbits(32):08x}",
        instance_id=request.instance_id,
        rack=request.rack_id,
        epoch=request.member_epoch,
        rebalance_ms=request.rebalance_timeout_ms,
        topics=None if topics is None else frozenset(topics),
        regex=request.subscribed_topic_regex if call.version > 0 else None,
        server_assignor=request.server_assignor,
        assignors=None if request.client_assignors is None else _announced(request),
        owned=_owned(call),
    )
    return call.cluster.coordination.forward(
        call,
        request.group_id,
        forwarded,
        lambda result: _response(call, result, forwarded.member_id),
    )


def _is_valid(call: Call) -> bool:
    """Return whether a request has the fields that its epoch requires."""
    request, epoch = call.request, call.request.member_epoch
    if "" in (request.group_id, request.instance_id, request.rack_id):
        return False
    if not request.member_id and (
        epoch != JOIN_EPOCH or call.version >= _FIRST_WITH_IDS_OF_CLIENTS
    ):
        return False
    if epoch == STATIC_LEAVE_EPOCH:
        return request.instance_id is not None
    if epoch != JOIN_EPOCH:
        return bool(epoch >= LEAVE_EPOCH)
    regex = request.subscribed_topic_regex if call.version > 0 else None
    subscribes = request.subscribed_topic_names is not None or regex is not None
    owns_nothing = request.topic_partitions is not None and not request.topic_partitions
    return subscribes and owns_nothing and request.rebalance_timeout_ms != _NOT_SAID_MS


def _announced(request: Any) -> tuple[ClientAssignor, ...]:
    return tuple(
        [
            ClientAssignor(
                each.name,
                each.minimum_version,
                each.maximum_version,
                each.metadata_version,
                bytes(each.metadata_bytes),
                each.reason,
            )
            for each in request.client_assignors
        ]
    )


def _owned(call: Call) -> frozenset[TopicPartition] | None:
    if call.request.topic_partitions is None:
        return None
    return frozenset(
        tp for tp in partitions_in(call, call.request.topic_partitions) if tp is not None
    )


def _assignment(
    call: Call, partitions: Iterable[TopicPartition], assignor_metadata: AssignorMetadata | None
) -> Any:
    return _ASSIGNMENT(
        assignor_name=assignor_metadata.assignor if assignor_metadata is not None else None,
        metadata_version=assignor_metadata.version if assignor_metadata is not None else 0,
        metadata_bytes=assignor_metadata.metadata if assignor_metadata is not None else b"",
        error=assignor_metadata.error if assignor_metadata is not None else 0,
        topic_partitions=[
            _ASSIGNMENT.TopicPartitions(topic_id=topic_id, partitions=numbers)
            for _, topic_id, numbers in by_topic(call, partitions)
        ],
    )


def _response(call: Call, result: ConsumerHeartbeatResult, member_id: str | None = None) -> Any:
    fields = {
        "throttle_time_ms": 0,
        "error_code": error_code(result.error),
        "error_message": None,
        "member_id": member_id if result.error is None else None,
        "member_epoch": result.epoch,
        "heartbeat_interval_ms": result.interval_ms,
        "should_compute_assignment": result.compute,
    }
    if result.assigned is None:
        return Plain(ConsumerGroupHeartbeatResponse, assignment=None, **fields)
    assignment = _assignment(call, result.assigned, result.assignor_metadata)
    return ConsumerGroupHeartbeatResponse(assignment=assignment, **fields)


API = Api(ConsumerGroupHeartbeatRequest, (0, 1), _handle)
