"""The SASL logins of a consumer: one exchange per connection, and what they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tandem_kafka.config import Config
from tandem_kafka.foreign_text import SentSecrets
from tandem_kafka.logs import client_logger
from tandem_kafka.network.offloading import Offloading
from tandem_kafka.runtime import Clock, MonotonicClock

if TYPE_CHECKING:
    from tandem_kafka.network.authentication import SaslExchange

log = client_logger(__name__)


class Logins:
    """Creates the exchanges, and keeps the provider of tokens.

    Args:
        settings: The options.
        blocking_calls: Runs calls that may block.
        secrets: What brokers are sent; this adds to it.
        clock: The clock of the tokens' lifetime.

    Raises:
        KafkaConfigurationError: A file of the options cannot be used.
    """

    def __init__(
        self,
        settings: Config,
        blocking_calls: Offloading,
        secrets: SentSecrets,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._blocking_calls = blocking_calls
        self._secrets = secrets
        self._provider: Any = settings.sasl_oauth_token_provider
        if self.required and settings.sasl_oauthbearer_token_endpoint_url is not None:
            from tandem_kafka.network.oidc import OidcTokens  # noqa: PLC0415 - imports HTTP

            self._provider = OidcTokens(settings, clock if clock is not None else MonotonicClock())
        if settings.security_protocol == "SASL_PLAINTEXT" and settings.sasl_mechanism == "PLAIN":
            log.warning(
                "security_protocol='SASL_PLAINTEXT' sends the password unencrypted; use 'SASL_SSL'"
            )

    @property
    def required(self) -> bool:
        """Whether connections must log in."""
        return self._settings.security_protocol.startswith("SASL_")

    def exchange(self, host: str) -> SaslExchange:
        """Return the login of a new connection to `host`."""
        from tandem_kafka.network.authentication import (  # noqa: PLC0415 - few consumers log in
            SaslExchange,
        )

        return SaslExchange(
            self._settings, host, self._blocking_calls, self._provider, self._secrets
        )
