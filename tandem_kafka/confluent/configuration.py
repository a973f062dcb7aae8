"""Converts a dictionary of librdkafka properties to our options and this package's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kafka.net.sasl.oauth import AbstractTokenProvider

from tandem_kafka.assignors import (
    CooperativeStickyAssignor,
    RangePartitionAssignor,
    RoundRobinPartitionAssignor,
)
from tandem_kafka.config import sealed
from tandem_kafka.config.librdkafka import (
    CALLBACKS,
    IGNORED,
    NEVER_CALLED,
    OWN_DEFAULTS,
    PROPERTIES,
    REJECTED,
    Property,
    needs_ssl_context,
    ssl_context_of,
)
from tandem_kafka.config.shown import ShownOptions
from tandem_kafka.confluent.errors import invalid, raising
from tandem_kafka.dataclass import dataclass, field
from tandem_kafka.logs import ClientNames, client_logger

log = client_logger(__name__)

_ASSIGNORS: Final = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
_TRUE, _FALSE = ("true", "t", "1"), ("false", "f", "0")
_CLASSIC_ONLY: Final = (
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "partition.assignment.strategy",
    "group.protocol.type",
)
#: Pairs of options with their defaults; the second option must not be below the first.
_MINIMUM_AND_MAXIMUM: Final = (
    ("retry_backoff_ms", "retry_backoff_max_ms", (100, 1_000)),
    ("reconnect_backoff_ms", "reconnect_backoff_max_ms", (100, 10_000)),
    (
        "socket_connection_setup_timeout_ms",
        "socket_connection_setup_timeout_max_ms",
        (30_000, 30_000),
    ),
)
#: Stands for "never": 24 days.
_NEVER_MS: Final = 2**31 - 1
_warned: set[str] = set()


@dataclass(frozen=True)
class Configuration:
    """The parsed configuration of a consumer.

    Attributes:
        options: Our options.
        values: The given properties by librdkafka's name, as int, bool or str.
        callbacks: The given callbacks by name.
    """

    options: ShownOptions
    values: ShownOptions
    callbacks: dict[str, Callable[..., Any]] = field(default_factory=dict)

    @property
    def log_names(self) -> ClientNames:
        """The names of this consumer, for the log."""
        return ClientNames(self.options.get("client_id"), self.options.get("group_id"))

    def get(self, name: str, default: Any) -> Any:
        """Return a given value, or the default."""
        return self.values.get(name, default)


class _Tokens(AbstractTokenProvider):
    """Gets tokens from an `oauth_cb`."""

    def __init__(self, callback: Callable[[str], Any], config: str) -> None:
        super().__init__()
        self._callback = callback
        self._config = config
        self._extensions: Mapping[str, str] = {}

    def token(self) -> str:
        """Return a token; its SASL extensions are kept for `extensions()`."""
        token, _expiry, *rest = self._callback(self._config)
        self._extensions = rest[1] if len(rest) > 1 and rest[1] else {}
        return token  # type: ignore[no-any-return]

    def extensions(self) -> Mapping[str, str]:
        """Return the SASL extensions of the last token."""
        return self._extensions


def merged(config: Any, more: Mapping[str, Any]) -> ShownOptions:
    """Return all properties; `repr()` shows none of their values.

    Raises:
        TypeError: The configuration is not a dict.
    """
    if not isinstance(config, Mapping):
        msg = "expected configuration dict"
        raise TypeError(msg)
    given = sealed({**config, **more})
    topic = given.pop("default.topic.config", None) or {}
    return sealed({**topic, **given})


def settings_from(given: Mapping[str, Any]) -> Configuration:
    """Parse a configuration.

    Raises:
        KafkaException: A name is unknown, or a value is not allowed.
        ValueError: `group.id` is missing.
        TypeError: A callback is not callable.
    """
    given = sealed(given)
    callbacks = _callbacks(given)
    for name, value in (*callbacks.items(), ("logger", given.pop("logger", None))):
        if name in NEVER_CALLED and value is not None:
            _warn(
                name,
                "is never called: throttling is in the metrics, and logs go to Python's logging",
            )
    if given.get("group.id") is None:
        msg = "Failed to create consumer: group.id must be set"
        raise ValueError(msg)
    values = sealed({})
    for name in given:
        if _has_effect(name):
            values[name] = _value(name, given, PROPERTIES[name])
    _check_combinations(values)
    options = sealed(
        {
            **OWN_DEFAULTS,
            # Invariant: our consumer commits nothing by itself. Its positions are behind all that
            # was taken from it, and only what the application has is committed.
            "enable_auto_commit": False,
            "bootstrap_timeout_ms": 0,
            # Iteration waits for nothing, and rarely looks for records of another partition.
            "consumer_timeout_ms": 0,
            "max_poll_records": 1_000,
        }
    )
    for name in values:
        option = PROPERTIES[name].option
        if option is not None:
            options[option] = values[name]
    return Configuration(_adjusted(options, values, callbacks), values, callbacks)


def _callbacks(given: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    found = {name: given.pop(name) for name in CALLBACKS if name in given}
    for name, callback in found.items():
        if callback is None or callable(callback):
            continue
        if name == "on_commit":
            raise invalid("on_commit requires a callable object")
        msg = f"expected {name} property as a callable function"
        raise TypeError(msg)
    return {name: callback for name, callback in found.items() if callback is not None}


def _has_effect(name: Any) -> bool:
    if name in REJECTED:
        raise invalid(f'Configuration property "{name}" is not supported: {REJECTED[name]}')
    if name not in PROPERTIES and name not in IGNORED:
        raise invalid(f'No such configuration property: "{name}"')
    if name not in PROPERTIES:
        _warn(name, "has no effect here")
    return name in PROPERTIES


def _warn(name: str, what: str) -> None:
    """Warn once per process."""
    if name not in _warned:
        _warned.add(name)
        log.warning("the property %s %s", name, what, client=ClientNames(None))


def _value(name: str, given: Mapping[str, Any], known: Property) -> Any:
    if given[name] is None or isinstance(given[name], str):
        text = given[name] or ""
    else:
        text = str(given[name])
    if known.kind is bool:
        return _flag(name, text)
    if known.kind is int:
        return _number(name, text, known)
    if known.words and text not in known.words:
        found = next((word for word in known.words if word == text.lower()), None)
        if found is None:
            raise invalid(f'Invalid value "{text}" for configuration property "{name}"')
        text = found
    return known.words[text] if known.words else text


def _flag(name: str, text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise invalid(f'Expected bool value for "{name}": true or false')


def _number(name: str, text: str, known: Property) -> int:
    if not text:
        raise invalid(f'Integer configuration property "{name}" cannot be set to empty value')
    try:
        number = int(text, 0)
    except ValueError:
        number = _leading_number(name, text)
    low, high = known.limits
    if not low <= number <= high:
        raise invalid(
            f'Configuration property "{name}" value {number} is outside allowed range {low}..{high}'
        )
    return number


def _leading_number(name: str, text: str) -> int:
    """Read a decimal number, or one with leading zeros."""
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        raise invalid(f'Invalid value for configuration property "{name}"') from None


def _check_combinations(values: Mapping[str, Any]) -> None:
    if values.get("group.protocol") == "consumer":
        for name in _CLASSIC_ONLY:
            if name in values:
                _fail(
                    f"`{name}` is not supported for `group.protocol=consumer`: "
                    "it is set in the broker's configuration"
                )
        return  # the session timeout is the broker's
    session_ms = values.get("session.timeout.ms", 45_000)
    if values.get("max.poll.interval.ms", 300_000) < session_ms:
        _fail("`max.poll.interval.ms`must be >= `session.timeout.ms`")


def _fail(reason: str) -> None:
    raise invalid(f"Failed to create consumer: {reason}")


def _adjusted(
    options: ShownOptions, values: Mapping[str, Any], callbacks: Mapping[str, Any]
) -> ShownOptions:
    """Convert values whose form differs from that of our options."""
    for name in ("send_buffer_bytes", "receive_buffer_bytes"):
        options[name] = options.get(name) or None
    for name in ("connections_max_idle_ms", "metadata_max_age_ms"):
        if options.get(name) in (0, -1):
            options[name] = _NEVER_MS
    _adjust_limits(options)
    options["group_id"] = options["group_id"] or None
    if values.get("group.protocol") != "consumer":
        options.pop("group_remote_assignor", None)
    for name in ("group_instance_id", "group_remote_assignor", "ssl_crlfile", "ssl_ciphers"):
        if options.get(name) == "":
            del options[name]
    if "partition.assignment.strategy" in values:
        options["partition_assignment_strategy"] = _assignors(
            values["partition.assignment.strategy"]
        )
    _adjust_heartbeats(options)
    _adjust_security(options, values, callbacks)
    return options


def _adjust_limits(options: dict[str, Any]) -> None:
    """Adjust options that limit each other; librdkafka accepts any combination."""
    if "fetch_buffer_max_bytes" in options:
        size = options["fetch_buffer_max_bytes"] = options["fetch_buffer_max_bytes"] * 1024
        if options.get("max_partition_fetch_bytes", 4_194_304) > size:
            options["max_partition_fetch_bytes"] = size
    for first, most, defaults in _MINIMUM_AND_MAXIMUM:
        if first in options or most in options:
            options[most] = max(options.get(most, defaults[1]), options.get(first, defaults[0]))
    wait_ms = options.get("fetch_max_wait_ms", 500)
    options["request_timeout_ms"] = max(options["request_timeout_ms"], wait_ms + 1_000)
    idle_ms = options.get("connections_max_idle_ms")
    if idle_ms is not None:
        options["connections_max_idle_ms"] = max(idle_ms, options["request_timeout_ms"] + 1)


def _adjust_heartbeats(options: dict[str, Any]) -> None:
    """Keep the heartbeat interval below the session timeout; librdkafka accepts any values."""
    session_ms = options.get("session_timeout_ms")
    if session_ms is not None and options.get("heartbeat_interval_ms", 3_000) >= session_ms:
        options["heartbeat_interval_ms"] = max(1, session_ms // 3)
    elif options.get("heartbeat_interval_ms", 3_000) >= 45_000:
        options["heartbeat_interval_ms"] = 15_000


def _assignors(text: str) -> list[type]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in _ASSIGNORS:
            _fail(f"Unsupported partition.assignment.strategy: {name}")
    if "cooperative-sticky" in names and len(names) > 1:
        _fail("partition.assignment.strategy must not mix cooperative and eager assignors")
    return [_ASSIGNORS[name] for name in names]


def _adjust_security(
    options: dict[str, Any], values: Mapping[str, Any], callbacks: Mapping[str, Any]
) -> None:
    if options.get("ssl_cafile") in ("probe", ""):
        del options["ssl_cafile"]
    _adjust_endpoint(options, values, callbacks)
    protocol = options.get("security_protocol", "PLAINTEXT")
    if protocol.startswith("SASL"):
        _adjust_login(options, values, callbacks)
    if protocol.endswith("SSL") and needs_ssl_context(options, values):
        with raising("Failed to create consumer"):
            options["ssl_context"] = ssl_context_of(options, values)


def _adjust_endpoint(
    options: dict[str, Any], values: Mapping[str, Any], callbacks: Mapping[str, Any]
) -> None:
    """Keep the options of a token endpoint only if librdkafka uses it; a callback comes first."""
    used = values.get("sasl.oauthbearer.method") == "oidc" and "oauth_cb" not in callbacks
    if used and values.get("sasl.oauthbearer.metadata.authentication.type") == "azure_imds":
        # Ignored, it would send the secret, if any, to the metadata service.
        _fail("sasl.oauthbearer.metadata.authentication.type=azure_imds is not supported")
    for name in [name for name in options if name.startswith("sasl_oauthbearer_")]:
        if not used or options[name] == "":
            del options[name]
    if options.get("sasl_oauthbearer_cafile") == "probe":
        del options["sasl_oauthbearer_cafile"]


def _adjust_login(
    options: dict[str, Any], values: Mapping[str, Any], callbacks: Mapping[str, Any]
) -> None:
    mechanism = options.setdefault("sasl_mechanism", "GSSAPI")
    if mechanism == "OAUTHBEARER":
        if "oauth_cb" in callbacks:
            config = values.get("sasl.oauthbearer.config", "")
            options["sasl_oauth_token_provider"] = _Tokens(callbacks["oauth_cb"], config)
        elif "sasl_oauthbearer_token_endpoint_url" not in options:
            _fail(
                "OAUTHBEARER needs an oauth_cb, or sasl.oauthbearer.method=oidc with "
                "sasl.oauthbearer.token.endpoint.url"
            )
    elif mechanism != "GSSAPI" and not (
        options.get("sasl_plain_username") and "sasl_plain_password" in options
    ):
        _fail("sasl.username and sasl.password must be set")
