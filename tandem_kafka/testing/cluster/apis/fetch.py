"""Fetch: with sessions, parked until there is something to send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka import errors

from tandem_kafka.testing.cluster.apis.api import Api, error_code
from tandem_kafka.testing.cluster.apis.leadership import epoch_error
from tandem_kafka.testing.cluster.call import Call
from tandem_kafka.testing.cluster.fetch_sessions import Wanted
from tandem_kafka.testing.cluster.topics import SimPartition
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import FetchRequest, FetchResponse

__all__ = ["API"]

_TOPIC = FetchResponse.FetchableTopicResponse
_PARTITION = _TOPIC.PartitionData
_FIRST_WITH_IDS = 13


@dataclass(frozen=True, slots=True)
class _Fetched:
    """What a fetch finds in one partition."""

    wanted: Wanted
    partition: SimPartition | None
    error: Any = None
    records: bytes = b""
    replica: int = -1

    @property
    def newsworthy(self) -> bool:
        """True when it is worth an answer."""
        return bool(self.records) or self.error is not None or self.replica >= 0


def _handle(call: Call) -> Any:
    session_id, wanted, error = call.broker.sessions.open(call.request, _named(call))
    if error is not None:
        return _response(0, [], error_code(error), call)
    incremental = call.request.session_epoch > 0
    found = _look(call, wanted)
    if any(fetched.newsworthy for fetched in found) or not call.request.max_wait_ms or not wanted:
        return _answer(call, session_id, found, incremental=incremental)
    _park(call, session_id, wanted, incremental=incremental)
    return None


def _named(call: Call) -> dict[tuple[str, int], Wanted]:
    """Return what the request names, by topic name."""
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
    left = call.request.max_bytes
    found = []
    for each in wanted.values():
        fetched = _look_into(call, each, left)
        left -= len(fetched.records)
        found.append(fetched)
    return found


def _look_into(call: Call, wanted: Wanted, left: int) -> _Fetched:
    partition = call.cluster.partition(TopicPartition(wanted.topic, wanted.partition))
    if partition is None:
        by_id = call.version >= _FIRST_WITH_IDS
        unknown = errors.UnknownTopicIdError if by_id else errors.UnknownTopicOrPartitionError
        return _Fetched(wanted, None, unknown)
    me = call.broker.node_id
    error = epoch_error(partition, wanted.epoch)
    if error is None and me not in {partition.leader, partition.preferred_replica}:
        error = errors.NotLeaderForPartitionError
    log = partition.log
    if error is None and not log.start_offset <= wanted.offset <= log.end_offset:
        error = errors.OffsetOutOfRangeError
    if error is not None:
        return _Fetched(wanted, partition, error)
    elsewhere = partition.preferred_replica
    if me == partition.leader and elsewhere not in {-1, me} and call.request.rack_id:
        return _Fetched(wanted, partition, replica=elsewhere)
    if left <= 0:
        return _Fetched(wanted, partition)
    return _Fetched(wanted, partition, records=log.read(wanted.offset, min(wanted.max_bytes, left)))


def _park(
    call: Call, session_id: int, wanted: dict[tuple[str, int], Wanted], *, incremental: bool
) -> None:
    def look_again(*, late: bool = False) -> bool:
        if call.answered:
            return True
        found = _look(call, wanted)
        if not late and not any(fetched.newsworthy for fetched in found):
            return False
        call.broker.answer(call, _answer(call, session_id, found, incremental=incremental))
        return True

    call.cluster.wait_for_change(look_again)
    when_ms = call.cluster.clock.now_ms() + call.request.max_wait_ms
    call.cluster.network.at(when_ms, lambda: look_again(late=True))


def _answer(call: Call, session_id: int, found: list[_Fetched], *, incremental: bool) -> Any:
    topics: dict[str, list[_Fetched]] = {}
    for fetched in found:
        if fetched.newsworthy or not incremental:
            topics.setdefault(fetched.wanted.topic, []).append(fetched)
    answered = [
        _TOPIC(
            topic=name,
            topic_id=group[0].wanted.topic_id,
            partitions=[_describe(call, fetched) for fetched in group],
        )
        for name, group in topics.items()
    ]
    return _response(session_id, answered, 0, call)


def _describe(call: Call, fetched: _Fetched) -> Any:
    partition = fetched.partition
    end = partition.log.end_offset if partition is not None else -1
    entry = _PARTITION(
        partition_index=fetched.wanted.partition,
        error_code=error_code(fetched.error),
        high_watermark=end,
        last_stable_offset=end,
        log_start_offset=partition.log.start_offset if partition is not None else -1,
        aborted_transactions=None,
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


def _response(session_id: int, topics: list[Any], code: int, call: Call) -> Any:
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


API = Api(FetchRequest, (4, 16), _handle)
