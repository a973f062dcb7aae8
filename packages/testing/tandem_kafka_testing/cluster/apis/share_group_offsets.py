"""The start offsets of share groups: describe, alter, delete.

They are what leaders have written. Before the first acknowledgement in a partition, the group has
no start offset there, and no lag.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from kafka import errors

from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.membership import coordinator_error
from tandem_kafka_testing.cluster.apis.topic_partitions import by_topic
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.cluster.topics import SimTopic
from tandem_kafka_testing.coordinator.requests import AlterShareOffsets, DeleteShareOffsets
from tandem_kafka_testing.share.persisted import PersistedState

_DESCRIBED: Final = DescribeShareGroupOffsetsResponse.ResponseGroup
_ALTERED: Final = AlterShareGroupOffsetsResponse.ResponseTopic
_DELETED: Final = DeleteShareGroupOffsetsResponse.ResponseTopic
_UNKNOWN: Final = -1
_NO_TOPIC: Final = UUID(int=0)
_NOT_HERE: Final = {
    "error_code": error_code(errors.UnknownTopicOrPartitionError),
    "error_message": "This server does not host this topic-partition.",
}
_NOTHING_STORED: Final = {**_NOT_HERE, "error_message": "There is no offset information to delete."}
_DONE: Final[dict[str, Any]] = {"error_code": 0, "error_message": None}


def forget_share_states(call: Call, *key: Any) -> None:
    """Forget how far share groups are, whose keys (group, topic id, partition) begin so."""
    brokers = call.cluster.brokers.values()
    states: list[dict[Any, Any]] = [broker.share_partitions for broker in brokers]
    for each in (call.cluster.share_states, *states):
        for known in [known for known in each if known[: len(key)] == key]:
            del each[known]


# --- describe ------------------------------------------------------------------------------------


def _describe(call: Call) -> Any:
    groups = [_described(call, wanted) for wanted in call.request.groups]
    return DescribeShareGroupOffsetsResponse(throttle_time_ms=0, groups=groups)


def _described(call: Call, wanted: Any) -> Any:
    error = coordinator_error(call, wanted.group_id)
    if error is not None:
        return _DESCRIBED(group_id=wanted.group_id, error_code=error_code(error), topics=[])
    known = call.cluster.coordination.coordinators.get(wanted.group_id)
    group = known.share if known is not None and known.share.exists else None
    initialized = group.initialized if group is not None else frozenset()
    if wanted.topics is None:
        numbers = {name: each for name, _, each in by_topic(call, initialized)}
    else:
        numbers = {each.topic_name: each.partitions for each in wanted.topics}
    known_topics = {tp.topic for tp in initialized}
    topics = []
    for name, each in numbers.items():
        topic = call.cluster.topics.get(name)
        partitions = [_state(call, wanted.group_id, topic, number) for number in each]
        # Without a group, the id is that of the metadata; otherwise it is what the group knows.
        identified = topic is not None and (group is None or name in known_topics)
        topics.append(
            _DESCRIBED.ResponseTopic(
                topic_name=name,
                topic_id=topic.topic_id if topic is not None and identified else _NO_TOPIC,
                partitions=partitions,
            )
        )
    return _DESCRIBED(group_id=wanted.group_id, topics=topics, **_DONE)


def _state(call: Call, group_id: str, topic: SimTopic | None, number: int) -> Any:
    """Return the start offset and the lag of a partition, -1 where nothing was written."""
    start, epoch, lag = _UNKNOWN, 0, _UNKNOWN
    if topic is not None:
        saved = call.cluster.share_states.get((group_id, topic.topic_id, number))
        if saved is not None and saved.start_offset is not None:
            partition = topic.partitions[number]
            start, epoch = saved.start_offset, partition.epoch
            lag = partition.log.end_offset - start - saved.done
    return _DESCRIBED.ResponseTopic.ResponsePartition(
        partition_index=number, start_offset=start, leader_epoch=epoch, lag=lag, **_DONE
    )


# --- alter ---------------------------------------------------------------------------------------


def _alter(call: Call) -> Any:
    request = call.request
    valid = frozenset(
        TopicPartition(topic.topic_name, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
        if _exists(call, topic.topic_name, each.partition_index)
    )
    error = coordinator_error(call)
    if error is None:
        forwarded = AlterShareOffsets(partitions=valid)
        error = call.cluster.coordination.execute(request.group_id, forwarded)
    if error is not None:
        return AlterShareGroupOffsetsResponse(
            throttle_time_ms=0, error_code=error_code(error), responses=[]
        )
    responses = [_altered(call, topic) for topic in request.topics]
    return AlterShareGroupOffsetsResponse(throttle_time_ms=0, responses=responses, **_DONE)


def _exists(call: Call, name: str, number: int) -> bool:
    topic = call.cluster.topics.get(name)
    return topic is not None and 0 <= number < len(topic.partitions)


def _altered(call: Call, wanted: Any) -> Any:
    topic = call.cluster.topics.get(wanted.topic_name)
    partitions = []
    for each in wanted.partitions:
        found = _exists(call, wanted.topic_name, each.partition_index)
        if found and topic is not None:
            key = call.request.group_id, topic.topic_id, each.partition_index
            forget_share_states(call, *key)
            start = None if each.start_offset == _UNKNOWN else each.start_offset
            call.cluster.share_states[key] = PersistedState(start)
        partitions.append(
            _ALTERED.ResponsePartition(
                partition_index=each.partition_index, **(_DONE if found else _NOT_HERE)
            )
        )
    return _ALTERED(
        topic_name=wanted.topic_name,
        topic_id=topic.topic_id if topic is not None else _NO_TOPIC,
        partitions=partitions,
    )


# --- delete --------------------------------------------------------------------------------------


def _delete(call: Call) -> Any:
    request = call.request
    names = frozenset(each.topic_name for each in request.topics)
    found = coordinator_error(call)
    if found is None:
        forwarded = DeleteShareOffsets(topics=names)
        found = call.cluster.coordination.execute(request.group_id, forwarded)
    if not isinstance(found, frozenset):
        return DeleteShareGroupOffsetsResponse(
            throttle_time_ms=0, error_code=error_code(found), responses=[]
        )
    responses = [*_deleted(call, [each.topic_name for each in request.topics], found)]
    return DeleteShareGroupOffsetsResponse(throttle_time_ms=0, responses=responses, **_DONE)


def _deleted(call: Call, names: Iterable[str], known: frozenset[str]) -> Iterable[Any]:
    for name in names:
        topic = call.cluster.topics.get(name)
        if topic is None or name not in known:
            missing = _NOT_HERE if topic is None else _NOTHING_STORED
            yield _DELETED(topic_name=name, topic_id=_NO_TOPIC, **missing)
            continue
        forget_share_states(call, call.request.group_id, topic.topic_id)
        yield _DELETED(topic_name=name, topic_id=topic.topic_id, **_DONE)


APIS = (
    Api(DescribeShareGroupOffsetsRequest, (0, 1), _describe),
    Api(AlterShareGroupOffsetsRequest, (0, 0), _alter),
    Api(DeleteShareGroupOffsetsRequest, (0, 0), _delete),
)
