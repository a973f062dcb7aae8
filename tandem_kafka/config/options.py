"""Every option once: name, type, default, what may be given, and a sentence about it.

Names and defaults are kafka-python's; what the Java client has beyond them is in snake_case.
"""

# ruff: noqa: RUF009 - option() is dataclasses.field() with a check
from __future__ import annotations

import dataclasses
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, Literal

from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from tandem_kafka.config import guests, parsers
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
from tandem_kafka.config.names import current_names
from tandem_kafka.config.offset_reset import OffsetReset, parse_offset_reset
from tandem_kafka.config.option import option, option_of, parse_option
from tandem_kafka.config.parsers import Deserializer
from tandem_kafka.config.rules import check_rules, settle_defaults
from tandem_kafka.config.servers import BOOTSTRAP_SERVERS
from tandem_kafka.config.shown import ShownOptions, shown
from tandem_kafka.config.unused import without_use
from tandem_kafka.config.written import as_written

__all__ = ["Config", "default_config"]

_POSITIVE = whole_number(1)
_LIFTED = whole_number(1, lift=True)
_MS = milliseconds(0)
_LIFTED_MS = milliseconds(0, lift=True)
_POSITIVE_MS = milliseconds(1)
_LIFTED_POSITIVE_MS = milliseconds(1, lift=True)
#: Those that travel in a request are 32 bit numbers there.
_WIRE_NOT_NEGATIVE = whole_number(0, INT32_MAX)
_WIRE_LIFTED = whole_number(0, INT32_MAX, lift=True)
_WIRE_POSITIVE = whole_number(1, INT32_MAX)
_WIRE_MS = milliseconds(0, INT32_MAX, lift=True)
_WIRE_POSITIVE_MS = milliseconds(1, INT32_MAX)


_DEFAULT_ASSIGNORS = (RangePartitionAssignor, RoundRobinPartitionAssignor)


