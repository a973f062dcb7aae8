"""A network without sockets, threads or time; tests control transport and brokers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from tandem_kafka.errors import KafkaConnectionError
from tandem_kafka.network.client import NetworkClient
from tandem_kafka.network.connection import BrokerConnection
from tandem_kafka.network.request import ANY_NODE, Purpose, ToNode, UnsentRequest
from tandem_kafka.network.transport import (
    ConnectionClosed,
    ConnectionOpened,
    FrameReceived,
    ServerAddress,
    TransportEvent,
)
from tandem_kafka.runtime import Random
from tandem_kafka.types import Node
from tandem_kafka.wire.messages import ApiVersionsResponse, MetadataRequest, MetadataResponse

NODE_1 = Node(1, "10.0.0.1", 9092)
NODE_2 = Node(2, "10.0.0.2", 9092)
BOOTSTRAP = Node(-1, "10.0.0.9", 9092)
VERSIONS = {1: (4, 16), 3: (0, 12), 11: (2, 9), 17: (0, 1), 18: (0, 4), 36: (0, 2)}


class RecordedConnection(BrokerConnection):
    """The protocol on a connection whose frames stay in a list."""

    def __init__(self, **arguments: Any) -> None:
        self.frames: list[bytes] = []
        super().__init__(NODE_1, "client", self.frames.append, **arguments)


@dataclass
class Settings:
    client_id: str = "test"
    api_version: tuple[int, ...] | None = None
    request_timeout_ms: int = 30_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    socket_connection_setup_timeout_ms: int = 10_000
    socket_connection_setup_timeout_max_ms: int = 30_000
    connections_max_idle_ms: int = 540_000
    receive_message_max_bytes: int = 1_000_000
    max_in_flight_requests_per_connection: int = 5
    send_buffer_bytes: int | None = None
    receive_buffer_bytes: int | None = None
    socket_options: Sequence[tuple[int, int, Any]] = ()
    proxy_url: str | None = None
    client_dns_lookup: str = "use_all_dns_ips"
    metadata_recovery_strategy: str = "rebootstrap"
    security_protocol: str = "PLAINTEXT"
    ssl_context: Any = None
    ssl_check_hostname: bool = True
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: str | None = None
    ssl_crlfile: str | None = None
    ssl_ciphers: str | None = None
    sasl_mechanism: str | None = None
    sasl_plain_username: str | None = None
    sasl_plain_password: str | None = None
    sasl_kerberos_name: Any = None
    sasl_kerberos_service_name: str | None = "kafka"
    sasl_kerberos_domain_name: str | None = None
    sasl_oauth_token_provider: Any = None
    sasl_oauthbearer_token_endpoint_url: str | None = None
    sasl_oauthbearer_grant_type: str = "client_credentials"
    sasl_oauthbearer_client_id: str | None = None
    sasl_oauthbearer_client_secret: str | None = None
    sasl_oauthbearer_scope: str | None = None
    sasl_oauthbearer_extensions: Mapping[str, str] | None = None
    sasl_oauthbearer_cafile: str | None = None
    sasl_oauthbearer_assertion_file: str | None = None
    sasl_oauthbearer_assertion_private_key_file: str | None = None
    sasl_oauthbearer_assertion_private_key_passphrase: str | None = None
    sasl_oauthbearer_assertion_algorithm: str = "RS256"
    sasl_oauthbearer_assertion_claim_iss: str | None = None
    sasl_oauthbearer_assertion_claim_sub: str | None = None
    sasl_oauthbearer_assertion_claim_aud: str | None = None
    sasl_oauthbearer_assertion_claim_exp_seconds: int = 300


@dataclass(frozen=True)
class Sent:
    """A request as the broker receives it."""

    connection: int
    api_key: int
    version: int
    correlation_id: int
    frame: bytes


class ScriptedTransport:
    def __init__(self) -> None:
        self.addresses: dict[int, ServerAddress] = {}
        self.open: set[int] = set()
        self.sent: list[Sent] = []
        self.events: list[TransportEvent] = []
        self.received: dict[int, int] = {}
        self.wakeups = 0
        self.closed = False

    def connect(self, address: ServerAddress) -> int:
        number = len(self.addresses) + 1
        self.addresses[number] = address
        self.open.add(number)
        return number

    def send(self, connection: int, frame: bytes) -> None:
        data = bytes(frame)
        assert struct.unpack_from(">i", data)[0] == len(data) - 4
        api_key, version, correlation_id = struct.unpack_from(">hhi", data, 4)
        self.sent.append(Sent(connection, api_key, version, correlation_id, data))

    def poll(self, timeout_ms: int) -> list[TransportEvent]:
        del timeout_ms
        events, self.events = self.events, []
        return events

    def wakeup(self) -> None:
        self.wakeups += 1

    def received_bytes(self, connection: int) -> int:
        return self.received.get(connection, 0)

    def disconnect(self, connection: int) -> None:
        self.open.discard(connection)

    def close(self) -> None:
        self.closed = True

    def take_sent(self) -> list[Sent]:
        sent, self.sent = self.sent, []
        return sent


class ScriptedDriver:
    """Work that is offloaded waits here until the test runs it."""

    def __init__(self) -> None:
        self.tasks: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def offload(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.tasks.append((work, done))

    def run(self, result: Any = None) -> None:
        """Finish every task, with `result` in place of its own result."""
        tasks, self.tasks = self.tasks, []
        for work, done in tasks:
            if result is not None:
                done(result)
                continue
            try:
                done(work())
            except Exception as error:  # noqa: BLE001 - as the driver does
                done(error)


@dataclass
class KnownNodes:
    known: list[Node]
    bootstrap: list[Node] = field(default_factory=lambda: [BOOTSTRAP])
    rebootstraps: int = 0

    def nodes(self) -> Sequence[Node]:
        return tuple(self.known)

    promising: set[int] = field(default_factory=set)
    unreachable: AbstractSet[int] = frozenset()

    def take_retry_nodes(self) -> set[int]:
        promising, self.promising = self.promising, set()
        return promising

    def rebootstrap(self) -> None:
        self.rebootstraps += 1
        self.known = list(self.bootstrap)


def frame_of(sent: Sent, response: Any) -> memoryview:
    """Encode a broker's response to a request."""
    body = bytes(response.encode(version=sent.version))
    flexible = sent.api_key != 18 and type(response).flexible_version_q(sent.version)
    return memoryview(struct.pack(">i", sent.correlation_id) + b"\0" * flexible + body)


