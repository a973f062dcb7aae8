"""Metadata: brokers, topics, leaders."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kafka import errors

from tandem_kafka.testing.cluster.apis.api import Api, error_code
from tandem_kafka.testing.cluster.call import Call
from tandem_kafka.testing.cluster.topics import SimPartition, SimTopic
from tandem_kafka.wire.messages import MetadataRequest, MetadataResponse

__all__ = ["API"]

_TOPIC = MetadataResponse.MetadataResponseTopic
_PARTITION = _TOPIC.MetadataResponsePartition


def _handle(call: Call) -> Any:
    cluster = call.cluster
    if call.request.topics is None:
        described = [_describe(call, topic) for topic in cluster.topics.values()]
    else:
        described = [_wanted(call, wanted) for wanted in call.request.topics]
    brokers = [
        MetadataResponse.MetadataResponseBroker(
            node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack
        )
        for broker in cluster.brokers.values()
        if broker.up
    ]
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=brokers,
        cluster_id="simulated",
        controller_id=call.broker.node_id,
        topics=described,
        error_code=0,
    )


def _wanted(call: Call, wanted: Any) -> Any:
    if wanted.name is not None:
        return _named(call, wanted.name)
    topic = call.cluster.topic_named(None, wanted.topic_id)
    if topic is not None:
        return _describe(call, topic)
    missing = error_code(errors.UnknownTopicIdError)
    return _TOPIC(error_code=missing, name=None, topic_id=wanted.topic_id, partitions=[])


def _named(call: Call, name: str) -> Any:
    topic = call.cluster.topics.get(name)
    if topic is None and call.cluster.auto_create and call.request.allow_auto_topic_creation:
        topic = call.cluster.create_topic(name)
    if topic is not None:
        return _describe(call, topic)
    missing = error_code(errors.UnknownTopicOrPartitionError)
    return _TOPIC(error_code=missing, name=name, topic_id=UUID(int=0), partitions=[])


def _describe(call: Call, topic: SimTopic) -> Any:
    return _TOPIC(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=[_partition(call, partition) for partition in topic.partitions],
    )


def _partition(call: Call, partition: SimPartition) -> Any:
    cluster, brokers = call.cluster, call.cluster.brokers
    led = brokers[partition.leader].up
    down = [node_id for node_id in partition.replicas if not brokers[node_id].up]
    return _PARTITION(
        error_code=0 if led else error_code(errors.LeaderNotAvailableError),
        partition_index=partition.number,
        leader_id=partition.leader if led else -1,
        leader_epoch=partition.epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=cluster.in_sync(partition),
        offline_replicas=down,
    )


API = Api(MetadataRequest, (1, 13), _handle)
