"""One socket of the Python transport: connect, TLS handshake, write queue and frames.

A channel never blocks. The selector calls it when its socket is ready; the channel does what is
possible and returns by `interest()` what it waits for next. A raised error ends the channel.
"""

from __future__ import annotations

import enum
import os
import selectors
import socket
import ssl
from collections import deque
from typing import Final

from tandem_kafka.errors import KafkaConnectionError, KafkaError, TlsAuthenticationError
from tandem_kafka.network.frames import FrameReader
from tandem_kafka.network.proxies import Tunnel
from tandem_kafka.network.transport import (
    RECEIVE_BUDGET,
    ConnectionOpened,
    FrameReceived,
    ServerAddress,
    TransportEvent,
    describe,
)

_READ: Final = selectors.EVENT_READ
_WRITE: Final = selectors.EVENT_WRITE


class _Phase(enum.Enum):
    CONNECTING = "connecting"
    PROXY = "connecting through the proxy"
    HANDSHAKE = "TLS handshake"
    OPEN = "open"


class Channel:
    """A non-blocking connection to one broker, with or without TLS."""

    __slots__ = (
        "_context",
        "_outgoing",
        "_phase",
        "_read_wants_write",
        "_reader",
        "_tls",
        "_tunnel",
        "_write_wants_read",
        "address",
        "interest_now",
        "number",
        "received_bytes",
        "sock",
        "where",
    )

    def __init__(
        self,
        number: int,
        address: ServerAddress,
        sock: socket.socket,
        reader: FrameReader,
        context: ssl.SSLContext | None,
        tunnel: Tunnel | None = None,
    ) -> None:
        self.number = number
        self.address = address
        self.sock = sock
        self.where = describe(address)
        self.interest_now = 0
        self._reader = reader
        self._context = context
        self._tunnel = tunnel
        self._phase = _Phase.CONNECTING
        self._outgoing: deque[memoryview] = deque()
        self.received_bytes = 0
        self._tls: ssl.SSLSocket | None = None
        # TLS may have to write in order to read, for a key update, and vice versa.
        self._read_wants_write = False
        self._write_wants_read = False

    def interest(self) -> int:
        """Return the events that the socket must become ready for."""
        if self._phase is _Phase.CONNECTING:
            return _WRITE
        if self._phase is _Phase.PROXY and self._tunnel is not None:
            return _WRITE if self._tunnel.sending else _READ
        if self._phase is _Phase.HANDSHAKE:
            return _WRITE if self._read_wants_write else _READ
        to_write = bool(self._outgoing) and not self._write_wants_read
        return _READ | _WRITE if to_write or self._read_wants_write else _READ

    def has_unread(self) -> bool:
        """Tell whether TLS holds decrypted bytes, which the selector cannot detect."""
        return self._tls is not None and self._tls.pending() > 0

    def advance(self, ready: int, events: list[TransportEvent]) -> None:
        """Do what is possible now that the socket is ready."""
        if self._phase is _Phase.CONNECTING:
            self._finish_connect(events)
        elif self._phase is _Phase.PROXY and self._tunnel is not None:
            self._ask_proxy(self._tunnel, events)
        elif self._phase is _Phase.HANDSHAKE and self._tls is not None:
            self._do_handshake(self._tls, events)
        else:
            if ready & _READ:
                self._write_wants_read = False
            self.flush()
            if ready & _READ or self._read_wants_write:
                self._read_wants_write = False
                self.receive(events)

    def send(self, frame: bytes) -> None:
        """Queue a frame and send as much as the socket accepts."""
        idle = not self._outgoing
        self._outgoing.append(memoryview(frame))
        if idle and self._phase is _Phase.OPEN:
            self.flush()

    def flush(self) -> None:
        """Send until the queue is empty or the socket buffer is full."""
        outgoing = self._outgoing
        while outgoing and not self._write_wants_read:
            try:
                count = self.sock.send(outgoing[0])
            except (BlockingIOError, ssl.SSLWantWriteError):
                return
            except ssl.SSLWantReadError:
                self._write_wants_read = True
                return
            if count == len(outgoing[0]):
                outgoing.popleft()
            else:
                outgoing[0] = outgoing[0][count:]

    def receive(self, events: list[TransportEvent]) -> None:
        """Receive available data, up to the budget."""
        reader, budget = self._reader, RECEIVE_BUDGET
        while budget > 0:
            buffer = reader.buffer()
            count = self._receive_into(buffer)
            if count < 0:
                return
            if count == 0:
                raise KafkaConnectionError(f"{self.where} closed the connection")
            self.received_bytes += count
            budget -= count
            # `extend` keeps the frames before one whose invalid length raises.
            events.extend(FrameReceived(self.number, frame) for frame in reader.advance(count))
            # A short read means that the socket is empty. Another read would only cost a system
            # call and a handover of the GIL. TLS reads are always short: one record at a time.
            if count < len(buffer) and self._context is None:
                return

    def _receive_into(self, buffer: memoryview) -> int:
        """Return the number of bytes, 0 at the end of the stream, or -1 if none are available."""
        try:
            return self.sock.recv_into(buffer)
        except (BlockingIOError, ssl.SSLWantReadError):
            return -1
        except ssl.SSLWantWriteError:
            self._read_wants_write = True
            return -1
        except ssl.SSLError as error:
            # In TLS 1.3, the broker rejects our certificate after our handshake has finished.
            if not self.received_bytes and "ALERT" in (error.reason or ""):
                raise TlsAuthenticationError(f"TLS with {self.where}: {error}") from error
            raise

    def _finish_connect(self, events: list[TransportEvent]) -> None:
        code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        if self._tunnel is not None:
            self._phase = _Phase.PROXY
            self._ask_proxy(self._tunnel, events)
        else:
            self._broker_reached(events)

    def _ask_proxy(self, tunnel: Tunnel, events: list[TransportEvent]) -> None:
        try:
            done = tunnel.advance(self.sock)
        except (KafkaConnectionError, OSError) as error:
            reason = error.args[0] if isinstance(error, KafkaConnectionError) else error
            raise KafkaConnectionError(f"cannot connect to {self.where}: {reason}") from error
        if done:
            self._broker_reached(events)

    def _broker_reached(self, events: list[TransportEvent]) -> None:
        """Start TLS, or open the channel: the socket is connected to the broker."""
        if self._context is None:
            self._open(events)
            return
        self._phase = _Phase.HANDSHAKE
        self.sock = self._tls = self._context.wrap_socket(
            self.sock,
            server_hostname=self.address.host.strip("[]").rstrip("."),
            do_handshake_on_connect=False,
        )
        self._do_handshake(self._tls, events)

    def _do_handshake(self, tls: ssl.SSLSocket, events: list[TransportEvent]) -> None:
        self._read_wants_write = False
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLWantWriteError:
            self._read_wants_write = True
            return
        except OSError as error:
            raise _handshake_error(error, self.where) from error
        self._open(events)

    def _open(self, events: list[TransportEvent]) -> None:
        self._phase = _Phase.OPEN
        events.append(ConnectionOpened(self.number))
        self.flush()

    def failure(self, error: Exception) -> KafkaError:
        """Return the error that ended the channel, with a message for the user."""
        if isinstance(error, KafkaError):
            return error
        doing = "cannot connect to" if self._phase is _Phase.CONNECTING else "lost"
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return KafkaConnectionError(f"{doing} {self.where}: {reason}")


_NO_TLS: Final = "if this port has no TLS, use another port or correct security_protocol"


def _handshake_error(error: OSError, where: str) -> KafkaError:
    """Return the error of a handshake: a TLS alert is final, but a lost connection is retriable."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsAuthenticationError(f"TLS with {where}: {error}")
    cut = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    if cut or not isinstance(error, ssl.SSLError):
        return KafkaConnectionError(
            f"{where} closed the connection during the TLS handshake; {_NO_TLS}: {error}"
        )
    hint = f"; {_NO_TLS}" if error.reason == "WRONG_VERSION_NUMBER" else ""
    return TlsAuthenticationError(f"TLS with {where}: {error}{hint}")
