"""Sends requests that any broker can answer, and resends them to another one if necessary."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import Final

from tandem_kafka.config import Config
from tandem_kafka.dataclass import dataclass
from tandem_kafka.events.completable import NO_DEADLINE_MS
from tandem_kafka.logs import client_logger
from tandem_kafka.network.link import Link
from tandem_kafka.network.outages import Outage
from tandem_kafka.network.pool import ConnectionPool
from tandem_kafka.network.request import Purpose, UnsentRequest
from tandem_kafka.runtime import Random
from tandem_kafka.types import Node

log = client_logger(__name__)

#: After this time without a response or a connection, another broker is asked as well.
_RESEND_AFTER_MS: Final = 3_000


@dataclass()
class _InFlight:
    """A request in flight, its brokers, and when to send it to another one."""

    request: UnsentRequest
    node_ids: set[int]
    resend_ms: int


class AnyNodeRequests:
    """Sends each request to the least busy connected broker, or connects to one.

    A broker that has not responded to an earlier request is only used if there is no other.

    Args:
        settings: The network options.
        pool: The connections.
        random: Random numbers, to choose a broker.
        rebootstrap: Forgets the brokers, so that the bootstrap servers are used next.

    Attributes:
        queue: Requests that have not been sent.
    """

    def __init__(
        self,
        settings: Config,
        pool: ConnectionPool,
        random: Random,
        rebootstrap: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._pool = pool
        self._random = random
        self._rebootstrap = rebootstrap
        self.queue: deque[UnsentRequest] = deque()
        self._in_flight: list[_InFlight] = []
        self._known: Sequence[Node] = ()
        # Not repeated until a request could be sent.
        self._rebootstrapped = False
        #: The outage of all brokers: the bootstrap servers may name the same ones again and again.
        self._outage = Outage()

    def __bool__(self) -> bool:
        return bool(self.queue or self._in_flight)

    @property
    def known(self) -> Sequence[Node]:
        """The brokers to choose from."""
        return self._known

    def update(self, known: Sequence[Node]) -> None:
        """Choose from these brokers from now on."""
        self._known = known

    def send(self, now_ms: int) -> bool:
        """Send all requests that can be sent; return True if the brokers were forgotten instead."""
        while self.queue:
            if self.queue[0].future.done:
                self.queue.popleft()
                continue
            link = self._choose(now_ms)
            if link is None:
                if self._connect_to_node(now_ms):
                    return True
                break
            self._rebootstrapped = False
            if link.key[0] >= 0:
                self._outage.succeeded(now_ms)
            request = self.queue.popleft()
            self._pool.send(link, request, now_ms)
            resend_ms = now_ms + _RESEND_AFTER_MS
            self._in_flight.append(_InFlight(request, {link.key[0]}, resend_ms))
        if self._in_flight:
            self._resend(now_ms)
        return False

    def next_ms(self, now_ms: int) -> int:
        """Return when a request may be sent without any other event."""
        moments = [sent.resend_ms for sent in self._in_flight]
        if self.queue:
            moments += [request.deadline_ms for request in self.queue]
            moments.append(self._sendable_ms(now_ms))
        return min((moment for moment in moments if moment > now_ms), default=NO_DEADLINE_MS)

    # --- resending -----------------------------------------------------------------------------

    def _resend(self, now_ms: int) -> None:
        """Send overdue requests to one more broker; the first response counts."""
        self._in_flight = [sent for sent in self._in_flight if not sent.request.future.done]
        for sent in self._in_flight:
            if now_ms < sent.resend_ms:
                continue
            for node_id in sent.node_ids:
                self._pool.mark_silent(node_id)
            link = self._choose(now_ms, without=sent.node_ids)
            if link is not None:
                log.debug("%s is unanswered: asking %s too", sent.request.message.name, link.node)
                self._pool.send(link, sent.request, now_ms)
                sent.node_ids.add(link.key[0])
                sent.resend_ms = now_ms + _RESEND_AFTER_MS
            elif self._connect_to_node(now_ms, without=sent.node_ids):
                return
            else:
                sent.resend_ms = now_ms + _RESEND_AFTER_MS // 10

    # --- choosing a broker ---------------------------------------------------------------------

    def _choose(self, now_ms: int, without: Container[int] = ()) -> Link | None:
        """Return the least busy connection that is ready; prefer brokers that are not silent."""
        limit = self._settings.max_in_flight_requests_per_connection
        ready = [
            link
            for link in self._main_links()
            if link.key[0] not in without and link.can_send(now_ms, limit)
        ]
        responsive = [link for link in ready if not self._pool.state(link.node).silent]
        if not responsive and self._others_may_respond(now_ms, without):
            return None
        return min(responsive or ready, key=lambda link: link.connection.in_flight, default=None)

    def _others_may_respond(self, now_ms: int, without: Container[int]) -> bool:
        """Tell whether a broker that is not silent is connecting or can be connected to."""
        for node in self._known:
            state = self._pool.state(node)
            if node.node_id in without or state.silent:
                continue
            link = self._pool.link((node.node_id, Purpose.MAIN))
            if not state.in_backoff(now_ms) if link is None else not link.ready:
                return True
        return False

    def _main_links(self) -> list[Link]:
        links = (self._pool.link((node.node_id, Purpose.MAIN)) for node in self._known)
        return [link for link in links if link is not None]

    def _connect_to_node(self, now_ms: int, without: Container[int] = ()) -> bool:
        """Connect to a broker; return True if all brokers were forgotten instead."""
        links = [link for link in self._main_links() if link.key[0] not in without]
        connecting = [link for link in links if not link.ready and not _is_late(link, now_ms)]
        if connecting:
            connecting[0].for_any = True
            return False
        if not self._main_links() and self._all_failed():
            self._start_rebootstrap(now_ms)
            return True
        taken = {link.key[0] for link in links}
        candidates = [
            node
            for node in self._known
            if node.node_id not in taken
            and node.node_id not in without
            and not self._pool.state(node).in_backoff(now_ms)
        ]
        responsive = [node for node in candidates if not self._pool.state(node).silent]
        if candidates:
            node = self._random.choice(responsive or candidates)
            self._pool.open(node, Purpose.MAIN, now_ms, for_any=True)
        return False

    def _all_failed(self) -> bool:
        """Tell whether a rebootstrap is due, because connections to all known brokers failed."""
        if self._settings.metadata_recovery_strategy != "rebootstrap" or self._rebootstrapped:
            return False
        return bool(self._known) and all(
            node.node_id >= 0 and self._pool.state(node).failures > 0 for node in self._known
        )

    def _start_rebootstrap(self, now_ms: int) -> None:
        write = log.info if self._outage.failed(now_ms) else log.debug
        write(
            "none of the %d known brokers can be reached; rebootstrapping from bootstrap_servers",
            len(self._known),
        )
        self._rebootstrapped = True
        self._rebootstrap()

    def _sendable_ms(self, now_ms: int) -> int:
        links = self._main_links()
        connecting = [link for link in links if not link.ready and not _is_late(link, now_ms)]
        if connecting:  # until one opens, fails or is late
            return min(link.begun_ms for link in connecting) + _RESEND_AFTER_MS
        moments = [link.connection.throttled_until_ms for link in links]
        moments += [self._pool.state(node).retry_at_ms for node in self._known]
        return min((moment for moment in moments if moment > now_ms), default=NO_DEADLINE_MS)


def _is_late(link: Link, now_ms: int) -> bool:
    """Tell whether a connection takes so long that another broker may be faster."""
    return now_ms - link.begun_ms >= _RESEND_AFTER_MS
