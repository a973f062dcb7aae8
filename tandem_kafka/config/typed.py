"""The options as keyword arguments, for type checkers: `**options: Unpack[ConsumerOptions]`."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any, Literal
from uuid import UUID

from typing_extensions import TypedDict

from tandem_kafka.config.parsers import Deserializer

__all__ = ["ConsumerOptions"]


class ConsumerOptions(TypedDict, total=False):
    """What a consumer takes; `Config` has the same names, with what became of the values."""

    # Where the cluster is, and who we are.
    bootstrap_servers: str | Iterable[str]
    client_id: str | int | UUID | None
    client_rack: str | int | None
    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]
    api_version: tuple[int, ...] | str | None

    # The group.
    group_id: str | int | UUID | None
    group_instance_id: str | int | UUID | None
    group_protocol: Literal["classic", "consumer", "auto"]
    group_remote_assignor: str | None
    group_local_assignors: Sequence[Any]
    partition_assignment_strategy: Sequence[Any]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int

    # Offsets.
    auto_offset_reset: str
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    default_offset_commit_callback: Callable[..., object] | None
    isolation_level: Literal["read_uncommitted", "read_committed", 0, 1]
    interceptor_classes: Sequence[Any]

    # Fetching.
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    fetch_buffer_max_bytes: int
    enable_incremental_fetch_sessions: bool
    max_decompressed_batch_bytes: int
    max_record_headers: int
    check_crcs: bool
    max_poll_records: int
    consumer_timeout_ms: float | None
    key_deserializer: Callable[[bytes], object] | Deserializer | None
    value_deserializer: Callable[[bytes], object] | Deserializer | None

    # Topics.
    allow_auto_create_topics: bool
    exclude_internal_topics: bool
    metadata_max_age_ms: int
    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    metadata_recovery_rebootstrap_trigger_ms: int

    # Time limits and retries.
    request_timeout_ms: int
    default_api_timeout_ms: int
    bootstrap_timeout_ms: float | None
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int

    # Connections.
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    connections_max_idle_ms: int
    max_in_flight_requests_per_connection: int
    receive_buffer_bytes: int | None
    send_buffer_bytes: int | None
    receive_message_max_bytes: int
    socket_options: Sequence[tuple[Any, ...]]
    proxy_url: str | None
    socks5_proxy: str | None
    selector: object
    kafka_client: object
    kafka_net: object

    # Security.
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    ssl_context: ssl.SSLContext | None
    ssl_check_hostname: bool
    ssl_cafile: str | PathLike[str] | None
    ssl_certfile: str | PathLike[str] | None
    ssl_keyfile: str | PathLike[str] | None
    ssl_password: str | bytes | Callable[[], str | bytes] | None
    ssl_crlfile: str | PathLike[str] | None
    ssl_ciphers: str | None
    sasl_mechanism: str | None
    sasl_plain_username: str | None
    sasl_plain_password: str | None
    sasl_kerberos_name: object
    sasl_kerberos_service_name: str
    sasl_kerberos_domain_name: str | None
    sasl_oauth_token_provider: object

    # Metrics.
    metrics_enabled: bool
    metrics_num_samples: int
    metrics_sample_window_ms: int
    metric_group_prefix: str
    metric_reporters: Sequence[Any]
