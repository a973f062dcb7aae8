r"""The protocol on one connection to a broker, without sockets and without a clock.

Received frames are passed to `receive`, frames to send to `write`; the time is an argument. The
states:

    CONNECTING --opened--> NEGOTIATING --versions--> READY
                                      \--versions, SASL--> AUTHENTICATING --accepted--> READY
    any of them --lost--> CLOSED

An event that is not in the table below is a defect of this client or of the broker. A broker
responds to the requests of a connection in order, so each frame belongs to the oldest request in
flight. That request fails if the frame is invalid.
"""

from __future__ import annotations

import enum
import logging
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from kafka.errors import CorrelationIdError, RequestTimedOutError

from tandem_kafka.config import Config
from tandem_kafka.dataclass import dataclass, field
from tandem_kafka.errors import (
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    TlsAuthenticationError,
    for_code,
    reason_of,
)
from tandem_kafka.events.completable import NO_DEADLINE_MS
from tandem_kafka.foreign_text import Secret, SentSecrets
from tandem_kafka.logs import client_logger
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.request import ClientResponse, UnsentRequest
from tandem_kafka.network.response import parse_header, throttle_ms
from tandem_kafka.state.state_machine import StateMachine
from tandem_kafka.types import Node
from tandem_kafka.version import __version__
from tandem_kafka.wire.framing import decode_message, encode_nullable, frame_request, response_class
from tandem_kafka.wire.messages import ApiVersionsRequest
from tandem_kafka.wire.responses import clean_texts, reject_nulls
from tandem_kafka.wire.versions import BrokerVersionData, agreed_versions, choose_version, kind_of

if TYPE_CHECKING:
    from tandem_kafka.network.authentication import SaslExchange


log = client_logger(__name__)


def logs_requests() -> bool:
    """Tell whether each request is logged."""
    return log.isEnabledFor(logging.DEBUG)


_API_VERSIONS_KEY: Final = 18
_UNSUPPORTED_VERSION: Final = 35
#: Nearly three times the default measurement window of brokers (11 s). A longer delay is rare and
#: may be a corrupted number. If it is real, the broker itself reads nothing until then (KIP-219).
_LONGEST_DELAY_MS: Final = 30_000
_ASK_VERSIONS: Final = ApiVersionsRequest(
    client_software_name="tandem-kafka", client_software_version=__version__
)


class ConnectionState(enum.Enum):
    """The state of a connection."""

    CONNECTING = "connecting"
    NEGOTIATING = "requesting API versions"
    AUTHENTICATING = "authenticating"
    READY = "ready"
    CLOSED = "closed"


_S = ConnectionState
TRANSITIONS: Final = {
    _S.CONNECTING: {_S.NEGOTIATING, _S.CLOSED},
    _S.NEGOTIATING: {_S.AUTHENTICATING, _S.READY, _S.CLOSED},
    _S.AUTHENTICATING: {_S.READY, _S.CLOSED},
    _S.READY: {_S.CLOSED},
    _S.CLOSED: frozenset[ConnectionState](),
}


@dataclass(frozen=True)
class Delivery:
    """A request and its outcome."""

    request: UnsentRequest
    outcome: ClientResponse | Exception

    def deliver(self) -> None:
        """Complete the request's future."""
        if isinstance(self.outcome, Exception):
            self.request.future.fail(self.outcome)
        else:
            self.request.future.complete(self.outcome)


@dataclass()
class _InFlight:
    """A request in flight; `request` is None for requests of the connection itself."""

    correlation_id: int
    message: Any = field(repr=False)  # it may be a password or a token
    version: int
    sent_ms: int
    deadline_ms: int
    request: UnsentRequest | None


