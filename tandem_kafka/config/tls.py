"""The TLS context that the options of a consumer describe."""

from __future__ import annotations

import ssl
from typing import Final

from tandem_kafka.config import Config
from tandem_kafka.config.files import read_file
from tandem_kafka.config.options import TLS_FILES
from tandem_kafka.errors import KafkaConfigurationError

_WITH_TLS: Final = frozenset({"SSL", "SASL_SSL"})


def build_context(settings: Config) -> ssl.SSLContext | None:
    """Create the TLS context of a consumer; return None for a protocol without TLS."""
    if settings.security_protocol not in _WITH_TLS:
        return None
    if settings.ssl_context is not None:
        return settings.ssl_context
    _check_files(settings)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = settings.ssl_check_hostname
    _trust(context, settings)
    _identify(context, settings)
    if settings.ssl_ciphers is not None:
        try:
            context.set_ciphers(settings.ssl_ciphers)
        except ssl.SSLError as error:
            raise KafkaConfigurationError(
                f"ssl_ciphers: {settings.ssl_ciphers!r} selects no cipher: {error}"
            ) from error
    return context


def _check_files(settings: Config) -> None:
    for option in TLS_FILES:
        path = getattr(settings, option)
        if path is not None:
            read_file(option, path)


def _trust(context: ssl.SSLContext, settings: Config) -> None:
    if settings.ssl_cafile is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _load_authorities(context, "ssl_cafile", settings.ssl_cafile)
    if settings.ssl_crlfile is not None:
        _load_authorities(context, "ssl_crlfile", settings.ssl_crlfile)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _load_authorities(context: ssl.SSLContext, option: str, path: str) -> None:
    try:
        context.load_verify_locations(path)
    except (ssl.SSLError, OSError) as error:
        raise KafkaConfigurationError(
            f"{option}: cannot use {path}, which must be in PEM format: {error}"
        ) from error


def _identify(context: ssl.SSLContext, settings: Config) -> None:
    certificate = settings.ssl_certfile
    if certificate is None:
        if settings.ssl_keyfile is not None:
            raise KafkaConfigurationError(
                f"ssl_keyfile: {settings.ssl_keyfile} needs its certificate in ssl_certfile"
            )
        return
    # Without a password, OpenSSL would prompt for one on the terminal and block.
    password = settings.ssl_password or ""
    try:
        context.load_cert_chain(certificate, settings.ssl_keyfile, password)
    except (ssl.SSLError, OSError) as error:
        key = f" with ssl_keyfile {settings.ssl_keyfile}" if settings.ssl_keyfile else ""
        raise KafkaConfigurationError(
            f"ssl_certfile: cannot use {certificate}{key} (is ssl_password right?): {error}"
        ) from error
