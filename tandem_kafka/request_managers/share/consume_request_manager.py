"""Sends the requests of a share group: acquires records, and acknowledges and renews their locks.

Each broker that leads a partition of the member has one session with one request in flight. A fetch
takes the acknowledgements along. Without a reason to fetch, they go alone.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, Final

from tandem_kafka.errors import (
    KafkaConnectionError,
    KafkaError,
    ShareSessionNotFoundError,
    UnsupportedVersionError,
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
from tandem_kafka.request_managers.share.fetch_limits import FetchLimits
from tandem_kafka.request_managers.share.lock_keeper import LockKeeper
from tandem_kafka.request_managers.share.membership import ShareMembership
from tandem_kafka.request_managers.share.outcomes import LATE, LOST, ByPartition, Outcomes
from tandem_kafka.request_managers.share.response_handler import (
    ResponseHandler,
    SessionLimitReachedError,
)
from tandem_kafka.request_managers.share.session import (
    ShareSession,
)
from tandem_kafka.state.locked_records import GATHERED_MS, LockedRecords
from tandem_kafka.state.locks import (
    Place,
)

log = client_logger(__name__)

#: A broker whose response is so late is not waited for before others are asked in turn.
_TURN_MS: Final = 1_000


class ShareConsumeRequestManager(RequestManager):
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
        self._outcomes = outcomes = Outcomes(context.metrics, records)
        self._limits = limits = FetchLimits(context.config, records)
        self._keeper = keeper = LockKeeper(context, records, self._sessions, outcomes, limits)
        self._handler = ResponseHandler(context, metadata, records, keeper, outcomes, limits)
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
        #: Brokers of which it was said that they have no room for a session.
        self._full: set[int] = set()
        #: When a broker that was asked in turn, and does not answer, no longer delays the next.
        self._turn_ends_ms = 0

    # --- calls ---------------------------------------------------------------------------------

    def commit(self, future: Completion[ByPartition], *, closing: bool) -> None:
        """Complete a future once all acknowledgements so far are answered."""
        self._keeper.take_acknowledgements()
        self._outcomes.commit(future)
        if closing:
            self._keeper.closing = True
            self._keeper.release_unwanted()
        self._settle_commits()

    def release_unwanted(self) -> None:
        """Release what the application is not given."""
        self._keeper.release_unwanted()

    # --- requests ------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> PollResult:
        """Send what is due to each broker."""
        self._keeper.release_unwanted()
        # Invariant: before locks are forgotten. What is acknowledged is not lost with them.
        self._keeper.take_acknowledgements()
        self._outcomes.ended(self._records.forget_ended(now_ms))
        wait_ms = min(self._keeper.renew(now_ms), self._keeper.outdated_in_ms(now_ms))
        unsent = []
        wanted = {} if self._keeper.closing else self._wanted_by_node(now_ms)
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
        if self._records.assigned != (places := tuple(assigned)):
            self._records.assigned = places
            self._context.metrics.follow_topics({tp.topic for tp in places})
        found: dict[int, set[Place]] = {}
        complete = True
        for tp, topic_id in assigned.items():
            info = snapshot.partition(tp)
            if not self._keeper.is_subscribed(tp):
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
        self._outcomes.dropped(session.drop_ended(now_ms), LATE)
        if session.renewals.by_partition and session.is_open and not self._keeper.closing:
            renewal = self._renewal(session)
            if renewal is not None:
                return renewal, FOREVER_MS
        if fetch:
            # With one fetch at a time, another broker is the next.
            node_id = session.node.node_id
            self._sessions[node_id] = self._sessions.pop(node_id)
            return self._fetch(session, wanted, limit), FOREVER_MS
        closing = self._keeper.closing
        if not (session.waiting.by_partition or (closing and session.is_open)):
            return None, pause_ms
        # A fast loop would otherwise have a request for each few records.
        gathers_ms = session.acknowledged_ms + GATHERED_MS - now_ms
        if gathers_ms > 0 and not (closing or self._outcomes.are_awaited):
            return None, min(pause_ms, gathers_ms)
        return self._acknowledge(session, closing=closing), FOREVER_MS

    def _fetch(
        self, session: ShareSession, wanted: AbstractSet[Place], limit: int
    ) -> UnsentRequest:
        held_ms = self._limits.held_ms(session)
        sent_ms = self._context.clock.now_ms()
        self._turn_ends_ms = sent_ms + held_ms + _TURN_MS

        def failed(error: Exception) -> None:
            session.failed = error, self._context.clock.now_ms()
            self._handle_error(session, error)

        return self._request(
            session,
            session.fetch(self._identity, wanted, self._limits.fields(limit, held_ms)),
            lambda response: self._handler.handle_fetch(session, response, sent_ms, held_ms),
            failed=failed,
            held_ms=held_ms,
        )

    def _acknowledge(self, session: ShareSession, *, closing: bool = False) -> UnsentRequest:
        message = session.acknowledgement(self._identity, closing=closing)
        session.acknowledged_ms = sent_ms = self._context.clock.now_ms()

        def handle(response: ClientResponse) -> None:
            self._handler.handle_acknowledge(session, response, sent_ms)
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
                self._keeper.note_unsupported(session, error)
            else:
                self._handle_error(session, error)

        return self._request(
            session,
            message,
            lambda response: self._handler.handle_acknowledge(session, response, sent_ms),
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

    def _settle_commits(self) -> None:
        sessions = self._sessions.values()
        if self._keeper.closing and any(each.is_open or each.state.in_flight for each in sessions):
            return
        numbers = [each.oldest for each in sessions if each.oldest is not None]
        self._outcomes.settle(min(numbers, default=None))

    # --- errors --------------------------------------------------------------------------------

    def _handle_error(self, session: ShareSession, error: Exception) -> None:
        """End a session whose request failed: it may or may not have been processed."""
        node_id = session.node.node_id
        log.debug("share session with broker %d ended: %s", node_id, error)
        if isinstance(error, SessionLimitReachedError) and node_id not in self._full:
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
