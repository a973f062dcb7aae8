"""The options that the network client uses, by their names."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

__all__ = ["NetworkSettings"]


class NetworkSettings(Protocol):
    """The part of the consumer's configuration that the network client uses."""

    @property
    def client_id(self) -> str | None:
        """Name of this client in the logs and quotas of brokers."""
        ...

    @property
    def api_version(self) -> tuple[int, ...] | None:
        """Kafka release that limits the protocol versions."""
        ...

    @property
    def request_timeout_ms(self) -> int:
        """Timeout of a response."""
        ...

    @property
    def reconnect_backoff_ms(self) -> int:
        """Backoff after the first failure to connect."""
        ...

    @property
    def reconnect_backoff_max_ms(self) -> int:
        """Maximum backoff between attempts to connect."""
        ...

    @property
    def socket_connection_setup_timeout_ms(self) -> int:
        """Timeout of the first attempt, until requests can be sent."""
        ...

    @property
    def socket_connection_setup_timeout_max_ms(self) -> int:
        """Maximum timeout of an attempt."""
        ...

    @property
    def connections_max_idle_ms(self) -> int:
        """Time after which an idle connection is closed; negative for never."""
        ...

    @property
    def receive_message_max_bytes(self) -> int:
        """Maximum size of a response."""
        ...

    @property
    def max_in_flight_requests_per_connection(self) -> int:
        """Maximum number of requests in flight per connection."""
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
        """Additional arguments for `setsockopt`."""
        ...

    @property
    def proxy_url(self) -> str | None:
        """URL of a proxy: ``socks5``, ``socks5h`` or ``http``."""
        ...

    @property
    def client_dns_lookup(self) -> str:
        """How host names are resolved."""
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
        """The user's TLS context, which replaces the other options."""
        ...

    @property
    def ssl_check_hostname(self) -> bool:
        """Whether the certificate must match the broker's host name."""
        ...

    @property
    def ssl_cafile(self) -> str | None:
        """File with trusted CA certificates; None for those of the system."""
        ...

    @property
    def ssl_certfile(self) -> str | None:
        """File with the client's certificate."""
        ...

    @property
    def ssl_keyfile(self) -> str | None:
        """File with the client's private key."""
        ...

    @property
    def ssl_password(self) -> str | None:
        """Password of the client's private key."""
        ...

    @property
    def ssl_crlfile(self) -> str | None:
        """File with a certificate revocation list."""
        ...

    @property
    def ssl_ciphers(self) -> str | None:
        """Allowed ciphers, in OpenSSL's format."""
        ...

    @property
    def sasl_mechanism(self) -> str | None:
        """Name of the SASL mechanism."""
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
        """Name of the service principal, or a `gssapi.Name`."""
        ...

    @property
    def sasl_kerberos_service_name(self) -> str | None:
        """First part of the broker's principal."""
        ...

    @property
    def sasl_kerberos_domain_name(self) -> str | None:
        """Host in the broker's principal, if it differs from the connected one."""
        ...

    @property
    def sasl_oauth_token_provider(self) -> Any:
        """Provider of tokens for OAUTHBEARER."""
        ...

    @property
    def sasl_oauthbearer_token_endpoint_url(self) -> str | None:
        """URL of the OAuth 2.0 endpoint that issues tokens."""
        ...

    @property
    def sasl_oauthbearer_grant_type(self) -> str:
        """Grant with which the token endpoint is asked for a token."""
        ...

    @property
    def sasl_oauthbearer_client_id(self) -> str | None:
        """Name of this client at the token endpoint (client credentials)."""
        ...

    @property
    def sasl_oauthbearer_client_secret(self) -> str | None:
        """Its secret (client credentials)."""
        ...

    @property
    def sasl_oauthbearer_scope(self) -> str | None:
        """Scopes to ask for, separated by spaces; None asks for the endpoint's default."""
        ...

    @property
    def sasl_oauthbearer_extensions(self) -> Mapping[str, str] | None:
        """SASL extensions to send to the broker with the token."""
        ...

    @property
    def sasl_oauthbearer_cafile(self) -> str | None:
        """File with authorities trusted for the token endpoint (PEM); None uses the system's."""
        ...

    @property
    def sasl_oauthbearer_assertion_file(self) -> str | None:
        """File with a signed assertion (JWT), read for each token (JWT bearer)."""
        ...

    @property
    def sasl_oauthbearer_assertion_private_key_file(self) -> str | None:
        """File with the private key (PEM) that signs assertions (JWT bearer); needs joserfc."""
        ...

    @property
    def sasl_oauthbearer_assertion_private_key_passphrase(self) -> str | None:
        """Password of this key."""
        ...

    @property
    def sasl_oauthbearer_assertion_algorithm(self) -> str:
        """Algorithm of the signature of assertions."""
        ...

    @property
    def sasl_oauthbearer_assertion_claim_iss(self) -> str | None:
        """Issuer of assertions, usually the name of this client."""
        ...

    @property
    def sasl_oauthbearer_assertion_claim_sub(self) -> str | None:
        """Subject of assertions, for which the token is issued."""
        ...

    @property
    def sasl_oauthbearer_assertion_claim_aud(self) -> str | None:
        """Audience of assertions, usually the URL of the token endpoint."""
        ...

    @property
    def sasl_oauthbearer_assertion_claim_exp_seconds(self) -> int:
        """Seconds for which an assertion is valid."""
        ...
