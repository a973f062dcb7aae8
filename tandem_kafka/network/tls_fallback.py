"""TLS with rustls, or with OpenSSL if rustls does not support the broker's TLS.

rustls rejects some TLS features that OpenSSL accepts: X.509 version 1 certificates, leaf
certificates with CA:TRUE, and TLS 1.2 with only CBC ciphers. Only a handshake shows this. The
Python transport then connects to the same address. If its handshake succeeds, it takes over all
connections from then on. Otherwise, the error of OpenSSL is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tandem_kafka.dataclass import dataclass, field
from tandem_kafka.errors import KafkaConnectionError
from tandem_kafka.logs import client_logger
from tandem_kafka.network.native_transport import NativeTransport, UnsupportedTlsError
from tandem_kafka.network.selector import SelectorTransport
from tandem_kafka.network.transport import (
    ConnectionClosed,
    ConnectionOpened,
    ServerAddress,
    TransportEvent,
    describe,
)

if TYPE_CHECKING:
    from tandem_kafka._native import StandingFetch


log = client_logger(__name__)

#: While both transports have connections, they wait alternately for this time. Invariant: not for
#: long, as this thread can sleep in one poll only; the first success of OpenSSL ends it.
_SLICE_MS: Final = 10


@dataclass()
class _Connection:
    """A connection of the native transport, or one that OpenSSL retries.

    Attributes:
        address: The address of the broker.
        frames: Frames sent before the end of the handshake; sent again after a retry.
        opened: Whether the handshake has succeeded.
        rejected: The error of rustls if it has rejected the handshake.
    """

    address: ServerAddress
    frames: list[bytes] = field(default_factory=list)
    opened: bool = False
    rejected: Exception | None = None


class TlsTransport:
    """A `Transport` that uses the native one first, and the Python one if necessary.

    Args:
        native: The native transport.
        make_python: Creates the Python transport.
    """

    def __init__(
        self, native: NativeTransport, make_python: Callable[[], SelectorTransport]
    ) -> None:
        self._native = native
        self._make_python = make_python
        #: Writer: the network thread. Read by `wakeup`.
        self._python: SelectorTransport | None = None
        #: Whether the Python transport has taken over all connections.
        self._switched = False
        #: The connections from before the switch.
        self._connections: dict[int, _Connection] = {}
        self._last_number = 0

    def connect(self, address: ServerAddress) -> int:
        """Start to connect."""
        if self._switched and self._python is not None:
            self._last_number += 1
            self._python.connect_as(self._last_number, address)
        else:
            self._last_number = self._native.connect(address)
            self._connections[self._last_number] = _Connection(address)
        return self._last_number

    def send(self, connection: int, frame: bytes) -> None:
        """Queue a frame."""
        known = self._connections.get(connection)
        if known is not None and not known.opened:
            known.frames.append(frame)
        self._transport_of(connection).send(connection, frame)

    def _transport_of(self, connection: int) -> NativeTransport | SelectorTransport:
        if self._python is None:
            return self._native
        known = self._connections.get(connection)
        return self._python if known is None or known.rejected is not None else self._native

    def poll(self, timeout_ms: int) -> list[TransportEvent]:
        """Send and receive until there is an event or a wakeup, or the timeout is over."""
        if self._python is None:
            return self._filter(self._native.poll(timeout_ms))
        if self._switched:
            return self._python.poll(timeout_ms)
        return self._filter(self._poll_both(self._python, timeout_ms))

    def _poll_both(self, python: SelectorTransport, timeout_ms: int) -> list[TransportEvent]:
        states = self._connections.values()
        if all(known.rejected is None for known in states):
            return self._native.poll(timeout_ms)
        if all(known.rejected is not None for known in states):
            return python.poll(timeout_ms)
        events = self._native.poll(0)
        return events + python.poll(0 if events else min(timeout_ms, _SLICE_MS))

    def _filter(self, events: Sequence[TransportEvent]) -> list[TransportEvent]:
        """Drop the failures of handshakes that OpenSSL will retry."""
        passed_on: list[TransportEvent] = []
        for event in events:
            if isinstance(event, ConnectionOpened):
                self._opened(event.connection)
            elif isinstance(event, ConnectionClosed) and self._retry_with_openssl(event):
                continue
            passed_on.append(event)
        if self._switched:
            passed_on += self._switch()
        return passed_on

    def _opened(self, connection: int) -> None:
        known = self._connections.get(connection)
        if known is None:
            return
        known.opened = True
        known.frames.clear()
        if known.rejected is not None and not self._switched:
            self._switched = True
            log.warning(
                "using the Python transport from now on, not the native one: rustls refuses what "
                "OpenSSL accepts: %s",
                known.rejected.args[0],
            )

    def _retry_with_openssl(self, event: ConnectionClosed) -> bool:
        """Retry a rejected handshake with OpenSSL if it may succeed; else forget the connection."""
        known = self._connections.pop(event.connection, None)
        rejected = known is not None and known.rejected is None
        if known is None or not rejected or not isinstance(event.error, UnsupportedTlsError):
            return False
        log.debug("retrying the TLS handshake with OpenSSL: %s", event.error)
        known.rejected = event.error
        return self._connect_by_python(event.connection, known)

    def _connect_by_python(self, number: int, known: _Connection) -> bool:
        if self._python is None:
            try:
                self._python = self._make_python()
            except OSError as error:
                log.warning("cannot retry the TLS handshake with OpenSSL: %s", error)
                return False
            # An earlier `wakeup` has only reached the native transport.
            self._python.wakeup()
        self._connections[number] = known
        self._python.connect_as(number, known.address)
        for frame in known.frames:
            self._python.send(number, frame)
        return True

    def _switch(self) -> list[TransportEvent]:
        """Close the native transport; retry its unfinished connections with the Python one."""
        passed_on: list[TransportEvent] = []
        connections, self._connections = self._connections, {}
        for number, known in connections.items():
            if known.rejected is not None:
                continue
            if not known.opened:
                self._connect_by_python(number, known)
                continue
            where = describe(known.address)
            error = KafkaConnectionError(
                f"reconnecting to {where} with the Python transport, because of its TLS"
            )
            passed_on.append(ConnectionClosed(number, error))
        self._connections.clear()
        self._native.close()
        return passed_on

    def repeat_fetches(self, connection: int, standing: StandingFetch) -> bool:
        """Repeat the fetch in flight on a connection, if all use the native transport."""
        return self._python is None and self._native.repeat_fetches(connection, standing)

    def keep_alive(self, connection: int, frame: bytes, period_ms: int, left_ms: int) -> None:
        """Send a heartbeat if the network thread does not; the native transport supports this."""
        if not self._switched:
            self._native.keep_alive(connection, frame, period_ms, left_ms)

    def wakeup(self) -> None:
        """End the current or the next `poll`; for any thread or signal handler."""
        self._native.wakeup()
        python = self._python
        if python is not None:
            python.wakeup()

    def received_bytes(self, connection: int) -> int:
        """Return the number of bytes received on a connection, including incomplete frames."""
        return self._transport_of(connection).received_bytes(connection)

    def disconnect(self, connection: int) -> None:
        """Close a connection immediately; no event follows."""
        self._transport_of(connection).disconnect(connection)
        self._connections.pop(connection, None)

    def close(self) -> None:
        """Close all connections; may be called again."""
        self._native.close()
        if self._python is not None:
            self._python.close()
