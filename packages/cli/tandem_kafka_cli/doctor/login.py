"""Does a broker accept this client? ApiVersions, SASL and metadata, through the consumer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from tandem_kafka.config import Config
from tandem_kafka.errors import (
    KafkaError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    TlsAuthenticationError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
    reason_of,
)
from tandem_kafka_cli.doctor.finding import Finding, Step, failed, passed
from tandem_kafka_cli.doctor.reaching import Server, speaks_tls

if TYPE_CHECKING:
    from tandem_kafka.types import ClusterSnapshot
    from tandem_kafka_cli.connection import Connection


#: In the text of an error if the server has refused or closed connections.
_UNUSABLE: Final = "has been unusable"

_REFUSALS: Final = {
    TlsAuthenticationError: (
        Step.TLS,
        "check ssl.ca.location, and ssl.certificate.location if the broker asks for a certificate",
    ),
    UnsupportedSaslMechanismError: (
        Step.SASL,
        "set sasl.mechanism to one of the broker's mechanisms",
    ),
    SaslAuthenticationFailedError: (
        Step.SASL,
        "check user name and password (or token), and that the user exists for this mechanism",
    ),
    UnsupportedVersionError: (
        Step.VERSIONS,
        "the broker is too old or no Kafka broker; tandem-kafka needs Kafka 0.11 or newer",
    ),
}


class Login:
    """Logs in to one server.

    Args:
        connection: Makes the consumer.
        config: Its options.
        timeout_ms: The limit of the login.

    Attributes:
        snapshot: The cluster as the server describes it; None before a successful login.
    """

    def __init__(self, connection: Connection, config: Config, timeout_ms: int) -> None:
        self._connection = connection
        self._config = config
        self._timeout_ms = timeout_ms
        self.snapshot: ClusterSnapshot | None = None

    def examine(self, server: Server) -> Iterator[Finding]:
        """Log in to a server that accepts connections."""
        # A consumer must be able to write its own error before the time is up.
        limits: dict[str, Any] = {
            "bootstrap_servers": [server.target],
            "bootstrap_timeout_ms": self._timeout_ms,
            "default_api_timeout_ms": self._timeout_ms,
        }
        try:
            with self._connection.consumer(**limits) as consumer:
                self.snapshot = consumer.cluster(self._timeout_ms)
        except KafkaError as error:
            yield self._refused(server, error)
            return
        yield from self._accepted(server, self.snapshot)

    def _accepted(self, server: Server, snapshot: ClusterSnapshot) -> Iterator[Finding]:
        if self._config.security_protocol.startswith("SASL_"):
            yield passed(Step.SASL, server.target, f"accepted with {self._config.sasl_mechanism}")
        else:
            yield passed(Step.SASL, server.target, "not used: security.protocol has no login")
        yield passed(Step.VERSIONS, server.target, "every request has a version that both support")
        if not snapshot.nodes:
            yield failed(
                Step.METADATA, server.target, f"cluster {snapshot.cluster_id} has no broker yet",
                "wait until the broker has started; if it does not, its log says why the "
                "controller has not registered it",
            )  # fmt: skip
            return
        text = (
            f"cluster {snapshot.cluster_id}: {_count(len(snapshot.nodes), 'broker')}, "
            f"{_count(len(snapshot.topics), 'topic')} visible"
        )
        yield passed(Step.METADATA, server.target, text)

    def _refused(self, server: Server, error: KafkaError) -> Finding:
        for kind, (step, advice) in _REFUSALS.items():
            if isinstance(error, kind):
                return failed(step, server.target, reason_of(error), advice)
        if not self._config.security_protocol.endswith("SSL") and server.offers_tls():
            return speaks_tls(server.target)
        if isinstance(error, KafkaTimeoutError) and _UNUSABLE not in str(error):
            return failed(
                Step.VERSIONS, server.target,
                f"it accepts connections, but has not responded within {self._timeout_ms} ms",
                "the broker hangs, or this is no Kafka broker: look at its log and its threads, "
                "and restart it",
            )  # fmt: skip
        return failed(
            Step.VERSIONS, server.target, reason_of(error),
            "check that this is the port of a Kafka listener for clients, with this "
            f"security.protocol ({self._config.security_protocol})",
        )  # fmt: skip


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
