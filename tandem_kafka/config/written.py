"""Options in `KafkaConsumer.config`: in the same form as kafka-python's."""

from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

from collections.abc import Mapping
from typing import Any, Final

from kafka.consumer.group import KafkaConsumer

from tandem_kafka.config.shown import ShownOptions

_THEIRS: Final[Mapping[str, Any]] = KafkaConsumer.DEFAULT_CONFIG
#: Options that are kept in a different form from kafka-python's default.
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
#: Options for which kafka-python shows the final value, not the given one.
_SETTLED: Final = ("receive_message_max_bytes",)


def as_written(
    settled: Mapping[str, Any], named: Mapping[str, Any], secrets: frozenset[str]
) -> ShownOptions:
    """Combine the given options, the defaults, and the final values of our own options.

    Args:
        settled: Every option with its final value.
        named: The options as the user gave them.
        secrets: Options whose values are never shown.
    """
    shown = {**settled, **{name: _own(_THEIRS[name]) for name in _FORMS}}
    shown.update({name: named[name] for name in named if name in _THEIRS and name not in _SETTLED})
    reset = shown["auto_offset_reset"]
    if isinstance(reset, str) and reset in {"smallest", "largest"}:
        shown["auto_offset_reset"] = settled["auto_offset_reset"]
    return ShownOptions(shown, secrets)


def _own(value: Any) -> Any:
    """Copy lists, so that a consumer's config cannot change kafka-python's defaults."""
    return list(value) if isinstance(value, list) else value
