"""Handles the responses to fetches and acknowledgements of share groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from tandem_kafka.errors import (
    CorruptRecordError,
    IncompleteResponseError,
    KafkaError,
    TopicAuthorizationFailedError,
    TopicsDeniedError,
    for_code,
)
from tandem_kafka.logs import client_logger
from tandem_kafka.network.request import ClientResponse
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.request_managers.reactions import FETCH, Reaction, reaction_to
from tandem_kafka.request_managers.share.fetch_limits import MOST_RECORDS, FetchLimits
from tandem_kafka.request_managers.share.lock_keeper import LockKeeper
from tandem_kafka.request_managers.share.outcomes import LATE, LOST, Outcomes
from tandem_kafka.request_managers.share.session import Acknowledged, ShareSession
from tandem_kafka.state.locked_records import LockedRecords
from tandem_kafka.state.locks import (
    LockedPartition,
    LockedRange,
    Place,
    are_plausible,
    joined,
    overlapping,
)
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.hosts import advertised

log = client_logger(__name__)

#: SHARE_SESSION_LIMIT_REACHED, which kafka-python does not know.
_SESSION_LIMIT_REACHED: Final = 133
#: The most ranges of one response. A broker may lock a batch more than it was asked for.
_MOST_RANGES: Final = 2 * MOST_RECORDS
#: How long to wait after a response without records that came before its time, or so soon.
_EMPTY_PAUSE_MS: Final = 10
_SOON_MS: Final = 5


class SessionLimitReachedError(KafkaError):
    """SHARE_SESSION_LIMIT_REACHED, which kafka-python does not know."""


class ResponseHandler:
    """Offers what was locked to the application, and notes what became of acknowledgements.

    Args:
        context: What the managers share.
        metadata: Refreshes the leaders.
        records: What crosses to the application.
        keeper: Adds acknowledgements to the sessions.
        outcomes: What became of acknowledgements.
        limits: How many records are acquired.
    """

    def __init__(
        self,
        context: ManagerContext,
        metadata: MetadataRefresher,
        records: LockedRecords,
        keeper: LockKeeper,
        outcomes: Outcomes,
        limits: FetchLimits,
    ) -> None:
        self._context = context
        self._metadata = metadata
        self._records = records
        self._keeper = keeper
        self._outcomes = outcomes
        self._limits = limits

    def handle_fetch(
        self, session: ShareSession, response: ClientResponse, sent_ms: int, held_ms: int
    ) -> Exception | None:
        """Handle the response to a fetch; return an error of partitions that lasts."""
        message, now_ms = response.message, self._context.clock.now_ms()
        sent = self._answered(session, message)
        partitions = list(_asked_for(message, {*session.partitions, *sent}))
        counts = (one.delivery_count for _, each in partitions for one in each.acquired_records)
        most_delivered = max(counts, default=0)
        got = any(each.acquired_records for _, each in partitions)
        if got:
            self._limits.retried = most_delivered > 1
        # Invariant: before the locks of this response: what is acknowledged is not handed out.
        self._keeper.take_acknowledgements()
        self._measure(session, response, partitions)
        left = _MOST_RANGES
        for place, each in partitions:
            self._handle_outcome(
                sent.pop(place, None),
                _error_of(each.acknowledge_error_code, each.acknowledge_error_message),
                (sent_ms, now_ms),
            )
            if each.error_code:
                self._handle_partition_error(session, place, each, message.node_endpoints)
            elif each.acquired_records and not self._keeper.closing:
                left -= self._take(session, place, each, (sent_ms, now_ms), left)
        self._outcomes.unanswered(sent.values(), _INCOMPLETE)
        self._note_recovered(session, now_ms)
        session.empty = 0 if got else session.empty + 1
        self._limits.empty = 0 if got else self._limits.empty + 1
        early = now_ms - sent_ms < max(held_ms, _SOON_MS)
        session.empty_until_ms = 0 if got or not early else now_ms + _EMPTY_PAUSE_MS
        session.forget_old_locks(now_ms)
        errors = (_error_of(each.error_code, each.error_message) for _, each in partitions)
        error = next(filter(None, errors), None)
        if error is None:
            return session.lasting_error(now_ms, got=got)
        session.failed = error, now_ms
        return error

    def handle_acknowledge(
        self, session: ShareSession, response: ClientResponse, sent_ms: int
    ) -> None:
        """Handle the response to acknowledgements or renewals."""
        message, now_ms = response.message, self._context.clock.now_ms()
        sent = self._answered(session, message)
        for place, each in _asked_for(message, sent):
            error = _error_of(each.error_code, each.error_message)
            self._handle_outcome(sent.pop(place, None), error, (sent_ms, now_ms))
            if error is not None and reaction_to(FETCH, error) is Reaction.REFRESH:
                self._follow_leader(session, place, each, message.node_endpoints)
        self._outcomes.unanswered(sent.values(), _INCOMPLETE)

    def _answered(self, session: ShareSession, message: Any) -> dict[Place, Acknowledged]:
        """Return the acknowledgements that a response answers.

        Raises:
            KafkaError: The response has an error for the whole request.
        """
        if message.error_code:
            raise _error(message.error_code, message.error_message)
        if (message.acquisition_lock_timeout_ms or 0) > 0:  # ShareAcknowledge v1 has none
            self._records.lock_ms = message.acquisition_lock_timeout_ms
        return session.take_sent()

    def _measure(
        self,
        session: ShareSession,
        response: ClientResponse,
        partitions: Sequence[tuple[Place, Any]],
    ) -> None:
        metrics, message = self._context.metrics, response.message
        refused = sum(1 for _, each in partitions if each.error_code)
        if refused < len(session.partitions):
            metrics.happened("last-fetch-seconds-ago")
        if not metrics.enabled:
            return
        metrics.record("fetch-latency", response.latency_ms)
        metrics.record("fetch-throttle-time", message.throttle_time_ms)
        fetched = [each for _, each in partitions if each.acquired_records]
        if fetched:
            metrics.record("fetch-size", sum(len(each.records or b"") for each in fetched))
            ranges = (each for one in fetched for each in one.acquired_records)
            count = sum(each.last_offset - each.first_offset + 1 for each in ranges)
            metrics.record("acquired", count)

    def _handle_outcome(
        self,
        acknowledged: Acknowledged | None,
        error: KafkaError | None,
        times: tuple[int, int],
    ) -> None:
        if acknowledged is None:
            return
        self._outcomes.answered(acknowledged, error)
        if error is None:
            self._keeper.renewed(acknowledged, times)

    def _name(self, place: Place) -> TopicPartition | None:
        name = self._context.metadata.snapshot.topic_names.get(place[0])
        return None if name is None else TopicPartition(name, place[1])

    # --- new locks ------------------------------------------------------------------------------

    def _take(
        self,
        session: ShareSession,
        place: Place,
        fetched: Any,
        times: tuple[int, int],
        most: int,
    ) -> int:
        """Take what a response has locked of a partition; return how many ranges these are."""
        tp = self._name(place)
        if tp is None:
            return 0
        # A session that has ended forgets what it refused.
        now_ms = self._context.clock.now_ms()
        self._context.topic_troubles.note_fetch(tp, now_ms, denied=False)
        ranges = joined(_ranges_of(fetched), most)
        if len(ranges) > most or not are_plausible(ranges):
            self._note_failure(session, place, _damaged(session, tp, ranges))
            return 0
        data = memoryview(fetched.records or b"")
        locked = LockedPartition(tp, place[0], session.node.node_id, data, ranges, self._records)
        locked.requested_ms, locked.received_ms = times
        locked.since_ms = locked.requested_ms
        locked.lock_ms = self._records.lock_ms
        self._outcomes.dropped(session.drop_locked_again(place, ranges), LATE)
        self._end_locks(place, ranges)
        session.locked.append(locked)
        if self._keeper.is_subscribed(tp):
            self._records.add(locked)
        else:
            self._keeper.release(locked, locked.withdraw())
        return len(ranges)

    def _end_locks(self, place: Place, ranges: Sequence[LockedRange]) -> None:
        """Note that these offsets are locked again."""
        # Invariant: first what waits for the application, which may begin with it meanwhile.
        for each in self._records.ahead():
            if each.place == place and each.can_claim(ranges):
                each.lose()  # nobody has released it: its leader has forgotten all locks
        for run in self._records.handed():
            if run.partition.place == place:
                for first, last, _ in overlapping(ranges, run.first, run.last):
                    run.end_locks(first, last)

    # --- errors of partitions --------------------------------------------------------------------

    def _handle_partition_error(
        self, session: ShareSession, place: Place, fetched: Any, endpoints: Any
    ) -> None:
        error = _error(fetched.error_code, fetched.error_message)
        refreshes = reaction_to(FETCH, error) is Reaction.REFRESH
        if refreshes and self._follow_leader(session, place, fetched, endpoints):
            return
        self._note_failure(session, place, error)

    def _note_failure(self, session: ShareSession, place: Place, error: KafkaError) -> None:
        """Ask for a partition again after a pause that grows, and raise its error."""
        tp, (failures, _) = self._name(place), session.refused.get(place, (0, 0))
        log.debug("acquiring records of %s: %s", tp or place, error)
        pause_ms = self._context.pause_ms(failures)
        now_ms = self._context.clock.now_ms()
        session.refused[place] = failures + 1, now_ms + pause_ms
        if tp is not None and isinstance(error, TopicAuthorizationFailedError):
            self._context.topic_troubles.note_fetch(tp, now_ms, denied=True)
            self._context.raise_in_poll(TopicsDeniedError({tp.topic}))
        elif reaction_to(FETCH, error) not in (Reaction.REFRESH, Reaction.RETRY):
            self._context.raise_in_poll(error)

    def _note_recovered(self, session: ShareSession, now_ms: int) -> None:
        for tp in map(self._name, session.recovered(now_ms)):
            if tp is not None:
                self._context.topic_troubles.note_fetch(tp, now_ms, denied=False)

    def _follow_leader(
        self, session: ShareSession, place: Place, answered: Any, endpoints: Any
    ) -> bool:
        """Note that another broker leads a partition, and offers its records again.

        Returns:
            Whether the response names the new leader.
        """
        tp = self._name(place)
        self._outcomes.unsent(session.lose(place), LOST)
        leader = answered.current_leader
        nodes = [
            advertised(each.node_id, each.host, each.port, each.rack)
            for each in endpoints
            if each.node_id == leader.leader_id
        ]
        hint = (leader.leader_id, leader.leader_epoch)
        if tp is None or hint[0] < 0 or not self._context.metadata.update_leader(tp, hint, nodes):
            self._metadata.request_update()
            return False
        return True


_INCOMPLETE: Final = IncompleteResponseError("the broker did not say what became of them")


def _damaged(
    session: ShareSession, tp: TopicPartition, ranges: Sequence[LockedRange]
) -> CorruptRecordError:
    """Return the error for ranges that cannot be; nobody knows which of their locks there are."""
    first, last = min(each[0] for each in ranges), max(each[1] for each in ranges)
    return CorruptRecordError(
        f"a response of broker {session.node.node_id} is damaged: it has locked offsets between "
        f"{first} and {last} of {tp.topic}-{tp.partition}; after their locks, they come again"
    )


def _error(code: int, text: str | None) -> KafkaError:
    if code == _SESSION_LIMIT_REACHED:
        return SessionLimitReachedError(text or "")
    found: KafkaError = for_code(code)(text or "")
    return found


def _error_of(code: int, text: str | None) -> KafkaError | None:
    return _error(code, text) if code else None


def _asked_for(message: Any, asked: Iterable[Place]) -> Iterator[tuple[Place, Any]]:
    """Yield each partition of a request once.

    Invariant: no others. Each may be an error of `poll()`, and a response has room for many.
    """
    left = set(asked)
    for topic in message.responses:
        for each in topic.partitions:
            place = topic.topic_id, each.partition_index
            if place in left:
                left.remove(place)
                yield place, each


def _ranges_of(fetched: Any) -> Iterator[LockedRange]:
    for each in fetched.acquired_records:
        yield each.first_offset, each.last_offset, each.delivery_count
