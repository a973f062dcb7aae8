"""The properties of librdkafka that a consumer accepts, and the corresponding options."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tandem_kafka.dataclass import dataclass, field
from tandem_kafka.errors import KafkaConfigurationError


@dataclass(frozen=True)
class Property:
    """One property.

    Attributes:
        option: Our equivalent option; None if this package implements the property itself.
        kind: `int`, `bool` or `str`.
        limits: The smallest and largest allowed number.
        words: The allowed words, with the corresponding values of our option.
    """

    option: str | None = None
    kind: type = str
    limits: tuple[int, int] = (0, 2_147_483_647)
    words: Mapping[str, Any] = field(default_factory=dict)


def _number(option: str | None, low: int, high: int) -> Property:
    return Property(option, int, (low, high))


def _flag(option: str | None) -> Property:
    return Property(option, bool)


def _text(option: str | None) -> Property:
    return Property(option)


def _words(option: str | None, **words: Any) -> Property:
    return Property(option, words=words)


_INT_MAX: Final = 2_147_483_647
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 86_400_000
_SERVERS: Final = _text("bootstrap_servers")
_PARTITION_BYTES: Final = _number("max_partition_fetch_bytes", 1, 1_000_000_000)
_IN_FLIGHT: Final = _number("max_in_flight_requests_per_connection", 1, 1_000_000)
_MECHANISM: Final = _text("sasl_mechanism")
_CLIENT: Final = _text("sasl_oauthbearer_client_id")
_CLIENT_SECRET: Final = _text("sasl_oauthbearer_client_secret")
_GRANTS: Final = ("client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer")

#: The supported properties.
PROPERTIES: Final[Mapping[str, Property]] = {
    # The group.
    "group.id": _text("group_id"),
    "group.instance.id": _text("group_instance_id"),
    "group.protocol": _words("group_protocol", classic="classic", consumer="consumer"),
    "group.remote.assignor": _text("group_remote_assignor"),
    "partition.assignment.strategy": _text(None),
    "session.timeout.ms": _number("session_timeout_ms", 1, _HOUR_MS),
    "heartbeat.interval.ms": _number("heartbeat_interval_ms", 1, _HOUR_MS),
    "max.poll.interval.ms": _number("max_poll_interval_ms", 1, _DAY_MS),
    # Offsets.
    "auto.offset.reset": _words(
        "auto_offset_reset",
        smallest="earliest",
        earliest="earliest",
        beginning="earliest",
        largest="latest",
        latest="latest",
        end="latest",
        error="none",
    ),
    "enable.auto.commit": _flag(None),
    "auto.commit.interval.ms": _number(None, 0, _DAY_MS),
    "enable.auto.offset.store": _flag(None),
    "enable.partition.eof": _flag(None),
    "isolation.level": _words(
        "isolation_level", read_uncommitted="read_uncommitted", read_committed="read_committed"
    ),
    # Fetching.
    "fetch.min.bytes": _number("fetch_min_bytes", 1, 100_000_000),
    "fetch.max.bytes": _number("fetch_max_bytes", 0, 2_147_483_135),
    "fetch.wait.max.ms": _number("fetch_max_wait_ms", 0, 300_000),
    "fetch.message.max.bytes": _PARTITION_BYTES,
    "max.partition.fetch.bytes": _PARTITION_BYTES,
    "queued.max.messages.kbytes": _number("fetch_buffer_max_bytes", 1, 2_097_151),
    "check.crcs": _flag("check_crcs"),
    # The cluster.
    "bootstrap.servers": _SERVERS,
    "metadata.broker.list": _SERVERS,
    "client.id": _text("client_id"),
    "client.rack": _text("client_rack"),
    "client.dns.lookup": _words(
        "client_dns_lookup",
        use_all_dns_ips="use_all_dns_ips",
        resolve_canonical_bootstrap_servers_only="resolve_canonical_bootstrap_servers_only",
    ),
    "allow.auto.create.topics": _flag("allow_auto_create_topics"),
    "topic.metadata.refresh.interval.ms": _number("metadata_max_age_ms", -1, _HOUR_MS),
    "metadata.recovery.strategy": _words(
        "metadata_recovery_strategy", none="none", rebootstrap="rebootstrap"
    ),
    "metadata.recovery.rebootstrap.trigger.ms": _number(
        "metadata_recovery_rebootstrap_trigger_ms", 0, _INT_MAX
    ),
    # Connections.
    "retry.backoff.ms": _number("retry_backoff_ms", 1, 300_000),
    "retry.backoff.max.ms": _number("retry_backoff_max_ms", 1, 300_000),
    "reconnect.backoff.ms": _number("reconnect_backoff_ms", 0, _HOUR_MS),
    "reconnect.backoff.max.ms": _number("reconnect_backoff_max_ms", 0, _HOUR_MS),
    "socket.timeout.ms": _number("request_timeout_ms", 10, 300_000),
    "socket.connection.setup.timeout.ms": _number(
        "socket_connection_setup_timeout_ms", 1_000, _INT_MAX
    ),
    "socket.send.buffer.bytes": _number("send_buffer_bytes", 0, 100_000_000),
    "socket.receive.buffer.bytes": _number("receive_buffer_bytes", 0, 100_000_000),
    "connections.max.idle.ms": _number("connections_max_idle_ms", 0, _INT_MAX),
    "receive.message.max.bytes": _number("receive_message_max_bytes", 1_000, _INT_MAX),
    "max.in.flight": _IN_FLIGHT,
    "max.in.flight.requests.per.connection": _IN_FLIGHT,
    "enable.metrics.push": _flag("enable_metrics_push"),
    # Security.
    "security.protocol": _words(
        "security_protocol",
        plaintext="PLAINTEXT",
        ssl="SSL",
        sasl_plaintext="SASL_PLAINTEXT",
        sasl_ssl="SASL_SSL",
    ),
    "ssl.ca.location": _text("ssl_cafile"),
    "ssl.ca.pem": _text(None),
    "ssl.certificate.location": _text("ssl_certfile"),
    "ssl.key.location": _text("ssl_keyfile"),
    "ssl.key.password": _text("ssl_password"),
    "ssl.crl.location": _text("ssl_crlfile"),
    "ssl.cipher.suites": _text("ssl_ciphers"),
    "ssl.endpoint.identification.algorithm": _words("ssl_check_hostname", none=False, https=True),
    "enable.ssl.certificate.verification": _flag(None),
    "sasl.mechanism": _MECHANISM,
    "sasl.mechanisms": _MECHANISM,
    "sasl.username": _text("sasl_plain_username"),
    "sasl.password": _text("sasl_plain_password"),
    "sasl.kerberos.service.name": _text("sasl_kerberos_service_name"),
    "sasl.oauthbearer.config": _text(None),
    "sasl.oauthbearer.method": _words(None, default="default", oidc="oidc"),
    "sasl.oauthbearer.token.endpoint.url": _text("sasl_oauthbearer_token_endpoint_url"),
    "sasl.oauthbearer.grant.type": Property(
        "sasl_oauthbearer_grant_type", words=dict(zip(_GRANTS, _GRANTS, strict=True))
    ),
    "sasl.oauthbearer.client.id": _CLIENT,
    "sasl.oauthbearer.client.credentials.client.id": _CLIENT,
    "sasl.oauthbearer.client.secret": _CLIENT_SECRET,
    "sasl.oauthbearer.client.credentials.client.secret": _CLIENT_SECRET,
    "sasl.oauthbearer.scope": _text("sasl_oauthbearer_scope"),
    "sasl.oauthbearer.extensions": _text("sasl_oauthbearer_extensions"),
    "sasl.oauthbearer.assertion.file": _text("sasl_oauthbearer_assertion_file"),
    "sasl.oauthbearer.assertion.private.key.file": _text(
        "sasl_oauthbearer_assertion_private_key_file"
    ),
    "sasl.oauthbearer.assertion.private.key.passphrase": _text(
        "sasl_oauthbearer_assertion_private_key_passphrase"
    ),
    "sasl.oauthbearer.assertion.algorithm": _words(
        "sasl_oauthbearer_assertion_algorithm", rs256="RS256", es256="ES256"
    ),
    "sasl.oauthbearer.assertion.claim.aud": _text("sasl_oauthbearer_assertion_claim_aud"),
    "sasl.oauthbearer.assertion.claim.iss": _text("sasl_oauthbearer_assertion_claim_iss"),
    "sasl.oauthbearer.assertion.claim.sub": _text("sasl_oauthbearer_assertion_claim_sub"),
    "sasl.oauthbearer.assertion.claim.exp.seconds": _number(
        "sasl_oauthbearer_assertion_claim_exp_seconds", 1, _INT_MAX
    ),
    "sasl.oauthbearer.metadata.authentication.type": _words(
        None, none="none", azure_imds="azure_imds"
    ),
    "https.ca.location": _text("sasl_oauthbearer_cafile"),
    "statistics.interval.ms": _number(None, 0, _DAY_MS),
}

#: Defaults of librdkafka that differ from ours, by our option.
OWN_DEFAULTS: Final[Mapping[str, Any]] = {
    "client_id": "rdkafka",
    "isolation_level": "read_committed",
    "allow_auto_create_topics": False,
    "request_timeout_ms": 60_000,
    "reconnect_backoff_ms": 100,
    "reconnect_backoff_max_ms": 10_000,
    "socket_connection_setup_timeout_ms": 30_000,
}

#: Callbacks that are accepted but never called.
NEVER_CALLED: Final = ("throttle_cb", "log_cb", "logger")
CALLBACKS: Final = ("on_commit", "error_cb", "stats_cb", "throttle_cb", "oauth_cb", "log_cb")

#: Unsupported properties, with advice. Ignoring them would make a consumer less secure than its
#: configuration says, or unable to connect.
REJECTED: Final[Mapping[str, str]] = {
    "ssl.certificate.pem": "write it to a file for ssl.certificate.location",
    "ssl.key.pem": "write it to a file for ssl.key.location",
    "ssl.keystore.location": "convert it to PEM files for ssl.certificate.location and "
    "ssl.key.location",
    "ssl.keystore.password": "see ssl.keystore.location",
    "ssl.certificate.verify_cb": "give ssl.ca.location",
    "ssl.engine.location": "give ssl.key.location",
    "https.ca.pem": "write it to a file for https.ca.location",
    "sasl.oauthbearer.assertion.private.key.pem": "write it to a file for "
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.jwt.template.file": "give the claims in "
    "sasl.oauthbearer.assertion.claim.iss, .sub and .aud",
    "plugin.library.paths": "plugins work with librdkafka only",
}

#: Properties without effect: they concern threads, queues or methods of librdkafka, producers, or
#: rejected properties.
IGNORED: Final = frozenset(
    """
    acks api.version.fallback.ms api.version.request api.version.request.timeout.ms
    auto.commit.enable background_event_cb batch.num.messages batch.size broker.address.family
    broker.address.ttl broker.version.fallback builtin.features client.software.name
    client.software.version closesocket_cb compression.codec compression.level compression.type
    connect_cb consume.callback.max.messages consume_cb coordinator.query.interval.ms debug
    default_topic_conf delivery.report.only.error delivery.timeout.ms dr_cb dr_msg_cb
    enable.gapless.guarantee enable.idempotence enable.random.seed
    enable.sasl.oauthbearer.unsecure.jwt enable.sparse.connections enabled_events
    fetch.error.backoff.ms fetch.queue.backoff.ms group.protocol.type interceptors
    internal.termination.signal linger.ms log.connection.close log.queue log.thread.name
    log_level max.poll.records message.copy.max.bytes message.max.bytes message.send.max.retries
    message.timeout.ms metadata.max.age.ms msg_order_cmp oauthbearer_token_refresh_cb
    offset.store.method offset.store.path offset.store.sync.interval.ms offset_commit_cb opaque
    open_cb partitioner partitioner_cb produce.offset.report
    queue.buffering.backpressure.threshold queue.buffering.max.kbytes
    queue.buffering.max.messages queue.buffering.max.ms queued.min.messages queuing.strategy
    rebalance_cb reconnect.backoff.jitter.ms request.required.acks request.timeout.ms resolve_cb
    retries sasl.kerberos.keytab sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.principal sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds
    socket.blocking.max.ms socket.keepalive.enable socket.max.fails socket.nagle.disable
    socket_cb ssl.ca.certificate.stores ssl.curves.list ssl.engine.id ssl.providers
    ssl.sigalgs.list ssl_ca ssl_certificate ssl_engine_callback_data ssl_key
    sticky.partitioning.linger.ms topic.blacklist topic.metadata.propagation.max.ms
    topic.metadata.refresh.fast.cnt topic.metadata.refresh.fast.interval.ms
    topic.metadata.refresh.sparse transaction.timeout.ms transactional.id
    """.split()  # noqa: SIM905 - more readable than a list of strings
)


def is_folder(path: str | None) -> bool:
    """Whether trusted authorities are files of a folder, named as `openssl rehash` does."""
    return path is not None and Path(path).is_dir()


def needs_ssl_context(options: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Whether the settings of TLS are more than our options support."""
    verified = values.get("enable.ssl.certificate.verification", True)
    return "ssl.ca.pem" in values or not verified or is_folder(options.get("ssl_cafile"))


