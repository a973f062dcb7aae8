"""ShareAcknowledge: acknowledges records of a share session without acquiring others."""

from __future__ import annotations

from typing import Any

from kafka import errors

from tandem_kafka.wire.messages import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.share_acknowledgements import acknowledge, finish
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.cluster.share_groups import ShareGroups
from tandem_kafka_testing.coordinator.step import Error
from tandem_kafka_testing.share.sessions import CLOSE_EPOCH, OPEN_EPOCH, PartitionKey, ShareSession

_TOPIC = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse
_PARTITION = _TOPIC.PartitionData


def _handle(call: Call) -> Any:
    request = call.request
    member, epoch = (request.group_id, request.member_id), request.share_session_epoch
    if epoch == OPEN_EPOCH:
        return _response(call, {}, errors.InvalidShareSessionEpochError)
    session = call.broker.share_sessions.find(member, epoch)
    if not isinstance(session, ShareSession):
        return _response(call, {}, session)
    if epoch != CLOSE_EPOCH:
        session.advance()
    results = acknowledge(call)
    finish(call, results)
    if epoch == CLOSE_EPOCH:
        partitions = call.broker.share_sessions.close(member)
        ShareGroups(call.cluster, call.broker).release(member, partitions)
    return _response(call, results, None)


def _response(call: Call, results: dict[PartitionKey, Error], error: Error) -> Any:
    by_topic: dict[Any, list[Any]] = {}
    for (topic_id, number), result in results.items():
        entry = _PARTITION(
            partition_index=number,
            error_code=error_code(result),
            error_message=None,
            current_leader=_PARTITION.LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
        )
        by_topic.setdefault(topic_id, []).append(entry)
    settings = call.cluster.coordination.of(call.request.group_id).settings
    lock_ms = settings.share_record_lock_duration_ms
    return ShareAcknowledgeResponse(
        throttle_time_ms=0,
        error_code=error_code(error),
        error_message=None,
        acquisition_lock_timeout_ms=lock_ms if error is None else 0,
        responses=[
            _TOPIC(topic_id=topic_id, partitions=entries) for topic_id, entries in by_topic.items()
        ],
        node_endpoints=[],
    )


API = Api(ShareAcknowledgeRequest, (1, 2), _handle)
