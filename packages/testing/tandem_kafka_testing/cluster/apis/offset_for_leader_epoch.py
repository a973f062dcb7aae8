"""OffsetForLeaderEpoch: the end offset of an epoch (KIP-320)."""

from __future__ import annotations

from typing import Any

from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.leadership import leadership_error
from tandem_kafka_testing.cluster.call import Call

_TOPIC = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult


def _handle(call: Call) -> Any:
    topics = [
        _TOPIC(
            topic=topic.topic, partitions=[_respond(call, topic.topic, p) for p in topic.partitions]
        )
        for topic in call.request.topics
    ]
    return OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=topics)


def _respond(call: Call, topic: str, wanted: Any) -> Any:
    partition = call.cluster.partition(TopicPartition(topic, wanted.partition))
    error = leadership_error(call, partition, wanted.current_leader_epoch)
    epoch, end_offset = -1, -1
    if error is None and partition is not None:
        epoch, end_offset = partition.log.end_of_epoch(wanted.leader_epoch)
    return _TOPIC.EpochEndOffset(
        error_code=error_code(error),
        partition=wanted.partition,
        leader_epoch=epoch,
        end_offset=end_offset,
    )


API = Api(OffsetForLeaderEpochRequest, (2, 4), _handle)
