"""ShareFetch, with sessions: acquires records; without any to acquire, it is parked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka import errors

from tandem_kafka.wire.messages import ShareFetchRequest, ShareFetchResponse
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.apis.share_acknowledgements import (
    acknowledge,
    finish,
    has_acknowledgements,
)
from tandem_kafka_testing.cluster.batch import Batch
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.cluster.share_groups import ShareGroups
from tandem_kafka_testing.cluster.topics import SimPartition
from tandem_kafka_testing.coordinator.step import Error
from tandem_kafka_testing.share.acquiring import Acquired, Acquisition
from tandem_kafka_testing.share.in_flight import Span
from tandem_kafka_testing.share.partition import SharePartition
from tandem_kafka_testing.share.sessions import (
    CLOSE_EPOCH,
    OPEN_EPOCH,
    PartitionKey,
    SessionLimitReached,
    ShareSession,
)

_TOPIC = ShareFetchResponse.ShareFetchableTopicResponse
_PARTITION = _TOPIC.PartitionData
_FIRST_WITH_MODES: Final = 2
_EXACT: Final = 1


@dataclass(frozen=True, slots=True)
class _Fetched:
    """The result of a fetch for one partition."""

    error: Error = None
    records: bytes = b""
    acquired: Sequence[Acquired] = ()


#: A partition of the log, and the records of it that are in flight.
_Share = tuple[SimPartition, SharePartition]


@dataclass(slots=True)
class _Fetch:
    """One request.

    Attributes:
        session: Its session; None for a request that closes it.
        keys: The partitions to fetch, in order.
        acknowledged: The results of the acknowledgements.
    """

    call: Call
    session: ShareSession | None
    keys: Sequence[PartitionKey]
    acknowledged: dict[PartitionKey, Error]


def _handle(call: Call) -> Any:
    request = call.request
    invalid = not request.member_id or _renews_and_fetches(call)
    session = errors.InvalidRequestError if invalid else _session(call)
    if session is SessionLimitReached:
        return _refuse_later(call)
    if not isinstance(session, ShareSession):
        return _response(call, {}, session)
    if request.share_session_epoch == CLOSE_EPOCH:
        return _close(call)
    if not _is_known(call, session):
        return _response(call, {}, errors.UnknownError)
    acknowledged = acknowledge(call)
    opens = request.share_session_epoch == OPEN_EPOCH
    fetch = _Fetch(call, None if opens else session, _turn(call, session), acknowledged)
    found = _look(fetch, late=not request.max_wait_ms)
    if found is None:
        _park(fetch)
    if not acknowledged:
        return None if found is None else _combined(fetch, found)
    _finish_later(fetch, found)
    return None


def _close(call: Call) -> Any:
    """End the session: acknowledge records, and release the others of the member."""
    acknowledged = acknowledge(call)
    finish(call, acknowledged)
    member = call.request.group_id, call.request.member_id
    partitions = call.broker.share_sessions.close(member)
    ShareGroups(call.cluster, call.broker).release(member, partitions)
    return _combined(_Fetch(call, None, (), acknowledged), {})


def _is_known(call: Call, session: ShareSession) -> bool:
    """Return whether the topics exist and the mode is known; Kafka 4.3.0 fails if they are not."""
    modes = call.version < _FIRST_WITH_MODES or call.request.share_acquire_mode in (0, _EXACT)
    topics = {topic_id for topic_id, _ in session.partitions}
    return modes and all(call.cluster.topic_named(None, topic_id) for topic_id in topics)


def _turn(call: Call, session: ShareSession) -> list[PartitionKey]:
    """Return the partitions to fetch; in each request, another one is the first."""
    request, keys = call.request, list(session.partitions)
    if request.is_renew_ack or not request.max_records or not request.max_bytes or not keys:
        return []
    first = request.share_session_epoch % len(keys)
    return keys[first:] + keys[:first]


def _finish_later(fetch: _Fetch, found: dict[PartitionKey, _Fetched] | None) -> None:
    """Write the acknowledgements behind the fetch, which acquires no record that they release."""
    call = fetch.call

    def end() -> None:
        finish(call, fetch.acknowledged)
        if found is not None:
            call.respond_later(_combined(fetch, found))

    call.cluster.network.at(call.cluster.clock.now_ms(), end)


def _renews_and_fetches(call: Call) -> bool:
    """Return whether a request that renews locks also asks for records."""
    request = call.request
    limits = request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms
    return call.version >= _FIRST_WITH_MODES and request.is_renew_ack and any(limits)


def _session(call: Call) -> ShareSession | Error:
    request, sessions = call.request, call.broker.share_sessions
    member = request.group_id, request.member_id
    named = [(t.topic_id, p.partition_index) for t in request.topics for p in t.partitions]
    if request.share_session_epoch == OPEN_EPOCH:
        if has_acknowledgements(request):
            return errors.InvalidRequestError
        return sessions.open(member, named, call.connection.number)
    session = sessions.find(member, request.share_session_epoch)
    if not isinstance(session, ShareSession) or request.share_session_epoch == CLOSE_EPOCH:
        return session
    for key in named:
        session.partitions.setdefault(key, True)
    for topic in request.forgotten_topics_data:
        for number in topic.partitions:
            session.partitions.pop((topic.topic_id, number), None)
    session.advance()
    return session


def _refuse_later(call: Call) -> None:
    """Respond after the time for which the member would wait for records."""
    response = _response(call, {}, SessionLimitReached)
    when_ms = call.cluster.clock.now_ms() + call.request.max_wait_ms
    call.cluster.network.at(when_ms, lambda: call.respond_later(response))


# --- acquiring records ---------------------------------------------------------------------------


def _park(fetch: _Fetch) -> None:
    call, clock = fetch.call, fetch.call.cluster.clock
    late_ms = clock.now_ms() + call.request.max_wait_ms

    def look_again() -> bool:
        if call.responded or not call.connection.open:
            return True
        if not call.broker.serves:
            return False
        found = _look(fetch, late=clock.now_ms() >= late_ms)
        if found is None:
            return False
        call.respond_later(_combined(fetch, found))
        return True

    call.cluster.wait_for_change(look_again, late_ms)


def _look(fetch: _Fetch, *, late: bool) -> dict[PartitionKey, _Fetched] | None:
    """Return the results, or None if there are too few records and time is left."""
    call = fetch.call
    found: dict[PartitionKey, _Fetched] = {}
    readable: dict[PartitionKey, _Share] = {}
    groups = ShareGroups(call.cluster, call.broker)
    waits = False
    for key in fetch.keys:
        partition, error = groups.partition(key)
        if error is None and not groups.is_initialized(call.request.group_id, key):
            error = errors.UnknownError
        if partition is None or error is not None:
            found[key] = _Fetched(error)
            continue
        waits = True
        share = groups.load(call.request.group_id, key)
        if share is not None and share.fetch_offset < partition.log.start_offset:
            share.begin_at(partition.log.start_offset)
            found[key] = _Fetched()  # the next fetch begins there
        elif share is not None and share.can_acquire:
            readable[key] = partition, share
    read = {key: _read(call, *each, len(readable)) for key, each in readable.items()}
    size = sum(len(batch.data) for batches in read.values() for batch in batches)
    begun_anew = any(fetched.error is None for fetched in found.values())
    enough = bool(read) and size >= min(call.request.min_bytes, call.request.max_bytes)
    if waits and not (late or enough or begun_anew):
        return None
    most = call.request.max_records
    for key, batches in read.items():
        found[key] = _acquired(call, *readable[key], batches, most)
        groups.await_locks(call.request.group_id, key)
        most -= sum(each.last - each.first + 1 for each in found[key].acquired)
    return found


def _read(
    call: Call, partition: SimPartition, share: SharePartition, shared_by: int
) -> list[Batch]:
    """Read from the log what a partition may contribute to the response."""
    end = partition.end_at(call.broker.node_id)
    if _reads_committed(call):
        end = min(end, partition.log.last_stable_offset)
    return partition.log.read(share.fetch_offset, call.request.max_bytes // shared_by, end)


def _reads_committed(call: Call) -> bool:
    settings = call.cluster.coordination.of(call.request.group_id).settings
    return bool(settings.share_isolation_level == "read_committed")


def _acquired(
    call: Call,
    partition: SimPartition,
    share: SharePartition,
    batches: Sequence[Batch],
    most: int,
) -> _Fetched:
    request = call.request
    exact = call.version >= _FIRST_WITH_MODES and request.share_acquire_mode == _EXACT
    acquired = share.acquire(
        Acquisition(request.member_id, most, request.batch_size, exact),
        share.fetch_offset,
        [_span(batch) for batch in batches],
        call.cluster.clock.now_ms(),
        _aborted(partition, batches) if _reads_committed(call) else (),
    )
    if not acquired:
        return _Fetched()
    needed = [
        batch.data
        for batch in batches
        if batch.next_offset > acquired[0].first and batch.base_offset <= acquired[-1].last
    ]
    return _Fetched(records=b"".join(needed), acquired=acquired)


def _span(batch: Batch) -> Span:
    return Span(batch.base_offset, batch.next_offset - 1)


def _aborted(partition: SimPartition, batches: Sequence[Batch]) -> list[Span]:
    """Return the batches of aborted transactions, without their markers."""
    if not batches:
        return []
    transactions = partition.log.aborted_among(batches[0].base_offset, batches)
    return [
        _span(batch)
        for batch in batches
        if batch.transactional
        and batch.marker is None
        and any(
            each.producer_id == batch.producer_id
            and each.first_offset <= batch.base_offset <= each.last_offset
            for each in transactions
        )
    ]


# --- responses -----------------------------------------------------------------------------------


def _combined(fetch: _Fetch, found: dict[PartitionKey, _Fetched]) -> Any:
    """Return the response with what was fetched and what was acknowledged."""
    session = fetch.session
    if session is not None:
        found = {key: each for key, each in found.items() if _is_needed(session, key, each)}
    entries = {key: _entry(fetch.call, key, each) for key, each in found.items()}
    for key, error in fetch.acknowledged.items():
        entry = entries.setdefault(key, _entry(fetch.call, key, _Fetched()))
        entry.acknowledge_error_code = error_code(error)
    return _response(fetch.call, entries, None)


def _is_needed(session: ShareSession, key: PartitionKey, fetched: _Fetched) -> bool:
    """Return whether a response must have a partition: after an error, it has it once more."""
    if key not in session.partitions:
        return bool(fetched.records)
    needed = session.partitions[key] or bool(fetched.records) or fetched.error is not None
    session.partitions[key] = fetched.error is not None
    if fetched.records:
        session.partitions[key] = session.partitions.pop(key)  # it has had its turn
    return needed


def _entry(call: Call, key: PartitionKey, fetched: _Fetched) -> Any:
    leader_id = leader_epoch = 0
    if fetched.error is errors.NotLeaderForPartitionError:
        partition, _ = ShareGroups(call.cluster, call.broker).partition(key)
        if partition is not None:
            leader_id, leader_epoch = partition.leader, partition.epoch
    acquired = _PARTITION.AcquiredRecords
    return _PARTITION(
        partition_index=key[1],
        error_code=error_code(fetched.error),
        error_message=None,
        acknowledge_error_code=0,
        acknowledge_error_message=None,
        current_leader=_PARTITION.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
        records=fetched.records,
        acquired_records=[
            acquired(first_offset=each.first, last_offset=each.last, delivery_count=each.deliveries)
            for each in fetched.acquired
        ],
    )


def _response(call: Call, entries: dict[PartitionKey, Any], error: Error) -> Any:
    by_topic: dict[Any, list[Any]] = {}
    for (topic_id, _), entry in entries.items():
        by_topic.setdefault(topic_id, []).append(entry)
    settings = call.cluster.coordination.of(call.request.group_id).settings
    lock_ms = settings.share_record_lock_duration_ms
    moved = errors.NotLeaderForPartitionError.errno
    hinted = {e.current_leader.leader_id for e in entries.values() if e.error_code == moved}
    return ShareFetchResponse(
        throttle_time_ms=0,
        error_code=error_code(error),
        error_message=None,
        acquisition_lock_timeout_ms=lock_ms if error is None else 0,
        responses=[
            _TOPIC(topic_id=topic_id, partitions=of_topic)
            for topic_id, of_topic in by_topic.items()
        ],
        node_endpoints=list(_endpoints(call, hinted)),
    )


def _endpoints(call: Call, node_ids: Iterable[int]) -> Iterable[Any]:
    for node_id in sorted(node_ids):
        broker = call.cluster.brokers.get(node_id)
        if broker is not None:
            yield ShareFetchResponse.NodeEndpoint(
                node_id=node_id, host=broker.host, port=broker.port, rack=broker.rack
            )


API = Api(ShareFetchRequest, (1, 2), _handle)