class BrokerConnection:
    """The protocol on one connection.

    Attributes:
        versions: The API versions of the broker, once known.
        throttled_until_ms: When requests may be sent again (KIP-219).
        ready_ms: When the connection became ready.
        last_response_ms: When the last response arrived.
    """

    def __init__(
        self,
        node: Node,
        client_id: str | None,
        write: Callable[[bytes], None],
        limits: BrokerVersionData | None = None,
        exchange: Callable[[], SaslExchange] | None = None,
        secrets: SentSecrets | None = None,
    ) -> None:
        self._secrets = SentSecrets() if secrets is None else secrets
        self.node = node
        self._machine = StateMachine(ConnectionState.CONNECTING, TRANSITIONS)
        self.versions: BrokerVersionData | None = None
        self.throttled_until_ms = 0
        self.ready_ms = 0
        self.last_response_ms = 0
        self._client_id = encode_nullable(client_id)
        self._write = write
        self._limits = limits
        self._make_exchange = exchange
        self._exchange: SaslExchange | None = None
        self._in_flight: deque[_InFlight] = deque()
        self._correlation_id = 0
        self._chosen_versions: dict[tuple[Any, ...], int] = {}

    def __repr__(self) -> str:
        """Show the broker, the state and the requests in flight."""
        return f"<BrokerConnection to {self.node}, {self.state.value}, {self.in_flight} in flight>"

    @property
    def state(self) -> ConnectionState:
        """The state of the connection."""
        return self._machine.state

    @property
    def in_flight(self) -> int:
        """The number of requests in flight."""
        return len(self._in_flight)

    @property
    def session_lifetime_ms(self) -> int:
        """How long the broker accepts the credentials, 0 for unlimited (KIP-368)."""
        return self._exchange.session_lifetime_ms if self._exchange is not None else 0

    def next_deadline_ms(self, default: int) -> int:
        """Return the earliest deadline of the requests in flight."""
        if len(self._in_flight) == 1:
            return self._in_flight[0].deadline_ms
        return min((sent.deadline_ms for sent in self._in_flight), default=default)

    @property
    def due_ms(self) -> int:
        """When the next response is due, even if the broker parks the request."""
        oldest = self._in_flight[0]
        held_ms = oldest.request.held_ms if oldest.request is not None else 0
        return (
            NO_DEADLINE_MS
            if held_ms is None
            else max(oldest.sent_ms, self.last_response_ms) + held_ms
        )

    # Setup: versions, then credentials.

    def opened(self, now_ms: int) -> None:
        """Request API versions, after the transport has opened the connection."""
        self._machine.move(_S.NEGOTIATING)
        log.debug("%s: connection opened", self.node, fields={"node_id": self.node.node_id})
        self._ask_versions(ApiVersionsRequest.max_version, now_ms)

    def _ask_versions(self, version: int, now_ms: int) -> None:
        self._put(_ASK_VERSIONS, version, now_ms)

    def _handle_versions(self, response: Any, asked: int, now_ms: int) -> None:
        offered = {
            api.api_key: (api.min_version, api.max_version) for api in response.api_keys or ()
        }
        if response.error_code == _UNSUPPORTED_VERSION and asked > 0:
            # Since Kafka 2.4, the error response has the supported versions; earlier, 0 is safe.
            _, highest = offered.get(_API_VERSIONS_KEY, (0, 0))
            self._ask_versions(min(highest, asked - 1), now_ms)
        elif response.error_code:
            # Invariant: not the error of the code: a manager would take it for the response to its
            # request, so that a member would end its membership, for example.
            name = for_code(response.error_code).__name__
            raise KafkaConnectionError(f"{self.node} rejected ApiVersions ({name})")
        else:
            self._versions_known(agreed_versions(offered, self._limits), now_ms)

    def _versions_known(self, versions: BrokerVersionData, now_ms: int) -> None:
        self.versions = versions
        if self._make_exchange is None:
            self._machine.move(_S.READY)
            self.ready_ms = now_ms
        else:
            self._machine.move(_S.AUTHENTICATING)
            self._exchange = self._make_exchange()
            self.advance(now_ms)

    def advance(self, now_ms: int) -> None:
        """Send the next token if it is ready.

        Raises:
            KafkaError: The authentication failed; close the connection with it.
        """
        if self.state is not ConnectionState.AUTHENTICATING or self._exchange is None:
            return
        if self._exchange.done:
            self._machine.move(_S.READY)
            self.ready_ms = now_ms
            return
        message = self._exchange.next_message()
        if message is not None:
            self._put(message, choose_version(message, self._known_versions()), now_ms)

    # Requests and responses.

    def send(self, request: UnsentRequest, now_ms: int) -> None:
        """Send a request.

        Raises:
            UnsupportedVersionError: No version is supported by both sides.
            KafkaProtocolError: The message cannot be encoded.
        """
        self._put(request.message, self._version_of(request.message), now_ms, request)

    def _put(
        self, message: Any, version: int, now_ms: int, request: UnsentRequest | None = None
    ) -> None:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        self._write(self._encode(message, version, self._correlation_id))
        # The setup of a connection has its own deadline.
        timeout_ms = request.timeout_ms if request is not None else FOREVER_MS
        deadline_ms = now_ms + timeout_ms
        sent = _InFlight(self._correlation_id, message, version, now_ms, deadline_ms, request)
        self._in_flight.append(sent)
        self._log(sent, "sent")

    def _encode(self, message: Any, version: int, correlation_id: int) -> bytes:
        try:
            return frame_request(message, version, correlation_id, self._client_id)
        except Exception as error:
            raise KafkaProtocolError(f"cannot encode {message.name} v{version}: {error}") from error

    @property
    def newest(self) -> tuple[int, int]:
        """The correlation id and the version of the last request that was sent."""
        sent = self._in_flight[-1]
        return sent.correlation_id, sent.version

    def repeated(self, sent_ms: int) -> None:
        """Note when the transport has last received a response and repeated the request."""
        sent = self._in_flight[0]
        sent.deadline_ms += sent_ms - sent.sent_ms
        sent.sent_ms = self.last_response_ms = sent_ms

    def log_repeated(self, latency_ms: int) -> None:
        """Log that the transport has received a response and repeated the request."""
        if self._in_flight:
            self._log(self._in_flight[0], "response after %d ms", latency_ms)
            self._log(self._in_flight[0], "sent")

    def encode_keep_alive(self, message: Any) -> tuple[bytes, int]:
        """Return the frame and version of a request that the transport numbers and sends."""
        version = self._version_of(message)
        return self._encode(message, version, 0), version

    def receive(self, frame: memoryview, now_ms: int) -> Delivery | None:
        """Process a frame; return the request and its response, None for the connection's own.

        Raises:
            KafkaError: The frame is invalid, or the broker rejected the credentials. The request
                is still in flight; `close` fails it.
        """
        if not self._in_flight:
            raise CorrelationIdError(f"{self.node} sent a response without a request")
        sent = self._in_flight[0]
        message = self._decode(sent, frame)
        self._throttle(message, sent, now_ms)
        self._in_flight.popleft()
        self.last_response_ms = now_ms
        self._log(sent, "response after %d ms", now_ms - sent.sent_ms)
        if sent.request is not None:
            response = ClientResponse(message, sent.version, self.node, now_ms - sent.sent_ms)
            return Delivery(sent.request, response)
        if self.state is ConnectionState.NEGOTIATING:
            self._handle_versions(message, sent.version, now_ms)
        elif self._exchange is not None:
            self._exchange.receive(message)
            self.advance(now_ms)
        return None

    def _decode(self, sent: _InFlight, frame: memoryview) -> Any:
        try:
            correlation_id, body = parse_header(frame, sent.message, sent.version)
            if correlation_id == sent.correlation_id:
                if sent.request is not None and sent.request.decode is not None:
                    return sent.request.decode(body, sent.version)
                response = _decode_response(sent, body)
                clean_texts(response, self._readable)
                return response
        except KafkaError:
            raise
        except Exception as error:
            raise KafkaProtocolError(
                f"cannot decode the response of {self.node} to {sent.message.name} "
                f"v{sent.version} ({len(frame)} bytes): {type(error).__name__}: {error}"
            ) from error
        raise CorrelationIdError(
            f"{self.node} responded to request {correlation_id}, but the next response must be "
            f"for {sent.message.name} {sent.correlation_id}"
        )

    def _readable(self, text: str) -> str:
        return self._secrets.readable(Secret(text))

    def _throttle(self, response: Any, sent: _InFlight, now_ms: int) -> None:
        delay_ms = throttle_ms(response, sent.message.API_KEY, sent.version)
        if delay_ms > 0:
            log.debug("%s throttles this client for %d ms", self.node, delay_ms)
            delay_ms = min(delay_ms, _LONGEST_DELAY_MS)
            self.throttled_until_ms = max(self.throttled_until_ms, now_ms + delay_ms)
            # The broker does not read from this connection either, which delays sent requests.
            for other in self._in_flight:
                other.deadline_ms += delay_ms

    # Closing.

    def overdue(self, now_ms: int) -> bool:
        """Tell whether a request in flight has passed its deadline."""
        return any(now_ms >= sent.deadline_ms for sent in self._in_flight)

    def close(self, error: Exception, now_ms: int) -> list[Delivery]:
        """Close the connection; return the requests in flight with their errors."""
        self._machine.move(_S.CLOSED)
        in_flight, self._in_flight = self._in_flight, deque()
        # An invalid frame belongs to the oldest request; the others get a retriable error.
        blamed = in_flight[0] if in_flight and isinstance(error, KafkaProtocolError) else None
        deliveries = []
        for sent in in_flight:
            self._log(sent, "no response: %s", error)
            if sent.request is None:
                continue
            outcome = error if sent is blamed else self._reason(sent, error, now_ms)
            deliveries.append(Delivery(sent.request, outcome))
        return deliveries

    def _log(self, sent: _InFlight, what: str, *arguments: object) -> None:
        """Log a step of a request at DEBUG, without its fields: they may be secrets."""
        if not logs_requests():
            return
        name, number = sent.message.name, sent.correlation_id
        log.debug(
            f"%s: %s v%d, request %d: {what}",  # noqa: G004 - `what` is a constant of the callers
            self.node,
            name,
            sent.version,
            number,
            *arguments,
            fields={
                "node_id": self.node.node_id,
                "api": name,
                "version": sent.version,
                "correlation_id": number,
            },
        )

    def _reason(self, sent: _InFlight, error: Exception, now_ms: int) -> Exception:
        if now_ms < sent.deadline_ms:
            return as_connection_error(error, self.node)
        waited_ms = now_ms - sent.sent_ms
        late: Exception = RequestTimedOutError(
            f"{self.node} did not respond to {sent.message.name} within {waited_ms} ms"
        )
        return late

    def _version_of(self, message: Any) -> int:
        kind = kind_of(message)
        version = self._chosen_versions.get(kind)
        if version is None:
            version = self._chosen_versions[kind] = choose_version(message, self._known_versions())
        return version

    def _known_versions(self) -> BrokerVersionData:
        if self.versions is None:
            raise IllegalStateError(f"{self.node}: API versions are not known yet")
        return self.versions


