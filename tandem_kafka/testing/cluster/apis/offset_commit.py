"""OffsetCommit: what a group has read."""

from __future__ import annotations

from typing import Any

from kafka import errors

from tandem_kafka.testing.cluster.apis.api import Api, error_code
from tandem_kafka.testing.cluster.apis.membership import coordinator_error
from tandem_kafka.testing.cluster.call import Call
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import OffsetCommitRequest, OffsetCommitResponse

__all__ = ["API"]

_TOPIC = OffsetCommitResponse.OffsetCommitResponseTopic


def _handle(call: Call) -> Any:
    error = coordinator_error(call) or _membership_error(call)
    topics = []
    for topic in call.request.topics:
        found = call.cluster.topic_named(topic.name, topic.topic_id)
        reason = error
        if found is None:
            by_id = call.version >= 10
            unknown = errors.UnknownTopicIdError if by_id else errors.UnknownTopicOrPartitionError
            reason = error or unknown
        entry = _TOPIC.OffsetCommitResponsePartition
        answered = []
        for p in topic.partitions:
            if reason is None and found is not None:
                _store(call, TopicPartition(found.name, p.partition_index), p)
            answered.append(entry(partition_index=p.partition_index, error_code=error_code(reason)))
        topics.append(_TOPIC(name=topic.name, topic_id=topic.topic_id, partitions=answered))
    return OffsetCommitResponse(throttle_time_ms=0, topics=topics)


def _membership_error(call: Call) -> Any:
    group = call.cluster.group(call.request.group_id)
    modern = call.cluster.consumer_group(call.request.group_id)
    generation = call.request.generation_id_or_member_epoch
    if generation < 0 and not group.members and not modern.members:
        return None  # a simple consumer, without membership
    if modern.members:
        return modern.check(call.request.member_id, generation)
    return group.check(call.request.member_id, generation)


def _store(call: Call, tp: TopicPartition, entry: Any) -> None:
    epoch = -1 if entry.committed_leader_epoch is None else entry.committed_leader_epoch
    commit = (entry.committed_offset, epoch, entry.committed_metadata or "")
    call.cluster.group(call.request.group_id).store(tp, commit)
    call.cluster.commit_log.append((tp, commit))
    call.cluster.trace.note(f"committed {tp.topic}-{tp.partition} at {commit[0]}")


API = Api(OffsetCommitRequest, (2, 10), _handle)
