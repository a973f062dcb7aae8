"""Errors of lost connections, with hints about their likely causes."""

from __future__ import annotations

from tandem_kafka.config import Config
from tandem_kafka.errors import KafkaConnectionError, TlsAuthenticationError, reason_of
from tandem_kafka.types import Node


def as_connection_error(error: Exception, node: Node) -> Exception:
    """Return a retriable error for the other requests on a connection that an error has ended."""
    if not isinstance(error, KafkaConnectionError):
        cause, error = error, KafkaConnectionError(f"connection to {node} lost: {reason_of(error)}")
        error.__cause__ = cause
    return error


def closed_while_negotiating(node: Node, error: Exception) -> Exception:
    """Return an error with likely causes.

    Invariant: it can be retried, and excludes no version. A proxy accepts and hangs up for a broker
    that is down. Only a response to ApiVersions says what its node supports. A node that has never
    responded is tried again with a backoff, for as long as its caller has time.
    """
    named: Exception = KafkaConnectionError(
        f"{node} closed the connection after ApiVersions; it may be shutting down, require a "
        f"different security_protocol on this port, or be older than Kafka 0.11: {reason_of(error)}"
    )
    named.__cause__ = error
    return named


def closed_at_first_request(node: Node, error: Exception) -> Exception:
    """Return an error with the likely cause: a SASL listener only responds to ApiVersions."""
    named: Exception = KafkaConnectionError(
        f"{node} closed the connection at the first request; if it requires SASL, set "
        f"security_protocol to 'SASL_SSL' or 'SASL_PLAINTEXT': {reason_of(error)}"
    )
    named.__cause__ = error
    return named


def with_certificate_hint(error: Exception, settings: Config) -> Exception:
    """Name the missing option if the broker rejects a client without a certificate."""
    given = settings.ssl_certfile is not None or settings.ssl_context is not None
    text = reason_of(error)
    if given or not isinstance(error, TlsAuthenticationError) or "alert" not in text.lower():
        return error
    if "certificate" not in text.lower():
        return error
    named: Exception = TlsAuthenticationError(
        f"{text}; if the broker requires a client certificate, set ssl_certfile and ssl_keyfile"
    )
    named.__cause__ = error
    return named