def _decode_response(sent: _InFlight, body: memoryview) -> Any:
    kind = response_class(sent.message.API_KEY, sent.version)
    try:
        if sent.message.API_KEY == _API_VERSIONS_KEY:
            return _decode_versions(kind, sent.version, bytes(body))
        response = decode_message(kind, sent.version, body)
    except Exception:
        code = int.from_bytes(body[:2], "big", signed=True)
        if sent.request is None and sent.message.API_KEY == _API_VERSIONS_KEY and code:
            # librdkafka's mock broker rejects a version with a response that no version defines,
            # and kafka-python decodes every response with an error as version 0.
            return kind(error_code=code, api_keys=[])
        raise
    reject_nulls(response, sent.version)
    return response


@lru_cache(maxsize=16)
def _decode_versions(kind: Any, version: int, body: bytes) -> Any:
    """Decode the response to ApiVersions; brokers of a cluster usually send the same bytes."""
    response = kind.decode(body)
    reject_nulls(response, version)
    return response


def as_connection_error(error: Exception, node: Node) -> Exception:
    """Return a retriable error for the other requests on a connection that an error has ended."""
    if not isinstance(error, KafkaConnectionError):
        cause, error = error, KafkaConnectionError(f"connection to {node} lost: {reason_of(error)}")
        error.__cause__ = cause
    return error


