"""Looks up offsets by timestamp (ListOffsets), for calls of the user and for resets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from kafka.errors import LeaderNotAvailableError, UnknownTopicOrPartitionError

from tandem_kafka.dataclass import dataclass, field
from tandem_kafka.errors import (
    IncompleteResponseError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
    TopicsDeniedError,
    for_code,
)
from tandem_kafka.events.completable import Completion
from tandem_kafka.logs import client_logger
from tandem_kafka.network.backoff import FOREVER_MS, Backoff
from tandem_kafka.network.request import ClientResponse, ToNode, UnsentRequest
from tandem_kafka.request_managers.base import IDLE, PollResult, RequestManager
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.metadata_refresh import NEEDED_MS, MetadataRefresher
from tandem_kafka.request_managers.reactions import LIST_OFFSETS, Reaction, reaction_to
from tandem_kafka.types import UNKNOWN_EPOCH, Node, OffsetAndTimestamp, TopicPartition
from tandem_kafka.wire.messages import ListOffsetsRequest
from tandem_kafka.wire.topic_partitions import by_topic, error_of, requested_entries

log = client_logger(__name__)

#: The timestamps that mean the end and the beginning of a partition.
LATEST = -1
EARLIEST = -2

CONSUMER_REPLICA = -1

#: The leader of a partition, if known, and its epoch.
Leader = tuple[Node | None, int]


@dataclass(frozen=True)
class _Pause:
    """The backoff of one partition: until a time, or until the leader changes."""

    until_ms: int
    leader: Leader


@dataclass(eq=False)
class OffsetLookup:
    """A lookup of the offsets of some partitions.

    Attributes:
        pending: Timestamps that have not been looked up yet.
        on_offset: Called with each result; None if no record is recent enough.
        on_error: Called with an error that cannot be retried; ends the lookup.
        alive: False once no caller waits any longer.
        in_flight: Partitions with a request in flight.
        backoffs: By broker, so that a failing one does not delay others; -1 for no known leader.
        pauses: Partitions to retry, with their backoffs.
        errors: Why each pending partition has no offset yet, as far as that is known.
    """

    pending: dict[TopicPartition, int]
    on_offset: Callable[[TopicPartition, OffsetAndTimestamp | None], None]
    on_error: Callable[[BaseException], None]
    alive: Callable[[], bool]
    errors: dict[TopicPartition, Exception]
    in_flight: set[TopicPartition] = field(default_factory=set)
    backoffs: dict[int, Backoff] = field(default_factory=dict)
    pauses: dict[TopicPartition, _Pause] = field(default_factory=dict)


class OffsetsRequestManager(RequestManager):
    """Sends lookups to the leaders of the partitions, and retries until all have responded."""

    def __init__(self, context: ManagerContext, metadata: MetadataRefresher) -> None:
        self._context = context
        self._metadata = metadata
        self._lookups: list[OffsetLookup] = []

    def look_up(
        self,
        timestamps: Mapping[TopicPartition, int],
        on_offset: Callable[[TopicPartition, OffsetAndTimestamp | None], None],
        on_error: Callable[[BaseException], None],
        alive: Callable[[], bool],
        errors: dict[TopicPartition, Exception] | None = None,
    ) -> None:
        """Start a lookup; `errors` gets the last error of each partition that has no offset."""
        errors = {} if errors is None else errors
        self._lookups.append(OffsetLookup(dict(timestamps), on_offset, on_error, alive, errors))
        self._need_topics(timestamps)

    def collect(
        self,
        timestamps: Mapping[TopicPartition, int],
        future: Completion[dict[TopicPartition, OffsetAndTimestamp | None]],
        errors: dict[TopicPartition, Exception] | None = None,
    ) -> None:
        """Look up all offsets and complete `future` with all results."""
        if not timestamps:
            future.complete({})
            return
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}

        def take(tp: TopicPartition, offset: OffsetAndTimestamp | None) -> None:
            found[tp] = offset
            if len(found) == len(timestamps):
                future.complete(found)

        self.look_up(timestamps, take, future.fail, lambda: not future.done, errors)

    def poll(self, now_ms: int) -> PollResult:
        """Send requests to all leaders whose partitions are not in backoff."""
        if not self._lookups:
            return IDLE
        self._lookups = [lookup for lookup in self._lookups if lookup.pending and lookup.alive()]
        unsent: list[UnsentRequest] = []
        wait_ms = FOREVER_MS
        for lookup in self._lookups:
            unsent.extend(self._send(lookup, now_ms))
            pauses = lookup.pauses.values()
            wait_ms = min([wait_ms, *(max(0, pause.until_ms - now_ms) for pause in pauses)])
        return PollResult(tuple(unsent), wait_ms)

    # --- the request ---------------------------------------------------------------------------

    def _need_topics(self, timestamps: Mapping[TopicPartition, int]) -> None:
        until_ms = self._context.clock.now_ms() + NEEDED_MS
        self._metadata.need({tp.topic for tp in timestamps}, until_ms)

    def _leader(self, tp: TopicPartition) -> Leader:
        snapshot = self._context.metadata.snapshot
        return snapshot.leader(tp), snapshot.leader_epoch(tp)

    def _send(self, lookup: OffsetLookup, now_ms: int) -> Iterator[UnsentRequest]:
        by_leader: dict[Node | None, list[TopicPartition]] = defaultdict(list)
        # In the requested order: the order of a set differs between runs of Python.
        for tp in lookup.pending:
            if tp in lookup.in_flight:
                continue
            leader = self._leader(tp)
            pause = lookup.pauses.get(tp)
            if pause is not None and now_ms < pause.until_ms and pause.leader == leader:
                continue
            lookup.pauses.pop(tp, None)
            by_leader[leader[0]].append(tp)
        for node, partitions in by_leader.items():
            if node is None:
                lookup.errors.update({tp: self._leaderless(tp) for tp in partitions})
                self._retry_later(lookup, partitions, node)
            else:
                for tp in partitions:
                    lookup.errors.setdefault(tp, KafkaTimeoutError(f"{node} has not responded"))
                lookup.in_flight.update(partitions)
                yield self._request(lookup, node, partitions)

    def _leaderless(self, tp: TopicPartition) -> Exception:
        known = self._context.metadata.snapshot.partition(tp) is not None
        error: Exception = LeaderNotAvailableError() if known else UnknownTopicOrPartitionError()
        return error

    def _request(
        self, lookup: OffsetLookup, leader: Node, partitions: list[TopicPartition]
    ) -> UnsentRequest:
        requested = {tp: lookup.pending[tp] for tp in partitions}
        return self._context.request(
            self._message(requested),
            ToNode(leader),
            on_response=partial(self._handle_response, lookup, requested, leader),
            on_error=partial(self._handle_error, lookup, requested, leader),
            held_ms=None,  # a broker may have to read remote storage
        )

    def _message(self, timestamps: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
        topic_entry = ListOffsetsRequest.ListOffsetsTopic
        snapshot = self._context.metadata.snapshot
        entries = by_topic(
            dict(sorted(timestamps.items())),
            lambda tp, timestamp: topic_entry.ListOffsetsPartition(
                partition_index=tp.partition,
                current_leader_epoch=snapshot.leader_epoch(tp),
                timestamp=timestamp,
            ),
        )
        read_committed = self._context.read_committed
        return ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA,
            isolation_level=1 if read_committed else 0,
            topics=[topic_entry(name=name, partitions=ps) for name, ps in entries.items()],
            timeout_ms=self._context.config.request_timeout_ms,
            # Version 2 adds isolation levels; without them, "latest" is the high watermark.
            min_version=2 if read_committed else 1,
        )

    # --- the response --------------------------------------------------------------------------

    def _handle_response(
        self,
        lookup: OffsetLookup,
        requested: Mapping[TopicPartition, int],
        leader: Node,
        response: ClientResponse,
    ) -> Exception | None:
        entries = requested_entries(response.message.topics, requested)
        lookup.in_flight.difference_update(requested)
        unauthorized = set()
        retriable = []
        for tp, timestamp in requested.items():
            if lookup.pending.get(tp) != timestamp:
                continue
            entry = entries.get(tp)
            error_type = for_code(entry.error_code) if entry and entry.error_code else None
            if error_type is TopicAuthorizationFailedError:
                unauthorized.add(tp.topic)
            elif entry and error_type is None and (entry.offset >= 0 or timestamp >= 0):
                self._found(lookup, tp, _offset(entry))
            elif self._react(lookup, _error_of(tp, error_type), tp):
                retriable.append(tp)
        if unauthorized:
            self._fail(lookup, TopicsDeniedError(unauthorized))
        elif retriable:
            # Once per response: the backoff must grow with failures, not with partitions.
            self._retry_later(lookup, retriable, leader)
        else:
            lookup.backoffs.pop(leader.node_id, None)
        return error_of(entries, requested)

    def _handle_error(
        self,
        lookup: OffsetLookup,
        requested: Mapping[TopicPartition, int],
        leader: Node,
        error: Exception,
    ) -> None:
        lookup.in_flight.difference_update(requested)
        if self._react(lookup, error):
            left = [tp for tp in requested if tp in lookup.pending]
            lookup.errors.update(dict.fromkeys(left, error))
            self._retry_later(lookup, left, leader)

    def _react(
        self, lookup: OffsetLookup, error: Exception, tp: TopicPartition | None = None
    ) -> bool:
        """Handle an error; return whether to retry."""
        reaction = reaction_to(LIST_OFFSETS, error)
        if reaction is Reaction.FAIL:
            self._fail(lookup, error)
        elif reaction is Reaction.NONE and tp is not None and lookup.pending[tp] >= 0:
            self._found(lookup, tp, None)
        else:
            log.debug("retrying an offset lookup: %s", error)
            if tp is not None:
                lookup.errors[tp] = error
            return True
        return False

    def _found(
        self, lookup: OffsetLookup, tp: TopicPartition, offset: OffsetAndTimestamp | None
    ) -> None:
        del lookup.pending[tp]
        lookup.errors.pop(tp, None)
        lookup.on_offset(tp, offset)

    def _retry_later(
        self, lookup: OffsetLookup, partitions: list[TopicPartition], leader: Node | None
    ) -> None:
        self._need_topics(lookup.pending)
        self._metadata.request_update()
        node_id = -1 if leader is None else leader.node_id
        backoff = lookup.backoffs.setdefault(node_id, self._context.backoff())
        until_ms = self._context.clock.now_ms() + backoff.next_ms()
        lookup.pauses.update({tp: _Pause(until_ms, self._leader(tp)) for tp in partitions})

    def _fail(self, lookup: OffsetLookup, error: Exception) -> None:
        lookup.pending.clear()
        lookup.pauses.clear()
        lookup.on_error(error)


def _error_of(tp: TopicPartition, error_type: type[Exception] | None) -> Exception:
    """Return the error of an entry; without a type, it has no offset although one must exist.

    Every partition has a first offset and an end. Only a lookup by time may find none.
    """
    if error_type is not None:
        return error_type(f"{tp.topic}-{tp.partition}")
    return IncompleteResponseError(f"the response has no offset of {tp.topic}-{tp.partition}")


def _offset(entry: Any) -> OffsetAndTimestamp | None:
    if entry.offset < 0:
        return None
    epoch = UNKNOWN_EPOCH if entry.leader_epoch is None else entry.leader_epoch
    return OffsetAndTimestamp(entry.offset, entry.timestamp, epoch)
