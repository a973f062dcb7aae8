"""ConsumerGroupInstallAssignment: an assignment computed by a member, or its failure."""

from __future__ import annotations

from typing import Any

from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
)
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.membership import coordinator_error
from tandem_kafka_testing.cluster.apis.topic_partitions import partitions_in
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.coordinator.requests import InstallAssignment

#: In place of a partition of an unknown topic, to which nobody subscribes.
_NOWHERE = TopicPartition("", -1)


def _handle(call: Call) -> Any:
    request = call.request
    error = coordinator_error(call)
    if error is not None:
        return _response(error)
    forwarded = InstallAssignment(
        member_id=request.member_id,
        epoch=request.member_epoch,
        group_epoch=request.group_epoch,
        assignment=None if request.error_code else _assignment(call),
        metadata={
            member.member_id: (
                member.metadata_version,
                bytes(member.metadata_bytes),
                member.error,
            )
            for member in request.members
        },
    )
    return call.cluster.coordination.forward(call, request.group_id, forwarded, _response)


def _response(error: Any) -> Any:
    return ConsumerGroupInstallAssignmentResponse(
        throttle_time_ms=0, error_code=error_code(error), error_message=None
    )


def _assignment(call: Call) -> dict[str, list[TopicPartition]]:
    assignment: dict[str, list[TopicPartition]] = {}
    for member in call.request.members:
        brought = [tp or _NOWHERE for tp in partitions_in(call, member.partitions)]
        assignment.setdefault(member.member_id, []).extend(brought)
    return assignment


API = Api(ConsumerGroupInstallAssignmentRequest, (0, 0), _handle)
