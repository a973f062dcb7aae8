"""OffsetFetch: the committed offsets of a group."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from kafka import errors

from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import OffsetFetchRequest, OffsetFetchResponse
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.membership import coordinator_error
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.coordinator.records import OffsetCommit
from tandem_kafka_testing.coordinator.requests import FetchedOffsets, FetchOffsets

_GROUP = OffsetFetchResponse.OffsetFetchResponseGroup
_FIRST_WITH_STABLE = 7
_FIRST_WITH_GROUPS = 8
_FIRST_WITH_MEMBERS = 9
_NOTHING = OffsetCommit(-1, -1, "", 0)


def _handle(call: Call) -> Any:
    if call.version < _FIRST_WITH_GROUPS:
        code, topics = _respond(
            call,
            call.request,
            OffsetFetchResponse.OffsetFetchResponseTopic,
            OffsetFetchResponse.OffsetFetchResponseTopic.OffsetFetchResponsePartition,
        )
        return OffsetFetchResponse(throttle_time_ms=0, error_code=code, topics=topics)
    groups = []
    for group in call.request.groups:
        code, topics = _respond(
            call,
            group,
            _GROUP.OffsetFetchResponseTopics,
            _GROUP.OffsetFetchResponseTopics.OffsetFetchResponsePartitions,
        )
        groups.append(_GROUP(group_id=group.group_id, topics=topics, error_code=code))
    return OffsetFetchResponse(throttle_time_ms=0, groups=groups)


def _respond(
    call: Call, group: Any, topic_entry: Any, partition_entry: Any
) -> tuple[int, list[Any]]:
    group_id = group.group_id
    error = coordinator_error(call, group_id)
    if error is not None:
        return error_code(error), []
    stable = call.version >= _FIRST_WITH_STABLE and bool(call.request.require_stable)
    forwarded = FetchOffsets(require_stable=stable)
    if call.version >= _FIRST_WITH_MEMBERS:
        forwarded.member_id, forwarded.epoch = group.member_id, group.member_epoch
    fetched: FetchedOffsets = call.cluster.coordination.execute(group_id, forwarded)
    if fetched.error is not None:
        return error_code(fetched.error), []
    found_topics = []
    for topic in _all(call, fetched) if group.topics is None else group.topics:
        found = call.cluster.topic_named(topic.name, topic.topic_id if call.version >= 10 else None)
        entries = []
        for number in topic.partition_indexes:
            known = found is not None or call.version < 10
            name = found.name if found is not None else topic.name
            tp, error = TopicPartition(name, number), None
            if not known:
                error = errors.UnknownTopicIdError
            elif tp in fetched.unstable:
                error = errors.UnstableOffsetCommitError
            commit = _NOTHING if error is not None else fetched.offsets.get(tp, _NOTHING)
            entries.append(
                partition_entry(
                    partition_index=number,
                    committed_offset=commit.offset,
                    committed_leader_epoch=commit.leader_epoch,
                    metadata=commit.metadata,
                    error_code=error_code(error),
                )
            )
        identity = {"topic_id": topic.topic_id} if call.version >= 10 else {"name": topic.name}
        found_topics.append(topic_entry(partitions=entries, **identity))
    return 0, found_topics


class _Wanted(NamedTuple):
    """A topic as a request names it."""

    name: str
    topic_id: UUID
    partition_indexes: list[int]


def _all(call: Call, fetched: FetchedOffsets) -> list[_Wanted]:
    """Return the topics with commits, for a request without topics: it asks for all of them."""
    wanted: dict[str, _Wanted] = {}
    for tp in sorted({*fetched.offsets, *fetched.unstable}):
        topic = call.cluster.topics.get(tp.topic)
        if topic is not None:
            asked = wanted.setdefault(tp.topic, _Wanted(tp.topic, topic.topic_id, []))
            asked.partition_indexes.append(tp.partition)
    return list(wanted.values())


API = Api(OffsetFetchRequest, (1, 10), _handle)
