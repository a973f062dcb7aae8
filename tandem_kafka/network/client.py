"""Sends the requests of the managers: queues, choice of a node, and deadlines.

An iteration of the network loop is `complete(transport.poll(prepare(now)), now)`. Nothing here
blocks. Futures are only completed at the end of `prepare` and `complete`, so callbacks that add
requests or disconnect never interrupt the client in an inconsistent state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from tandem_kafka.config import Config
from tandem_kafka.errors import KafkaConnectionError, KafkaTimeoutError
from tandem_kafka.events.completable import NO_DEADLINE_MS
from tandem_kafka.logs import client_logger
from tandem_kafka.metrics import ConsumerMetrics
from tandem_kafka.network.any_node import AnyNodeRequests
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.connection import Delivery
from tandem_kafka.network.link import ConnectionKey, Link, LinkLoss
from tandem_kafka.network.pool import ConnectionPool, NetworkCounters
from tandem_kafka.network.request import AnyNode, ToNode, UnsentRequest
from tandem_kafka.network.transport import Transport, TransportEvent
from tandem_kafka.network.troubles import OVERDUE_MS, Trouble, troubles
from tandem_kafka.runtime import Driver, Random
from tandem_kafka.runtime.tuples import replaced
from tandem_kafka.state.metadata import ClusterMetadata
from tandem_kafka.types import Node
from tandem_kafka.wire.versions import release_of

log = client_logger(__name__)


class NetworkClient:
    """Sends requests to brokers and completes their futures. Network thread only."""

    def __init__(
        self,
        settings: Config,
        transport: Transport,
        driver: Driver,
        random: Random,
        nodes: ClusterMetadata,
        metrics: ConsumerMetrics | None = None,
    ) -> None:
        self._settings = settings
        self._transport = transport
        self._nodes = nodes
        self._pool = ConnectionPool(
            settings, transport, driver, random, self._fail_waiting, metrics
        )
        #: Learns of each end of a connection. Writer: the assembly.
        self.lost: Callable[[ConnectionKey], None] = lambda _: None
        #: Requests that are done, until `_deliver` completes their futures.
        self._outcomes = self._pool.outcomes
        self._ended = self._pool.ended
        self._queues: dict[ConnectionKey, deque[UnsentRequest]] = {}
        self._any_node = AnyNodeRequests(settings, self._pool, random, nodes.rebootstrap)
        self._known_by_id: dict[int, Node] = {}
        self._destinations: dict[int, Node] = {}
        #: The earliest deadline of the queued requests.
        self._expires_ms = NO_DEADLINE_MS
        #: Whether there may be connections to servers that are no longer used.
        self._has_unused = False

    @property
    def counters(self) -> NetworkCounters:
        """The totals since the start."""
        return self._pool.counters

    def release(self) -> tuple[int, ...] | None:
        """Return the Kafka release of the brokers, or None before the first contact.

        Any thread may call this.
        """
        versions = self._pool.versions
        return release_of(versions) if versions is not None else None

    def offers(self, api_key: int) -> bool:
        """Tell whether the last connected broker offers an API."""
        versions = self._pool.versions
        return versions is not None and api_key in versions.api_versions

    def troubles(self, now_ms: int, overdue_ms: int = OVERDUE_MS) -> list[Trouble]:
        """Say what is wrong with brokers; any thread may call this."""
        states, links = tuple(self._pool.states.values()), (*self._pool.links(),)
        known = {node.node_id for node in self._any_node.known}
        found = troubles(states, links, known, now_ms, overdue_ms)
        return [replaced(each, text=self._pool.secrets.line(each.text)) for each in found]

    # Calls of the loop.

    def add(self, request: UnsentRequest) -> None:
        """Queue a request; the next `prepare` sends it or opens its connection."""
        destination = request.destination
        self._expires_ms = min(self._expires_ms, request.deadline_ms)
        if isinstance(destination, AnyNode):
            self._any_node.queue.append(request)
        else:
            node = destination.node
            self._destinations[node.node_id] = node
            key = (node.node_id, destination.purpose)
            self._queues.setdefault(key, deque()).append(request)

    def prepare(self, now_ms: int) -> int:
        """Send requests, fail overdue ones, and return how long `poll` may wait, in ms.

        0 means that futures were completed, or that other nodes are known or can be used, so the
        managers must be polled again before the thread sleeps.
        """
        self._update_nodes()
        self._pool.maintain(now_ms)
        news = self._note_unreachable()
        if self._queues or self._any_node or self._has_unused or self._outcomes or self._ended:
            self._expire(now_ms)
            self._send_to_nodes(now_ms)
            changed = self._any_node.send(now_ms)
            if self._has_unused and not self._any_node.queue:
                self._has_unused = self._pool.close_unused(self._known_by_id)
            news |= self._deliver() or changed
        if news:
            return 0
        return max(1, min(self._next_action_ms(now_ms) - now_ms, FOREVER_MS))

    def _note_unreachable(self) -> bool:
        """Tell the managers which brokers cannot be used; return whether that has changed.

        Nothing else may wake them: if the only broker that is read from falls silent, the managers
        wait for its response, and none of them asks for a new leader.
        """
        found = {node_id for node_id, state in self._pool.states.items() if state.unreachable}
        if found == self._nodes.unreachable:
            return False
        self._nodes.unreachable = found
        return True

    def complete(self, events: Iterable[TransportEvent], now_ms: int) -> bool:
        """Process the events of `poll` and complete the futures of their requests.

        Returns:
            Whether a manager was notified of anything; events of the connections themselves do
            not concern the managers.
        """
        handled = False
        for event in events:
            handled |= self._pool.handle(event, now_ms)
        return self._deliver() or handled

    def close(self) -> None:
        """Fail all requests and close all connections."""
        error = KafkaConnectionError("the consumer is closing")
        for node_id in {link.key[0] for link in self._pool.links()}:
            self._pool.disconnect(node_id, "the consumer is closing")
        for queue in (*self._queues.values(), self._any_node.queue):
            self._fail_queue(queue, error)
        self._transport.close()
        self._deliver()

    # Calls of others.

    @property
    def queued(self) -> int:
        """The number of requests that have not been sent."""
        return len(self._any_node.queue) + sum(map(len, tuple(self._queues.values())))

    @property
    def in_flight(self) -> int:
        """The number of requests in flight, on all connections."""
        return sum(link.connection.in_flight for link in (*self._pool.links(),))

    def disconnect(self, node_id: int) -> None:
        """Close the connections to a broker; its requests fail in the next iteration."""
        self._pool.disconnect(node_id, "on request")

    def backoff_until_ms(self, node: Node) -> int:
        """Return when the next attempt to connect to a node is allowed."""
        return self._pool.state(self._current(node)).retry_at_ms

    def connection_error(self, node: Node) -> Exception | None:
        """Return the error of the last attempt to use a node, or None after success."""
        return self._pool.state(self._current(node)).last_error

    # Nodes.

    def _update_nodes(self) -> None:
        known = self._nodes.nodes()
        for node_id in self._nodes.take_retry_nodes():
            self._pool.allow_retry(node_id)
        if known is self._any_node.known or known == self._any_node.known:
            return
        self._any_node.update(known)
        self._has_unused = True
        self._known_by_id = {node.node_id: node for node in known}
        for node in known:
            self._pool.move(node)

    def _current(self, node: Node) -> Node:
        """Return a node with its current address, which may be newer than that of a request."""
        return self._known_by_id.get(node.node_id, node)

    # Sending.

    def _send_to_nodes(self, now_ms: int) -> None:
        for key, queue in list(self._queues.items()):
            link = self._pool.link(key)
            if link is not None:
                self._send_from(queue, link, now_ms)
            elif queue:
                self._open(key, now_ms)
            if not queue:
                self._queues.pop(key, None)

    def _open(self, key: ConnectionKey, now_ms: int) -> None:
        node_id, purpose = key
        node = self._current(self._destinations[node_id])
        if not self._pool.state(node).in_backoff(now_ms):
            self._pool.open(node, purpose, now_ms)

    def _send_from(self, queue: deque[UnsentRequest], link: Link, now_ms: int) -> None:
        limit = self._settings.max_in_flight_requests_per_connection
        while queue and link.can_send(now_ms, limit):
            request = queue.popleft()
            if not request.future.done:
                self._pool.send(link, request, now_ms)

    # Failing.

    def _fail_waiting(self, loss: LinkLoss) -> None:
        """Fail the requests that waited for a connection."""
        for key in list(self._queues):
            if key == loss.key or (loss.final and key[0] == loss.key[0]):
                self._fail_queue(self._queues.pop(key), loss.error)
        if loss.final and loss.for_any:
            self._fail_queue(self._any_node.queue, loss.error)

    def _fail_queue(self, queue: deque[UnsentRequest], error: Exception) -> None:
        self._outcomes += [Delivery(request, error) for request in queue]
        queue.clear()

    def _expire(self, now_ms: int) -> None:
        if now_ms < self._expires_ms:
            return
        self._expires_ms = NO_DEADLINE_MS
        for queue in (*self._queues.values(), self._any_node.queue):
            waiting = [request for request in queue if now_ms < request.deadline_ms]
            self._outcomes += [
                Delivery(request, self._timeout_error(request))
                for request in queue
                if now_ms >= request.deadline_ms
            ]
            queue.clear()
            queue.extend(waiting)
            deadlines = [request.deadline_ms for request in waiting]
            self._expires_ms = min([self._expires_ms, *deadlines])

    def _timeout_error(self, request: UnsentRequest) -> Exception:
        destination = request.destination
        if isinstance(destination, ToNode):
            where, nodes = str(destination.node), [destination.node]
        else:
            where, nodes = "any broker", list(self._any_node.known)
        errors = [error for error in map(self.connection_error, nodes) if error is not None]
        reason = f" (last failure: {errors[0]})" if errors else ""
        late: Exception = KafkaTimeoutError(
            f"{request.message.name} could not be sent to {where} before its deadline{reason}"
        )
        return late

    def _deliver(self) -> bool:
        """Complete the futures, and tell of ended connections; return whether any was completed."""
        some = False
        while self._outcomes or self._ended:
            outcomes, ended = self._outcomes.copy(), self._ended.copy()
            self._outcomes.clear()
            self._ended.clear()
            for outcome in outcomes:
                some = some or not outcome.request.future.done
                outcome.deliver()
            # Invariant: behind the responses that came before the end of their connection.
            for key in ended:
                self.lost(key)
        return some

    # Waiting.

    def _next_action_ms(self, now_ms: int) -> int:
        next_action_ms = self._pool.next_action_ms(now_ms)
        if not self._queues and not self._any_node:
            return next_action_ms
        moments = [next_action_ms]
        for key, queue in self._queues.items():
            moments += [request.deadline_ms for request in queue]
            if queue:
                moments.append(self._sendable_ms(key, now_ms))
        moments.append(self._any_node.next_ms(now_ms))
        return min(moments)

    def _sendable_ms(self, key: ConnectionKey, now_ms: int) -> int:
        """Return when a queue may continue without any other event."""
        link = self._pool.link(key)
        if link is not None:
            moment = link.connection.throttled_until_ms
        else:
            moment = self.backoff_until_ms(self._destinations[key[0]])
        # A connection that is full or being set up waits for a response, not for a time.
        return moment if moment > now_ms else NO_DEADLINE_MS
