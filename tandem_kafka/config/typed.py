"""The options as typed keyword arguments: `**options: Unpack[ConsumerOptions]`."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, NewType, Protocol, TypeAlias, TypeVar
from uuid import UUID

from typing_extensions import TypedDict

from tandem_kafka.config.parsers import Deserializer

MadeT_co = TypeVar("MadeT_co", covariant=True)


class DeserializerOf(Protocol[MadeT_co]):
    """An object whose method converts keys or values; None is a missing key or a tombstone."""

    def deserialize(self, topic: str, headers: Any, data: Any, /) -> MadeT_co:
        """Convert a key or a value from bytes."""
        ...


#: A deserializer for keys or values of a type.
Deserializes: TypeAlias = Callable[[bytes], MadeT_co] | DeserializerOf[MadeT_co]

#: A value for `auto_offset_reset`: `ByDuration("by_duration:PT1H")` starts one hour ago.
ByDuration = NewType("ByDuration", str)

SaslMechanism: TypeAlias = Literal[
    "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM"
]


class PlainOptions(TypedDict, total=False):
    """All options except deserializers, which determine the types of keys and values."""

    # The cluster, and the name of the client.
    bootstrap_servers: str | Iterable[str]
    """Brokers for the first connection; the consumer learns about the others from them."""
    client_id: str | int | UUID | None
    """Name of this client in broker logs and quotas; None generates consumer-<group>-<number>."""
    client_rack: str | int | None
    """Rack of this client, to fetch from a replica in the same rack (KIP-392)."""
    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]
    """Whether to resolve bootstrap names to their canonical names, as Kerberos requires."""
    api_version: tuple[int, ...] | str | None
    """Broker version to assume; None asks the broker."""

    # The group.
    group_id: str | int | UUID | None
    """Consumer group; None reads without a group and commits nothing."""
    group_instance_id: str | int | UUID | None
    """Name of a static member, which keeps its partitions across restarts."""
    group_protocol: Literal["classic", "consumer", "auto"]
    """Group protocol: 'classic' (the group leader assigns partitions), 'consumer' (the coordinator
    assigns them, KIP-848), or 'auto' (KIP-848 if the cluster supports it and no option of the
    classic protocol is set).
    """
    group_remote_assignor: str | None
    """Assignor that the coordinator should use (KIP-848); None lets the coordinator choose."""
    group_local_assignors: Sequence[Any]
    """Client-side assignors (KIP-848), which no released broker supports."""
    partition_assignment_strategy: Sequence[Any]
    """Assignors of a classic group, in order of preference (see tandem_kafka.assignors)."""
    session_timeout_ms: float
    """Milliseconds without a heartbeat after which the member is removed from the group."""
    heartbeat_interval_ms: float
    """Milliseconds between heartbeats; below session_timeout_ms."""
    max_poll_interval_ms: float
    """Milliseconds between two calls of poll() after which the member leaves the group."""

    # Offsets.
    auto_offset_reset: Literal["earliest", "latest", "none"] | ByDuration | None
    """Where to start without a committed offset, or when a position is out of range."""
    enable_auto_commit: bool
    """Commit returned records in the background; no effect without a group_id."""
    auto_commit_interval_ms: float
    """Milliseconds between automatic commits."""
    default_offset_commit_callback: Callable[..., object] | None
    """Called with offsets and result of asynchronous and automatic commits."""
    isolation_level: Literal["read_uncommitted", "read_committed", 0, 1]
    """'read_committed' leaves out records of open and aborted transactions."""
    interceptor_classes: Sequence[Any]
    """Interceptors, called in order on the application thread. They see committed offsets, and
    records before poll() returns them, which they may change. Their exceptions are logged.
    """

    # Fetching.
    fetch_min_bytes: int
    """Bytes that a broker collects before it answers a fetch."""
    fetch_max_wait_ms: float
    """Maximum milliseconds that a broker waits for fetch_min_bytes; up to 5,000 for idle partitions
    of a large assignment.
    """
    fetch_max_bytes: int
    """Maximum bytes of one fetch response; a larger first batch is returned anyway."""
    max_partition_fetch_bytes: int
    """Maximum bytes of one partition in a fetch response; a larger first batch is returned anyway.
    Starts at 1 MiB and grows while responses are full and fast.
    """
    fetch_buffer_max_bytes: int
    """Maximum bytes read ahead of poll(), and in one batch of poll(), both after decompression; one
    record may be larger. At least max_partition_fetch_bytes.
    """
    enable_incremental_fetch_sessions: bool
    """Name only changed partitions in fetch requests (KIP-227)."""
    max_decompressed_batch_bytes: int
    """Maximum bytes of one decompressed batch; a larger one raises CorruptRecordError."""
    max_record_headers: int
    """Maximum headers of one record; more raise CorruptRecordError."""
    check_crcs: bool
    """Verify the checksum of each batch."""
    max_poll_records: int
    """Maximum records per poll(); fewer if they reach fetch_buffer_max_bytes."""
    consumer_timeout_ms: float | None
    """Milliseconds without a record after which iteration ends; None never ends it."""

    # Topics.
    allow_auto_create_topics: bool
    """Allow the broker to create missing topics (requires auto.create.topics.enable)."""
    exclude_internal_topics: bool
    """Exclude internal topics from pattern subscriptions."""
    metadata_max_age_ms: float
    """Milliseconds after which metadata is refreshed."""
    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    """Whether to return to bootstrap_servers when no known broker responds (KIP-899)."""
    metadata_recovery_rebootstrap_trigger_ms: float
    """Milliseconds without metadata before returning to bootstrap_servers."""

    # Time limits and retries.
    request_timeout_ms: float
    """Milliseconds to wait for a response."""
    default_api_timeout_ms: float
    """Milliseconds that a call without a timeout may take."""
    bootstrap_timeout_ms: float | None
    """Milliseconds that the constructor waits for the cluster; 0 does not wait."""
    retry_backoff_ms: float
    """Milliseconds before the first retry of a failed request."""
    retry_backoff_max_ms: float
    """Maximum milliseconds between retries; at least retry_backoff_ms."""
    reconnect_backoff_ms: float
    """Milliseconds before the first reconnect to a broker."""
    reconnect_backoff_max_ms: float
    """Maximum milliseconds between reconnects; at least reconnect_backoff_ms."""

    # Connections.
    socket_connection_setup_timeout_ms: float
    """Milliseconds for the first attempt to connect."""
    socket_connection_setup_timeout_max_ms: float
    """Maximum milliseconds to connect, after repeated failures."""
    connections_max_idle_ms: float
    """Milliseconds after which an unused connection is closed."""
    max_in_flight_requests_per_connection: int
    """Maximum requests in flight per connection."""
    receive_buffer_bytes: int | None
    """SO_RCVBUF in bytes; None uses the system's default."""
    send_buffer_bytes: int | None
    """SO_SNDBUF in bytes; None uses the system's default."""
    receive_message_max_bytes: int
    """Maximum bytes of a response; at least fetch_max_bytes + max_partition_fetch_bytes."""
    socket_options: Sequence[tuple[Any, ...]]
    """Arguments of setsockopt() for each connection."""
    proxy_url: str | None
    """SOCKS5 or HTTP CONNECT proxy for all connections; with socks5h and http it resolves the names
    of the brokers.
    """
    socks5_proxy: str | None
    """Old name of proxy_url."""
    selector: object
    """Accepted for compatibility; has no effect."""
    kafka_client: object
    """Accepted for compatibility; your own client is rejected."""
    kafka_net: object
    """Accepted for compatibility; your own object is rejected."""

    # Security.
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """Whether connections use TLS (SSL) and log in with SASL."""
    ssl_context: ssl.SSLContext | None
    """Your own SSL context; the ssl_* files then have no effect."""
    ssl_check_hostname: bool
    """Verify that the broker's certificate names its host."""
    ssl_cafile: str | PathLike[str] | None
    """File with trusted authorities (PEM); None uses the system's."""
    ssl_certfile: str | PathLike[str] | None
    """File with the client certificate chain (PEM)."""
    ssl_keyfile: str | PathLike[str] | None
    """File with its private key (PEM); None looks in ssl_certfile."""
    ssl_password: str | bytes | Callable[[], str | bytes] | None
    """Password of the private key."""
    ssl_crlfile: str | PathLike[str] | None
    """File with certificate revocation lists (PEM)."""
    ssl_ciphers: str | None
    """Allowed TLS 1.2 ciphers, in OpenSSL's notation."""
    sasl_mechanism: SaslMechanism | None
    """SASL mechanism; required with SASL."""
    sasl_plain_username: str | None
    """User name for PLAIN and SCRAM."""
    sasl_plain_password: str | None
    """Password for PLAIN and SCRAM."""
    sasl_kerberos_name: object
    """Kerberos name of the broker, a str or gssapi.Name (GSSAPI)."""
    sasl_kerberos_service_name: str
    """Kerberos service name of the broker (GSSAPI)."""
    sasl_kerberos_domain_name: str | None
    """Kerberos domain of the broker; None uses its host name (GSSAPI)."""
    sasl_oauth_token_provider: object
    """Object whose token() returns an access token (OAUTHBEARER)."""
    sasl_oauthbearer_token_endpoint_url: str | None
    """URL of the OAuth 2.0 endpoint that issues tokens (OAUTHBEARER); https."""
    sasl_oauthbearer_grant_type: str
    """Grant with which the token endpoint is asked for a token."""
    sasl_oauthbearer_client_id: str | None
    """Name of this client at the token endpoint (client credentials)."""
    sasl_oauthbearer_client_secret: str | None
    """Its secret (client credentials)."""
    sasl_oauthbearer_scope: str | None
    """Scopes to ask for, separated by spaces; None asks for the endpoint's default."""
    sasl_oauthbearer_extensions: Mapping[str, str] | str | None
    """SASL extensions to send to the broker with the token."""
    sasl_oauthbearer_cafile: str | PathLike[str] | None
    """File with authorities trusted for the token endpoint (PEM); None uses the system's."""
    sasl_oauthbearer_assertion_file: str | PathLike[str] | None
    """File with a signed assertion (JWT), read for each token (JWT bearer)."""
    sasl_oauthbearer_assertion_private_key_file: str | PathLike[str] | None
    """File with the private key (PEM) that signs assertions (JWT bearer); needs joserfc."""
    sasl_oauthbearer_assertion_private_key_passphrase: (
        str | bytes | Callable[[], str | bytes] | None
    )
    """Password of this key."""
    sasl_oauthbearer_assertion_algorithm: Literal["RS256", "ES256"]
    """Algorithm of the signature of assertions."""
    sasl_oauthbearer_assertion_claim_iss: str | None
    """Issuer of assertions, usually the name of this client."""
    sasl_oauthbearer_assertion_claim_sub: str | None
    """Subject of assertions, for which the token is issued."""
    sasl_oauthbearer_assertion_claim_aud: str | None
    """Audience of assertions, usually the URL of the token endpoint."""
    sasl_oauthbearer_assertion_claim_exp_seconds: int
    """Seconds for which an assertion is valid."""

    # Metrics.
    metrics_enabled: bool
    """Collect metrics."""
    enable_metrics_push: bool
    """Push metrics to brokers that subscribe to them (KIP-714); requires `metrics_enabled`."""
    metrics_num_samples: int
    """Number of time windows from which a metric is computed."""
    metrics_sample_window_ms: float
    """Milliseconds of each of these windows."""
    metric_group_prefix: str
    """Prefix of the names of metric groups."""
    metric_reporters: Sequence[Any]
    """Notified of new, changed and removed metrics (kafka.metrics.AbstractMetricsReporter); classes
    are called without arguments.
    """


class ConsumerOptions(PlainOptions, total=False):
    """All options of a consumer; `Config` has the same names, with the final values."""

    key_deserializer: Callable[[bytes], object] | Deserializer | None
    """Converts keys from bytes."""
    value_deserializer: Callable[[bytes], object] | Deserializer | None
    """Converts values from bytes."""