@dataclass(frozen=True, kw_only=True, repr=False)
class Config:
    """The settled options of one consumer; made by `from_options`, which checks them."""

    #: The options as the user wrote them, under their present names.
    named: ClassVar[Mapping[str, Any]] = {}

    # Where the cluster is, and who we are.
    bootstrap_servers: tuple[tuple[str, int], ...] = option(
        (("localhost", 9092),),
        BOOTSTRAP_SERVERS,
        "Brokers to ask first; they tell of the others.",
        shown_default="'localhost:9092'",
    )
    client_id: str | None = option(
        None,
        CLIENT_NAME,
        "Name in the brokers' logs and quotas; None for consumer-<group>-<number>.",
    )
    client_rack: str = option("", RACK, "Rack, to fetch from a replica in the same one (KIP-392).")
    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"] = (
        option(
            "use_all_dns_ips",
            one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
            "Whether bootstrap names are resolved to their canonical ones, as Kerberos needs.",
        )
    )
    api_version: tuple[int, ...] | None = option(
        None, parsers.API_VERSION, "Broker version to assume; None asks the broker."
    )

    # The group.
    group_id: str | None = option(
        None, NAME, "Consumer group; None consumes without one and commits nothing."
    )
    group_instance_id: str | None = option(
        None, NAME, "Makes a static member, known by this name across restarts."
    )
    group_protocol: Literal["classic", "consumer", "auto"] = option(
        "classic",
        one_of("classic", "consumer", "auto"),
        "Who assigns: the group's leader (classic), its coordinator (consumer, KIP-848), or the "
        "coordinator where the cluster can and no classic option is given (auto).",
    )
    group_remote_assignor: str | None = option(
        None,
        OPTIONAL_NAME,
        "Assignor that the coordinator is asked to use (KIP-848); None leaves it the choice.",
    )
    group_local_assignors: Sequence[Any] = option(
        (),
        parsers.LOCAL_ASSIGNORS,
        "Assignors that a member of the group computes with (KIP-848 as it was proposed; no "
        "released broker can); none leaves it to the coordinator.",
        shown_default="()",
    )
    partition_assignment_strategy: Sequence[Any] = option(
        _DEFAULT_ASSIGNORS,
        parsers.ASSIGNORS,
        "Assignors of a classic group, in order of preference (tandem_kafka.assignors).",
        shown_default="RangePartitionAssignor, RoundRobinPartitionAssignor",
    )
    session_timeout_ms: int = option(
        45_000,
        _WIRE_POSITIVE_MS,
        "Milliseconds without a heartbeat after which the group goes on without us.",
    )
    heartbeat_interval_ms: int = option(
        3_000, _LIFTED_POSITIVE_MS, "Milliseconds between heartbeats; below session_timeout_ms."
    )
    max_poll_interval_ms: int = option(
        300_000,
        _WIRE_POSITIVE_MS,
        "Milliseconds between two calls of poll() after which we leave the group.",
    )

    # Offsets.
    auto_offset_reset: str = option(
        "latest",
        parsers.OFFSET_RESET,
        "Where to start without a committed offset, or beyond the log's end.",
    )
    enable_auto_commit: bool = option(
        True, BOOL, "Commit what poll() handed out, in the background; off without a group."
    )
    auto_commit_interval_ms: int = option(
        5_000, _LIFTED_MS, "Milliseconds between automatic commits."
    )
    default_offset_commit_callback: Callable[..., object] | None = option(
        None,
        parsers.COMMIT_CALLBACK,
        "Called with offsets and result of commits that bring no callback along.",
    )
    isolation_level: Literal["read_uncommitted", "read_committed"] = option(
        "read_uncommitted",
        parsers.ISOLATION_LEVEL,
        "Whether records of open and aborted transactions are left out.",
    )
    interceptor_classes: Sequence[Any] = option(
        (),
        parsers.INTERCEPTORS,
        "See records before poll() returns them, and may change them; see offsets that have been "
        "committed. Called in order on the application thread; what they raise is logged.",
        shown_default="()",
    )

    # Fetching.
    fetch_min_bytes: int = option(
        1, _WIRE_LIFTED, "Bytes for which a broker waits before it answers a fetch."
    )
    fetch_max_wait_ms: int = option(
        500,
        _WIRE_MS,
        "Milliseconds it waits for them at most; up to 5,000 for those of many partitions that are "
        "quiet, if one byte is enough.",
    )
    fetch_max_bytes: int = option(
        52_428_800, _WIRE_NOT_NEGATIVE, "Bytes of one answer; a larger first batch comes anyway."
    )
    max_partition_fetch_bytes: int = option(
        4_194_304,
        _WIRE_NOT_NEGATIVE,
        "Bytes of one partition in one answer, likewise; at first 1 MiB at most is asked for, "
        "then more while answers are full and quick.",
    )
    fetch_buffer_max_bytes: int = option(
        67_108_864,
        _POSITIVE,
        "Bytes read ahead of poll() at most, and bytes of keys, values and headers in one batch "
        "of poll(), as decompressed (one record may be larger); max_partition_fetch_bytes if that "
        "is more.",
    )
    enable_incremental_fetch_sessions: bool = option(
        True, BOOL, "Name only changed partitions to the broker (KIP-227)."
    )
    max_decompressed_batch_bytes: int = option(
        134_217_728,
        _WIRE_POSITIVE,
        "Bytes that one batch may decompress to; a larger one is a CorruptRecordError that names "
        "its offsets.",
    )
    max_record_headers: int = option(
        10_000,
        _WIRE_NOT_NEGATIVE,
        "Headers that one record may have; more are a CorruptRecordError.",
    )
    check_crcs: bool = option(True, BOOL, "Verify each batch's checksum.")
    max_poll_records: int = option(
        500,
        _POSITIVE,
        "Records that one poll() returns at most; fewer if they reach fetch_buffer_max_bytes.",
    )
    consumer_timeout_ms: int | None = option(
        None,
        parsers.CONSUMER_TIMEOUT,
        "Milliseconds without a record after which iteration ends; None never.",
    )
    key_deserializer: Callable[[bytes], object] | Deserializer | None = option(
        None, parsers.DESERIALIZER, "Makes keys of bytes."
    )
    value_deserializer: Callable[[bytes], object] | Deserializer | None = option(
        None, parsers.DESERIALIZER, "Makes values of bytes."
    )

    # Topics.
    allow_auto_create_topics: bool = option(
        True, BOOL, "Let the broker create topics that we ask for, if it is set to."
    )
    exclude_internal_topics: bool = option(
        True, BOOL, "Leave internal topics out of a pattern subscription."
    )
    metadata_max_age_ms: int = option(
        300_000, _LIFTED_MS, "Milliseconds after which metadata is asked for again."
    )
    metadata_recovery_strategy: Literal["rebootstrap", "none"] = option(
        "rebootstrap",
        one_of("rebootstrap", "none"),
        "Whether to start from bootstrap_servers again when no known broker answers (KIP-899).",
    )
    metadata_recovery_rebootstrap_trigger_ms: int = option(
        300_000, _MS, "Milliseconds without metadata after which to do that."
    )

    # Time limits and retries.
    request_timeout_ms: int = option(
        30_000, _POSITIVE_MS, "Milliseconds for which an answer is awaited."
    )
    default_api_timeout_ms: int = option(
        60_000, _MS, "Milliseconds that a blocking call may take when not told otherwise."
    )
    bootstrap_timeout_ms: int = option(
        30_000,
        parsers.BOOTSTRAP_TIMEOUT,
        "Milliseconds for the first contact with the cluster; None for 24 days.",
    )
    retry_backoff_ms: int = option(
        100, _LIFTED_MS, "Milliseconds before a failed request is sent again, at first."
    )
    retry_backoff_max_ms: int = option(
        1_000, _MS, "The same after many failures; retry_backoff_ms if that is more."
    )
    reconnect_backoff_ms: int = option(
        50, _LIFTED_MS, "Milliseconds before connecting to a broker again, at first."
    )
    reconnect_backoff_max_ms: int = option(
        1_000, _LIFTED_MS, "The same after many failures; reconnect_backoff_ms if more."
    )

    # Connections.
    socket_connection_setup_timeout_ms: int = option(
        10_000, _POSITIVE_MS, "Milliseconds for making a connection, at first."
    )
    socket_connection_setup_timeout_max_ms: int = option(
        30_000, _POSITIVE_MS, "The same after many failures; the first one if that is more."
    )
    connections_max_idle_ms: int = option(
        540_000, _POSITIVE_MS, "Milliseconds after which an unused connection is closed."
    )
    max_in_flight_requests_per_connection: int = option(
        5, _POSITIVE, "Unanswered requests per connection."
    )
    receive_buffer_bytes: int | None = option(
        None, parsers.BUFFER_BYTES, "SO_RCVBUF in bytes; None leaves it to the system."
    )
    send_buffer_bytes: int | None = option(
        None, parsers.BUFFER_BYTES, "SO_SNDBUF in bytes; None leaves it to the system."
    )
    receive_message_max_bytes: int = option(
        100_000_000,
        _LIFTED,
        "Bytes of the largest message accepted; fetch_max_bytes + max_partition_fetch_bytes "
        "if that is more.",
    )
    socket_options: Sequence[tuple[Any, ...]] = option(
        ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),),
        parsers.SOCKET_OPTIONS,
        "Arguments for setsockopt() on each connection.",
        shown_default="[(IPPROTO_TCP, TCP_NODELAY, 1)]",
    )
    proxy_url: str | None = option(
        None,
        guests.PROXY_URL,
        "Proxy that connections go through: SOCKS5, or HTTP CONNECT (http). With socks5h and http "
        "it resolves the brokers' names.",
        secret=True,
    )
    socks5_proxy: str | None = option(None, guests.PROXY_URL, "Old name of proxy_url.", secret=True)
    selector: object = option(
        None, guests.SELECTOR, "Taken and not used: the network thread brings its own."
    )
    kafka_client: object = option(
        None, guests.KAFKA_CLIENT, "Likewise; one of your own is refused."
    )
    kafka_net: object = option(None, guests.KAFKA_NET, "Likewise.")

    # Security.
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = option(
        "PLAINTEXT",
        parsers.SECURITY_PROTOCOL,
        "Whether connections are encrypted (SSL) and authenticated (SASL).",
    )
    ssl_context: ssl.SSLContext | None = option(
        None, parsers.SSL_CONTEXT, "A context of your own, in place of the files below."
    )
    ssl_check_hostname: bool = option(True, BOOL, "Compare the certificate's name to the host's.")
    ssl_cafile: str | None = option(None, OPTIONAL_FILE, "File of trusted authorities (PEM).")
    ssl_certfile: str | None = option(None, OPTIONAL_FILE, "File of the client certificate (PEM).")
    ssl_keyfile: str | None = option(None, OPTIONAL_FILE, "File of its key (PEM).")
    ssl_password: str | None = option(
        None, guests.KEY_PASSWORD, "Password of the key.", secret=True
    )
    ssl_crlfile: str | None = option(None, OPTIONAL_FILE, "File of revoked certificates (PEM).")
    ssl_ciphers: str | None = option(None, OPTIONAL_TEXT, "Allowed ciphers in OpenSSL's notation.")
    sasl_mechanism: str | None = option(None, parsers.SASL_MECHANISM, "How to authenticate.")
    sasl_plain_username: str | None = option(None, OPTIONAL_TEXT, "User name, PLAIN and SCRAM.")
    sasl_plain_password: str | None = option(
        None, OPTIONAL_TEXT, "Password, PLAIN and SCRAM.", secret=True
    )
    sasl_kerberos_name: object = option(
        None, parsers.ANYTHING, "The broker's Kerberos name, a str or gssapi.Name (GSSAPI)."
    )
    sasl_kerberos_service_name: str = option(
        "kafka", guests.SERVICE_NAME, "The broker's service name (GSSAPI)."
    )
    sasl_kerberos_domain_name: str | None = option(
        None, OPTIONAL_TEXT, "The broker's domain; None for its host (GSSAPI)."
    )
    sasl_oauth_token_provider: object = option(
        None, parsers.TOKEN_PROVIDER, "Gives tokens (OAUTHBEARER).", secret=True
    )

    # Metrics.
    metrics_enabled: bool = option(True, BOOL, "Keep metrics.")
    metrics_num_samples: int = option(2, _LIFTED, "Windows over which metrics are computed.")
    metrics_sample_window_ms: int = option(
        30_000, _LIFTED_POSITIVE_MS, "Milliseconds of such a window."
    )
    metric_group_prefix: str = option("consumer", TEXT, "What the names of metric groups begin by.")
    metric_reporters: Sequence[Any] = option(
        (),
        guests.METRIC_REPORTERS,
        "Are told of metrics that come, change and go (kafka.metrics.AbstractMetricsReporter); "
        "classes or callables are called without arguments.",
        shown_default="()",
    )

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> Config:
        """Check what the user gave and settle the rest.

        Raises:
            KafkaConfigurationError: An option is unknown, not supported, or not allowed to have
                its value; the text names it.
            InvalidGroupIdError: The group's name is blank.
        """
        specs = {spec.name: spec for spec in dataclasses.fields(cls)}
        default = cls()
        named = {
            name: tuple(value) if isinstance(value, Iterator) else value
            for name, value in current_names(options, specs.keys()).items()
        }
        protocol = parse_option(
            specs["security_protocol"], named.get("security_protocol", default.security_protocol)
        )
        unused = without_use(named, str(protocol), vars(default))
        kept: dict[str, Any] = {
            name: parse_option(specs[name], value)
            for name, value in named.items()
            if name not in unused
        }
        # Who spreads DEFAULT_CONFIG over the options has chosen none of its values.
        given = {name for name, value in kept.items() if value != getattr(default, name)}
        config = dataclasses.replace(default, **kept)
        config = dataclasses.replace(config, **settle_defaults(config, given))
        object.__setattr__(config, "named", named)
        check_rules(config, given)
        return config

    @cached_property
    def offset_reset(self) -> OffsetReset:
        """What `auto_offset_reset` says."""
        return parse_offset_reset(self.auto_offset_reset)

    def __repr__(self) -> str:
        """Show what differs from the defaults, and no secret."""
        parts = []
        default = Config()
        for spec in dataclasses.fields(self):
            value = getattr(self, spec.name)
            if value != getattr(default, spec.name):
                parts.append(f"{spec.name}={shown(value, secret=option_of(spec).secret)}")
        return f"Config({', '.join(parts)})"

    def by_name(self) -> ShownOptions:
        """Return the options by name, in the form in which they were given."""
        settled = {spec.name: getattr(self, spec.name) for spec in dataclasses.fields(self)}
        return as_written(settled, self.named, SECRETS)


#: Names of options whose values are never shown.
SECRETS: Final = frozenset(
    spec.name for spec in dataclasses.fields(Config) if option_of(spec).secret
)


def default_config() -> dict[str, Any]:
    """Return what a consumer has when no option is given."""
    return dict(Config(enable_auto_commit=True).by_name())
