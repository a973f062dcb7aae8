"""Rules between options."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any, Final

from tandem_kafka.config.names import warn_deprecated
from tandem_kafka.config.options import PASSWORD_MECHANISMS, Options
from tandem_kafka.config.shown import show
from tandem_kafka.config.token_endpoint import CLIENT_CREDENTIALS
from tandem_kafka.errors import InvalidGroupIdError, KafkaConfigurationError
from tandem_kafka.logs import client_logger

log = client_logger(__name__)

_Given = Collection[str]

#: A first value, and the limit to which it grows. A limit that is not set rises with a larger
#: first value.
_GROWING: Final = (
    ("retry_backoff_ms", "retry_backoff_max_ms"),
    ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
    ("max_partition_fetch_bytes", "fetch_buffer_max_bytes"),
)
#: Each must be below the next: a broker may delay a fetch for the wait time, and a connection must
#: not count as idle while a request is in flight.
_RISING: Final = (
    ("fetch_max_wait_ms", "request_timeout_ms"),
    ("request_timeout_ms", "connections_max_idle_ms"),
)
_OF_GROUPS: Final = ("heartbeat_interval_ms", "session_timeout_ms")
_INSTANCE_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
_TLS_FILES: Final = (
    "ssl_cafile",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_password",
    "ssl_crlfile",
    "ssl_ciphers",
)
#: With KIP-848, these are settings of the broker.
_CLASSIC_ONLY: Final = (
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "partition_assignment_strategy",
)


def settle_defaults(config: Options, given: _Given) -> dict[str, Any]:
    """Return the options whose values follow from others."""
    settled: dict[str, Any] = {}
    for first, limit in _GROWING:
        if limit not in given and getattr(config, limit) < getattr(config, first):
            settled[limit] = getattr(config, first)
    settled.update(_settle_reconnects(config, given))
    if config.group_id is None:
        settled["enable_auto_commit"] = False
    if config.socks5_proxy is not None and config.proxy_url is None:
        warn_deprecated("the option socks5_proxy is deprecated: use proxy_url")
        settled["proxy_url"] = config.socks5_proxy
    classic_only = [name for name in _CLASSIC_ONLY if name in given]
    if config.group_protocol == "auto" and classic_only:
        settled["group_protocol"] = "classic"
        if config.group_id is not None:
            log.info(
                "group %s: group_protocol='auto' selects 'classic' for the options %s",
                config.group_id,
                ", ".join(classic_only),
            )
    largest_answer = config.fetch_max_bytes + config.max_partition_fetch_bytes
    if config.receive_message_max_bytes < largest_answer:
        settled["receive_message_max_bytes"] = largest_answer
    return settled


def _settle_reconnects(config: Options, given: _Given) -> dict[str, Any]:
    """Order first backoff and limit: a given limit also applies to the first backoff."""
    first, limit = config.reconnect_backoff_ms, config.reconnect_backoff_max_ms
    if limit >= first:
        return {}
    if "reconnect_backoff_max_ms" not in given:
        return {"reconnect_backoff_max_ms": first}
    if "reconnect_backoff_ms" in given:
        log.warning(
            "reconnect_backoff_max_ms=%d is below reconnect_backoff_ms=%d; using it for both",
            limit,
            first,
        )
    return {"reconnect_backoff_ms": limit}


def check_rules(config: Options, given: _Given) -> None:
    """Check settled options against each other.

    Raises:
        KafkaConfigurationError: Two options contradict one another.
        InvalidGroupIdError: `group_id` is blank.
    """
    for rule in _RULES:
        rule(config, given)


def _check_group(config: Options, given: _Given) -> None:
    if "group_id" in given and config.group_id is not None and not config.group_id.strip():
        raise InvalidGroupIdError(f"group_id={config.group_id!r}: must not be blank")
    if config.group_id is None and config.named.get("enable_auto_commit"):
        log.info("enable_auto_commit has no effect without a group_id")
    if config.group_id is not None and not config.partition_assignment_strategy:
        raise KafkaConfigurationError(
            "partition_assignment_strategy: must name at least one assignor"
        )
    instance = config.group_instance_id
    if instance is None:
        return
    if not instance.strip():
        raise KafkaConfigurationError(f"group_instance_id={instance!r}: must not be blank")
    if config.group_id is None:
        raise KafkaConfigurationError(f"group_instance_id={instance!r}: needs a group_id")
    if instance in {".", ".."} or not _INSTANCE_ID.fullmatch(instance):
        log.warning(
            "group_instance_id=%r: other clients accept only 1 to 249 of A-Z a-z 0-9 . _ -, "
            "and neither '.' nor '..'",
            instance,
        )


def _check_orders(config: Options, given: _Given) -> None:
    for lower, upper in _RISING if config.group_id is None else (*_RISING, _OF_GROUPS):
        if getattr(config, lower) < getattr(config, upper):
            continue
        # The default of the other option is not the user's mistake.
        if upper in given and lower not in given:
            raise KafkaConfigurationError(
                f"{_show(config, upper)}: must be above {_show(config, lower)} (the default)"
            )
        default = "" if upper in given else " (the default)"
        raise KafkaConfigurationError(
            f"{_show(config, lower)}: must be below {_show(config, upper)}{default}"
        )
    # A buffer that cannot hold the response of a single partition would not be a limit.
    for first, limit in _GROWING:
        if getattr(config, limit) < getattr(config, first):
            raise KafkaConfigurationError(
                f"{_show(config, limit)}: must be at least {_show(config, first)}"
            )


def _check_protocol(config: Options, given: _Given) -> None:
    """Reject options that the protocol does not use: the coordinator decides (KIP-848)."""
    if config.group_protocol == "consumer":
        unused = [name for name in _CLASSIC_ONLY if name in given]
        if unused:
            raise KafkaConfigurationError(
                f"{', '.join(unused)}: cannot be set with group_protocol='consumer', "
                "where the broker decides"
            )
    elif config.group_protocol == "classic" and config.group_remote_assignor is not None:
        raise KafkaConfigurationError(
            f"{_show(config, 'group_remote_assignor')}: needs group_protocol='consumer'"
        )


def _check_local_assignors(config: Options, _given: _Given) -> None:
    if not config.group_local_assignors:
        return
    if config.group_id is None:
        raise KafkaConfigurationError("group_local_assignors: needs a group_id")
    if config.group_protocol == "classic":
        raise KafkaConfigurationError("group_local_assignors: needs group_protocol='consumer'")
    if config.group_remote_assignor is not None:
        raise KafkaConfigurationError(
            f"group_local_assignors: not allowed with {_show(config, 'group_remote_assignor')}"
        )


def _check_tls(config: Options, _given: _Given) -> None:
    files = [name for name in _TLS_FILES if getattr(config, name) is not None]
    if files and config.ssl_context is not None:
        log.warning("%s: no effect, because ssl_context is set", ", ".join(files))
    elif config.ssl_certfile is None and (config.ssl_keyfile or config.ssl_password):
        log.warning("ssl_keyfile and ssl_password: no effect without ssl_certfile")


def _check_sasl(config: Options, _given: _Given) -> None:
    if not config.security_protocol.startswith("SASL_"):
        return
    mechanism = config.sasl_mechanism
    if mechanism is None:
        raise KafkaConfigurationError(f"{_show(config, 'security_protocol')}: needs sasl_mechanism")
    if mechanism in PASSWORD_MECHANISMS:
        named = _show(config, "sasl_mechanism")
        _check_needed(config, named, ("sasl_plain_username", "sasl_plain_password"))
    elif mechanism == "OAUTHBEARER":
        _check_tokens(config)


def _check_tokens(config: Options) -> None:
    url = config.sasl_oauthbearer_token_endpoint_url
    if url is None and config.sasl_oauth_token_provider is None:
        raise KafkaConfigurationError(
            "sasl_mechanism='OAUTHBEARER': needs sasl_oauth_token_provider or "
            "sasl_oauthbearer_token_endpoint_url"
        )
    if url is None:
        return
    if config.sasl_oauth_token_provider is not None:
        raise KafkaConfigurationError(
            "sasl_oauth_token_provider and sasl_oauthbearer_token_endpoint_url: set only one of "
            "them"
        )
    grant = _show(config, "sasl_oauthbearer_grant_type")
    prefix = "sasl_oauthbearer_"
    if config.sasl_oauthbearer_grant_type == CLIENT_CREDENTIALS:
        _check_needed(config, grant, (f"{prefix}client_id", f"{prefix}client_secret"))
    elif config.sasl_oauthbearer_assertion_file is None:
        key, claim = f"{prefix}assertion_private_key_file", f"{prefix}assertion_claim_"
        if config.sasl_oauthbearer_assertion_private_key_file is None:
            raise KafkaConfigurationError(f"{grant}: needs {prefix}assertion_file or {key}")
        _check_needed(config, key, (f"{claim}iss", f"{claim}sub", f"{claim}aud"))


def _check_needed(config: Options, reason: str, names: tuple[str, ...]) -> None:
    missing = [name for name in names if getattr(config, name) is None]
    if missing:
        raise KafkaConfigurationError(f"{reason}: needs {', '.join(missing)}")


def _show(config: Options, name: str) -> str:
    return f"{name}={show(getattr(config, name))}"


_RULES: Final[tuple[Callable[[Options, _Given], None], ...]] = (
    _check_group,
    # First, so that the error names the option itself and not its value.
    _check_protocol,
    _check_local_assignors,
    _check_orders,
    _check_tls,
    _check_sasl,
)
