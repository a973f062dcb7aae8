"""DescribeLogDirs: the sizes of the partitions of a broker."""

from __future__ import annotations

from typing import Any, Final

from kafka.protocol.admin import DescribeLogDirsRequest, DescribeLogDirsResponse

from tandem_kafka_testing.cluster.apis.api import Api
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.cluster.topics import SimPartition, SimTopic

_FOLDER: Final = DescribeLogDirsResponse.DescribeLogDirsResult
_TOPIC: Final = _FOLDER.DescribeLogDirsTopic
_UNKNOWN_BYTES: Final = -1


def _handle(call: Call) -> Any:
    topics = call.cluster.topics
    wanted = [(topic, topic.partitions) for topic in topics.values()]
    if call.request.topics is not None:
        wanted = [
            (topics[each.topic], [p for p in topics[each.topic].partitions if p.number in numbers])
            for each in call.request.topics
            if each.topic in topics
            for numbers in ({*each.partitions},)
        ]
    folder = _FOLDER(
        error_code=0,
        log_dir="/simulated",
        topics=[found for each in wanted if (found := _topic(call, *each)).partitions],
        total_bytes=_UNKNOWN_BYTES,
        usable_bytes=_UNKNOWN_BYTES,
        is_cordoned=False,
    )
    return DescribeLogDirsResponse(throttle_time_ms=0, error_code=0, results=[folder])


def _topic(call: Call, topic: SimTopic, partitions: list[SimPartition]) -> Any:
    node_id, entry = call.broker.node_id, _TOPIC.DescribeLogDirsPartition
    return _TOPIC(
        name=topic.name,
        partitions=[
            entry(
                partition_index=each.number,
                partition_size=each.log.size,
                offset_lag=each.log.end_offset - each.end_at(node_id),
                is_future_key=False,
            )
            for each in partitions
            if node_id in each.replicas
        ],
    )


API = Api(DescribeLogDirsRequest, (1, 5), _handle)
