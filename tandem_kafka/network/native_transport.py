"""The native transport: sockets, frames and TLS in the extension, without the GIL.

It behaves exactly like the Python implementation in `selector.py`, including error messages. Fetch
responses arrive already decoded: the extension recognises them by their requests.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from tandem_kafka.config import Config
from tandem_kafka.errors import (
    InvalidReceiveError,
    KafkaConfigurationError,
    KafkaConnectionError,
    TlsAuthenticationError,
)
from tandem_kafka.network.tls_files import TlsFiles
from tandem_kafka.network.transport import (
    RECEIVE_BUDGET,
    ConnectionClosed,
    ConnectionOpened,
    FetchRepeated,
    FrameReceived,
    KeepAliveResponse,
    NativeUnsupportedError,
    ServerAddress,
    TransportEvent,
    describe,
)
from tandem_kafka.records import ReaderOptions
from tandem_kafka.runtime.native import native

if TYPE_CHECKING:
    from tandem_kafka import _native


_OPENED: Final = 0
_FRAME: Final = 1
_KEPT_ALIVE: Final = 5
_REPEATED: Final = 7


class UnsupportedTlsError(TlsAuthenticationError):
    """rustls does not support the broker's TLS; OpenSSL may support it."""


_CLOSED_BY: Final = {
    2: KafkaConnectionError,
    3: TlsAuthenticationError,
    4: InvalidReceiveError,
    6: UnsupportedTlsError,
}


class NativeTransport:
    """A `Transport` over the extension's selector.

    Raises:
        KafkaConfigurationError: The TLS options are invalid.
        NativeUnsupportedError: Only OpenSSL supports the TLS options.
        ImportError: The extension is not available.
    """

    def __init__(self, settings: Config, options: ReaderOptions | None = None) -> None:
        if native is None:
            raise ImportError("the native extension is not available")
        options = options if options is not None else ReaderOptions()
        self._settings = settings
        self._tls_files = TlsFiles(settings)
        self._selector: _native.Selector = native.Selector(
            receive_message_max_bytes=settings.receive_message_max_bytes,
            send_buffer_bytes=_given(settings.send_buffer_bytes),
            receive_buffer_bytes=_given(settings.receive_buffer_bytes),
            socket_options=list(_as_bytes(settings.socket_options)),
            receive_budget_bytes=RECEIVE_BUDGET,
            tls=_tls(settings),
            read_committed=options.read_committed,
            check_crcs=options.check_crcs,
            max_decompressed_batch_bytes=options.max_decompressed_batch_bytes,
            max_record_headers=options.max_record_headers,
            decode_ahead_bytes=options.decode_ahead_bytes,
        )
        #: Queues a frame; the next `poll` sends it, without the GIL.
        self.send = self._selector.send
        self.keep_alive = self._selector.keep_alive
        self.wakeup = self._selector.wakeup
        self.received_bytes = self._selector.received_bytes
        self.disconnect = self._selector.disconnect
        #: May be called again.
        self.close = self._selector.close

    def connect(self, address: ServerAddress) -> int:
        """Start to connect."""
        tls = self._tls_files.reload(self._new_tls)
        if tls is not None:
            self._selector.set_tls(tls)
        return self._selector.connect(address.host, address.ip, address.port, describe(address))

    def _new_tls(self) -> _native.TlsConfig | None:
        try:
            return _tls(self._settings)
        except NativeUnsupportedError as reason:
            raise KafkaConfigurationError(f"the native transport cannot: {reason}") from reason

    def poll(self, timeout_ms: int) -> list[TransportEvent]:
        """Send and receive until there is an event or a wakeup, or the timeout is over."""
        return [_event(*event) for event in self._selector.poll(timeout_ms)]

    def repeat_fetches(self, connection: int, standing: _native.StandingFetch) -> bool:
        """Repeat the fetch in flight on a connection."""
        self._selector.repeat_fetches(connection, standing)
        return True


def _event(kind: int, connection: int, what: Any) -> TransportEvent:
    if kind == _FRAME:
        return FrameReceived(connection, memoryview(what), what.elsewhere)
    if kind == _KEPT_ALIVE:
        return KeepAliveResponse(connection, memoryview(what))
    if kind == _REPEATED:
        return FetchRepeated(connection, what)
    if kind == _OPENED:
        return ConnectionOpened(connection)
    return ConnectionClosed(connection, _CLOSED_BY[kind](what))


def _given(size: int | None) -> int | None:
    return size if size is not None and size > 0 else None  # -1: the system's default, as in Java


def _as_bytes(options: Iterable[tuple[Any, ...]]) -> Iterable[tuple[int, int, bytes]]:
    for level, name, value in options:
        yield level, name, struct.pack("i", value) if isinstance(value, int) else bytes(value)


def _tls(settings: Config) -> _native.TlsConfig | None:
    if not settings.security_protocol.endswith("SSL"):
        return None
    from tandem_kafka.network.native_tls import native_tls  # noqa: PLC0415 - imports OpenSSL

    return native_tls(settings)
