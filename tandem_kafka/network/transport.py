"""The seam to the sockets: what the network client asks of a transport, and what it is told.

A transport moves bytes and knows nothing of Kafka but the four-byte length in front of every
frame. There are three: the Python one (`selector.py`), a native one, and the simulated one.
`poll` is the only call in which the network thread may block or time may pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

__all__ = [
    "ConnectionClosed",
    "ConnectionOpened",
    "FrameReceived",
    "KeepAliveResponse",
    "KeepAliveTransport",
    "ServerAddress",
    "Transport",
    "TransportEvent",
]


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """One resolved address of a broker.

    Attributes:
        host: Host name as configured or advertised; TLS checks the certificate against it.
        ip: Numeric address to connect to; the name itself if a proxy resolves it.
        port: TCP port.
        via: Numeric address and port of the proxy to connect to instead.
    """

    host: str
    ip: str
    port: int
    via: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class ConnectionOpened:
    """The connection can carry frames: TCP is up and, where asked for, TLS has shaken hands."""

    connection: int


@dataclass(frozen=True, slots=True)
class FrameReceived:
    """One whole frame, without its length.

    Attributes:
        separate_bytes: Bytes of it that are not in `frame`: records, which the native transport
            receives into buffers of their own.
    """

    connection: int
    frame: memoryview
    separate_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """The connection is gone: refused, cut, failed in TLS, or sent a frame over the limit.

    Attributes:
        error: A `KafkaConnectionError`, or for a failed TLS check an authentication error
            (which must reach the user); its text names what happened.
    """

    connection: int
    error: Exception


@dataclass(frozen=True, slots=True)
class KeepAliveResponse:
    """The answer to a heartbeat that the transport has sent by itself says something new."""

    connection: int
    frame: memoryview


TransportEvent = ConnectionOpened | FrameReceived | ConnectionClosed | KeepAliveResponse


class Transport(Protocol):
    """Connections by number, frames in and out."""

    def connect(self, address: ServerAddress) -> int:
        """Begin to connect and return the connection's number; never blocks, never raises.

        Ends in `ConnectionOpened` or `ConnectionClosed`, told by a later `poll`.
        """
        ...

    def send(self, connection: int, frame: bytes) -> None:
        """Queue a frame (its length included); it goes out now or with the next `poll`.

        Unknown and closed connections are ignored: their `ConnectionClosed` is on its way.
        """
        ...

    def poll(self, timeout_ms: int) -> list[TransportEvent]:
        """Send and receive until something happened, `wakeup` was called or the time is over."""
        ...

    def wakeup(self) -> None:
        """End the running or the next `poll` soon. The one method other threads may call."""
        ...

    def received_bytes(self, connection: int) -> int:
        """Return how many bytes have come on a connection, whole frames or not."""
        ...

    def disconnect(self, connection: int) -> None:
        """Close a connection at once; no event follows for it."""
        ...

    def close(self) -> None:
        """Close everything."""
        ...


@runtime_checkable
class KeepAliveTransport(Protocol):
    """A transport that can send heartbeats while this thread is kept from running."""

    def keep_alive(self, connection: int, frame: bytes, period_ms: int, left_ms: int) -> None:
        """Send `frame` once in each period when this thread does not come to do so.

        Ends by itself after `left_ms`, with the connection, and with the next request about the
        membership. Answers that say something new are `KeepAliveResponse`.
        """
        ...
