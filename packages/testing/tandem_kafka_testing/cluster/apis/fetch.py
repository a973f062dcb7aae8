"""Fetch, with sessions; without records, a fetch is parked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kafka import errors

from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import FetchRequest, FetchResponse
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.leadership import epoch_error
from tandem_kafka_testing.cluster.apis.plain import Plain
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.cluster.fetch_sessions import Wanted
from tandem_kafka_testing.cluster.topics import SimPartition
from tandem_kafka_testing.cluster.transaction_index import AbortedTransaction

#: From this version on, requests have the rack of the consumer, and followers respond.
_FIRST_WITH_RACKS = 11


def may_serve(call: Call, partition: SimPartition) -> bool:
    """Return whether this broker handles the fetch, as leader or as follower."""
    me = call.broker.node_id
    if me == partition.leader:
        return True
    return call.version >= _FIRST_WITH_RACKS and me in partition.replicas


def nearer_replica(call: Call, partition: SimPartition, offset: int) -> int | None:
    """Return the follower that the leader recommends instead of records, None for no follower.

    The follower is in the consumer's rack, in sync, and has the offset. Of several, it is the one
    with the highest id, because they do not differ otherwise.
    """
    cluster, rack = call.cluster, call.request.rack_id
    forwarded = call.version >= _FIRST_WITH_RACKS and bool(rack) and bool(cluster.racks)
    if not forwarded or call.broker.node_id != partition.leader or call.broker.rack == rack:
        return None
    if not partition.log.start_offset <= offset <= partition.log.end_offset:
        return None
    near = [node for node in cluster.in_sync(partition) if cluster.brokers[node].rack == rack]
    return max(near, default=None)


_TOPIC = FetchResponse.FetchableTopicResponse
_PARTITION = _TOPIC.PartitionData
_FIRST_WITH_IDS = 13
_READ_COMMITTED = 1
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class _Fetched:
    """The result of a fetch for one partition."""

    wanted: Wanted
    partition: SimPartition | None
    error: Any = None
    records: bytes = b""
    aborted: Sequence[AbortedTransaction] | None = None
    replica: int = -1

    @property
    def has_news(self) -> bool:
        """True if the fetch must not be parked."""
        return bool(self.records) or self.error is not None or self.replica >= 0


def _handle(call: Call) -> Any:
    session_id, wanted, error = call.broker.sessions.open(call.request, _named(call))
    if error is not None:
        return _response(0, [], error_code(error), call)
    incremental = call.request.session_epoch > 0
    found = _look(call, wanted)
    if any(fetched.has_news for fetched in found) or not call.request.max_wait_ms or not wanted:
        return _respond(call, session_id, found, incremental=incremental)
    _park(call, session_id, wanted, incremental=incremental)
    return None


def _named(call: Call) -> dict[tuple[str, int], Wanted]:
    """Return the partitions in the request, by topic name."""
    named = {}
    for topic in call.request.topics:
        found = call.cluster.topic_named(topic.topic, topic.topic_id)
        name = found.name if found is not None else f"id {topic.topic_id}"
        for p in topic.partitions:
            named[name, p.partition] = Wanted(
                name,
                topic.topic_id,
                p.partition,
                p.fetch_offset,
                p.current_leader_epoch,
                p.partition_max_bytes,
            )
    return named


def _look(call: Call, wanted: dict[tuple[str, int], Wanted]) -> list[_Fetched]:
    most = call.broker.quotas.most_fetched(call.client_id)
    left = call.request.max_bytes if most is None else min(call.request.max_bytes, most)
    found: list[_Fetched] = []
    size = 0
    for each in wanted.values():
        # Whatever the limits, a response has one batch if there is one (KIP-74).
        fetched = _look_into(call, each, left - size if size else max(left, 1))
        size += len(fetched.records)
        found.append(fetched)
    return found


def _look_into(call: Call, wanted: Wanted, left: int) -> _Fetched:
    partition = call.cluster.partition(TopicPartition(wanted.topic, wanted.partition))
    by_id = call.version >= _FIRST_WITH_IDS
    # A session may have a partition of a deleted topic whose name another topic has now.
    if by_id and call.cluster.topic_named(None, wanted.topic_id) is None:
        partition = None
    if partition is None:
        unknown = errors.UnknownTopicIdError if by_id else errors.UnknownTopicOrPartitionError
        return _Fetched(wanted, None, unknown)
    me = call.broker.node_id
    error = epoch_error(partition, wanted.epoch)
    if error is None and not may_serve(call, partition):
        error = errors.NotLeaderForPartitionError
    nearer = nearer_replica(call, partition, wanted.offset)
    if error is None and nearer is not None:
        return _Fetched(wanted, partition, replica=nearer)
    log = partition.log
    if error is None and not log.start_offset <= wanted.offset <= partition.end_at(me):
        error = errors.OffsetOutOfRangeError
    if error is not None:
        return _Fetched(wanted, partition, error)
    if left <= 0:
        return _Fetched(wanted, partition)
    committed = call.request.isolation_level == _READ_COMMITTED
    before = _stable_end(partition, me) if committed else partition.end_at(me)
    batches = log.read(wanted.offset, min(wanted.max_bytes, left), before)
    return _Fetched(
        wanted,
        partition,
        records=b"".join(batch.data for batch in batches),
        aborted=log.aborted_among(wanted.offset, batches) if committed else None,
    )


def _stable_end(partition: SimPartition, node_id: int) -> int:
    return min(partition.log.last_stable_offset, partition.end_at(node_id))


def _park(
    call: Call, session_id: int, wanted: dict[tuple[str, int], Wanted], *, incremental: bool
) -> None:
    clock = call.cluster.clock
    late_ms = clock.now_ms() + call.request.max_wait_ms

    def look_again() -> bool:
        if call.responded:
            return True
        found = _look(call, wanted)
        if clock.now_ms() < late_ms and not any(fetched.has_news for fetched in found):
            return False
        call.respond_later(_respond(call, session_id, found, incremental=incremental))
        return True

    call.cluster.wait_for_change(look_again, late_ms)


def _respond(call: Call, session_id: int, found: list[_Fetched], *, incremental: bool) -> Any:
    by_topic: dict[str, list[_Fetched]] = {}
    for fetched in found:
        if fetched.has_news or not incremental:
            by_topic.setdefault(fetched.wanted.topic, []).append(fetched)
    topics = [
        _TOPIC(
            topic=name,
            topic_id=group[0].wanted.topic_id,
            partitions=[_describe(call, fetched) for fetched in group],
        )
        for name, group in by_topic.items()
    ]
    return _response(session_id, topics, 0, call)


def _describe(call: Call, fetched: _Fetched) -> Any:
    partition, me = fetched.partition, call.broker.node_id
    # A response with an error has no offsets of the log.
    known = partition if fetched.error is None else None
    entry = _PARTITION(
        partition_index=fetched.wanted.partition,
        error_code=error_code(fetched.error),
        high_watermark=known.end_at(me) if known is not None else _UNKNOWN,
        last_stable_offset=_stable_end(known, me) if known is not None else _UNKNOWN,
        log_start_offset=known.log.start_offset if known is not None else _UNKNOWN,
        aborted_transactions=_aborted(fetched),
        preferred_read_replica=fetched.replica,
        records=fetched.records,
    )
    moved = fetched.error in {errors.NotLeaderForPartitionError, errors.FencedLeaderEpochError}
    if moved and partition is not None and call.version >= 16:
        leader = _PARTITION.LeaderIdAndEpoch(
            leader_id=partition.leader, leader_epoch=partition.epoch
        )
        entry.current_leader = leader
        entry.tags = {"current_leader"}
    return entry


def _aborted(fetched: _Fetched) -> list[Any] | None:
    if fetched.aborted is None:
        return None
    entry = _PARTITION.AbortedTransaction
    return [entry(producer_id=a.producer_id, first_offset=a.first_offset) for a in fetched.aborted]


def _response(session_id: int, topics: list[Any], code: int, call: Call) -> Any:
    if not topics and not call.broker.quotas.any:
        return Plain(
            FetchResponse, throttle_time_ms=0, error_code=code, session_id=session_id, responses=()
        )
    response = FetchResponse(
        throttle_time_ms=0, error_code=code, session_id=session_id, responses=topics
    )
    hinted = {
        entry.current_leader.leader_id
        for topic in topics
        for entry in topic.partitions
        if entry.tags
    }
    if hinted:
        response.node_endpoints = [
            FetchResponse.NodeEndpoint(node_id=b.node_id, host=b.host, port=b.port, rack=b.rack)
            for b in call.cluster.brokers.values()
            if b.node_id in hinted
        ]
        response.tags = {"node_endpoints"}
    return response


def size_of(response: Any) -> int:
    """Return the bytes of records in a response; 0 except for fetches."""
    if not isinstance(response, FetchResponse):
        return 0
    return sum(len(p.records or b"") for topic in response.responses for p in topic.partitions)


def emptied(call: Call, response: Any) -> Any:
    """Return the throttled response: without records, and without a session."""
    if not isinstance(response, FetchResponse) or response.error_code:
        return response
    if call.request.session_epoch > 0:
        return _response(response.session_id, [], 0, call)
    call.broker.sessions.drop(response.session_id)
    return _response(0, [], 0, call)


API = Api(FetchRequest, (4, 18), _handle)
