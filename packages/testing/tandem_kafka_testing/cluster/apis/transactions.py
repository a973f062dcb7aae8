"""The requests of transactional producers, and what administrators ask about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka import errors
from kafka.protocol.admin import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.membership import coordinator_error
from tandem_kafka_testing.cluster.apis.offset_commit import commit_of, partition_error
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.cluster.transaction_coordinator import TransactionalProducer

#: From these versions on, clients use transactions v2 (KIP-890).
_END_V2, _COMMIT_V2 = 5, 5
_FIRST_OF_SEVERAL = 4
_OLD_ERRORS = 2
_FOUND = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
_TOPIC = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
_COMMITTED = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
_DESCRIBED = DescribeTransactionsResponse.TransactionState


def _coordinates(call: Call, transactional_id: str) -> bool:
    return call.cluster.transaction_coordinator_of(transactional_id) == call.broker.node_id


def _find(call: Call, request: Any) -> TransactionalProducer | Any:
    """Return the producer of a request, or the class of the error."""
    if not _coordinates(call, request.transactional_id):
        return errors.NotCoordinatorError
    return call.cluster.transactions.find(
        request.transactional_id, request.producer_id, request.producer_epoch
    )


def _error(call: Call, found: Any) -> Any:
    """Return the class of the error, as the version of the request knows it."""
    if isinstance(found, TransactionalProducer):
        return None
    if found is errors.ProducerFencedError and call.version < _OLD_ERRORS:
        return errors.InvalidProducerEpochError
    return found


def _initialize(call: Call) -> Any:
    request, transactions = call.request, call.cluster.transactions
    if request.transactional_id is None:
        return _initialized(None, transactions.new_producer_id(), 0)
    if not _coordinates(call, request.transactional_id):
        return _initialized(errors.NotCoordinatorError)
    found = transactions.initialize(
        request.transactional_id,
        request.transaction_timeout_ms,
        *((request.producer_id, request.producer_epoch) if call.version >= 3 else (-1, -1)),
    )
    if not isinstance(found, TransactionalProducer):
        return _initialized(found)
    return _initialized(None, found.producer_id, found.epoch)


def _initialized(error: Any, producer_id: int = -1, epoch: int = -1) -> Any:
    return InitProducerIdResponse(
        throttle_time_ms=0,
        error_code=error_code(error),
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def _add_partitions(call: Call) -> Any:
    request = call.request
    if call.version < _FIRST_OF_SEVERAL:
        topics = _added(call, _find_v3(call), request.v3_and_below_topics)
        return AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_topic_v3_and_below=topics)
    results = [
        _FOUND(
            transactional_id=each.transactional_id,
            topic_results=_added(call, _find(call, each), each.topics),
        )
        for each in request.transactions
    ]
    return AddPartitionsToTxnResponse(
        throttle_time_ms=0, error_code=0, results_by_transaction=results
    )


def _find_v3(call: Call) -> TransactionalProducer | Any:
    request = call.request
    transactional_id = request.v3_and_below_transactional_id
    if not _coordinates(call, transactional_id):
        return errors.NotCoordinatorError
    return call.cluster.transactions.find(
        transactional_id, request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
    )


def _added(call: Call, found: Any, topics: Iterable[Any]) -> list[Any]:
    """Add all partitions, or none if one of them does not exist."""
    wanted = [TopicPartition(topic.name, p) for topic in topics for p in topic.partitions]
    error = _error(call, found)
    missing = {tp for tp in wanted if call.cluster.partition(tp) is None}
    if error is None and not missing:
        call.cluster.transactions.add(found, wanted)

    def code(tp: TopicPartition) -> int:
        if error is None and missing:
            unknown, other = errors.UnknownTopicOrPartitionError, errors.OperationNotAttemptedError
            return error_code(unknown if tp in missing else other)
        return error_code(error)

    entry = _TOPIC.AddPartitionsToTxnPartitionResult
    return [
        _TOPIC(
            name=topic.name,
            results_by_partition=[
                entry(
                    partition_index=number,
                    partition_error_code=code(TopicPartition(topic.name, number)),
                )
                for number in topic.partitions
            ],
        )
        for topic in topics
    ]


def _add_offsets(call: Call) -> Any:
    found = _find(call, call.request)
    error = _error(call, found)
    if error is None:
        call.cluster.transactions.add(found, group_id=call.request.group_id)
    return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=error_code(error))


def _commit_offsets(call: Call) -> Any:
    request, cluster = call.request, call.cluster
    error = coordinator_error(call)
    found = cluster.transactions.find(
        request.transactional_id, request.producer_id, request.producer_epoch
    )
    if error is None:
        error = _error(call, found)
    if error is None and call.version >= _COMMIT_V2:
        cluster.transactions.add(found, group_id=request.group_id)
    if error is None and request.group_id not in found.groups:
        error = errors.InvalidTxnStateError
    entries = {
        TopicPartition(topic.name, p.partition_index): p
        for topic in request.topics
        for p in topic.partitions
    }
    wrong = {tp: partition_error(call, tp, each) for tp, each in entries.items()}
    accepted = {tp: commit_of(each) for tp, each in entries.items() if wrong[tp] is None}
    if error is None and accepted:
        member = call.version >= 3
        error = cluster.commit_in_transaction(
            request.group_id,
            request.producer_id,
            accepted,
            request.member_id if member else "",
            request.generation_id if member else -1,
            request.group_instance_id if member else None,
        )

    def code(tp: TopicPartition) -> int:
        return error_code(error or wrong[tp])

    entry = _COMMITTED.TxnOffsetCommitResponsePartition
    return TxnOffsetCommitResponse(
        throttle_time_ms=0,
        topics=[
            _COMMITTED(
                name=topic.name,
                partitions=[
                    entry(
                        partition_index=p.partition_index,
                        error_code=code(TopicPartition(topic.name, p.partition_index)),
                    )
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _end(call: Call) -> Any:
    request, transactions = call.request, call.cluster.transactions
    v2 = call.version >= _END_V2
    found = _find(call, request)
    if v2 and found is not errors.NotCoordinatorError:
        ended = transactions.ended_by(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            commit=request.committed,
        )
        if ended is not None:  # the request is repeated, because its response was lost
            return _ended(None, ended)
    error = _error(call, found)
    if error is None:
        error = transactions.end(found, commit=request.committed, new_epoch=v2)
    return _ended(error, found if error is None and v2 else None)


def _ended(error: Any, producer: TransactionalProducer | None) -> Any:
    return EndTxnResponse(
        throttle_time_ms=0,
        error_code=error_code(error),
        producer_id=-1 if producer is None else producer.producer_id,
        producer_epoch=-1 if producer is None else producer.epoch,
    )


def _list(call: Call) -> Any:
    request = call.request
    entry = ListTransactionsResponse.TransactionState
    now_ms = call.cluster.clock.wall_ms()
    longer_ms = request.duration_filter if call.version >= 1 else -1
    states = [
        entry(
            transactional_id=each.transactional_id,
            producer_id=each.producer_id,
            transaction_state=each.state,
        )
        for each in call.cluster.transactions.producers.values()
        if _coordinates(call, each.transactional_id)
        and (not request.state_filters or each.state in request.state_filters)
        and (not request.producer_id_filters or each.producer_id in request.producer_id_filters)
        and (longer_ms < 0 or (each.begun_ms is not None and now_ms - each.begun_ms > longer_ms))
    ]
    return ListTransactionsResponse(
        throttle_time_ms=0, error_code=0, unknown_state_filters=[], transaction_states=states
    )


def _describe(call: Call) -> Any:
    states = [_described(call, each) for each in call.request.transactional_ids]
    return DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=states)


def _described(call: Call, transactional_id: str) -> Any:
    found = call.cluster.transactions.producers.get(transactional_id)
    error: Any = None
    if not _coordinates(call, transactional_id):
        error = errors.NotCoordinatorError
    elif found is None:
        error = errors.TransactionalIdNotFoundError
    if error is not None or found is None:
        return _DESCRIBED(
            error_code=error_code(error),
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=-1,
            producer_id=-1,
            producer_epoch=-1,
            topics=[],
        )
    names = dict.fromkeys(tp.topic for tp in found.partitions)
    return _DESCRIBED(
        error_code=0,
        transactional_id=transactional_id,
        transaction_state=found.state,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=-1 if found.begun_ms is None else found.begun_ms,
        producer_id=found.producer_id,
        producer_epoch=found.epoch,
        topics=[
            _DESCRIBED.TopicData(
                topic=name, partitions=[tp.partition for tp in found.partitions if tp.topic == name]
            )
            for name in names
        ],
    )


APIS = (
    Api(InitProducerIdRequest, (0, 6), _initialize),
    Api(AddPartitionsToTxnRequest, (0, 5), _add_partitions),
    Api(AddOffsetsToTxnRequest, (0, 4), _add_offsets),
    Api(TxnOffsetCommitRequest, (0, 5), _commit_offsets),
    Api(EndTxnRequest, (0, 5), _end),
    Api(ListTransactionsRequest, (0, 2), _list),
    Api(DescribeTransactionsRequest, (0, 0), _describe),
)
