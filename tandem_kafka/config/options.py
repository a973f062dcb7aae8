"""Defines every option: name, type, default, allowed values, description.

Names and defaults are kafka-python's. Further options of the Java client are in snake_case.
"""

# ruff: noqa: RUF009 - option() is dataclasses.field() with a check
from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from tandem_kafka.config import external, parsers, token_endpoint
from tandem_kafka.config.checks import (
    BOOL,
    CLIENT_NAME,
    INT32_MAX,
    NAME,
    OPTIONAL_FILE,
    OPTIONAL_NAME,
    OPTIONAL_TEXT,
    RACK,
    TEXT,
    milliseconds,
    one_of,
    whole_number,
)
from tandem_kafka.config.option import option
from tandem_kafka.config.parsers import Deserializer
from tandem_kafka.config.servers import BOOTSTRAP_SERVERS

if TYPE_CHECKING:
    import ssl

_POSITIVE = whole_number(1)
_LIFTED = whole_number(1, lift=True)
_MS = milliseconds(0)
_LIFTED_MS = milliseconds(0, lift=True)
_POSITIVE_MS = milliseconds(1)
_LIFTED_POSITIVE_MS = milliseconds(1, lift=True)
#: Numbers that requests carry in 32 bits.
_WIRE_NOT_NEGATIVE = whole_number(0, INT32_MAX)
_WIRE_LIFTED = whole_number(0, INT32_MAX, lift=True)
_WIRE_POSITIVE = whole_number(1, INT32_MAX)
_WIRE_MS = milliseconds(0, INT32_MAX, lift=True)
_WIRE_POSITIVE_MS = milliseconds(1, INT32_MAX)


#: The options of TLS that name files.
TLS_FILES: Final = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")
#: The mechanisms of SASL that log in with `sasl_plain_username` and `sasl_plain_password`.
PASSWORD_MECHANISMS: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})

_DEFAULT_ASSIGNORS = (RangePartitionAssignor, RoundRobinPartitionAssignor)


