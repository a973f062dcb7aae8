"""Chooses the transport of a consumer: the native one if possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem_kafka.config import Config
from tandem_kafka.logs import client_logger
from tandem_kafka.network.native_transport import NativeTransport
from tandem_kafka.network.transport import NativeUnsupportedError, Transport
from tandem_kafka.records import ReaderOptions
from tandem_kafka.runtime import Clock, green
from tandem_kafka.runtime.native import log_fallback, native_available

if TYPE_CHECKING:
    from tandem_kafka.network.selector import SelectorTransport

log = client_logger(__name__)


def open_transport(settings: Config, clock: Clock, options: ReaderOptions) -> Transport:
    """Create the transport of a consumer.

    Args:
        settings: The consumer's options.
        clock: The clock for the Python transport.
        options: How the native transport decodes fetch responses.

    Raises:
        KafkaConfigurationError: The TLS options cannot be used.
    """
    if not native_available:
        log_fallback()
        return _python(settings, clock)
    try:
        _check_supported(settings)
        native = NativeTransport(settings, options)
    except NativeUnsupportedError as reason:
        log.info("using the Python transport instead of the native one: %s", reason)
        return _python(settings, clock)
    if not settings.security_protocol.endswith("SSL"):
        return native
    from tandem_kafka.network.tls_fallback import TlsTransport  # noqa: PLC0415 - only with TLS

    return TlsTransport(native, lambda: _python(settings, clock))


def _python(settings: Config, clock: Clock) -> SelectorTransport:
    from tandem_kafka.network.selector import SelectorTransport  # noqa: PLC0415 - the exception

    return SelectorTransport(settings, clock)


def _check_supported(settings: Config) -> None:
    """Check the environment and options that the native transport does not support.

    It waits in a system call, which would block all green threads, and it does not support
    proxies.

    Raises:
        NativeUnsupportedError: One of these is required.
    """
    library = green.library()
    if library is not None:
        raise NativeUnsupportedError(f"it does not support threading patched by {library}")
    if settings.proxy_url is not None:
        raise NativeUnsupportedError("it does not support proxy_url")
