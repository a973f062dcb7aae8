"""The requests of administrators for topics: create, delete, add partitions, delete records."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kafka import errors
from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.cluster.apis.api import Api, error_code, error_text
from tandem_kafka_testing.cluster.apis.leadership import leadership_error
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.cluster.topic_configs import check_config
from tandem_kafka_testing.cluster.topics import SimTopic, is_valid_name

_CREATED = CreateTopicsResponse.CreatableTopicResult
_DELETED = DeleteTopicsResponse.DeletableTopicResult
_GROWN = CreatePartitionsResponse.CreatePartitionsTopicResult
_EMPTIED = DeleteRecordsResponse.DeleteRecordsTopicResult
_TO_THE_END = -1
_FIRST_BY_ID = 6
#: The limit of real controllers for one request.
_MAX_PARTITIONS = 10_000


def _create(call: Call) -> Any:
    topics = [_created(call, wanted) for wanted in call.request.topics]
    call.cluster.changed()
    return CreateTopicsResponse(throttle_time_ms=0, topics=topics)


def _created(call: Call, wanted: Any) -> Any:
    topic, code, message = None, 0, None
    try:
        partitions, replicas = _checked(call, wanted)
        if not call.request.validate_only:
            topic = call.cluster.create_topic(wanted.name, partitions, replicas=replicas)
            topic.configs.update({config.name: config.value for config in wanted.configs})
    except errors.BrokerResponseError as error:
        partitions = replicas = -1
        code, message = error_code(error), error_text(error)
    return _CREATED(
        name=wanted.name,
        topic_id=topic.topic_id if topic is not None else UUID(int=0),
        error_code=code,
        error_message=message,
        topic_config_error_code=0,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[],
    )


def _checked(call: Call, wanted: Any) -> tuple[int, int]:
    """Return the numbers of partitions and replicas of a valid topic."""
    brokers = len(call.cluster.brokers)
    partitions, replicas = wanted.num_partitions, wanted.replication_factor
    if wanted.assignments:
        partitions, replicas = len(wanted.assignments), len(wanted.assignments[0].broker_ids)
    partitions = 1 if partitions == -1 else partitions
    replicas = 1 if replicas == -1 else replicas
    if not is_valid_name(wanted.name):
        raise errors.InvalidTopicError(f"Topic name is invalid: {wanted.name!r}")
    if wanted.name in call.cluster.topics:
        raise errors.TopicAlreadyExistsError(f"Topic '{wanted.name}' already exists.")
    if partitions < 1:
        raise errors.InvalidPartitionsError("Number of partitions must be larger than 0.")
    if partitions > _MAX_PARTITIONS:
        raise errors.PolicyViolationError("Excessively large number of partitions per request.")
    if not 1 <= replicas <= brokers:
        raise errors.InvalidReplicationFactorError(
            f"Unable to replicate the partition {replicas} time(s): there are {brokers} brokers"
        )
    for config in wanted.configs:
        check_config(config.name, config.value)
    return partitions, replicas


def _delete(call: Call) -> Any:
    by_id = call.version >= _FIRST_BY_ID
    wanted = [(each.name, each.topic_id) for each in call.request.topics] if by_id else []
    wanted += [] if by_id else [(name, None) for name in call.request.topic_names]
    responses = []
    for name, topic_id in wanted:
        topic = call.cluster.topic_named(name, topic_id)
        unknown = errors.UnknownTopicOrPartitionError if name else errors.UnknownTopicIdError
        if topic is not None:
            call.cluster.delete_topic(topic.name)
        responses.append(
            _DELETED(
                name=topic.name if topic is not None else name,
                topic_id=topic.topic_id if topic is not None else topic_id or UUID(int=0),
                error_code=error_code(None if topic is not None else unknown),
                error_message=None,
            )
        )
    return DeleteTopicsResponse(throttle_time_ms=0, responses=responses)


def _add_partitions(call: Call) -> Any:
    results = []
    for wanted in call.request.topics:
        topic = call.cluster.topics.get(wanted.name)
        error = _growth_error(topic, wanted.count)
        if error is None and not call.request.validate_only:
            call.cluster.add_partitions(wanted.name, wanted.count)
        results.append(_GROWN(name=wanted.name, error_code=error_code(error), error_message=None))
    call.cluster.changed()
    return CreatePartitionsResponse(throttle_time_ms=0, results=results)


def _growth_error(topic: SimTopic | None, count: int) -> Any:
    if topic is None:
        return errors.UnknownTopicOrPartitionError
    if count - len(topic.partitions) > _MAX_PARTITIONS:
        return errors.PolicyViolationError
    return None if count > len(topic.partitions) else errors.InvalidPartitionsError


def _delete_records(call: Call) -> Any:
    entry = _EMPTIED.DeleteRecordsPartitionResult
    topics = []
    for topic in call.request.topics:
        partitions = []
        for wanted in topic.partitions:
            tp = TopicPartition(topic.name, wanted.partition_index)
            low, error = _deleted(call, tp, wanted.offset)
            partitions.append(
                entry(
                    partition_index=wanted.partition_index,
                    low_watermark=low,
                    error_code=error_code(error),
                )
            )
        topics.append(_EMPTIED(name=topic.name, partitions=partitions))
    return DeleteRecordsResponse(throttle_time_ms=0, topics=topics)


def _deleted(call: Call, tp: TopicPartition, before: int) -> tuple[int, Any]:
    """Delete records; returns the new start of the log, or an error."""
    partition = call.cluster.partition(tp)
    error = leadership_error(call, partition, -1)
    if error is not None or partition is None:
        return -1, error
    log = partition.log
    before = log.end_offset if before == _TO_THE_END else before
    if not 0 <= before <= log.end_offset:
        return -1, errors.OffsetOutOfRangeError
    if before > log.start_offset:
        call.cluster.delete_records(tp, before)
    return log.start_offset, None


APIS = (
    Api(CreateTopicsRequest, (2, 7), _create),
    Api(DeleteTopicsRequest, (1, 6), _delete),
    Api(CreatePartitionsRequest, (0, 3), _add_partitions),
    Api(DeleteRecordsRequest, (0, 2), _delete_records),
)