def api_versions(
    versions: dict[int, tuple[int, int]] | None = None, error_code: int = 0, throttle: int = 0
) -> Any:
    keys = [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in (VERSIONS if versions is None else versions).items()
    ]
    return ApiVersionsResponse(error_code=error_code, api_keys=keys, throttle_time_ms=throttle)


def metadata_response(throttle: int = 0) -> Any:
    return MetadataResponse(throttle_time_ms=throttle, brokers=[], topics=[], controller_id=1)


class Network:
    """A client, and the controls of its network."""

    def __init__(
        self,
        *known: Node,
        seed: int = 1,
        transport: ScriptedTransport | None = None,
        **options: Any,
    ) -> None:
        self.settings = Settings(**options)
        self.transport = transport or ScriptedTransport()
        self.driver = ScriptedDriver()
        self.nodes = KnownNodes(list(known) or [NODE_1])
        self.client = NetworkClient(
            self.settings,
            self.transport,
            self.driver,
            Random(seed),
            self.nodes,
        )
        self.now_ms = 1_000_000

    def request(
        self,
        node: Node | None = NODE_1,
        purpose: Purpose = Purpose.MAIN,
        *,
        deadline_ms: int = 60_000,
        timeout_ms: int = 30_000,
        message: Any = None,
    ) -> UnsentRequest:
        unsent = UnsentRequest(
            message=message or MetadataRequest(),
            destination=ANY_NODE if node is None else ToNode(node, purpose),
            deadline_ms=self.now_ms + deadline_ms,
            timeout_ms=timeout_ms,
        )
        self.client.add(unsent)
        return unsent

    def send(self, number: int = 1, **fields: Any) -> tuple[UnsentRequest, Sent]:
        """Send one request over a new connection, the `number`th; return what is in flight."""
        unsent = self.request(**fields)
        self.iterate()
        (sent,) = self.make_ready(number)
        return unsent, sent

    def iterate(self, *, after_ms: int = 0) -> int:
        self.now_ms += after_ms
        wait_ms = self.client.prepare(self.now_ms)
        self.client.complete(self.transport.poll(wait_ms), self.now_ms)
        return wait_ms

    def deliver(self, *events: TransportEvent) -> None:
        self.transport.events += events
        self.iterate()

    def respond(self, sent: Sent, response: Any) -> None:
        self.deliver(FrameReceived(sent.connection, frame_of(sent, response)))

    def open(self, number: int) -> None:
        self.deliver(ConnectionOpened(number))

    def cut(self, number: int, error: Exception | None = None) -> None:
        self.transport.open.discard(number)
        self.deliver(ConnectionClosed(number, error or KafkaConnectionError("refused")))

    def make_ready(self, number: int) -> list[Sent]:
        """Open a connection and send its versions; return the next requests."""
        self.open(number)
        (take_event,) = self.transport.take_sent()
        assert take_event.api_key == 18
        self.respond(take_event, api_versions())
        self.iterate()
        return self.transport.take_sent()


def error_of(unsent: UnsentRequest) -> BaseException | None:
    assert unsent.future.done
    return unsent.future.error
