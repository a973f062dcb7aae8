"""The options that the network layer reads, by their names in the configuration."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Any, Protocol

__all__ = ["NetworkSettings"]


class NetworkSettings(Protocol):
    """A view of the consumer's configuration; every attribute is an option of that name."""

    @property
    def client_id(self) -> str | None:
        """Name that brokers log for this client."""
        ...

    @property
    def api_version(self) -> tuple[int, ...] | None:
        """Release of Kafka whose protocol versions are not to be exceeded."""
        ...

    @property
    def request_timeout_ms(self) -> int:
        """How long an answer may take."""
        ...

    @property
    def reconnect_backoff_ms(self) -> int:
        """Pause after the first failure to connect."""
        ...

    @property
    def reconnect_backoff_max_ms(self) -> int:
        """Longest pause between attempts to connect."""
        ...

    @property
    def socket_connection_setup_timeout_ms(self) -> int:
        """How long the first attempt may take until the broker can be used."""
        ...

    @property
    def socket_connection_setup_timeout_max_ms(self) -> int:
        """How long any attempt may take."""
        ...

    @property
    def connections_max_idle_ms(self) -> int:
        """When an unused connection is closed; negative for never."""
        ...

    @property
    def receive_message_max_bytes(self) -> int:
        """Largest response that is accepted."""
        ...

    @property
    def max_in_flight_requests_per_connection(self) -> int:
        """How many requests of a connection may wait for their answers."""
        ...

    @property
    def send_buffer_bytes(self) -> int | None:
        """SO_SNDBUF; None for the system's default."""
        ...

    @property
    def receive_buffer_bytes(self) -> int | None:
        """SO_RCVBUF; None for the system's default."""
        ...

    @property
    def socket_options(self) -> Sequence[tuple[Any, ...]]:
        """More arguments for `setsockopt`."""
        ...

    @property
    def proxy_url(self) -> str | None:
        """Proxy that connections go through: ``socks5``, ``socks5h`` or ``http``."""
        ...

    @property
    def client_dns_lookup(self) -> str:
        """How host names become addresses."""
        ...

    @property
    def metadata_recovery_strategy(self) -> str:
        """``rebootstrap`` or ``none`` (KIP-899)."""
        ...

    @property
    def security_protocol(self) -> str:
        """``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``."""
        ...

    @property
    def ssl_context(self) -> ssl.SSLContext | None:
        """A context made by the user, taken as it is."""
        ...

    @property
    def ssl_check_hostname(self) -> bool:
        """Whether the certificate must be for the broker's host name."""
        ...

    @property
    def ssl_cafile(self) -> str | None:
        """Certificates of the authorities to trust; None for the system's."""
        ...

    @property
    def ssl_certfile(self) -> str | None:
        """The client's certificate."""
        ...

    @property
    def ssl_keyfile(self) -> str | None:
        """The client's key."""
        ...

    @property
    def ssl_password(self) -> str | None:
        """Password of the client's key."""
        ...

    @property
    def ssl_crlfile(self) -> str | None:
        """Certificates that were revoked."""
        ...

    @property
    def ssl_ciphers(self) -> str | None:
        """Ciphers that may be used, in OpenSSL's notation."""
        ...

    @property
    def sasl_mechanism(self) -> str | None:
        """Name of the mechanism."""
        ...

    @property
    def sasl_plain_username(self) -> str | None:
        """User for PLAIN and SCRAM."""
        ...

    @property
    def sasl_plain_password(self) -> str | None:
        """Password for PLAIN and SCRAM."""
        ...

    @property
    def sasl_kerberos_name(self) -> Any:
        """Name of the service, or a `gssapi.Name`."""
        ...

    @property
    def sasl_kerberos_service_name(self) -> str | None:
        """First part of the broker's principal."""
        ...

    @property
    def sasl_kerberos_domain_name(self) -> str | None:
        """Host in the broker's principal, if not the one connected to."""
        ...

    @property
    def sasl_oauth_token_provider(self) -> Any:
        """Gives the tokens for OAUTHBEARER."""
        ...
