"""Acquires records of a share group, and acknowledges and renews their locks.

Each broker that leads a partition of the member has one session with one request in flight. A fetch
takes the acknowledgements along. Without a reason to fetch, they go alone.

What waits here for half of its lock is renewed within bounds, or released: see `fetch_limits.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from tandem_kafka.errors import (
    CorruptRecordError,
    IncompleteResponseError,
    KafkaConnectionError,
    KafkaError,
    ShareSessionNotFoundError,
    TopicAuthorizationFailedError,
    TopicsDeniedError,
    UnsupportedVersionError,
    for_code,
)
from tandem_kafka.events.completable import Completion
from tandem_kafka.logs import client_logger
from tandem_kafka.metrics import COORDINATOR
from tandem_kafka.metrics import FETCH as FETCHES
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.link import ConnectionKey
from tandem_kafka.network.request import ClientResponse, Purpose, ToNode, UnsentRequest
from tandem_kafka.request_managers.base import PollResult, RequestManager
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.request_managers.reactions import FETCH, Reaction, reaction_to
from tandem_kafka.request_managers.share.fetch_limits import FetchLimits
from tandem_kafka.request_managers.share.membership import ShareMembership
from tandem_kafka.request_managers.share.outcomes import LATE, LOST, ByPartition, Outcomes
from tandem_kafka.request_managers.share.session import (
    FIRST_VERSION_WITH_RENEWAL,
    Acknowledged,
    ShareSession,
)
from tandem_kafka.shared.locked_records import LockedRecords
from tandem_kafka.shared.locks import (
    Acknowledgement,
    AcknowledgeType,
    LockedPartition,
    Place,
    Run,
    are_plausible,
)
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.hosts import advertised

log = client_logger(__name__)

#: SHARE_SESSION_LIMIT_REACHED, which kafka-python does not know.
_SESSION_LIMIT_REACHED: Final = 133
#: The shortest time between two attempts to renew a lock.
_RENEW_PAUSE_MS: Final = 100
#: How long to wait after a response without records that came before its time, or so soon.
_EMPTY_PAUSE_MS: Final = 10
_SOON_MS: Final = 5
#: A broker whose response is so late is not waited for before others are asked in turn.
_TURN_MS: Final = 1_000


class _SessionLimitReachedError(KafkaError):
    """SHARE_SESSION_LIMIT_REACHED, which kafka-python does not know."""


class LockManager(RequestManager):
    """The sessions with all brokers.

    Args:
        context: What the managers share.
        metadata: Refreshes the leaders.
        membership: Knows the partitions.
        records: What crosses to the application.
    """

    def __init__(
        self,
        context: ManagerContext,
        metadata: MetadataRefresher,
        membership: ShareMembership,
        records: LockedRecords,
    ) -> None:
        self._context = context
        self._metadata = metadata
        self._membership = membership
        self._records = records
        self._sessions: dict[int, ShareSession] = {}
        self._closing = False
        self._outcomes = Outcomes(context.metrics)
        self._limits = FetchLimits(context.config, records)
        #: The backoff while an assigned partition has no known leader.
        self._leaderless = context.request_state()
        for name, group, meaning, value in (
            (
                "assigned-partitions",
                COORDINATOR,
                "currently assigned partitions",
                lambda: len(records.assigned),
            ),
            ("records-waiting", FETCHES, "locked records that wait for poll()", records.waiting),
            ("records-in-work", FETCHES, "records that the application has", records.in_work),
        ):
            context.metrics.gauge(name, group, meaning, value)
        self._renewal_supported = True
        #: Brokers of which it was said that they have no room for a session.
        self._full: set[int] = set()
        #: When to renew locks again if there is no response.
        self._renewing: dict[Run | LockedPartition, int] = {}
        #: When a broker that was asked in turn, and does not answer, holds up the next no longer.
        self._turn_ends_ms = 0

    # --- calls ---------------------------------------------------------------------------------

    def commit(self, future: Completion[ByPartition], *, closing: bool) -> None:
        """Complete a future once all acknowledgements so far are answered."""
        self._take_acknowledgements()
        self._outcomes.commit(future)
        if closing:
            self._closing = True
            self.release_unwanted()
        self._settle_commits()

    def release_unwanted(self) -> None:
        """Release what the application is not given: it does not want it, or is too slow.

        Invariant: the records of a slow application are released here, not by its next call.
        """
        now_ms, limits = self._context.clock.now_ms(), self._limits
        ends = self._closing or self._records.resting
        kept = 0
        for each in tuple(self._records.ahead()):
            if ends or not self._is_subscribed(each.tp):
                self._release(each, self._records.withdraw(each))
            elif now_ms >= each.usable_until_ms:
                limits.note_unused(each, now_ms)
                self._release(each, self._records.withdraw(each))
            elif self._renewal_supported and now_ms >= each.kept_from_ms:
                most = max(0, limits.most_kept(each, now_ms) - kept)
                kept += min(most, each.ahead)
                if each.ahead > most:
                    limits.note_unused(each, now_ms)
                    self._release(each, self._replace(each, most))

    def _replace(
        self, partition: LockedPartition, most: int, times: tuple[int, int] | None = None
    ) -> list[tuple[int, int]]:
        """Offer the first records of what waits anew, and return the ranges of the others.

        Args:
            partition: What waits.
            most: The number of records.
            times: If their locks were renewed, the times of the request and its response.
        """
        rest, others = partition.split(most)
        self._records.discard(partition)
        if rest.ahead:
            if times is not None:
                rest.requested_ms, rest.received_ms = times
                rest.lock_ms = self._records.lock_ms
            self._sessions[rest.node_id].locked.append(rest)
            self._records.add_again(rest)
        return others

    def _is_subscribed(self, tp: TopicPartition) -> bool:
        return tp.topic in self._context.subscription.topics

    # --- requests ------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> PollResult:
        """Send what is due to each broker."""
        self.release_unwanted()
        # Invariant: before locks are forgotten. What is acknowledged is not lost with them.
        self._take_acknowledgements(gathers=True)
        self._outcomes.ended(self._records.forget_ended(now_ms))
        wait_ms = min(self._renew(now_ms), self._outdated_in_ms(now_ms))
        unsent = []
        wanted = {} if self._closing else self._wanted_by_node(now_ms)
        wait_ms = min(wait_ms, self._leaderless.wait_ms(now_ms) or FOREVER_MS)
        for node_id in wanted.keys() - self._sessions.keys():
            node = self._context.metadata.snapshot.nodes[node_id]
            self._sessions[node_id] = ShareSession(node, self._context.request_state())
        for node_id, session in tuple(self._sessions.items()):
            if session.state.in_flight:
                continue
            fetching = any(each.fetching for each in self._sessions.values())
            fetching = fetching and now_ms < self._turn_ends_ms
            if fetching:
                wait_ms = min(wait_ms, self._turn_ends_ms - now_ms)
            left_ms = session.state.wait_ms(now_ms)
            if left_ms > 0:
                wait_ms = min(wait_ms, left_ms)
                continue
            limit = self._limits.records(len(wanted), fetching=fetching) if node_id in wanted else 0
            request, pause_ms = self._next_request(
                session, wanted.get(node_id, set()), limit, now_ms
            )
            wait_ms = min(wait_ms, pause_ms)
            if request is not None:
                unsent.append(request)
        self._settle_commits()
        return PollResult(tuple(unsent), min(wait_ms, self._gathered_in_ms(now_ms)))

    def _gathered_in_ms(self, now_ms: int) -> int:
        """Return when to take what is accepted without a notice."""
        records = self._records
        if self._sessions and all(each.state.in_flight for each in self._sessions.values()):
            records.expect_no_notice()  # a response comes first, and then another poll
        elif records.gathered_ms is not None:
            return max(1, records.gathered_ms - now_ms)
        return FOREVER_MS

    def _wanted_by_node(self, now_ms: int) -> dict[int, set[Place]]:
        snapshot, assigned = self._context.metadata.snapshot, self._membership.assigned()
        self._records.assigned = tuple(assigned)
        found: dict[int, set[Place]] = {}
        complete = True
        for tp, topic_id in assigned.items():
            info = snapshot.partition(tp)
            if not self._is_subscribed(tp):
                continue
            if info is None or info.leader_id not in snapshot.nodes:
                complete = False
                continue
            found.setdefault(info.leader_id, set()).add((topic_id, tp.partition))
        self._look_for_leaders(complete=complete, now_ms=now_ms)
        return found

    def _look_for_leaders(self, *, complete: bool, now_ms: int) -> None:
        """Refresh the metadata, again and again, while they lack the leader of a partition."""
        if complete:
            self._leaderless.succeeded()
        elif self._leaderless.can_send(now_ms):
            self._metadata.request_update()
            self._leaderless.failed(now_ms)

    def _next_request(
        self,
        session: ShareSession,
        wanted: AbstractSet[Place],
        limit: int,
        now_ms: int,
    ) -> tuple[UnsentRequest | None, int]:
        """Return the next request for a broker, and how long to wait without one."""
        pause_ms, fetch = FOREVER_MS, False
        if limit > 0:
            wanted, ready_ms = session.ready(wanted, now_ms)
            pause_ms = max(session.empty_until_ms, ready_ms) - now_ms
            fetch = pause_ms <= 0
        if fetch:
            self._take_acknowledgements()
        self._outcomes.dropped(session.drop_ended(now_ms), LATE)
        if session.renewals.by_partition and session.is_open and not self._closing:
            renewal = self._renewal(session)
            if renewal is not None:
                return renewal, FOREVER_MS
        if fetch:
            # With one fetch at a time, another broker is the next.
            node_id = session.node.node_id
            self._sessions[node_id] = self._sessions.pop(node_id)
            return self._fetch(session, wanted, limit), FOREVER_MS
        if session.waiting.by_partition or (self._closing and session.is_open):
            return self._acknowledge(session, closing=self._closing), FOREVER_MS
        return None, pause_ms

    def _fetch(
        self, session: ShareSession, wanted: AbstractSet[Place], limit: int
    ) -> UnsentRequest:
        held_ms = self._limits.held_ms(session)
        sent_ms = self._context.clock.now_ms()
        self._turn_ends_ms = sent_ms + held_ms + _TURN_MS
        return self._request(
            session,
            session.fetch(self._identity, wanted, self._limits.fields(limit, held_ms)),
            lambda response: self._handle_fetch(session, response, sent_ms, held_ms),
            held_ms=held_ms,
        )

    def _acknowledge(self, session: ShareSession, *, closing: bool = False) -> UnsentRequest:
        message = session.acknowledgement(self._identity, closing=closing)
        sent_ms = self._context.clock.now_ms()

        def handle(response: ClientResponse) -> None:
            self._handle_acknowledge(session, response, sent_ms)
            if closing:
                self._end(session, ShareSessionNotFoundError("the consumer has been closed"))

        return self._request(session, message, handle)

    def _renewal(self, session: ShareSession) -> UnsentRequest | None:
        message = session.renewal(self._identity)
        if message is None:
            return None
        sent_ms = self._context.clock.now_ms()

        def failed(error: Exception) -> None:
            if isinstance(error, UnsupportedVersionError):
                self._no_renewal(session, error)
            else:
                self._handle_error(session, error)

        return self._request(
            session,
            message,
            lambda response: self._handle_acknowledge(session, response, sent_ms),
            failed=failed,
        )

    def _request(
        self,
        session: ShareSession,
        message: Any,
        handle: Any,
        *,
        failed: Any = None,
        held_ms: int = 0,
    ) -> UnsentRequest:
        return self._context.request(
            message,
            # Invariant: always the same connection. The broker ends a session with its connection.
            ToNode(session.node, Purpose.FETCH_0),
            on_response=handle,
            on_error=failed or (lambda error: self._handle_error(session, error)),
            state=session.state,
            held_ms=held_ms,
        )

    @property
    def _identity(self) -> dict[str, str]:
        return {
            "group_id": self._context.config.group_id or "",
            "member_id": self._membership.member_id,
        }

    # --- acknowledgements ------------------------------------------------------------------------

    def _take_acknowledgements(self, *, gathers: bool = False) -> None:
        now_ms = self._context.clock.now_ms()
        made = self._records.take_acknowledgements(gathers=gathers)
        self._outcomes.taken(made, now_ms)
        for each in made:
            session = self._sessions.get(each.partition.node_id)
            if each.run is None and not each.partition.is_locked(now_ms):
                continue
            if each.partition.lost or session is None:
                self._outcomes.dropped([each], LOST)
            elif each.run_is_over:
                self._outcomes.dropped([each], LATE)
            else:
                session.acknowledge(each, self._outcomes.number)

    def _release(self, partition: LockedPartition, ranges: Iterable[tuple[int, int]]) -> None:
        session = self._sessions.get(partition.node_id)
        if session is None or not partition.is_locked(self._context.clock.now_ms()):
            return
        for first, last in ranges:
            release = Acknowledgement(partition, first, last, AcknowledgeType.RELEASE, None)
            session.acknowledge(release, self._outcomes.number)

    def _outdated_in_ms(self, now_ms: int) -> int:
        due_ms = min((each.usable_until_ms for each in self._records.ahead()), default=None)
        return FOREVER_MS if due_ms is None else max(1, due_ms - now_ms)

    def _renew(self, now_ms: int) -> int:
        """Renew the locks that soon end, in work and of what waits; return when to look again."""
        renew_ms = self._records.renew_ms
        if not self._renewal_supported:
            return FOREVER_MS
        wait_ms = FOREVER_MS
        handed = self._records.handed()
        works = [run for run in handed if run.came_late or now_ms < run.handed_ms + renew_ms]
        renewable: list[Run | LockedPartition] = [*works, *self._records.ahead()]
        for each in renewable:
            partition = each.partition if isinstance(each, Run) else each
            session = self._sessions.get(partition.node_id)
            if partition.lost or session is None:
                continue
            if now_ms < each.renew_from_ms:
                wait_ms = min(wait_ms, each.renew_from_ms - now_ms)
                continue
            # The response sets when it is due again. Without one, there is another attempt.
            wait_ms = min(wait_ms, max(_RENEW_PAUSE_MS, (each.sure_until_ms - now_ms) // 2))
            if now_ms >= self._renewing.get(each, 0):
                self._renewing[each] = now_ms + wait_ms
                if isinstance(each, Run):
                    session.renew(each, self._outcomes.number)
                else:
                    session.keep(each, self._outcomes.number)
        self._renewing = {each: due for each, due in self._renewing.items() if due > now_ms}
        return wait_ms

    def _no_renewal(self, session: ShareSession, error: UnsupportedVersionError) -> None:
        self._renewal_supported = False
        sent = session.take_sent().values()
        if any(each.asked or each.whole for each in sent):
            log.warning(
                "the brokers cannot renew locks (KIP-1222 needs ShareAcknowledge version %d, Kafka "
                "4.2): a record whose handler runs longer than its lock is delivered again",
                FIRST_VERSION_WITH_RENEWAL,
            )
        self._outcomes.unanswered(sent, error)
        session.unsent()
        if any(each.asked for each in sent) and not self._records.renew_ms:
            self._context.raise_in_poll(error)

    def _settle_commits(self) -> None:
        sessions = self._sessions.values()
        if self._closing and any(each.is_open or each.state.in_flight for each in sessions):
            return
        numbers = [each.oldest for each in sessions if each.oldest is not None]
        self._outcomes.settle(min(numbers, default=None))

    # --- responses -----------------------------------------------------------------------------

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

    def _handle_fetch(
        self, session: ShareSession, response: ClientResponse, sent_ms: int, held_ms: int
    ) -> None:
        message, now_ms = response.message, self._context.clock.now_ms()
        sent = self._answered(session, message)
        counts = [
            acquired.delivery_count
            for _, each in _partitions(message)
            for acquired in each.acquired_records
        ]
        got = bool(counts)
        if got:
            self._limits.retried = max(counts) > 1
        # Invariant: before the locks of this response: what is acknowledged is not handed out.
        self._take_acknowledgements()
        self._measure(response)
        for topic_id, each in _partitions(message):
            place = topic_id, each.partition_index
            self._handle_outcome(
                sent.pop(place, None),
                _error_of(each.acknowledge_error_code, each.acknowledge_error_message),
                (sent_ms, now_ms),
            )
            if each.error_code:
                self._handle_partition_error(session, place, each, message.node_endpoints)
            elif each.acquired_records and not self._closing:
                self._take(session, place, each, (sent_ms, now_ms))
        self._outcomes.unanswered(sent.values(), _INCOMPLETE)
        self._note_recovered(session, now_ms)
        session.empty = 0 if got else session.empty + 1
        self._limits.empty = 0 if got else self._limits.empty + 1
        early = now_ms - sent_ms < max(held_ms, _SOON_MS)
        session.empty_until_ms = 0 if got or not early else now_ms + _EMPTY_PAUSE_MS
        session.forget_old_locks(now_ms)

    def _measure(self, response: ClientResponse) -> None:
        metrics, message = self._context.metrics, response.message
        metrics.happened("last-fetch-seconds-ago")
        if not metrics.enabled:
            return
        metrics.record("fetch-latency", response.latency_ms)
        metrics.record("fetch-throttle-time", message.throttle_time_ms)
        fetched = [each for _, each in _partitions(message) if each.acquired_records]
        if fetched:
            metrics.record("fetch-size", sum(len(each.records or b"") for each in fetched))
            ranges = [each for one in fetched for each in one.acquired_records]
            count = sum(each.last_offset - each.first_offset + 1 for each in ranges)
            metrics.record("acquired", count)

    def _take(
        self,
        session: ShareSession,
        place: Place,
        fetched: Any,
        times: tuple[int, int],
    ) -> None:
        tp = self._name(place)
        if tp is None:
            return
        ranges = tuple(
            sorted(
                (each.first_offset, each.last_offset, each.delivery_count)
                for each in fetched.acquired_records
            )
        )
        if not are_plausible(ranges):
            self._note_failure(session, place, _damaged(session, tp, ranges))
            return
        data = memoryview(fetched.records or b"")
        locked = LockedPartition(tp, place[0], session.node.node_id, data, ranges, self._records)
        locked.requested_ms, locked.received_ms = times
        locked.since_ms = locked.requested_ms
        locked.lock_ms = self._records.lock_ms
        self._outcomes.dropped(session.drop_locked_again(place, ranges), LATE)
        self._end_locks(place, ranges)
        session.locked.append(locked)
        if self._is_subscribed(tp):
            self._records.add(locked)
        else:
            self._release(locked, locked.withdraw())

    def _end_locks(self, place: Place, ranges: Sequence[tuple[int, int, int]]) -> None:
        """Note that these offsets are locked again."""
        # Invariant: first what waits for the application, which may begin with it meanwhile.
        for each in self._records.ahead():
            same = each.place == place
            if same and any(each.can_claim(first, last) for first, last, _ in ranges):
                each.lost = True  # nobody has released it: its leader has forgotten all locks
        for run in self._records.handed():
            if run.partition.place == place:
                for first, last, _ in ranges:
                    run.end_locks(first, last)

    def _handle_acknowledge(
        self, session: ShareSession, response: ClientResponse, sent_ms: int
    ) -> None:
        message, now_ms = response.message, self._context.clock.now_ms()
        sent = self._answered(session, message)
        for topic_id, each in _partitions(message):
            place = topic_id, each.partition_index
            error = _error_of(each.error_code, each.error_message)
            self._handle_outcome(sent.pop(place, None), error, (sent_ms, now_ms))
            if error is not None and reaction_to(FETCH, error) is Reaction.REFRESH:
                self._follow_leader(session, place, each, message.node_endpoints)
        self._outcomes.unanswered(sent.values(), _INCOMPLETE)

    def _name(self, place: Place) -> TopicPartition | None:
        name = self._context.metadata.snapshot.topic_names.get(place[0])
        return None if name is None else TopicPartition(name, place[1])

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
            self._renewed(acknowledged, times)

    def _renewed(self, acknowledged: Acknowledged, times: tuple[int, int]) -> None:
        lock_ms = self._records.lock_ms
        lock_times = times[0] + lock_ms, times[1] + lock_ms
        for run, (first, last) in acknowledged.whole.items():
            if run.forgotten:
                continue  # what it was given is acknowledged no more
            if run.given - 1 > last:  # it was given more since
                run.renew_locks(first, last, lock_times)
            else:
                run.renew_all(lock_times)
        for each in acknowledged.asked:
            if each.run is not None and not each.run_is_over:
                each.run.renew_locks(each.first, each.last, lock_times)
        for partition in reversed(acknowledged.kept):
            if not partition.lost:
                self._replace(partition, partition.ahead, times)

    # --- errors --------------------------------------------------------------------------------

    def _handle_partition_error(
        self, session: ShareSession, place: Place, fetched: Any, endpoints: Any
    ) -> None:
        error = _error(fetched.error_code, fetched.error_message)
        refreshes = reaction_to(FETCH, error) is Reaction.REFRESH
        if refreshes and self._follow_leader(session, place, fetched, endpoints):
            return
        self._note_failure(session, place, error)

    def _note_failure(self, session: ShareSession, place: Place, error: KafkaError) -> None:
        """Ask for a partition again after a pause; raise its error, but not for each response."""
        tp, (before, _) = self._name(place), session.refused.get(place, (None, 0))
        log.debug("acquiring records of %s: %s", tp or place, error)
        retry_ms = self._context.clock.now_ms() + self._context.retry_pause_ms
        session.refused[place] = type(error), retry_ms
        if before is type(error):
            return
        if tp is not None and isinstance(error, TopicAuthorizationFailedError):
            self._context.topic_troubles.note_fetch(tp.topic, denied=True)
            self._context.raise_in_poll(TopicsDeniedError({tp.topic}), topics=[tp.topic])
        elif reaction_to(FETCH, error) not in (Reaction.REFRESH, Reaction.RETRY):
            self._context.raise_in_poll(error)

    def _note_recovered(self, session: ShareSession, now_ms: int) -> None:
        for tp in map(self._name, session.recovered(now_ms)):
            if tp is not None:
                self._context.topic_troubles.note_fetch(tp.topic, denied=False)

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
        nodes = [advertised(each.node_id, each.host, each.port, each.rack) for each in endpoints]
        hint = (leader.leader_id, leader.leader_epoch)
        if tp is None or hint[0] < 0 or not self._context.metadata.update_leader(tp, hint, nodes):
            self._metadata.request_update()
            return False
        return True

    def _handle_error(self, session: ShareSession, error: Exception) -> None:
        """End a session whose request failed: it may or may not have been processed."""
        node_id = session.node.node_id
        log.debug("share session with broker %d ended: %s", node_id, error)
        if isinstance(error, _SessionLimitReachedError) and node_id not in self._full:
            self._full.add(node_id)
            log.warning(
                "broker %d has no room for another share session, so this consumer gets no "
                "records of it until another one ends",
                node_id,
            )
        lost = error if isinstance(error, KafkaError) else KafkaError(str(error))
        self._end(session, lost)
        if isinstance(error, UnsupportedVersionError):
            self._context.raise_in_poll(error)
        self._metadata.request_update()

    def connection_lost(self, key: ConnectionKey) -> None:
        """End the session of a connection without a request, whose error would end it."""
        node_id, purpose = key
        session = self._sessions.get(node_id) if purpose is Purpose.FETCH_0 else None
        if session is not None and session.is_open and not session.state.in_flight:
            self._handle_error(session, KafkaConnectionError("the connection was lost"))

    def _end(self, session: ShareSession, error: KafkaError) -> None:
        self._outcomes.unanswered(session.take_sent().values(), error)
        self._outcomes.unsent(session.end(), LOST)
        self._settle_commits()


_INCOMPLETE: Final = IncompleteResponseError("the broker did not say what became of them")


def _damaged(
    session: ShareSession, tp: TopicPartition, ranges: Sequence[tuple[int, int, int]]
) -> CorruptRecordError:
    """Return the error for ranges that cannot be; nobody knows which of their locks there are."""
    first, last = min(each[0] for each in ranges), max(each[1] for each in ranges)
    return CorruptRecordError(
        f"a response of broker {session.node.node_id} is damaged: it has locked offsets between "
        f"{first} and {last} of {tp.topic}-{tp.partition}; after their locks, they come again"
    )


def _error(code: int, text: str | None) -> KafkaError:
    if code == _SESSION_LIMIT_REACHED:
        return _SessionLimitReachedError(text or "")
    found: KafkaError = for_code(code)(text or "")
    return found


def _error_of(code: int, text: str | None) -> KafkaError | None:
    return _error(code, text) if code else None


def _partitions(message: Any) -> Any:
    for topic in message.responses:
        for each in topic.partitions:
            yield topic.topic_id, each