@dataclass(init=False, repr=False, frozen=True)  # to compile that `__init__` takes 2 ms
class Options:
    """The values of all options. `Config` checks them together."""

    #: The options as the user wrote them, with their present names.
    named: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, **values: Any) -> None:
        """Keep the values of options, and the defaults of the others.

        Raises:
            TypeError: An option is unknown.
        """
        vars(self).update({spec.name: values.pop(spec.name, spec.default) for spec in fields(self)})
        if values:
            raise TypeError(f"unknown options: {', '.join(values)}")

    # The cluster, and the name of the client.
    bootstrap_servers: tuple[tuple[str, int], ...] = option(
        (("localhost", 9092),),
        BOOTSTRAP_SERVERS,
        "Brokers for the first connection; the consumer learns about the others from them.",
        shown_default="'localhost:9092'",
    )
    client_id: str | None = option(
        None,
        CLIENT_NAME,
        "Name of this client in broker logs and quotas; None generates consumer-<group>-<number>.",
    )
    client_rack: str = option(
        "", RACK, "Rack of this client, to fetch from a replica in the same rack (KIP-392)."
    )
    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"] = (
        option(
            "use_all_dns_ips",
            one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
            "Whether to resolve bootstrap names to their canonical names, as Kerberos requires.",
        )
    )
    api_version: tuple[int, ...] | None = option(
        None, parsers.API_VERSION, "Broker version to assume; None asks the broker."
    )

    # The group.
    group_id: str | None = option(
        None, NAME, "Consumer group; None reads without a group and commits nothing."
    )
    group_instance_id: str | None = option(
        None, CLIENT_NAME, "Name of a static member, which keeps its partitions across restarts."
    )
    group_protocol: Literal["classic", "consumer", "auto"] = option(
        "classic",
        one_of("classic", "consumer", "auto"),
        "Group protocol: 'classic' (the group leader assigns partitions), 'consumer' (the "
        "coordinator assigns them, KIP-848), or 'auto' (KIP-848 if the cluster supports it and no "
        "option of the classic protocol is set).",
    )
    group_remote_assignor: str | None = option(
        None,
        OPTIONAL_NAME,
        "Assignor that the coordinator should use (KIP-848); None lets the coordinator choose.",
    )
    group_local_assignors: Sequence[Any] = option(
        (),
        parsers.LOCAL_ASSIGNORS,
        "Client-side assignors (KIP-848), which no released broker supports.",
        shown_default="()",
    )
    partition_assignment_strategy: Sequence[Any] = option(
        _DEFAULT_ASSIGNORS,
        parsers.ASSIGNORS,
        "Assignors of a classic group, in order of preference (see tandem_kafka.assignors).",
        shown_default="RangePartitionAssignor, RoundRobinPartitionAssignor",
    )
    session_timeout_ms: int = option(
        45_000,
        _WIRE_POSITIVE_MS,
        "Milliseconds without a heartbeat after which the member is removed from the group.",
    )
    heartbeat_interval_ms: int = option(
        3_000, _LIFTED_POSITIVE_MS, "Milliseconds between heartbeats; below session_timeout_ms."
    )
    max_poll_interval_ms: int = option(
        300_000,
        _WIRE_POSITIVE_MS,
        "Milliseconds between two calls of poll() after which the member leaves the group.",
    )

    # Offsets.
    auto_offset_reset: str = option(
        "latest",
        parsers.OFFSET_RESET,
        "Where to start without a committed offset, or when a position is out of range.",
    )
    enable_auto_commit: bool = option(
        True, BOOL, "Commit returned records in the background; no effect without a group_id."
    )
    auto_commit_interval_ms: int = option(
        5_000, _LIFTED_MS, "Milliseconds between automatic commits."
    )
    default_offset_commit_callback: Callable[..., object] | None = option(
        None,
        parsers.COMMIT_CALLBACK,
        "Called with offsets and result of asynchronous and automatic commits.",
    )
    isolation_level: Literal["read_uncommitted", "read_committed"] = option(
        "read_uncommitted",
        parsers.ISOLATION_LEVEL,
        "'read_committed' leaves out records of open and aborted transactions.",
    )
    interceptor_classes: Sequence[Any] = option(
        (),
        parsers.INTERCEPTORS,
        "Interceptors, called in order on the application thread. They see committed offsets, and "
        "records before poll() returns them, which they may change. Their exceptions are logged.",
        shown_default="()",
    )

    # Fetching.
    fetch_min_bytes: int = option(
        1, _WIRE_LIFTED, "Bytes that a broker collects before it answers a fetch."
    )
    fetch_max_wait_ms: int = option(
        500,
        _WIRE_MS,
        "Maximum milliseconds that a broker waits for fetch_min_bytes; up to 5,000 for idle "
        "partitions of a large assignment.",
    )
    fetch_max_bytes: int = option(
        52_428_800,
        _WIRE_NOT_NEGATIVE,
        "Maximum bytes of one fetch response; a larger first batch is returned anyway.",
    )
    max_partition_fetch_bytes: int = option(
        4_194_304,
        _WIRE_NOT_NEGATIVE,
        "Maximum bytes of one partition in a fetch response; a larger first batch is returned "
        "anyway. Starts at 1 MiB and grows while responses are full and fast.",
    )
    fetch_buffer_max_bytes: int = option(
        67_108_864,
        _POSITIVE,
        "Maximum bytes read ahead of poll(), and in one batch of poll(), both after decompression; "
        "one record may be larger. At least max_partition_fetch_bytes.",
    )
    enable_incremental_fetch_sessions: bool = option(
        True, BOOL, "Name only changed partitions in fetch requests (KIP-227)."
    )
    max_decompressed_batch_bytes: int = option(
        134_217_728,
        _WIRE_POSITIVE,
        "Maximum bytes of one decompressed batch; a larger one raises CorruptRecordError.",
    )
    max_record_headers: int = option(
        10_000, _WIRE_NOT_NEGATIVE, "Maximum headers of one record; more raise CorruptRecordError."
    )
    check_crcs: bool = option(True, BOOL, "Verify the checksum of each batch.")
    max_poll_records: int = option(
        500, _POSITIVE, "Maximum records per poll(); fewer if they reach fetch_buffer_max_bytes."
    )
    consumer_timeout_ms: int | None = option(
        None,
        parsers.CONSUMER_TIMEOUT,
        "Milliseconds without a record after which iteration ends; None never ends it.",
    )
    key_deserializer: Callable[[bytes], object] | Deserializer | None = option(
        None, parsers.DESERIALIZER, "Converts keys from bytes."
    )
    value_deserializer: Callable[[bytes], object] | Deserializer | None = option(
        None, parsers.DESERIALIZER, "Converts values from bytes."
    )

    # Topics.
    allow_auto_create_topics: bool = option(
        True,
        BOOL,
        "Allow the broker to create missing topics (requires auto.create.topics.enable).",
    )
    exclude_internal_topics: bool = option(
        True, BOOL, "Exclude internal topics from pattern subscriptions."
    )
    metadata_max_age_ms: int = option(
        300_000, _LIFTED_MS, "Milliseconds after which metadata is refreshed."
    )
    metadata_recovery_strategy: Literal["rebootstrap", "none"] = option(
        "rebootstrap",
        one_of("rebootstrap", "none"),
        "Whether to return to bootstrap_servers when no known broker responds (KIP-899).",
    )
    metadata_recovery_rebootstrap_trigger_ms: int = option(
        300_000, _MS, "Milliseconds without metadata before returning to bootstrap_servers."
    )

    # Time limits and retries.
    request_timeout_ms: int = option(30_000, _POSITIVE_MS, "Milliseconds to wait for a response.")
    default_api_timeout_ms: int = option(
        60_000, _MS, "Milliseconds that a call without a timeout may take."
    )
    bootstrap_timeout_ms: int = option(
        30_000,
        parsers.BOOTSTRAP_TIMEOUT,
        "Milliseconds that the constructor waits for the cluster; 0 does not wait.",
    )
    retry_backoff_ms: int = option(
        100, _LIFTED_MS, "Milliseconds before the first retry of a failed request."
    )
    retry_backoff_max_ms: int = option(
        1_000, _MS, "Maximum milliseconds between retries; at least retry_backoff_ms."
    )
    reconnect_backoff_ms: int = option(
        50, _LIFTED_MS, "Milliseconds before the first reconnect to a broker."
    )
    reconnect_backoff_max_ms: int = option(
        1_000, _LIFTED_MS, "Maximum milliseconds between reconnects; at least reconnect_backoff_ms."
    )

    # Connections.
    socket_connection_setup_timeout_ms: int = option(
        10_000, _POSITIVE_MS, "Milliseconds for the first attempt to connect."
    )
    socket_connection_setup_timeout_max_ms: int = option(
        10_000, _POSITIVE_MS, "Maximum milliseconds to connect, after repeated failures."
    )
    connections_max_idle_ms: int = option(
        540_000, _POSITIVE_MS, "Milliseconds after which an unused connection is closed."
    )
    max_in_flight_requests_per_connection: int = option(
        5, _POSITIVE, "Maximum requests in flight per connection."
    )
    receive_buffer_bytes: int | None = option(
        None, parsers.BUFFER_BYTES, "SO_RCVBUF in bytes; None uses the system's default."
    )
    send_buffer_bytes: int | None = option(
        None, parsers.BUFFER_BYTES, "SO_SNDBUF in bytes; None uses the system's default."
    )
    receive_message_max_bytes: int = option(
        100_000_000,
        _LIFTED,
        "Maximum bytes of a response; at least fetch_max_bytes + max_partition_fetch_bytes.",
    )
    socket_options: Sequence[tuple[Any, ...]] = option(
        ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),),
        parsers.SOCKET_OPTIONS,
        "Arguments of setsockopt() for each connection.",
        shown_default="[(IPPROTO_TCP, TCP_NODELAY, 1)]",
    )
    proxy_url: str | None = option(
        None,
        external.PROXY_URL,
        "SOCKS5 or HTTP CONNECT proxy for all connections; with socks5h and http it resolves the "
        "names of the brokers.",
        secret=True,
    )
    socks5_proxy: str | None = option(
        None, external.PROXY_URL, "Old name of proxy_url.", secret=True
    )
    selector: object = option(None, external.SELECTOR, "Accepted for compatibility; has no effect.")
    kafka_client: object = option(
        None, external.KAFKA_CLIENT, "Accepted for compatibility; your own client is rejected."
    )
    kafka_net: object = option(
        None, external.KAFKA_NET, "Accepted for compatibility; your own object is rejected."
    )

    # Security.
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = option(
        "PLAINTEXT",
        parsers.SECURITY_PROTOCOL,
        "Whether connections use TLS (SSL) and log in with SASL.",
    )
    ssl_context: ssl.SSLContext | None = option(
        None, parsers.SSL_CONTEXT, "Your own SSL context; the ssl_* files then have no effect."
    )
    ssl_check_hostname: bool = option(
        True, BOOL, "Verify that the broker's certificate names its host."
    )
    ssl_cafile: str | None = option(
        None, OPTIONAL_FILE, "File with trusted authorities (PEM); None uses the system's."
    )
    ssl_certfile: str | None = option(
        None, OPTIONAL_FILE, "File with the client certificate chain (PEM)."
    )
    ssl_keyfile: str | None = option(
        None, OPTIONAL_FILE, "File with its private key (PEM); None looks in ssl_certfile."
    )
    ssl_password: str | None = option(
        None, external.KEY_PASSWORD, "Password of the private key.", secret=True
    )
    ssl_crlfile: str | None = option(
        None, OPTIONAL_FILE, "File with certificate revocation lists (PEM)."
    )
    ssl_ciphers: str | None = option(
        None, OPTIONAL_TEXT, "Allowed TLS 1.2 ciphers, in OpenSSL's notation."
    )
    sasl_mechanism: str | None = option(
        None, parsers.SASL_MECHANISM, "SASL mechanism; required with SASL."
    )
    sasl_plain_username: str | None = option(None, OPTIONAL_TEXT, "User name for PLAIN and SCRAM.")
    sasl_plain_password: str | None = option(
        None, OPTIONAL_TEXT, "Password for PLAIN and SCRAM.", secret=True
    )
    sasl_kerberos_name: object = option(
        None, parsers.ANYTHING, "Kerberos name of the broker, a str or gssapi.Name (GSSAPI)."
    )
    sasl_kerberos_service_name: str = option(
        "kafka", external.SERVICE_NAME, "Kerberos service name of the broker (GSSAPI)."
    )
    sasl_kerberos_domain_name: str | None = option(
        None, OPTIONAL_TEXT, "Kerberos domain of the broker; None uses its host name (GSSAPI)."
    )
    sasl_oauth_token_provider: object = option(
        None,
        parsers.TOKEN_PROVIDER,
        "Object whose token() returns an access token (OAUTHBEARER).",
        secret=True,
    )
    sasl_oauthbearer_token_endpoint_url: str | None = option(
        None,
        token_endpoint.ENDPOINT_URL,
        "URL of the OAuth 2.0 endpoint that issues tokens (OAUTHBEARER); https.",
        since="0.10",
    )
    sasl_oauthbearer_grant_type: str = option(
        token_endpoint.CLIENT_CREDENTIALS,
        token_endpoint.GRANT_TYPE,
        "Grant with which the token endpoint is asked for a token.",
        since="0.10",
    )
    sasl_oauthbearer_client_id: str | None = option(
        None,
        OPTIONAL_TEXT,
        "Name of this client at the token endpoint (client credentials).",
        since="0.10",
    )
    sasl_oauthbearer_client_secret: str | None = option(
        None, OPTIONAL_TEXT, "Its secret (client credentials).", secret=True, since="0.10"
    )
    sasl_oauthbearer_scope: str | None = option(
        None,
        OPTIONAL_TEXT,
        "Scopes to ask for, separated by spaces; None asks for the endpoint's default.",
        since="0.10",
    )
    sasl_oauthbearer_extensions: Mapping[str, str] | None = option(
        None,
        token_endpoint.EXTENSIONS,
        "SASL extensions to send to the broker with the token.",
        since="0.10",
    )
    sasl_oauthbearer_cafile: str | None = option(
        None,
        OPTIONAL_FILE,
        "File with authorities trusted for the token endpoint (PEM); None uses the system's.",
        since="0.10",
    )
    sasl_oauthbearer_assertion_file: str | None = option(
        None,
        OPTIONAL_FILE,
        "File with a signed assertion (JWT), read for each token (JWT bearer).",
        since="0.10",
    )
    sasl_oauthbearer_assertion_private_key_file: str | None = option(
        None,
        OPTIONAL_FILE,
        "File with the private key (PEM) that signs assertions (JWT bearer); needs joserfc.",
        since="0.10",
    )
    sasl_oauthbearer_assertion_private_key_passphrase: str | None = option(
        None, external.KEY_PASSWORD, "Password of this key.", secret=True, since="0.10"
    )
    sasl_oauthbearer_assertion_algorithm: Literal["RS256", "ES256"] = option(
        "RS256", token_endpoint.ALGORITHM, "Algorithm of the signature of assertions.", since="0.10"
    )
    sasl_oauthbearer_assertion_claim_iss: str | None = option(
        None, OPTIONAL_TEXT, "Issuer of assertions, usually the name of this client.", since="0.10"
    )
    sasl_oauthbearer_assertion_claim_sub: str | None = option(
        None, OPTIONAL_TEXT, "Subject of assertions, for which the token is issued.", since="0.10"
    )
    sasl_oauthbearer_assertion_claim_aud: str | None = option(
        None,
        OPTIONAL_TEXT,
        "Audience of assertions, usually the URL of the token endpoint.",
        since="0.10",
    )
    sasl_oauthbearer_assertion_claim_exp_seconds: int = option(
        300, _WIRE_POSITIVE, "Seconds for which an assertion is valid.", since="0.10"
    )

    # Metrics.
    metrics_enabled: bool = option(True, BOOL, "Collect metrics.")
    enable_metrics_push: bool = option(
        True,
        BOOL,
        "Push metrics to brokers that subscribe to them (KIP-714); requires `metrics_enabled`.",
        since="0.10",
    )
    metrics_num_samples: int = option(
        2, _LIFTED, "Number of time windows from which a metric is computed."
    )
    metrics_sample_window_ms: int = option(
        30_000, _LIFTED_POSITIVE_MS, "Milliseconds of each of these windows."
    )
    metric_group_prefix: str = option("consumer", TEXT, "Prefix of the names of metric groups.")
    metric_reporters: Sequence[Any] = option(
        (),
        external.METRIC_REPORTERS,
        "Notified of new, changed and removed metrics (kafka.metrics.AbstractMetricsReporter); "
        "classes are called without arguments.",
        shown_default="()",
    )
