"""The Python transport: non-blocking sockets with the standard library's `selectors`.

`poll` only returns with an event or after its timeout. Returning for each part of a large frame
would cost a handover of the GIL each time while the application thread is busy.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import socket
import ssl
from typing import Final

from tandem_kafka.config import Config
from tandem_kafka.config.tls import build_context
from tandem_kafka.errors import KafkaConnectionError
from tandem_kafka.logs import client_logger
from tandem_kafka.network.channel import Channel
from tandem_kafka.network.frames import FrameReader
from tandem_kafka.network.proxies import Proxy, Tunnel
from tandem_kafka.network.tls_files import TlsFiles
from tandem_kafka.network.transport import (
    ConnectionClosed,
    ServerAddress,
    TransportEvent,
    describe,
)
from tandem_kafka.runtime import Clock, MonotonicClock, green

log = client_logger(__name__)

_SCRATCH_BYTES: Final = 64 * 1024
_IN_PROGRESS: Final = frozenset({0, errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR})


class SelectorTransport:
    """A `Transport` over sockets; creates the consumer's TLS context.

    Raises:
        KafkaConfigurationError: The TLS options are invalid.
    """

    def __init__(self, settings: Config, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock if clock is not None else MonotonicClock()
        self._tls_files = TlsFiles(settings)
        self._context = build_context(settings)
        self._proxy = Proxy.of(settings.proxy_url)
        self._selector = green.selector()
        self._green = green.library() is not None
        self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._channels: dict[int, Channel] = {}
        self._last_number = 0
        self._undelivered: list[TransportEvent] = []  # events of `connect` and `send`
        self._unread: set[int] = set()  # channels with bytes in the TLS layer
        # Written by any thread; see `wakeup`.
        self._woken = False
        self._polling = False
        self._wakeup_reader, self._wakeup_writer = socket.socketpair()
        self._wakeup_reader.setblocking(False)
        self._wakeup_writer.setblocking(False)
        self._selector.register(self._wakeup_reader, selectors.EVENT_READ, None)

    def connect(self, address: ServerAddress) -> int:
        """Start to connect."""
        self._last_number += 1
        self.connect_as(self._last_number, address)
        return self._last_number

    def connect_as(self, number: int, address: ServerAddress) -> None:
        """Start to connect, with a number chosen by the caller."""
        self._context = self._tls_files.reload(self._new_context) or self._context
        try:
            sock = self._open_socket(address)
        except (OSError, OverflowError, ValueError) as error:
            failure = KafkaConnectionError(f"cannot connect to {describe(address)}: {error}")
            self._undelivered.append(ConnectionClosed(number, failure))
            return
        reader = FrameReader(
            self._scratch, self._settings.receive_message_max_bytes, describe(address)
        )
        tunnel = Tunnel(self._proxy, address) if self._proxy is not None else None
        channel = Channel(number, address, sock, reader, self._context, tunnel)
        self._channels[number] = channel
        self._update_interest(channel)

    def _new_context(self) -> ssl.SSLContext | None:
        return build_context(self._settings)

    def _open_socket(self, address: ServerAddress) -> socket.socket:
        ip, port = (address.ip, address.port) if address.via is None else address.via
        family = socket.AF_INET6 if ":" in ip else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            self._set_options(sock)
            code = sock.connect_ex((ip, port))
        except BaseException:
            sock.close()
            raise
        if code not in _IN_PROGRESS:
            sock.close()
            raise OSError(code, os.strerror(code))
        return sock

    def _set_options(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, size in (
            (socket.SO_SNDBUF, self._settings.send_buffer_bytes),
            (socket.SO_RCVBUF, self._settings.receive_buffer_bytes),
        ):
            if size is not None and size > 0:  # -1 means the system's default, as in Java
                sock.setsockopt(socket.SOL_SOCKET, option, size)
        for level, name, value in self._settings.socket_options:
            sock.setsockopt(level, name, value)

    def send(self, connection: int, frame: bytes) -> None:
        """Queue a frame, and send as much as the socket accepts."""
        channel = self._channels.get(connection)
        if channel is None:
            return
        try:
            channel.send(frame)
            self._update_interest(channel)
        except (OSError, ValueError) as error:
            self._fail(channel, error, self._undelivered)

    def poll(self, timeout_ms: int) -> list[TransportEvent]:
        """Send and receive until there is an event or a wakeup, or the timeout is over."""
        if self._green:
            green.yield_to_others()  # they would never run while there is always data to receive
        events, self._undelivered = self._undelivered, []
        deadline_ms = self._clock.now_ms() + timeout_ms
        left_ms = timeout_ms
        # Set before `_woken` is read: a concurrent `wakeup` either sees this and sends its byte,
        # or has set `_woken` early enough to be seen below.
        self._polling = True
        while True:
            if events or self._woken or self._unread:
                left_ms = 0
            self._select(left_ms, events)
            left_ms = deadline_ms - self._clock.now_ms()
            if events or self._woken or left_ms <= 0:
                break
        self._polling = False
        self._woken = False
        return events

    def _select(self, timeout_ms: int, events: list[TransportEvent]) -> None:
        unread, self._unread = self._unread, set()
        for key, ready in self._selector.select(timeout_ms / 1000):
            channel: Channel | None = key.data
            if channel is None:
                self._drain_wakeup()
            else:
                unread.discard(channel.number)
                self._advance(channel, ready, events)
        for number in unread:
            if number in self._channels:
                self._advance(self._channels[number], selectors.EVENT_READ, events)

    def _advance(self, channel: Channel, ready: int, events: list[TransportEvent]) -> None:
        try:
            channel.advance(ready, events)
            if channel.has_unread():
                self._unread.add(channel.number)
            self._update_interest(channel)
        except Exception as error:  # noqa: BLE001 - any error only ends this connection
            self._fail(channel, error, events)

    def _update_interest(self, channel: Channel) -> None:
        """Update the selector if the channel waits for different events."""
        interest = channel.interest()
        if interest == channel.interest_now:
            return
        if channel.interest_now:
            self._selector.modify(channel.sock, interest, channel)
        else:
            self._selector.register(channel.sock, interest, channel)
        channel.interest_now = interest

    def _fail(self, channel: Channel, error: Exception, events: list[TransportEvent]) -> None:
        self.disconnect(channel.number)
        failure = channel.failure(error)
        failure.__cause__ = error if error is not failure else error.__cause__
        events.append(ConnectionClosed(channel.number, failure))

    def wakeup(self) -> None:
        """End the current or the next `poll`; for any thread or signal handler.

        Only the first of several calls makes a system call, and only during a `poll`.
        """
        if self._woken:
            return
        self._woken = True
        if self._polling:
            # If the buffer is full, a wakeup is pending. If it is closed, there is nothing to wake.
            with contextlib.suppress(OSError):
                self._wakeup_writer.send(b"\0")

    def _drain_wakeup(self) -> None:
        # First the bytes, then the flag. Otherwise a byte sent in between would be consumed here
        # with the flag left set, and all later wakeups would be lost.
        with contextlib.suppress(BlockingIOError):
            self._wakeup_reader.recv(4096)
        self._woken = True

    def received_bytes(self, connection: int) -> int:
        """Return the number of bytes received on a connection, including incomplete frames."""
        channel = self._channels.get(connection)
        return channel.received_bytes if channel is not None else 0

    def disconnect(self, connection: int) -> None:
        """Close a connection immediately; no event follows."""
        channel = self._channels.pop(connection, None)
        if channel is None:
            return
        self._unread.discard(connection)
        if channel.interest_now:
            with contextlib.suppress(KeyError, ValueError, OSError):
                self._selector.unregister(channel.sock)
        with contextlib.suppress(OSError):
            channel.sock.close()

    def close(self) -> None:
        """Close all connections; may be called again."""
        for number in list(self._channels):
            self.disconnect(number)
        self._selector.close()
        self._wakeup_reader.close()
        self._wakeup_writer.close()
