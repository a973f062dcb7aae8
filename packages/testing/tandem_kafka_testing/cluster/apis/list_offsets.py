"""ListOffsets: offsets by timestamp."""

from __future__ import annotations

from typing import Any

from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import ListOffsetsRequest, ListOffsetsResponse
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.leadership import leadership_error
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.cluster.topics import SimPartition

_TOPIC = ListOffsetsResponse.ListOffsetsTopicResponse
_PARTITION = _TOPIC.ListOffsetsPartitionResponse
_LATEST, _EARLIEST = -1, -2
_READ_COMMITTED = 1
_NOTHING = (-1, -1, -1)


def _handle(call: Call) -> Any:
    topics = [
        _TOPIC(
            name=topic.name, partitions=[_respond(call, topic.name, p) for p in topic.partitions]
        )
        for topic in call.request.topics
    ]
    return ListOffsetsResponse(throttle_time_ms=0, topics=topics)


def _respond(call: Call, topic: str, wanted: Any) -> Any:
    partition = call.cluster.partition(TopicPartition(topic, wanted.partition_index))
    error = leadership_error(call, partition, wanted.current_leader_epoch)
    if error is not None or partition is None:
        offset, timestamp, epoch = -1, -1, -1
    else:
        committed = call.request.isolation_level == _READ_COMMITTED
        offset, timestamp, epoch = _look_up(partition, wanted.timestamp, committed=committed)
    return _PARTITION(
        partition_index=wanted.partition_index,
        error_code=error_code(error),
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch,
    )


def _look_up(partition: SimPartition, timestamp: int, *, committed: bool) -> tuple[int, int, int]:
    log = partition.log
    end = log.last_stable_offset if committed else log.end_offset
    if timestamp == _LATEST:
        return end, -1, partition.epoch
    if timestamp == _EARLIEST:
        return log.start_offset, -1, log.first_epoch
    found = log.find(timestamp)
    return found if found is not None and found[0] < end else _NOTHING


API = Api(ListOffsetsRequest, (1, 11), _handle)
