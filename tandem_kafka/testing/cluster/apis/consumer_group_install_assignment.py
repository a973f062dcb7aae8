"""ConsumerGroupInstallAssignment: what a member computed, or that it could not."""

from __future__ import annotations

from typing import Any

from kafka import errors

from tandem_kafka.testing.cluster.apis.api import Api, error_code
from tandem_kafka.testing.cluster.apis.membership import coordinator_error
from tandem_kafka.testing.cluster.apis.topic_partitions import named
from tandem_kafka.testing.cluster.call import Call
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
)

__all__ = ["API"]

#: Stands for a partition of a topic that there is not: nobody can want it.
_NOWHERE = TopicPartition("", -1)


def _handle(call: Call) -> Any:
    error = coordinator_error(call) or _install(call)
    return ConsumerGroupInstallAssignmentResponse(
        throttle_time_ms=0, error_code=error_code(error), error_message=None
    )


def _install(call: Call) -> Any:
    request = call.request
    group = call.cluster.consumer_groups.get(request.group_id)
    if group is None or not group.members:
        return errors.GroupIdNotFoundError
    error = group.computations.check(request.member_id, request.member_epoch)
    if error is not None:
        return error
    if request.error_code:
        return group.computations.install(request.group_epoch, None)
    assignment: dict[str, list[TopicPartition]] = {}
    for member in request.members:
        brought = [tp or _NOWHERE for tp in named(call, member.partitions)]
        assignment.setdefault(member.member_id, []).extend(brought)
    return group.computations.install(request.group_epoch, assignment)


API = Api(ConsumerGroupInstallAssignmentRequest, (0, 0), _handle)
