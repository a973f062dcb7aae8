"""Checks of options with special formats."""

from __future__ import annotations

import inspect
import math
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from tandem_kafka.config.checks import (
    INT32_MAX,
    Check,
    as_ms,
    milliseconds,
    objects,
    one_of,
    whole_number,
)
from tandem_kafka.config.names import warn_deprecated
from tandem_kafka.config.offset_reset import parse_offset_reset
from tandem_kafka.logs import client_logger

if TYPE_CHECKING:
    import ssl

log = client_logger(__name__)

#: kafka-python's assignors: module and class.
_ASSIGNORS_BY_NAME: Final = {
    "range": ("range", "RangePartitionAssignor"),
    "roundrobin": ("roundrobin", "RoundRobinPartitionAssignor"),
    "sticky": ("sticky.sticky_assignor", "StickyPartitionAssignor"),
    "cooperative-sticky": ("cooperative_sticky", "CooperativeStickyAssignor"),
}
_LEVELS: Final = ("read_uncommitted", "read_committed")
_ASSIGNOR_VERSIONS: Final = ("minimum_version", "version", "maximum_version")
_INT16_MAX: Final = 2**15 - 1
_PROTOCOLS: Final = one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_DOTTED_NUMBERS: Final = re.compile(r"\d{1,9}(\.\d{1,9}){0,3}", re.ASCII)
_OLDEST: Final = (0, 11)
_COMMIT_CALLBACK: Final = "default_offset_commit_callback"


@runtime_checkable
class Deserializer(Protocol):
    """kafka-python's Deserializer; a callable that takes bytes works as well."""

    def deserialize(self, topic: str, headers: Any, data: Any, /) -> object:
        """Convert the key or value of a record."""
        ...


def _parse_offset_reset(value: Any) -> str:
    if value is None:
        log.warning("auto_offset_reset=None means 'none'")
        return "none"
    if not isinstance(value, str):
        raise TypeError
    reset = parse_offset_reset(value)
    return value if reset.kind == "by_duration" else reset.kind


def _parse_isolation_level(value: Any) -> str:
    if value in _LEVELS:
        return str(value)
    try:
        level = import_module("kafka.protocol.consumer").IsolationLevel.build_from(value)
    except ValueError:
        raise ValueError from None  # kafka-python's text does not help
    return str(level.name).lower()


def _parse_bootstrap_timeout(value: Any) -> object:
    return milliseconds(0).parse(math.inf if value is None else value)


def _parse_api_version(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, str):
        warn_deprecated(f"api_version={value!r} is deprecated: use a tuple such as (2, 5), or None")
        value = _version_from_text(value)
    if value is None:
        return None
    if not isinstance(value, (tuple, list)) or not value:
        raise TypeError
    if not all(type(part) is int and part >= 0 for part in value):
        raise ValueError
    if tuple(value) < _OLDEST:
        log.warning(
            "api_version=%r is older than Kafka 0.11 and ignored; the broker's versions are used",
            value,
        )
    return (value[0], 0) if len(value) == 1 else tuple(value)


def _version_from_text(text: str) -> tuple[int, ...] | None:
    if text == "auto":
        return None
    if not _DOTTED_NUMBERS.fullmatch(text):
        raise ValueError
    return tuple([int(part) for part in text.split(".")])


def _parse_consumer_timeout(value: Any) -> int | None:
    """Return None for no limit: None, infinity, or a negative number, as in kafka-python."""
    if value is None or (number := as_ms(value)) < 0:
        return None
    return None if math.isinf(value) else number


def _parse_buffer_bytes(value: Any) -> object:
    """Accept -1 (the Java client) and 0 (others) for the default of the system."""
    unset = not isinstance(value, bool) and value in (-1, 0)
    return None if unset else whole_number(1, INT32_MAX, optional=True).parse(value)


def _parse_commit_callback(value: Any) -> Any:
    """Treat kafka-python's default, which does nothing, as None."""
    if value is not None and not callable(value):
        raise TypeError
    if value is None:
        return None
    theirs = import_module("kafka.consumer.group").KafkaConsumer.DEFAULT_CONFIG
    return None if value is theirs[_COMMIT_CALLBACK] else value


def _parse_deserializer(value: Any) -> object:
    if inspect.isclass(value) and hasattr(value, "deserialize"):
        raise ValueError(f"must be an instance: write {value.__name__}()")
    if value is not None and not callable(value) and not isinstance(value, Deserializer):
        raise TypeError
    return value


def _parse_assignors(value: Any) -> tuple[object, ...]:
    given = () if value is None else objects(value)
    assignors = [_assignor_named(each) if isinstance(each, str) else each for each in given]
    if not all(
        isinstance(getattr(assignor, "name", None), (str, property))
        and callable(getattr(assignor, "assign", None))
        for assignor in assignors
    ):
        raise TypeError
    # As in kafka-python, the last assignor of a name takes the place of the first.
    named = {each.name if isinstance(each.name, str) else each: each for each in assignors}
    return tuple(named.values())


def _assignor_named(name: str) -> Any:
    if name not in _ASSIGNORS_BY_NAME:
        raise ValueError(f"{name!r} is none of {', '.join(_ASSIGNORS_BY_NAME)}")
    module, kind = _ASSIGNORS_BY_NAME[name]
    return getattr(import_module(f"kafka.coordinator.assignors.{module}"), kind)


