"""What it means when a connection ends, in words that say what to look at."""

from __future__ import annotations

from tandem_kafka.errors import KafkaConnectionError
from tandem_kafka.types import Node

__all__ = ["as_connection_error", "closed_at_first_request", "closed_while_negotiating"]


def as_connection_error(error: Exception, node: Node) -> Exception:
    """Return the retriable error for those who only shared a connection with the culprit."""
    if not isinstance(error, KafkaConnectionError):
        cause, error = error, KafkaConnectionError(f"connection to {node} lost: {error}")
        error.__cause__ = cause
    return error


def closed_while_negotiating(node: Node, error: Exception) -> Exception:
    """Say what it may mean; it proves nothing, a proxy without its broker does the same."""
    named: Exception = KafkaConnectionError(
        f"{node} hung up when asked for its versions: it may be going down, have a port with other "
        f"security_protocol, or be older than Kafka 0.11: {error}"
    )
    named.__cause__ = error
    return named


def closed_at_first_request(node: Node, error: Exception) -> Exception:
    """Say what it may mean: a listener with SASL tells its versions to anyone, then hangs up."""
    named: Exception = KafkaConnectionError(
        f"{node} hung up on the first request; if it wants SASL, set security_protocol: {error}"
    )
    named.__cause__ = error
    return named
