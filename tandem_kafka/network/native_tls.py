"""Converts the TLS options for the native transport, which uses rustls.

Invariant: OpenSSL checks the options first, as for the Python transport. Errors are therefore the
same, and OpenSSL expands the cipher expression into names.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from tandem_kafka.config import Config
from tandem_kafka.config.tls import build_context
from tandem_kafka.network.transport import NativeUnsupportedError
from tandem_kafka.runtime.native import native

if TYPE_CHECKING:
    from tandem_kafka import _native


def native_tls(settings: Config) -> _native.TlsConfig | None:
    """Return the TLS configuration of the extension, or None for a protocol without TLS.

    Raises:
        KafkaConfigurationError: The options are invalid.
        NativeUnsupportedError: The options are valid, but rustls does not support them.
    """
    context = build_context(settings)
    if context is None or native is None:
        return None
    if settings.ssl_context is not None:
        raise NativeUnsupportedError("it does not support ssl_context")
    chain = _read(settings.ssl_certfile)
    try:
        config: _native.TlsConfig = native.TlsConfig(
            authorities=_read(settings.ssl_cafile),
            chain=chain,
            key=_read(settings.ssl_keyfile) or chain,
            password=settings.ssl_password,
            revoked=_read(settings.ssl_crlfile),
            check_hostname=settings.ssl_check_hostname,
            ciphers=None if settings.ssl_ciphers is None else _names(context),
        )
    except ValueError as reason:
        raise NativeUnsupportedError(str(reason)) from reason
    return config


def _read(path: str | None) -> bytes | None:
    return Path(path).read_bytes() if path is not None else None


def _names(context: ssl.SSLContext) -> list[str]:
    # The TLS 1.3 cipher suites are always enabled, whatever the option says.
    names = [cipher["name"] for cipher in context.get_ciphers()]
    return [name for name in names if not name.startswith("TLS_")]