def _parse_local_assignors(value: Any) -> tuple[object, ...]:
    assignors = objects(value)
    for assignor in assignors:
        methods = [getattr(assignor, method, None) for method in ("assign", "metadata")]
        named = isinstance(name := getattr(assignor, "name", None), str) and name
        if not named or not all(map(callable, methods)):
            raise ValueError
        _check_assignor_versions(assignor)
    _check_assignor_names(assignors)
    return assignors


def _parse_interceptors(value: Any) -> tuple[object, ...]:
    interceptors = objects(value)
    for each in interceptors:
        methods = [getattr(each, name, None) for name in ("on_consume", "on_commit")]
        if not any(map(callable, methods)):
            raise ValueError
    return interceptors


def _check_assignor_versions(assignor: Any) -> None:
    given = [getattr(assignor, name, None) for name in _ASSIGNOR_VERSIONS]
    versions = [each for each in given if isinstance(each, int) and 0 <= each <= _INT16_MAX]
    if len(versions) < len(given):
        raise ValueError(f"{assignor.name}: {', '.join(_ASSIGNOR_VERSIONS)} must be whole numbers")
    if versions != sorted(versions):
        raise ValueError(
            f"{assignor.name}: version must be between minimum_version and maximum_version"
        )


def _check_assignor_names(assignors: tuple[Any, ...]) -> None:
    names = [assignor.name for assignor in assignors if isinstance(assignor.name, str)]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"names {', '.join(sorted(twice))} more than once")


def _parse_sasl_mechanism(value: Any) -> str | None:
    """Accept every mechanism known to kafka-python, where users can register their own."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError
    if not value:
        return None
    for name in (value, value.upper()):
        if name in import_module("kafka.net.sasl").SASL_MECHANISMS:
            return name
    raise ValueError


def _parse_socket_options(value: Any) -> tuple[tuple[object, ...], ...]:
    items = objects(value)
    if not all(isinstance(item, (list, tuple)) and len(item) in {3, 4} for item in items):
        raise TypeError
    return tuple([tuple(item) for item in items])


def _parse_ssl_context(value: Any) -> ssl.SSLContext | None:
    if value is not None and not isinstance(value, import_module("ssl").SSLContext):
        raise TypeError
    given: ssl.SSLContext | None = value
    return given


def _parse_token_provider(value: Any) -> object:
    """Reject a value that would fail at every attempt to connect."""
    token = getattr(value, "token", None)
    if value is None:
        return None
    if inspect.isclass(value) and callable(token):
        raise ValueError(f"must be an instance: write {value.__name__}()")
    if not callable(token):
        raise TypeError
    if inspect.iscoroutinefunction(token):
        raise ValueError("token() must not be a coroutine function: it is called on a thread")
    if not _takes_no_arguments(token):
        raise ValueError("token() must be callable without arguments")
    extensions = getattr(value, "extensions", None)
    if extensions is not None and not callable(extensions):
        raise ValueError("extensions must be callable")
    return value


def _takes_no_arguments(function: Any) -> bool:
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    except ValueError:  # builtins have no signature
        return True
    return True


BOOTSTRAP_TIMEOUT: Final = Check("a number of at least 0, or None", _parse_bootstrap_timeout)
ISOLATION_LEVEL: Final = Check(
    "'read_uncommitted' or 'read_committed', or their numbers, 0 and 1", _parse_isolation_level
)
SECURITY_PROTOCOL: Final = Check(
    _PROTOCOLS.allowed, lambda value: _PROTOCOLS.parse("PLAINTEXT" if value is None else value)
)
OFFSET_RESET: Final = Check(
    "'earliest', 'latest', 'none' or 'by_duration:<ISO 8601 duration>'", _parse_offset_reset
)
API_VERSION: Final = Check("a tuple such as (2, 5), or None", _parse_api_version)
CONSUMER_TIMEOUT: Final = Check(
    "a number; None, infinity or a negative number for no end", _parse_consumer_timeout
)
BUFFER_BYTES: Final = Check(
    f"a whole number from 1 to {INT32_MAX}, or None, -1 or 0 for the system's default",
    _parse_buffer_bytes,
)
COMMIT_CALLBACK: Final = Check("a callable or None", _parse_commit_callback)
DESERIALIZER: Final = Check(
    "a callable that takes bytes, an object with deserialize(topic, headers, data), or None",
    _parse_deserializer,
)
ASSIGNORS: Final = Check(
    "a list of assignors ('range', 'roundrobin', 'sticky', 'cooperative-sticky', or classes or "
    "instances with a name and assign())",
    _parse_assignors,
)
LOCAL_ASSIGNORS: Final = Check(
    "a list of tandem_kafka.assignors.PartitionAssignor (classes or instances)",
    _parse_local_assignors,
)
INTERCEPTORS: Final = Check(
    "a list of classes or objects with on_consume(records), on_commit(offsets) or both",
    _parse_interceptors,
)
SASL_MECHANISM: Final = Check(
    "'PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512', 'OAUTHBEARER', 'GSSAPI', 'AWS_MSK_IAM' or another "
    "registered with kafka-python, or None",
    _parse_sasl_mechanism,
)
SOCKET_OPTIONS: Final = Check("a list of (level, option, value)", _parse_socket_options)
SSL_CONTEXT: Final = Check("an ssl.SSLContext or None", _parse_ssl_context)
TOKEN_PROVIDER: Final = Check("an object with token(), or None", _parse_token_provider)
ANYTHING: Final = Check("anything", lambda value: value)