def closed_while_negotiating(node: Node, error: Exception) -> Exception:
    """Return an error with likely causes.

    Invariant: it can be retried, and excludes no version. A proxy accepts and hangs up for a broker
    that is down. Only a response to ApiVersions says what its node supports. A node that has never
    responded is tried again with a backoff, for as long as its caller has time.
    """
    named: Exception = KafkaConnectionError(
        f"{node} closed the connection after ApiVersions; it may be shutting down, require a "
        f"different security_protocol on this port, or be older than Kafka 0.11: {reason_of(error)}"
    )
    named.__cause__ = error
    return named


def closed_at_first_request(node: Node, error: Exception) -> Exception:
    """Return an error with the likely cause: a SASL listener only responds to ApiVersions."""
    named: Exception = KafkaConnectionError(
        f"{node} closed the connection at the first request; if it requires SASL, set "
        f"security_protocol to 'SASL_SSL' or 'SASL_PLAINTEXT': {reason_of(error)}"
    )
    named.__cause__ = error
    return named


#: What OpenSSL and rustls say of a certificate whose CA is not trusted.
_UNTRUSTED: Final = ("issuer certificate", "self-signed", "self signed", "first certificate")


def with_certificate_hint(error: Exception, settings: Config) -> Exception:
    """Name the missing option if a certificate is rejected, of the broker or of this client."""
    text = reason_of(error)
    if not isinstance(error, TlsAuthenticationError) or settings.ssl_context is not None:
        return error
    if "verify failed" in text and any(each in text for each in _UNTRUSTED):
        advice = "set ssl_cafile to a file with the CA of the broker's certificate"
    elif settings.ssl_certfile is None and all(w in text.lower() for w in ("alert", "certificate")):
        advice = "if the broker requires a client certificate, set ssl_certfile and ssl_keyfile"
    else:
        return error
    named: Exception = TlsAuthenticationError(f"{text}; {advice}")
    named.__cause__ = error
    return named
