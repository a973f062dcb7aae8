"""Options as the user sees them in `KafkaConsumer.config`: as kafka-python's consumer has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka.consumer.group import KafkaConsumer

from tandem_kafka.config.shown import ShownOptions

__all__ = ["as_written"]

_THEIRS: Final[Mapping[str, Any]] = KafkaConsumer.DEFAULT_CONFIG
#: What we keep in another form than that in which kafka-python has its default.
_FORMS: Final = (
    "bootstrap_servers",
    "consumer_timeout_ms",
    "default_offset_commit_callback",
    "enable_auto_commit",
    "kafka_client",
    "metric_reporters",
    "selector",
    "socket_options",
)
#: Names of kafka-python for which it shows what it made of the value.
_SETTLED: Final = ("receive_message_max_bytes",)


def as_written(
    settled: Mapping[str, Any], named: Mapping[str, Any], secrets: frozenset[str]
) -> ShownOptions:
    """Put together what was given, the defaults, and what became of options of our own.

    Args:
        settled: Every option with the value that is in force.
        named: Those that were given, as they were given.
        secrets: Names of options whose values are not to be shown.
    """
    shown = {**settled, **{name: _own(_THEIRS[name]) for name in _FORMS}}
    shown.update({name: named[name] for name in named if name in _THEIRS and name not in _SETTLED})
    reset = shown["auto_offset_reset"]
    if isinstance(reset, str) and reset in {"smallest", "largest"}:
        shown["auto_offset_reset"] = settled["auto_offset_reset"]
    return ShownOptions(shown, secrets)


def _own(value: Any) -> Any:
    """A list of kafka-python's defaults is not to be changed through a consumer's."""
    return list(value) if isinstance(value, list) else value
