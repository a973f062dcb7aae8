"""OffsetCommit: the offsets of a group."""

from __future__ import annotations

from typing import Any, Final

from kafka import errors

from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import OffsetCommitRequest, OffsetCommitResponse
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.membership import coordinator_error
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.cluster.topics import SimTopic
from tandem_kafka_testing.coordinator.requests import Commit, CommitOffsets

_TOPIC = OffsetCommitResponse.OffsetCommitResponseTopic
_FIRST_BY_ID = 10
_FIRST_OF_EITHER_PROTOCOL = 9
#: The broker's offset.metadata.max.bytes.
_MAX_METADATA: Final = 4_096


def commit_of(entry: Any) -> Commit:
    """Return what a request commits for a partition."""
    epoch = -1 if entry.committed_leader_epoch is None else entry.committed_leader_epoch
    return entry.committed_offset, epoch, entry.committed_metadata or ""


def partition_error(call: Call, tp: TopicPartition, entry: Any) -> Any:
    """Return why the offset of this partition cannot be committed; None if it can."""
    if call.cluster.partition(tp) is None:
        return errors.UnknownTopicOrPartitionError
    _, _, metadata = commit_of(entry)
    too_long = len(metadata.encode()) > _MAX_METADATA
    return errors.OffsetMetadataTooLargeError if too_long else None


def _handle(call: Call) -> Any:
    request = call.request
    error = coordinator_error(call)
    if error is not None:
        return _response(call, error)
    forwarded = CommitOffsets(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        offsets=_offsets(call),
    )
    return call.cluster.coordination.forward(
        call, request.group_id, forwarded, lambda error: _accepted(call, forwarded, error)
    )


def _offsets(call: Call) -> dict[TopicPartition, Commit]:
    """Return the offsets that can be committed."""
    offsets: dict[TopicPartition, Commit] = {}
    for topic in call.request.topics:
        found = call.cluster.topic_named(topic.name, topic.topic_id)
        if found is None:
            continue
        for entry in topic.partitions:
            tp = TopicPartition(found.name, entry.partition_index)
            if partition_error(call, tp, entry) is None:
                offsets[tp] = commit_of(entry)
    return offsets


def _accepted(call: Call, forwarded: CommitOffsets, error: Any) -> OffsetCommitResponse:
    if error is None:
        for tp, commit in forwarded.offsets.items():
            call.cluster.commit_log.append((tp, commit, forwarded.member_id))
            call.cluster.trace.note(f"committed {tp.topic}-{tp.partition} at {commit[0]}")
    elif error is errors.GroupIdNotFoundError and call.version < _FIRST_OF_EITHER_PROTOCOL:
        error = errors.IllegalGenerationError
    return _response(call, error)


def _response(call: Call, error: Any) -> OffsetCommitResponse:
    by_id = call.version >= _FIRST_BY_ID
    unknown = errors.UnknownTopicIdError if by_id else errors.UnknownTopicOrPartitionError

    def wrong(topic: SimTopic | None, entry: Any) -> Any:
        if topic is None:
            return unknown
        return partition_error(call, TopicPartition(topic.name, entry.partition_index), entry)

    topics = []
    for topic in call.request.topics:
        found = call.cluster.topic_named(topic.name, topic.topic_id)
        entry = _TOPIC.OffsetCommitResponsePartition
        partitions = [
            entry(
                partition_index=p.partition_index,
                error_code=error_code(error or wrong(found, p)),
            )
            for p in topic.partitions
        ]
        topics.append(_TOPIC(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    return OffsetCommitResponse(throttle_time_ms=0, topics=topics)


API = Api(OffsetCommitRequest, (2, 10), _handle)
