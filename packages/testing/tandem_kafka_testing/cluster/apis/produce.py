"""Produce: batches of producers, which are checked and appended."""

from __future__ import annotations

from typing import Any

from kafka import errors
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.call import CUT, NO_RESPONSE, Call
from tandem_kafka_testing.cluster.produced import (
    MAX_BYTES,
    Produced,
    read_produced,
    with_append_time,
)
from tandem_kafka_testing.cluster.topics import SimPartition, SimTopic

_TOPIC = ProduceResponse.TopicProduceResponse
_PARTITION = _TOPIC.PartitionProduceResponse
_FIRST_BY_ID = 13
#: From this version on, a transaction has each partition that is produced to (KIP-890).
_FIRST_OF_TRANSACTIONS_V2 = 12
_APPEND_TIME = "LogAppendTime"
_ACKS = (0, 1, -1)


def _handle(call: Call) -> Any:
    request = call.request
    topics = []
    for topic in request.topic_data:
        found = call.cluster.topic_named(topic.name, topic.topic_id)
        partitions = [_append(call, found, partition) for partition in topic.partition_data]
        topics.append(
            _TOPIC(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions)
        )
    call.cluster.changed()
    if request.acks == 0:
        # As a broker does: this is how the client learns of an error, and looks for the leader.
        failed = any(each.error_code for topic in topics for each in topic.partition_responses)
        return CUT if failed else NO_RESPONSE
    return ProduceResponse(responses=topics, throttle_time_ms=0, node_endpoints=[])


def _append(call: Call, topic: SimTopic | None, wanted: Any) -> Any:
    base, append_time_ms, start, code = -1, -1, -1, 0
    try:
        partition = _writable(call, topic, wanted.index)
        start = partition.log.start_offset
        configs = topic.configs if topic is not None else {}
        produced = read_produced(wanted.records, int(configs.get("max.message.bytes", MAX_BYTES)))
        if configs.get("message.timestamp.type") == _APPEND_TIME:
            append_time_ms = call.cluster.clock.wall_ms()
            produced = with_append_time(produced, append_time_ms)
        base = _appended(call, partition, produced)
    except errors.BrokerResponseError as error:
        code = error_code(error)
    return _PARTITION(
        index=wanted.index,
        error_code=code,
        base_offset=base,
        log_append_time_ms=append_time_ms,
        log_start_offset=start,
        record_errors=[],
        error_message=None,
    )


def _writable(call: Call, topic: SimTopic | None, number: int) -> SimPartition:
    partition = None
    if topic is not None:
        partition = call.cluster.partition(TopicPartition(topic.name, number))
    if partition is None:
        if call.version >= _FIRST_BY_ID:
            raise errors.UnknownTopicIdError
        raise errors.UnknownTopicOrPartitionError
    if call.request.acks not in _ACKS:
        raise errors.InvalidRequiredAcksError
    if partition.leader != call.broker.node_id:
        raise errors.NotLeaderForPartitionError
    return partition


def _appended(call: Call, partition: SimPartition, produced: Produced) -> int:
    """Append a batch, unless it is sent again; returns its base offset."""
    sequence = produced.sequence
    if sequence is not None:
        again = partition.log.producers.offset_of(sequence)
        if again is not None:
            return again
        partition.log.producers.check(sequence)
        if produced.transactional:
            call.cluster.transactions.check_batch(
                call.request.transactional_id,
                sequence,
                TopicPartition(partition.topic, partition.number),
                joins=call.version >= _FIRST_OF_TRANSACTIONS_V2,
            )
    return partition.log.append_produced(produced, partition.epoch)


API = Api(ProduceRequest, (3, 13), _handle)
