"""Metadata: brokers, topics, leaders."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from kafka import errors

from tandem_kafka.wire.messages import MetadataRequest, MetadataResponse
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.plain import Cached
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.cluster.topics import SimPartition, SimTopic, is_valid_name

CLUSTER_ID = "simulated"
_BROKER = MetadataResponse.MetadataResponseBroker
_TOPIC = MetadataResponse.MetadataResponseTopic
_PARTITION = _TOPIC.MetadataResponsePartition
_NO_LEADER = error_code(errors.LeaderNotAvailableError)


class _Topic(NamedTuple):
    """One topic of a response; each partition has the arguments of `_listed`."""

    error_code: int
    name: str | None
    topic_id: UUID
    internal: bool = False
    partitions: tuple[tuple[Any, ...], ...] = ()


class _Content(NamedTuple):
    """The content of a response, as the key of the cache."""

    controller: int
    brokers: tuple[tuple[int, str, int, str | None], ...]
    topics: tuple[_Topic, ...]


def _handle(call: Call) -> Any:
    cluster = call.cluster
    if call.request.topics is None:
        topics = [_describe(call, topic) for topic in cluster.topics.values()]
    else:
        topics = [_wanted(call, wanted) for wanted in call.request.topics]
    brokers = [(b.node_id, b.host, b.port, b.rack) for b in cluster.brokers.values() if b.up]
    content = _Content(call.broker.node_id, tuple(brokers), tuple(topics))
    return _message(content) if call.may_be_changed else _cached(content)


@lru_cache(maxsize=500)
def _cached(content: _Content) -> Cached:
    """Return a cached response: members repeat the request while there is no leader."""
    return Cached(_message(content))


def _message(content: _Content) -> Any:
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=[
            _BROKER(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in content.brokers
        ],
        cluster_id=CLUSTER_ID,
        controller_id=content.controller,
        topics=[
            _TOPIC(
                error_code=topic.error_code,
                name=topic.name,
                topic_id=topic.topic_id,
                is_internal=topic.internal,
                partitions=[_listed(*partition) for partition in topic.partitions],
            )
            for topic in content.topics
        ],
        error_code=0,
    )


def _listed(
    number: int,
    leader: int,
    epoch: int,
    replicas: tuple[int, ...],
    in_sync: tuple[int, ...],
    down: tuple[int, ...],
) -> Any:
    return _PARTITION(
        error_code=0 if leader >= 0 else _NO_LEADER,
        partition_index=number,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=list(replicas),
        isr_nodes=list(in_sync),
        offline_replicas=list(down),
    )


def _wanted(call: Call, wanted: Any) -> _Topic:
    if wanted.name is not None:
        return _named(call, wanted.name)
    topic = call.cluster.topic_named(None, wanted.topic_id)
    if topic is not None:
        return _describe(call, topic)
    return _Topic(error_code(errors.UnknownTopicIdError), None, wanted.topic_id)


def _named(call: Call, name: str) -> _Topic:
    topic = call.cluster.topics.get(name)
    if topic is None and not is_valid_name(name):
        return _Topic(error_code(errors.InvalidTopicError), name, UUID(int=0))
    if topic is not None:
        return _describe(call, topic)
    if call.cluster.auto_create and call.request.allow_auto_topic_creation:
        # The next response has it: Kafka does not wait for the controller.
        call.cluster.create_topic(name)
    return _Topic(error_code(errors.UnknownTopicOrPartitionError), name, UUID(int=0))


def _describe(call: Call, topic: SimTopic) -> _Topic:
    partitions = tuple([_partition(call, partition) for partition in topic.partitions])
    return _Topic(0, topic.name, topic.topic_id, topic.internal, partitions)


def _partition(call: Call, partition: SimPartition) -> tuple[Any, ...]:
    """Return the arguments of `_listed`."""
    cluster, brokers = call.cluster, call.cluster.brokers
    down = [node_id for node_id in partition.replicas if not brokers[node_id].up]
    return (
        partition.number,
        partition.leader if brokers[partition.leader].up else -1,
        partition.epoch,
        partition.replicas,
        (*cluster.in_sync(partition),),
        tuple(down),
    )


API = Api(MetadataRequest, (1, 13), _handle)
