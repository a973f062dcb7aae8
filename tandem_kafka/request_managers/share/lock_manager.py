"""Acquires records of a share group, and acknowledges and renews their locks.

Each broker that leads a partition of the member has one session with one request in flight. A fetch
takes the acknowledgements along. Without a reason to fetch, they go alone.

A lock is not kept while its record waits here: what has waited for half of its lock is released.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from tandem_kafka.errors import (
    IncompleteResponseError,
    KafkaError,
    RecordLockLostError,
    ShareSessionNotFoundError,
    TopicAuthorizationFailedError,
    TopicsDeniedError,
    UnsupportedVersionError,
    for_code,
)
from tandem_kafka.events.completable import Completion
from tandem_kafka.logs import client_logger
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.request import ClientResponse, Purpose, ToNode, UnsentRequest
from tandem_kafka.request_managers.base import PollResult, RequestManager
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.request_managers.reactions import FETCH, Reaction, reaction_to
from tandem_kafka.request_managers.share.membership import ShareMembership
from tandem_kafka.request_managers.share.session import (
    FIRST_VERSION_WITH_RENEWAL,
    Acknowledged,
    ShareSession,
)
from tandem_kafka.shared.locked_records import (
    Acknowledgement,
    AcknowledgeType,
    LockedPartition,
    LockedRecords,
    Run,
)
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.hosts import advertised

log = client_logger(__name__)

Outcomes = dict[TopicPartition, KafkaError | None]

#: The most records of one fetch, however fast the handler is.
MOST_RECORDS: Final = 10_000
#: The limit before the pace of the handler is known.
FIRST_RECORDS: Final = 50
#: For how much of the handler's time a fetch acquires records: longer than a fetch takes. What one
#: member has, the others have not.
_AHEAD_MS: Final = 200
#: A record that the application does not begin with within this share of its lock is not fetched.
_SHARE_OF_LOCK: Final = 4
#: The lock's duration of Kafka's default, before a response has told it.
_DEFAULT_LOCK_MS: Final = 30_000
_SESSION_LIMIT_REACHED: Final = 133
#: For how long a fetch is parked while the application works on records.
_FIRST_PARKED_MS: Final = 5
_LONGEST_PARKED_MS: Final = 100
_MOST_EMPTY: Final = 8
#: The shortest time between two attempts to renew a lock.
_RENEW_PAUSE_MS: Final = 100
#: The acquire modes of KIP-1206.
_WHOLE_BATCHES: Final = 0
_RECORD_LIMIT: Final = 1
#: How long to wait after a response without records that came before its time.
_EMPTY_PAUSE_MS: Final = 10


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
        self._lock_ms = _DEFAULT_LOCK_MS
        self._closing = False
        #: Commits: the number before which all acknowledgements must be answered, and the future.
        self._commits: list[tuple[int, Completion[Outcomes]]] = []
        self._commit_number = 0
        self._outcomes: Outcomes = {}
        self._renewal_supported = True
        #: Whether records were released unused since the application last asked for some.
        self._unused = False
        #: Brokers of which it was said that they have no room for a session.
        self._full: set[int] = set()
        #: When to renew a run again if there is no response.
        self._renewing: dict[Run, int] = {}

    # --- calls ---------------------------------------------------------------------------------

    def commit(self, future: Completion[Outcomes], *, closing: bool) -> None:
        """Complete a future once all acknowledgements so far are answered."""
        self._take_acknowledgements()
        self._commit_number += 1
        self._commits.append((self._commit_number, future))
        if closing:
            self._closing = True
            self.release_waiting()
        self._settle_commits()

    def release_waiting(self) -> None:
        """Release all records that the application has not been given."""
        for each in self._records.take_all():
            self._release(each)

    # --- requests ------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> PollResult:
        """Send what is due to each broker."""
        self._records.forget_ended(now_ms)
        for outdated in self._records.take_outdated(now_ms):
            self._unused |= not outdated.lost
            self._release(outdated)
        self._take_acknowledgements()
        wait_ms = min(self._renew(now_ms), self._outdated_in_ms(now_ms))
        unsent = []
        wanted = {} if self._closing else self._wanted_by_node()
        for node_id in wanted.keys() - self._sessions.keys():
            node = self._context.metadata.snapshot.nodes[node_id]
            self._sessions[node_id] = ShareSession(node, self._context.request_state())
        for node_id, session in tuple(self._sessions.items()):
            if session.state.in_flight:
                continue
            left_ms = session.state.wait_ms(now_ms)
            if left_ms > 0:
                wait_ms = min(wait_ms, left_ms)
                continue
            limit = self._limit(len(wanted)) if node_id in wanted else 0
            request, pause_ms = self._next_request(session, wanted.get(node_id, {}), limit, now_ms)
            wait_ms = min(wait_ms, pause_ms)
            if request is not None:
                unsent.append(request)
        self._settle_commits()
        return PollResult(tuple(unsent), wait_ms)

    def _wanted_by_node(self) -> dict[int, dict[TopicPartition, UUID]]:
        snapshot = self._context.metadata.snapshot
        found: dict[int, dict[TopicPartition, UUID]] = {}
        for tp, topic_id in self._membership.assigned().items():
            info = snapshot.partition(tp)
            # Metadata without the leader of a partition are refreshed anyway.
            if info is not None and info.leader_id in snapshot.nodes:
                found.setdefault(info.leader_id, {})[tp] = topic_id
        return found

    def _next_request(
        self,
        session: ShareSession,
        wanted: Mapping[TopicPartition, UUID],
        limit: int,
        now_ms: int,
    ) -> tuple[UnsentRequest | None, int]:
        """Return the next request for a broker, and how long to wait without one."""
        for tp in session.drop_ended(now_ms):
            self._note(tp, _LATE)
        waiting, pause_ms, fetch = session.waiting, FOREVER_MS, False
        if limit > 0:
            pause_ms = session.empty_until_ms - now_ms
            fetch = pause_ms <= 0
        if session.renewals.by_partition and session.is_open and not self._closing:
            renewal = self._renewal(session)
            if renewal is not None:
                return renewal, FOREVER_MS
        if fetch:
            # With one fetch at a time, another broker is the next.
            node_id = session.node.node_id
            self._sessions[node_id] = self._sessions.pop(node_id)
            return self._fetch(session, wanted, limit), FOREVER_MS
        if waiting.by_partition or (self._closing and session.is_open):
            return self._acknowledge(session, closing=self._closing), FOREVER_MS
        return None, pause_ms

    def _limit(self, brokers: int) -> int:
        """Return how many records to acquire of a broker: those that the application soon handles.

        Invariant: a record that is released unused counts as delivered, so that after some times
        nobody gets it. An application that takes a large part of a lock for each record gets one
        when it asks, from one broker at a time.
        """
        records, pace = self._records, self._records.pace
        if records.asking:
            self._unused = False
        enough_ms = self._lock_ms // _SHARE_OF_LOCK
        if pace is None:
            return FIRST_RECORDS if records.asking else 0
        if pace * enough_ms < brokers or self._unused:
            others = any(each.fetching for each in self._sessions.values())
            return 1 if records.asking and not others else 0
        most = max(1, min(int(pace * min(_AHEAD_MS, enough_ms)), MOST_RECORDS))
        left = most - records.waiting() - records.left
        return max(1, left // brokers) if left > 0 else 0

    def _fetch(
        self, session: ShareSession, wanted: Mapping[TopicPartition, UUID], limit: int
    ) -> UnsentRequest:
        config = self._context.config
        strict = limit < config.max_poll_records
        held_ms = self._held_ms(session)
        limits = {
            "max_wait_ms": held_ms,
            "min_bytes": config.fetch_min_bytes,
            "max_bytes": config.fetch_max_bytes,
            "max_records": limit,
            "batch_size": min(limit, config.max_poll_records),
            "share_acquire_mode": _RECORD_LIMIT if strict else _WHOLE_BATCHES,
        }
        sent_ms = self._context.clock.now_ms()
        return self._request(
            session,
            session.fetch(self._identity, wanted, limits),
            lambda response: self._handle_fetch(session, response, sent_ms, held_ms),
            held_ms=held_ms,
        )

    def _held_ms(self, session: ShareSession) -> int:
        """Return for how long a broker may park a fetch.

        Invariant: an acknowledgement waits behind a parked fetch, and so does the next record once
        a partition has as many locks as the broker allows. While the application works on records,
        a fetch is therefore parked for a short time only, a longer one after each empty response.
        """
        # Half of the lock is for the application, and counts from the request on.
        most_ms = min(self._context.config.fetch_max_wait_ms, self._lock_ms // 8)
        if not session.busy:
            return most_ms
        return min(most_ms, _LONGEST_PARKED_MS, _FIRST_PARKED_MS << session.empty)

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

    def _take_acknowledgements(self) -> None:
        now_ms = self._context.clock.now_ms()
        for each in self._records.take_acknowledgements():
            session = self._sessions.get(each.partition.node_id)
            if each.run is None and not each.partition.is_locked(now_ms):
                continue
            if not each.partition.lost and session is not None:
                session.acknowledge(each, self._commit_number)
            elif each.run is not None:
                self._note(each.partition.tp, _LOST)

    def _release(self, partition: LockedPartition) -> None:
        session = self._sessions.get(partition.node_id)
        if session is None or not partition.is_locked(self._context.clock.now_ms()):
            return
        for first, last, _ in partition.ranges:
            release = Acknowledgement(partition, first, last, AcknowledgeType.RELEASE, None)
            session.acknowledge(release, self._commit_number)

    def _outdated_in_ms(self, now_ms: int) -> int:
        due_ms = self._records.next_outdated_ms
        return FOREVER_MS if due_ms is None else max(1, due_ms - now_ms)

    def _renew(self, now_ms: int) -> int:
        """Renew the locks that soon end; return when to look again."""
        renew_ms = self._records.renew_ms
        if not renew_ms or not self._renewal_supported:
            return FOREVER_MS
        wait_ms = FOREVER_MS
        for run in self._records.handed():
            partition = run.partition
            session = self._sessions.get(partition.node_id)
            if partition.lost or session is None or now_ms >= run.handed_ms + renew_ms:
                continue
            due_ms = run.sure_until_ms - partition.lock_ms // 2
            if now_ms < due_ms:
                wait_ms = min(wait_ms, due_ms - now_ms)
                continue
            # The response sets when it is due again. Without one, there is another attempt.
            wait_ms = min(wait_ms, max(_RENEW_PAUSE_MS, (run.sure_until_ms - now_ms) // 2))
            if now_ms >= self._renewing.get(run, 0):
                self._renewing[run] = now_ms + wait_ms
                session.renew(run, self._commit_number)
        self._renewing = {run: due for run, due in self._renewing.items() if due > now_ms}
        return wait_ms

    def _no_renewal(self, session: ShareSession, error: UnsupportedVersionError) -> None:
        self._renewal_supported = False
        log.warning(
            "the brokers cannot renew locks (KIP-1222 needs ShareAcknowledge version %d, Kafka "
            "4.2): a record whose handler runs longer than its lock is delivered again",
            FIRST_VERSION_WITH_RENEWAL,
        )
        session.unsent()
        if not self._records.renew_ms:  # the application has asked for it
            self._context.raise_in_poll(error)

    def _settle_commits(self) -> None:
        if not self._commits:
            return
        oldest = min(
            (each.oldest for each in self._sessions.values() if each.oldest is not None),
            default=None,
        )
        if self._closing and any(
            each.is_open or each.state.in_flight for each in self._sessions.values()
        ):
            return
        while self._commits:
            number, future = self._commits[0]
            # After a timeout, the next commit() tells the outcome.
            if not future.done and oldest is not None and oldest < number:
                return
            del self._commits[0]
            if not future.done:
                outcomes, self._outcomes = self._outcomes, {}
                future.complete(outcomes)

    def _note(self, tp: TopicPartition, error: KafkaError | None) -> None:
        """Note the outcome of acknowledgements, for the next commit()."""
        if error is not None:
            log.warning(
                "acknowledgements of %s-%d failed, so the records are delivered again: %s",
                tp.topic,
                tp.partition,
                error,
            )
        if error is not None or tp not in self._outcomes:
            self._outcomes[tp] = error

    def _note_all(self, batch: Mapping[TopicPartition, Acknowledged], error: KafkaError) -> None:
        for tp, each in batch.items():
            if each.of_application:
                self._note(tp, error)

    # --- responses -----------------------------------------------------------------------------

    def _answered(self, session: ShareSession, message: Any) -> dict[TopicPartition, Acknowledged]:
        """Return the acknowledgements that a response answers.

        Raises:
            KafkaError: The response has an error for the whole request.
        """
        if message.error_code:
            raise _error(message.error_code, message.error_message)
        if (message.acquisition_lock_timeout_ms or 0) > 0:  # ShareAcknowledge v1 has none
            self._lock_ms = message.acquisition_lock_timeout_ms
        return dict(session.take_sent())

    def _handle_fetch(
        self, session: ShareSession, response: ClientResponse, sent_ms: int, held_ms: int
    ) -> None:
        message, now_ms = response.message, self._context.clock.now_ms()
        sent, got = self._answered(session, message), False
        for topic_id, each in _partitions(message):
            tp = self._name(topic_id, each.partition_index)
            if tp is None:
                continue
            self._handle_outcome(
                tp,
                sent.pop(tp, None),
                _error_of(each.acknowledge_error_code, each.acknowledge_error_message),
                (sent_ms, now_ms),
            )
            if each.error_code:
                self._handle_partition_error(session, tp, each, message.node_endpoints)
            elif each.acquired_records and not self._closing:
                got = True
                self._take(session, tp, topic_id, each, (sent_ms, now_ms))
        self._note_all(sent, IncompleteResponseError("the broker did not say what became of them"))
        session.empty = 0 if got else min(session.empty + 1, _MOST_EMPTY)
        early = now_ms - sent_ms < held_ms
        session.empty_until_ms = 0 if got or not early else now_ms + _EMPTY_PAUSE_MS
        held = {run.partition for run in self._records.handed()}
        # Invariant: before old locks are forgotten. What is no longer held may be acknowledged.
        self._take_acknowledgements()
        session.forget_old_locks(now_ms, held)

    def _take(
        self,
        session: ShareSession,
        tp: TopicPartition,
        topic_id: UUID,
        fetched: Any,
        times: tuple[int, int],
    ) -> None:
        ranges = tuple(
            (each.first_offset, each.last_offset, each.delivery_count)
            for each in fetched.acquired_records
        )
        data = bytes(fetched.records or b"")
        locked = LockedPartition(tp, topic_id, session.node.node_id, data, ranges, self._records)
        locked.requested_ms, locked.received_ms = times
        locked.lock_ms = self._lock_ms
        handed = [run for run in self._records.handed() if run.partition.tp == tp]
        begun = {run.partition for run in handed}
        for first, last, _ in ranges:
            for run in handed:
                run.end_locks(first, last)
            for each in session.locked:
                if each.tp == tp and each not in begun and each.overlaps(first, last):
                    each.lost = True
        session.locked.append(locked)
        self._records.add(locked)

    def _handle_acknowledge(
        self, session: ShareSession, response: ClientResponse, sent_ms: int
    ) -> None:
        message, now_ms = response.message, self._context.clock.now_ms()
        sent = self._answered(session, message)
        for topic_id, each in _partitions(message):
            tp = self._name(topic_id, each.partition_index)
            if tp is None:
                continue
            error = _error_of(each.error_code, each.error_message)
            self._handle_outcome(tp, sent.pop(tp, None), error, (sent_ms, now_ms))
            if error is not None and reaction_to(FETCH, error) is Reaction.REFRESH:
                self._follow_leader(session, tp, each, message.node_endpoints)
        self._note_all(sent, IncompleteResponseError("the broker did not say what became of them"))

    def _name(self, topic_id: UUID, number: int) -> TopicPartition | None:
        name = self._context.metadata.snapshot.topic_names.get(topic_id)
        return None if name is None else TopicPartition(name, number)

    def _handle_outcome(
        self,
        tp: TopicPartition,
        acknowledged: Acknowledged | None,
        error: KafkaError | None,
        times: tuple[int, int],
    ) -> None:
        if acknowledged is None:
            return
        if acknowledged.renewed:
            if error is None:
                sent_ms, now_ms = times
                lock_times = sent_ms + self._lock_ms, now_ms + self._lock_ms
                for run, first, last in acknowledged.renewed:
                    if run in acknowledged.whole:
                        run.sure_until_ms, run.ends_ms = lock_times
                    else:
                        run.renewed.update(dict.fromkeys(range(first, last + 1), lock_times))
                return
            log.warning(
                "locks of %s-%d were not renewed, so their records may be delivered again: %s",
                tp.topic,
                tp.partition,
                error,
            )
        elif acknowledged.of_application:
            if error is not None and reaction_to(FETCH, error) is Reaction.REFRESH:
                error = RecordLockLostError(f"the leader of the partition has moved: {error}")
            self._note(tp, error)

    # --- errors --------------------------------------------------------------------------------

    def _handle_partition_error(
        self, session: ShareSession, tp: TopicPartition, fetched: Any, endpoints: Any
    ) -> None:
        error = _error(fetched.error_code, fetched.error_message)
        reaction = reaction_to(FETCH, error)
        log.debug("acquiring records of %s-%d: %s", tp.topic, tp.partition, error)
        session.empty_until_ms = self._context.clock.now_ms() + self._context.retry_pause_ms
        if reaction is Reaction.REFRESH:
            self._follow_leader(session, tp, fetched, endpoints)
        elif isinstance(error, TopicAuthorizationFailedError):
            self._context.raise_in_poll(TopicsDeniedError({tp.topic}))
        elif reaction is not Reaction.RETRY:
            self._context.raise_in_poll(error)

    def _follow_leader(
        self, session: ShareSession, tp: TopicPartition, answered: Any, endpoints: Any
    ) -> None:
        """Note that another broker leads a partition, and offers its records again."""
        lost = session.lose(tp)
        if lost is not None and lost.of_application:
            self._note(tp, _LOST)
        leader = answered.current_leader
        nodes = [advertised(each.node_id, each.host, each.port, each.rack) for each in endpoints]
        hint = (leader.leader_id, leader.leader_epoch)
        if hint[0] < 0 or not self._context.metadata.update_leader(tp, hint, nodes):
            self._metadata.request_update()

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

    def _end(self, session: ShareSession, error: KafkaError) -> None:
        self._note_all(session.take_sent(), error)
        self._note_all(session.end(), _LOST)
        self._settle_commits()


_LOST: Final = RecordLockLostError(
    "the lock had ended before: the connection to the broker was lost, or the leader has moved"
)


_LATE: Final = RecordLockLostError("the lock ended before the acknowledgement could be sent")


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
