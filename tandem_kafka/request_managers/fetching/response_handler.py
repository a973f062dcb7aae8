"""Processes fetch responses: puts records and errors into the buffer, and reacts to errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from tandem_kafka.dataclass import dataclass
from tandem_kafka.errors import (
    CorruptRecordError,
    KafkaError,
    PositionOutOfRangeError,
    TopicAuthorizationFailedError,
    TopicsDeniedError,
    for_code,
)
from tandem_kafka.logs import client_logger
from tandem_kafka.records import open_reader
from tandem_kafka.records.decoder import FetchedPartition, FetchedResponse, ReaderOptions
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.fetching.session import FetchSession
from tandem_kafka.request_managers.fetching.sizing import FetchSizing
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.request_managers.positions_request_manager import PositionsRequestManager
from tandem_kafka.request_managers.reactions import FETCH, Reaction, reaction_to
from tandem_kafka.state.failures import Failing
from tandem_kafka.state.fetch_buffer import CompletedFetch
from tandem_kafka.state.partition import AssignedPartition, Position, PreferredReplica
from tandem_kafka.types import UNKNOWN_OFFSET, Node, TopicPartition, names_of

log = client_logger(__name__)

#: How many responses it takes before an offset counts as out of range.
_OUT_OF_RANGE_TWICE: Final = 2


@dataclass(frozen=True)
class RequestedPartition:
    """The state of a partition at the time of the request, to detect a stale response."""

    state: AssignedPartition
    base: Position
    offset: int
    max_bytes: int
    from_replica: bool
    read_committed: bool

    @property
    def behind(self) -> bool:
        """True unless the end of the log was reached, so that the fetch waits for new records."""
        return self.state.end(read_committed=self.read_committed) != self.offset


class FetchResponseHandler:
    """Processes a response one partition after the other."""

    def __init__(
        self,
        context: ManagerContext,
        metadata: MetadataRefresher,
        positions: PositionsRequestManager,
    ) -> None:
        self._context = context
        self._metadata = metadata
        self._positions = positions
        self.sizing = FetchSizing(context.config.max_partition_fetch_bytes)
        self._options = ReaderOptions.of(context.config)
        #: The partitions whose last fetch failed.
        self._failing: dict[AssignedPartition, None] = {}

    def fails(self, requested: Mapping[TopicPartition, RequestedPartition]) -> bool:
        """Tell whether the last fetch of one of these partitions failed."""
        return any(state.tp in requested for state in self._failing)

    def failed(self, state: AssignedPartition, error: Exception) -> None:
        """Note that a fetch of a partition failed."""
        state.failing = Failing.again(state.failing, error, self._now_ms)
        self._failing[state] = None

    def handle(
        self,
        response: FetchedResponse,
        requested_partitions: Mapping[TopicPartition, RequestedPartition],
        session: FetchSession,
        took_ms: float,
    ) -> tuple[bool, list[AssignedPartition]]:
        """Process a response that arrived `took_ms` after the request.

        Returns:
            Whether there were records, and the partitions with records or errors.
        """
        got_records, affected, refused = False, [], 0
        sizes: Counter[str] = Counter()
        #: Invariant: each counts once. One that is named twice may be an error that is believed
        #: the second time, or errors without end.
        left = dict(requested_partitions)
        for fetched in response.partitions:
            tp = self._partition_of(fetched, session)
            requested = left.pop(tp, None) if tp is not None else None
            if requested is None or not self.is_current(requested):
                continue
            if self._failing and not fetched.error_code and fetched.preferred_read_replica < 0:
                self._succeeded(requested.state)
            if fetched.error_code:
                self._handle_partition_error(requested, fetched, response.node_endpoints)
                affected.append(requested.state)
                refused += 1
            elif self._handle_records(requested, fetched):
                got_bytes = len(fetched.records) if fetched.records is not None else 0
                sizes[requested.state.tp.topic] += got_bytes
                self.sizing.learn(requested.state, requested.max_bytes, got_bytes, took_ms)
                affected.append(requested.state)
                got_records = True
        if not affected:
            self._note_ends(response, left.values())
        self._measure(sizes)
        if refused < len(requested_partitions):
            self._context.metrics.happened("last-fetch-seconds-ago")
        self._forget_unassigned()
        return got_records, affected

    def _measure(self, sizes: Mapping[str, int]) -> None:
        for topic, size in sizes.items():
            self._context.metrics.record_topic("fetch-size", topic, size)

    def _note_ends(self, response: FetchedResponse, omitted: Iterable[RequestedPartition]) -> None:
        """Note that partitions are at their ends: a session omits what has nothing new.

        Otherwise, the end of a partition that is assigned again is unknown until it has a record.
        """
        if response.throttle_time_ms:
            return  # the broker may not have looked
        for requested in omitted:
            state, committed_only = requested.state, requested.read_committed
            known = state.end(read_committed=committed_only) != UNKNOWN_OFFSET
            if not known and self.is_current(requested):
                if committed_only:
                    state.last_stable_offset = requested.offset
                else:
                    state.high_watermark = requested.offset

    def _succeeded(self, state: AssignedPartition) -> None:
        if state in self._failing:
            del self._failing[state]
            state.failing = None
            self._context.topic_troubles.note_fetch(state.tp, self._now_ms, denied=False)

    def _forget_unassigned(self) -> None:
        assigned = self._context.subscription.assigned
        for state in [each for each in self._failing if assigned.get(each.tp) is not each]:
            self._succeeded(state)  # another member fetches it

    @property
    def _now_ms(self) -> int:
        return self._context.clock.now_ms()

    def _partition_of(
        self, fetched: FetchedPartition, session: FetchSession
    ) -> TopicPartition | None:
        name = fetched.topic
        if name is None and fetched.topic_id is not None:
            name = session.topic_name(fetched.topic_id)
        return None if name is None else TopicPartition(name, fetched.partition)

    def is_current(self, requested: RequestedPartition) -> bool:
        """Tell whether there was no seek, reset or new assignment since the request."""
        state = requested.state
        return (
            self._context.subscription.assigned.get(state.tp) is state
            and state.base is requested.base
            and state.read_ahead == requested.offset
        )

    # --- records -------------------------------------------------------------------------------

    def _handle_records(self, requested: RequestedPartition, fetched: FetchedPartition) -> bool:
        state = requested.state
        state.high_watermark = fetched.high_watermark
        state.last_stable_offset = fetched.last_stable_offset
        state.log_start_offset = fetched.log_start_offset
        state.out_of_range_at = None
        if fetched.preferred_read_replica < 0:
            # Invariant: a leader that names a replica has read nothing. With one that fails, and
            # is named again and again, the pauses grow.
            state.failures = 0
        self._context.metadata.confirm_leader(state.tp)
        self._follow_replica(state, fetched.preferred_read_replica)
        if fetched.records is None or not len(fetched.records):
            return False
        tp = state.tp
        try:
            epoch = self._context.metadata.snapshot.leader_epoch(tp)
            reader = open_reader(
                tp.topic, tp.partition, requested.offset, fetched, self._options, epoch
            )
            if reader.end_offset <= requested.offset:
                reader.take(1)  # there is no complete batch: the reader raises the reason
        except KafkaError as error:
            self._buffer_error(requested, error, sticky=True)
            return True
        state.read_ahead = max(state.read_ahead, reader.end_offset)
        self._context.buffer.add(CompletedFetch(state, requested.base, reader))
        return True

    def _follow_replica(self, state: AssignedPartition, replica: int) -> None:
        if replica < 0:
            return
        now_ms = self._context.clock.now_ms()
        lease_ms = self._context.config.metadata_max_age_ms
        state.preferred_replica = PreferredReplica(replica, now_ms + lease_ms)
        self._context.subscription.version += 1

    # --- errors --------------------------------------------------------------------------------

    def _handle_partition_error(
        self, requested: RequestedPartition, fetched: FetchedPartition, nodes: tuple[Node, ...]
    ) -> None:
        state, tp = requested.state, requested.state.tp
        error_type = for_code(fetched.error_code)
        reaction = reaction_to(FETCH, error_type)
        log.debug(
            "fetching %s at %d: %s",
            tp,
            requested.offset,
            error_type.__name__,
            fields={"topic": tp.topic, "partition": tp.partition, "offset": requested.offset},
        )
        self._context.retry_later(state)
        self.failed(state, error_type(names_of([tp])))
        # Invariant: after any error. The leader knows whether the follower is still in sync, and
        # returns the records itself if not; the lease of a follower takes minutes.
        self._drop_replica(state)
        if reaction is Reaction.RESET:
            self._out_of_range(requested)
        elif reaction is Reaction.RAISE:
            if issubclass(error_type, TopicAuthorizationFailedError):
                self._context.topic_troubles.note_fetch(tp, self._now_ms, denied=True)
            self._buffer_error(
                requested, _user_error(error_type, tp, requested.offset), sticky=False
            )
        elif reaction is Reaction.REFRESH:
            leader = fetched.current_leader
            if leader is None or not self._context.metadata.update_leader(tp, leader, nodes):
                self._metadata.request_update()
            else:
                state.leader_moved(self._now_ms)
        elif reaction is Reaction.FAIL:
            self._buffer_error(
                requested, error_type(f"fetching {tp.topic}-{tp.partition}"), sticky=False
            )

    def _drop_replica(self, state: AssignedPartition) -> None:
        if state.preferred_replica is not None:
            state.preferred_replica = None
            self._context.subscription.version += 1

    def _out_of_range(self, requested: RequestedPartition) -> None:
        state = requested.state
        if requested.from_replica:
            return  # a follower may lag, so the leader is asked
        position = state.position
        if position is None or position.offset != requested.offset:
            # Invariant: an error at `read_ahead` says nothing about the position. The buffer drains
            # first, and then the position itself is requested.
            state.wait_for_drain = True
            return
        if state.out_of_range_at is not position:
            # Invariant: a single response, which may be corrupted, is not enough for the policy,
            # which may skip records. The same offset is requested once more.
            state.out_of_range_at, state.retry_at_ms = position, 0
            return
        if state.failures <= _OUT_OF_RANGE_TWICE:
            state.retry_at_ms = 0  # the first reset is not a retry
            log.info("%s: fetch offset %d is out of range", names_of([state.tp]), requested.offset)
        if self._positions.apply_reset_policy([state]):
            error = PositionOutOfRangeError({state.tp: requested.offset})
            self._buffer_error(requested, error, sticky=True)
        else:
            state.out_of_range_at = position  # again: what the reset skips is told
            self._positions.start_lookups()

    def _buffer_error(
        self, requested: RequestedPartition, error: Exception, *, sticky: bool
    ) -> None:
        chunk = CompletedFetch(requested.state, requested.base, error=error, sticky=sticky)
        self._context.buffer.add(chunk)


def _user_error(error_type: type[KafkaError], tp: TopicPartition, offset: int) -> KafkaError:
    if issubclass(error_type, TopicAuthorizationFailedError):
        return TopicsDeniedError({tp.topic})
    if error_type is for_code(CorruptRecordError.errno):
        error = CorruptRecordError(
            f"the broker found a corrupt record in {tp.topic}-{tp.partition} at or after "
            f"offset {offset}; seek to an offset after it to skip it"
        )
        error.partition, error.offset = tp, offset
        return error
    return error_type(f"{tp.topic}-{tp.partition}")
