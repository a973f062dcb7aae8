"""The options as keyword arguments, for type checkers: `**options: Unpack[ConsumerOptions]`."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any, Literal, NewType, Protocol, TypeAlias, TypeVar
from uuid import UUID

from typing_extensions import TypedDict

from tandem_kafka.config.parsers import Deserializer

__all__ = ["ByDuration", "ConsumerOptions", "Deserializes", "PlainOptions"]

MadeT_co = TypeVar("MadeT_co", covariant=True)


class DeserializerOf(Protocol[MadeT_co]):
    """An object whose method makes keys or values; None is a missing key or a tombstone."""

    def deserialize(self, topic: str, headers: Any, data: Any, /) -> MadeT_co:
        """Make a key or a value of bytes."""
        ...


#: What makes keys or values of a type.
Deserializes: TypeAlias = Callable[[bytes], MadeT_co] | DeserializerOf[MadeT_co]

#: `ByDuration("by_duration:PT1H")`: begin an hour back, for `auto_offset_reset`.
ByDuration = NewType("ByDuration", str)

SaslMechanism: TypeAlias = Literal[
    "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM"
]


class PlainOptions(TypedDict, total=False):
    """What a consumer takes beside deserializers, which say what its keys and values are."""

    # Where the cluster is, and who we are.
    bootstrap_servers: str | Iterable[str]
    """Brokers to ask first; they tell of the others."""
    client_id: str | int | UUID | None
    """Name in the brokers' logs and quotas; None for consumer-<group>-<number>."""
    client_rack: str | int | None
    """Rack, to fetch from a replica in the same one (KIP-392)."""
    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]
    """Whether bootstrap names are resolved to their canonical ones, as Kerberos needs."""
    api_version: tuple[int, ...] | str | None
    """Broker version to assume; None asks the broker."""

    # The group.
    group_id: str | int | UUID | None
    """Consumer group; None consumes without one and commits nothing."""
    group_instance_id: str | int | UUID | None
    """Makes a static member, known by this name across restarts."""
    group_protocol: Literal["classic", "consumer", "auto"]
    """Who assigns: the group's leader (classic), its coordinator (consumer, KIP-848), or the
    coordinator where the cluster can and no classic option is given (auto).
    """
    group_remote_assignor: str | None
    """Assignor that the coordinator is asked to use (KIP-848); None leaves it the choice."""
    group_local_assignors: Sequence[Any]
    """Assignors that a member of the group computes with (KIP-848 as it was proposed; no
    released broker can); none leaves it to the coordinator.
    """
    partition_assignment_strategy: Sequence[Any]
    """Assignors of a classic group, in order of preference (tandem_kafka.assignors)."""
    session_timeout_ms: float
    """Milliseconds without a heartbeat after which the group goes on without us."""
    heartbeat_interval_ms: float
    """Milliseconds between heartbeats; below session_timeout_ms."""
    max_poll_interval_ms: float
    """Milliseconds between two calls of poll() after which we leave the group."""

    # Offsets.
    auto_offset_reset: Literal["earliest", "latest", "none"] | ByDuration | None
    """Where to start without a committed offset, or beyond the log's end."""
    enable_auto_commit: bool
    """Commit what poll() handed out, in the background; off without a group."""
    auto_commit_interval_ms: float
    """Milliseconds between automatic commits."""
    default_offset_commit_callback: Callable[..., object] | None
    """Called with offsets and result of commits that bring no callback along."""
    isolation_level: Literal["read_uncommitted", "read_committed", 0, 1]
    """Whether records of open and aborted transactions are left out."""
    interceptor_classes: Sequence[Any]
    """See records before poll() returns them, and may change them; see offsets that have been
    committed. Called in order on the application thread; what they raise is logged.
    """

    # Fetching.
    fetch_min_bytes: int
    """Bytes for which a broker waits before it answers a fetch."""
    fetch_max_wait_ms: float
    """Milliseconds it waits for them at most; up to 5,000 for those of many partitions that are
    quiet, if one byte is enough.
    """
    fetch_max_bytes: int
    """Bytes of one answer; a larger first batch comes anyway."""
    max_partition_fetch_bytes: int
    """Bytes of one partition in one answer, likewise; at first 1 MiB at most is asked for, then
    more while answers are full and quick.
    """
    fetch_buffer_max_bytes: int
    """Bytes read ahead of poll() at most, and bytes of keys, values and headers in one batch of
    poll(), as decompressed (one record may be larger); max_partition_fetch_bytes if that is
    more.
    """
    enable_incremental_fetch_sessions: bool
    """Name only changed partitions to the broker (KIP-227)."""
    max_decompressed_batch_bytes: int
    """Bytes that one batch may decompress to; a larger one is a CorruptRecordError that names
    its offsets.
    """
    max_record_headers: int
    """Headers that one record may have; more are a CorruptRecordError."""
    check_crcs: bool
    """Verify each batch's checksum."""
    max_poll_records: int
    """Records that one poll() returns at most; fewer if they reach fetch_buffer_max_bytes."""
    consumer_timeout_ms: float | None
    """Milliseconds without a record after which iteration ends; None never."""

    # Topics.
    allow_auto_create_topics: bool
    """Let the broker create topics that we ask for, if it is set to."""
    exclude_internal_topics: bool
    """Leave internal topics out of a pattern subscription."""
    metadata_max_age_ms: float
    """Milliseconds after which metadata is asked for again."""
    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    """Whether to start from bootstrap_servers again when no known broker answers (KIP-899)."""
    metadata_recovery_rebootstrap_trigger_ms: float
    """Milliseconds without metadata after which to do that."""

    # Time limits and retries.
    request_timeout_ms: float
    """Milliseconds for which an answer is awaited."""
    default_api_timeout_ms: float
    """Milliseconds that a blocking call may take when not told otherwise."""
    bootstrap_timeout_ms: float | None
    """Milliseconds for the first contact with the cluster; None for 24 days."""
    retry_backoff_ms: float
    """Milliseconds before a failed request is sent again, at first."""
    retry_backoff_max_ms: float
    """The same after many failures; retry_backoff_ms if that is more."""
    reconnect_backoff_ms: float
    """Milliseconds before connecting to a broker again, at first."""
    reconnect_backoff_max_ms: float
    """The same after many failures; reconnect_backoff_ms if more."""

    # Connections.
    socket_connection_setup_timeout_ms: float
    """Milliseconds for making a connection, at first."""
    socket_connection_setup_timeout_max_ms: float
    """The same after many failures; the first one if that is more."""
    connections_max_idle_ms: float
    """Milliseconds after which an unused connection is closed."""
    max_in_flight_requests_per_connection: int
    """Unanswered requests per connection."""
    receive_buffer_bytes: int | None
    """SO_RCVBUF in bytes; None leaves it to the system."""
    send_buffer_bytes: int | None
    """SO_SNDBUF in bytes; None leaves it to the system."""
    receive_message_max_bytes: int
    """Bytes of the largest message accepted; fetch_max_bytes + max_partition_fetch_bytes if
    that is more.
    """
    socket_options: Sequence[tuple[Any, ...]]
    """Arguments for setsockopt() on each connection."""
    proxy_url: str | None
    """Proxy that connections go through: SOCKS5, or HTTP CONNECT (http). With socks5h and http
    it resolves the brokers' names.
    """
    socks5_proxy: str | None
    """Old name of proxy_url."""
    selector: object
    """Taken and not used: the network thread brings its own."""
    kafka_client: object
    """Likewise; one of your own is refused."""
    kafka_net: object
    """Likewise."""

    # Security.
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """Whether connections are encrypted (SSL) and authenticated (SASL)."""
    ssl_context: ssl.SSLContext | None
    """A context of your own, in place of the files below."""
    ssl_check_hostname: bool
    """Compare the certificate's name to the host's."""
    ssl_cafile: str | PathLike[str] | None
    """File of trusted authorities (PEM)."""
    ssl_certfile: str | PathLike[str] | None
    """File of the client certificate (PEM)."""
    ssl_keyfile: str | PathLike[str] | None
    """File of its key (PEM)."""
    ssl_password: str | bytes | Callable[[], str | bytes] | None
    """Password of the key."""
    ssl_crlfile: str | PathLike[str] | None
    """File of revoked certificates (PEM)."""
    ssl_ciphers: str | None
    """Allowed ciphers in OpenSSL's notation."""
    sasl_mechanism: SaslMechanism | None
    """How to authenticate."""
    sasl_plain_username: str | None
    """User name, PLAIN and SCRAM."""
    sasl_plain_password: str | None
    """Password, PLAIN and SCRAM."""
    sasl_kerberos_name: object
    """The broker's Kerberos name, a str or gssapi.Name (GSSAPI)."""
    sasl_kerberos_service_name: str
    """The broker's service name (GSSAPI)."""
    sasl_kerberos_domain_name: str | None
    """The broker's domain; None for its host (GSSAPI)."""
    sasl_oauth_token_provider: object
    """Gives tokens (OAUTHBEARER)."""

    # Metrics.
    metrics_enabled: bool
    """Keep metrics."""
    metrics_num_samples: int
    """Windows over which metrics are computed."""
    metrics_sample_window_ms: float
    """Milliseconds of such a window."""
    metric_group_prefix: str
    """What the names of metric groups begin by."""
    metric_reporters: Sequence[Any]
    """Are told of metrics that come, change and go (kafka.metrics.AbstractMetricsReporter);
    classes or callables are called without arguments.
    """


class ConsumerOptions(PlainOptions, total=False):
    """What a consumer takes; `Config` has the same names, with what became of the values."""

    key_deserializer: Callable[[bytes], object] | Deserializer | None
    """Makes keys of bytes."""
    value_deserializer: Callable[[bytes], object] | Deserializer | None
    """Makes values of bytes."""
