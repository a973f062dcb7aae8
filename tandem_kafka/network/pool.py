"""The connections of a consumer: opens them on demand, and closes idle and overdue ones.

There is one connection per broker and purpose. Unsent requests belong to the client, which uses
`link` and `open` and learns of lost connections from `on_loss`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from tandem_kafka.config import Config
from tandem_kafka.dataclass import dataclass
from tandem_kafka.errors import IllegalStateError, KafkaConnectionError, KafkaError
from tandem_kafka.events.completable import NO_DEADLINE_MS
from tandem_kafka.logs import client_logger, sent_secrets
from tandem_kafka.metrics import ConsumerMetrics, Traffic
from tandem_kafka.network.connection import (
    BrokerConnection,
    ConnectionState,
    Delivery,
    as_connection_error,
    closed_at_first_request,
    closed_while_negotiating,
    with_certificate_hint,
)
from tandem_kafka.network.keepalive import KeepAlives
from tandem_kafka.network.link import ConnectionKey, Link, LinkLoss
from tandem_kafka.network.logins import Logins
from tandem_kafka.network.node_state import NodeState
from tandem_kafka.network.offloading import Offloading
from tandem_kafka.network.outages import Outages
from tandem_kafka.network.repeated_fetches import RepeatedFetches
from tandem_kafka.network.request import ClientResponse, Purpose, UnsentRequest
from tandem_kafka.network.resolver import CANONICAL, Resolver, proxy_of
from tandem_kafka.network.silence import SilenceWatch
from tandem_kafka.network.transport import (
    ConnectionClosed,
    ConnectionOpened,
    FetchRepeated,
    FrameReceived,
    KeepAliveResponse,
    ServerAddress,
    Transport,
    TransportEvent,
)
from tandem_kafka.runtime import Driver, Random
from tandem_kafka.types import Node
from tandem_kafka.wire.versions import versions_of_release

if TYPE_CHECKING:
    from tandem_kafka.network.authentication import SaslExchange


log = client_logger(__name__)


@dataclass()
class NetworkCounters:
    """Totals since the start. Writer: the network thread."""

    connections_opened: int = 0
    connections_closed: int = 0
    connections_failed: int = 0
    requests_sent: int = 0
    responses_received: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class ConnectionPool:
    """All connections, and the state of all brokers.

    Args:
        settings: The network options.
        transport: Sends and receives the frames.
        driver: Runs what may block, for example the lookup of a host name.
        random: Random numbers.
        on_loss: Called with each connection that has ended unplanned.
        metrics: The metrics of the consumer.

    Attributes:
        counters: Totals since the start.
        secrets: What brokers are sent.
        outcomes: Requests that are done, until the client completes their futures.
        ended: Connections that have ended, until the client tells of them.
    """

    def __init__(
        self,
        settings: Config,
        transport: Transport,
        driver: Driver,
        random: Random,
        on_loss: Callable[[LinkLoss], None],
        metrics: ConsumerMetrics | None = None,
    ) -> None:
        self.secrets = sent_secrets()
        self._settings = settings
        self._meter = NetworkMeter(metrics)
        self._transport = transport
        self._keep_alives = KeepAlives(transport)
        self._standing = RepeatedFetches(transport, self.state)
        self._silence = SilenceWatch(self, transport)
        self._random = random
        self._offloading = Offloading(driver, transport.wakeup)
        self._logins = Logins(settings, self._offloading, self.secrets)
        self._resolver = Resolver(self._offloading, proxy_of(settings.proxy_url))
        self._limits = versions_of_release(settings.api_version)
        #: The API versions of the last connected broker; replaced as a whole, never modified.
        self.versions = self._limits
        self._links: dict[ConnectionKey, Link] = {}
        self._by_number: dict[int, Link] = {}
        self._states: dict[int, NodeState] = {}
        self._outages = Outages()
        self.outcomes: list[Delivery] = []
        self.ended: list[ConnectionKey] = []
        self._on_loss = on_loss
        self._now_ms = 0
        #: When `maintain` must act next; 0 if it must be computed again after a change.
        self._next_action_ms = 0
        #: The last computed value, reduced if a session ends earlier. Other changes can wait until
        #: the value is computed again at the end of the iteration.
        self._computed_ms = 0
        self.counters = NetworkCounters()

    # Calls of the client.

    def link(self, key: ConnectionKey) -> Link | None:
        """Return a connection in any state, or None."""
        return self._links.get(key)

    def links(self) -> Iterable[Link]:
        """Return all connections."""
        return self._links.values()

    def state(self, node: Node) -> NodeState:
        """Return the state of a broker."""
        state = self._states.get(node.node_id)
        if state is None:
            state = NodeState(node, self._settings, self._random, self._outages)
            self._states[node.node_id] = state
        return state

    def mark_silent(self, node_id: int) -> None:
        """Record that a broker has not responded in time."""
        state = self._states.get(node_id)
        if state is not None:
            state.silent = True

    @property
    def states(self) -> Mapping[int, NodeState]:
        """The states of all brokers that were ever used, by node id."""
        return self._states

    def allow_retry(self, node_id: int) -> None:
        """End the backoff of a broker, because a response names it."""
        state = self._states.get(node_id)
        if state is not None:
            state.allow_retry()

    # Opening.

    def open(self, node: Node, purpose: Purpose, now_ms: int, *, for_any: bool = False) -> None:
        """Start to connect; the caller must check that there is no such connection."""
        self._now_ms = now_ms
        self.move(node)
        timeout_ms = self.state(node).setup_timeout_ms(purpose)
        key = (node.node_id, purpose)
        link = Link(
            key=key,
            node=node,
            connection=self._connection(key, node),
            meter=self._meter.of(*key),
            setup_deadline_ms=now_ms + timeout_ms,
            setup_timeout_ms=timeout_ms,
            used_ms=now_ms,
            for_any=for_any,
        )
        self._links[key] = link
        self._next_action_ms = 0
        self._next_address(link)

    def _connection(self, key: ConnectionKey, node: Node) -> BrokerConnection:
        exchange = partial(self._exchange, key) if self._logins.required else None
        write = partial(self._write, key)
        return BrokerConnection(
            node, self._settings.client_id, write, self._limits, exchange, self.secrets
        )

    def _exchange(self, key: ConnectionKey) -> SaslExchange:
        return self._logins.exchange(self._links[key].host)

    def _next_address(self, link: Link) -> None:
        untried = self.state(link.node).untried(link.key[1])
        if untried:
            self._connect(link, untried.popleft())
            return
        canonical = link.node.node_id < 0 and self._settings.client_dns_lookup == CANONICAL
        host, port = link.node.host, link.node.port
        self._resolver.resolve(host, port, partial(self._resolved, link), canonical=canonical)

    def _resolved(self, link: Link, result: list[ServerAddress] | Exception) -> None:
        if link.closed:
            return
        if isinstance(result, Exception):
            self._fail(link, result)
            return
        untried = self.state(link.node).untried(link.key[1])
        untried.clear()
        untried.extend(result)
        self._connect(link, untried.popleft())

    def _connect(self, link: Link, address: ServerAddress) -> None:
        link.host = address.host
        link.number = self._transport.connect(address)
        self._by_number[link.number] = link

    # Events of the transport.

    def handle(self, event: TransportEvent, now_ms: int) -> bool:
        """Process one event; return whether a manager was notified without an outcome."""
        link = self._by_number.get(event.connection)
        if link is None:
            return False  # this client has closed it in the meantime
        self._now_ms = now_ms
        self._next_action_ms = 0
        self._computed_ms = min(self._computed_ms, link.reauthenticate_at_ms)
        self._standing.refresh(link, now_ms)
        link.used_ms = now_ms
        if isinstance(event, ConnectionClosed):
            self._handle_closed(link, event.error)
        elif isinstance(event, FetchRepeated):
            link.connection.log_repeated(event.latency_ms)
        elif isinstance(event, KeepAliveResponse):
            self._handle_keep_alive(link, event.frame)
            return True
        else:
            self._handle_progress(link, event)
        return False

    def _handle_keep_alive(self, link: Link, frame: memoryview) -> None:
        try:
            self._keep_alives.handle_response(link, frame)
        except KafkaError as error:
            # No request in flight has caused this error; they get a retriable one.
            self._fail(link, as_connection_error(error, link.node))

    def _handle_progress(self, link: Link, event: ConnectionOpened | FrameReceived) -> None:
        try:
            if isinstance(event, ConnectionOpened):
                self.counters.connections_opened += 1
                self._meter.opened()
                link.opened = True
                link.connection.opened(self._now_ms)
            else:
                size = len(event.frame) + event.separate_bytes + 4
                self.counters.bytes_in += size
                link.meter.received(size)
                delivery = link.connection.receive(event.frame, self._now_ms)
                if delivery is not None:
                    self._handle_response(link, delivery)
                    return
        except KafkaError as error:
            self._fail(link, error)
        else:
            self._continue_setup(link)

    def _continue_setup(self, link: Link) -> None:
        """Detect when the setup is complete."""
        if not link.ready or link.set_up:
            return
        link.set_up = True
        self.versions = link.connection.versions
        if link.key[1] is Purpose.PROBE:
            self._remove(link)
            self._silence.broker_responded(link.key[0])
            return
        lifetime_ms = link.connection.session_lifetime_ms
        if lifetime_ms:
            share = self._random.uniform(0.85, 0.95)
            link.reauthenticate_at_ms = self._now_ms + int(lifetime_ms * share)

    def _handle_response(self, link: Link, delivery: Delivery) -> None:
        self.counters.responses_received += 1
        self.outcomes.append(delivery)
        link.suspected = link.watched = False
        if isinstance(delivery.outcome, ClientResponse):
            throttle_ms = getattr(delivery.outcome.message, "throttle_time_ms", 0)
            link.meter.responded(delivery.outcome.latency_ms, throttle_ms)
            latency_ms, held_ms = delivery.outcome.latency_ms, delivery.request.held_ms
            self.state(link.node).responded(link.key[1], latency_ms, held_ms, self._now_ms)
        if not link.responded:
            # Not earlier: a SASL listener responds to ApiVersions, but closes the connection later.
            link.responded = True
            self.state(link.node).succeeded(link.key[1])

    def _handle_closed(self, link: Link, error: Exception) -> None:
        if not isinstance(error, KafkaConnectionError):
            self._fail(link, with_certificate_hint(error, self._settings))
            return
        state = link.connection.state
        if state is ConnectionState.CONNECTING and self.state(link.node).untried(link.key[1]):
            self._forget_number(link)
            self._next_address(link)  # within the same deadline
            return
        if state is ConnectionState.NEGOTIATING:
            error = closed_while_negotiating(link.node, error)
        elif state is ConnectionState.READY and not link.responded:
            error = closed_at_first_request(link.node, error)
        self._fail(link, error)

    # Sending.

    def send(self, link: Link, request: UnsentRequest, now_ms: int) -> None:
        """Send a request on a connection; a failure becomes its outcome."""
        self._next_action_ms = 0
        try:
            link.connection.send(request, now_ms)
        except KafkaError as error:
            self.outcomes.append(Delivery(request, error))
            return
        link.used_ms = now_ms
        self.counters.requests_sent += 1
        self._keep_alives.arm(link, request.keep_alive, now_ms)
        self._standing.start(link, request, now_ms)

    def _write(self, key: ConnectionKey, frame: bytes) -> None:
        link = self._links[key]
        if link.number is None:
            raise IllegalStateError(f"{link.node}: the connection is not open")
        self.counters.bytes_out += len(frame)
        link.meter.sent(len(frame))
        self._transport.send(link.number, frame)

    # Time.

    def maintain(self, now_ms: int) -> None:
        """Process offloaded results; close connections that are overdue, idle or expired."""
        self._now_ms = now_ms
        if self._offloading.deliver():
            self._next_action_ms = 0
            for link in list(self._links.values()):
                if link.connection.state is ConnectionState.AUTHENTICATING:
                    self._advance(link)
        if now_ms < self._computed_ms:
            return
        self._next_action_ms = 0
        for link in list(self._links.values()):
            self._check(link, now_ms)

    def _advance(self, link: Link) -> None:
        try:
            link.connection.advance(self._now_ms)
        except KafkaError as error:
            self._fail(link, error)
        else:
            self._continue_setup(link)

    def _next_action_of(self, link: Link, now_ms: int) -> int:
        idle_ms = self._settings.connections_max_idle_ms
        node_id, purpose = link.key
        return link.next_action_ms(now_ms, idle_ms, self._states[node_id].silence_limit_ms(purpose))

    def _check(self, link: Link, now_ms: int) -> None:
        self._standing.refresh(link, now_ms)
        if link.closed or now_ms < self._next_action_of(link, now_ms):
            return
        if not link.ready:
            self._fail(
                link,
                KafkaConnectionError(
                    f"the connection to {link.node} was not ready within "
                    f"{link.setup_timeout_ms} ms ({link.phase})"
                ),
            )
        elif link.connection.in_flight and link.connection.overdue(now_ms):
            self.state(link.node).silent = True
            self._fail(link, KafkaConnectionError(f"{link.node} did not respond in time"))
        elif link.connection.in_flight:
            self._silence.check(link, now_ms)
        else:
            log.debug("closing an idle or expired connection to %s", link.node)
            self._remove(link)

    def next_action_ms(self, now_ms: int) -> int:
        """Return when `maintain` must act next, if nothing is received."""
        if not self._next_action_ms:
            moments = [self._next_action_of(link, now_ms) for link in self._links.values()]
            self._next_action_ms = self._computed_ms = min(moments, default=NO_DEADLINE_MS)
        return self._next_action_ms

    # Closing.

    def move(self, node: Node) -> None:
        """Set the address of a broker; if it has changed, close the old connections."""
        state = self._states.get(node.node_id)
        if state is None or state.is_at(node):
            return
        self.disconnect(node.node_id, f"it moved to {node.host}:{node.port}")
        state.move(node)

    def close_unused(self, keep: Container[int]) -> bool:
        """Close connections to unused bootstrap servers; return whether busy ones remain."""
        unused = {key: link for key, link in self._links.items() if key[0] < 0}
        unused = {key: link for key, link in unused.items() if key[0] not in keep}
        busy = [link for link in unused.values() if link.ready and link.connection.in_flight]
        for link in unused.values():
            if link not in busy:  # no request waits for one that is being set up
                self._remove(link)
        return bool(busy)

    def disconnect(self, node_id: int, reason: str) -> None:
        """Close all connections to a broker."""
        for link in [link for link in self._links.values() if link.key[0] == node_id]:
            self.end(link, KafkaConnectionError(f"disconnected from {link.node}: {reason}"))

    def end(self, link: Link, error: KafkaConnectionError) -> None:
        """Close a connection that did not fail; its requests fail with the error."""
        self._remove(link)
        self._on_loss(LinkLoss(link.key, error, final=False, for_any=False))
        self.outcomes += link.connection.close(error, self._now_ms)

    def _fail(self, link: Link, error: Exception) -> None:
        was_ready = link.ready
        self._remove(link)
        self.counters.connections_failed += 1
        state = self.state(link.node)
        if link.responded:
            state.lost(error, self._now_ms)
        else:
            state.failed(error, self._now_ms)
        final = not was_ready and not isinstance(error, KafkaConnectionError)
        reported = error if final else as_connection_error(error, link.node)
        self._on_loss(LinkLoss(link.key, reported, final, link.for_any))
        self.outcomes += link.connection.close(error, self._now_ms)
        if link.key[1] is Purpose.PROBE:
            self._silence.probe_failed(link.key[0], error)

    def _remove(self, link: Link) -> None:
        link.closed = True
        self._next_action_ms = 0
        self._links.pop(link.key, None)
        self.ended.append(link.key)
        self._forget_number(link)

    def _forget_number(self, link: Link) -> None:
        if link.number is not None:
            self._by_number.pop(link.number, None)
            self._transport.disconnect(link.number)
            if link.opened:
                self.counters.connections_closed += 1
                self._meter.closed()
            link.number, link.opened = None, False


class NetworkMeter:
    """Returns the recorders of brokers' connections. Network thread only.

    Args:
        metrics: The metrics of the consumer; without them nothing is recorded.
    """

    def __init__(self, metrics: ConsumerMetrics | None = None) -> None:
        self._metrics = metrics if metrics is not None else ConsumerMetrics()
        self._nodes: dict[str, Traffic] = {}

    def of(self, node_id: int, purpose: Purpose) -> Traffic:
        """Return the recorder for a broker's connection."""
        name = _name(node_id, purpose)
        found = self._nodes.get(name)
        if found is None:
            found = self._nodes[name] = self._metrics.traffic(name)
        return found

    def opened(self) -> None:
        """Record that a connection was opened."""
        self._metrics.record("connections-created", 1)

    def closed(self) -> None:
        """Record that an open connection was closed."""
        self._metrics.record("connections-closed", 1)


def _name(node_id: int, purpose: Purpose) -> str:
    """Return the name of a broker as in kafka-python, with a separate one for the coordinator."""
    if node_id < 0:
        return f"bootstrap-{-1 - node_id}"
    return f"coordinator-{node_id}" if purpose is Purpose.GROUP else str(node_id)