def ssl_context_of(options: dict[str, Any], values: Mapping[str, Any]) -> ssl.SSLContext:
    """Return an SSL context for settings that our options do not support.

    Args:
        options: Our options; those that the context replaces are removed.
        values: `ssl.ca.pem` and `enable.ssl.certificate.verification`, if they are given.

    Raises:
        KafkaConfigurationError: A file cannot be read, or two settings exclude each other.
    """
    authorities = options.pop("ssl_cafile", None)
    kind = "capath" if is_folder(authorities) else "cafile"
    try:
        context = ssl.create_default_context(cadata=values.get("ssl.ca.pem"), **{kind: authorities})
        if options.pop("ssl_crlfile", None) is not None:
            raise KafkaConfigurationError(
                "ssl.crl.location needs a file as ssl.ca.location, and verified certificates"
            )
        certificate, key = options.pop("ssl_certfile", None), options.pop("ssl_keyfile", None)
        # Without a password, OpenSSL would prompt for one on the terminal and block.
        password = options.pop("ssl_password", None) or ""
        if certificate is not None:
            context.load_cert_chain(certificate, key, password)
        elif key is not None:
            raise KafkaConfigurationError("ssl.key.location needs ssl.certificate.location")
        ciphers = options.pop("ssl_ciphers", None)
        if ciphers is not None:
            context.set_ciphers(ciphers)
    except (OSError, ValueError) as error:
        raise KafkaConfigurationError(f"cannot use the settings of TLS: {error}") from error
    if not options.pop("ssl_check_hostname", True):
        context.check_hostname = False
    if not values.get("enable.ssl.certificate.verification", True):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
