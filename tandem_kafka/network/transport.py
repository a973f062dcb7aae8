"""The interface between the network client and the sockets: transports and their events.

A transport transfers bytes. It knows nothing of Kafka but the four-byte length before every frame.
There are a Python (`selector.py`), a native and a simulated transport. `poll` is the only call in
which the network thread may block or time may pass.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from tandem_kafka.dataclass import dataclass

if TYPE_CHECKING:
    from tandem_kafka._native import StandingFetch

#: The bytes that one connection may receive before the other connections are served.
RECEIVE_BUDGET: Final = 8 * 1024 * 1024


class NativeUnsupportedError(Exception):
    """Only the Python transport supports the options; the message gives the reason."""


@dataclass(frozen=True)
class ServerAddress:
    """One resolved address of a broker.

    Attributes:
        host: Configured or advertised host name, against which TLS checks the certificate.
        ip: Numeric address; the host name if a proxy resolves it.
        port: TCP port.
        via: Numeric address and port of a proxy.
    """

    host: str
    ip: str
    port: int
    via: tuple[str, int] | None = None


def describe(address: ServerAddress) -> str:
    """Return an address as text for a message."""
    if address.via is not None:
        direct = describe(replace(address, via=None))
        return f"{direct} through the proxy {address.via[0]}:{address.via[1]}"
    if address.ip == address.host:
        return f"{address.host}:{address.port}"
    return f"{address.host}:{address.port} ({address.ip})"


@dataclass(frozen=True)
class ConnectionOpened:
    """The connection is ready for frames, after the TLS handshake if TLS is used."""

    connection: int


@dataclass(frozen=True)
class FrameReceived:
    """A complete frame, without its length.

    Attributes:
        connection: Number of the connection.
        frame: The bytes of the frame.
        separate_bytes: The size of records that are not in `frame`, because the native transport
            receives them into separate buffers.
    """

    connection: int
    frame: memoryview
    separate_bytes: int = 0


@dataclass(frozen=True)
class ConnectionClosed:
    """The connection was refused or lost, failed in TLS, or received a frame over the limit.

    Attributes:
        connection: Number of the connection.
        error: A `KafkaConnectionError`, or an authentication error for a failed TLS check, which
            must be raised to the user.
    """

    connection: int
    error: Exception


@dataclass(frozen=True)
class KeepAliveResponse:
    """A response with new data, to a heartbeat that the transport has sent by itself."""

    connection: int
    frame: memoryview


@dataclass(frozen=True)
class FetchRepeated:
    """A standing fetch was repeated, if its requests are logged.

    Attributes:
        connection: Number of the connection.
        latency_ms: How long the response took after which it was repeated.
    """

    connection: int
    latency_ms: int


TransportEvent = (
    ConnectionOpened | FrameReceived | ConnectionClosed | KeepAliveResponse | FetchRepeated
)


class Transport(Protocol):
    """Connections, identified by numbers, that send and receive frames."""

    def connect(self, address: ServerAddress) -> int:
        """Start to connect and return the connection's number; never blocks or raises.

        A later `poll` returns `ConnectionOpened` or `ConnectionClosed`.
        """
        ...

    def send(self, connection: int, frame: bytes) -> None:
        """Queue a frame, including its length; it is sent now or by the next `poll`.

        Unknown and closed connections are ignored, because `ConnectionClosed` is pending.
        """
        ...

    def poll(self, timeout_ms: int) -> list[TransportEvent]:
        """Send and receive until there is an event or a wakeup, or the timeout is over."""
        ...

    def wakeup(self) -> None:
        """End the current or the next `poll`. The only method that other threads may call."""
        ...

    def received_bytes(self, connection: int) -> int:
        """Return the number of bytes received on a connection, including incomplete frames."""
        ...

    def disconnect(self, connection: int) -> None:
        """Close a connection immediately; no event follows for it."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


@runtime_checkable
class RepeatingTransport(Protocol):
    """A transport that can repeat fetches by itself."""

    def repeat_fetches(self, connection: int, standing: StandingFetch) -> bool:
        """Repeat the fetch in flight on a connection; return False if that is impossible.

        The order ends with the first response that `poll` returns, and with the connection.
        """
        ...


@runtime_checkable
class KeepAliveTransport(Protocol):
    """A transport that can send heartbeats while the GIL blocks the network thread."""

    def keep_alive(self, connection: int, frame: bytes, period_ms: int, left_ms: int) -> None:
        """Send `frame` once per period if the network thread does not.

        This ends after `left_ms`, with the connection, or with the next request of the
        membership. Responses with new data are returned as `KeepAliveResponse`.
        """
        ...
