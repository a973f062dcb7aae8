"""Options in `KafkaConsumer.config`: in the same form as kafka-python's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

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


def in_kafka_python_form(settled: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Combine the given options, the defaults, and the final values of our own options.

    Args:
        settled: Every option with its final value.
        named: The options as the user gave them.
    """
    theirs = _theirs()
    shown = {**settled, **{name: _own(theirs[name]) for name in _FORMS}}
    shown.update({name: named[name] for name in named if name in theirs and name not in _SETTLED})
    reset = shown["auto_offset_reset"]
    if isinstance(reset, str) and reset in {"smallest", "largest"}:
        shown["auto_offset_reset"] = settled["auto_offset_reset"]
    return shown


@cache
def _theirs() -> dict[str, Any]:
    """Return kafka-python's defaults.

    Invariant: called for the first time before `install()` replaces its class.
    """
    defaults: dict[str, Any] = import_module("kafka.consumer.group").KafkaConsumer.DEFAULT_CONFIG
    return defaults


def _own(value: Any) -> Any:
    """Copy lists, so that a consumer's config cannot change kafka-python's defaults."""
    return list(value) if isinstance(value, list) else value
