"""Option names: which are known, which had another name, which are not honoured here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Final

from tandem_kafka.config.deprecation import warn_deprecated
from tandem_kafka.errors import KafkaConfigurationError

__all__ = ["NOT_HONOURED", "current_names"]

#: Names of kafka-python 2.x and what they are called now.
_RENAMED: Final = {"api_version_auto_timeout_ms": "bootstrap_timeout_ms"}
_WITHOUT_EFFECT: Final = {"legacy_iterator"}

#: Options of other clients that would change nothing here, and why. An option is honoured or
#: refused, never taken and forgotten; a value that asks for nothing (None, an empty list) passes.
NOT_HONOURED: Final = {
    "kafka_client": "the network client is this consumer's own",
    "selector": "the network thread brings its own",
}


def current_names(options: Mapping[str, object], known: Collection[str]) -> dict[str, object]:
    """Return the options under their present names.

    Raises:
        KafkaConfigurationError: Some are unknown (all of them are named) or not honoured.
    """
    named: dict[str, object] = {}
    for name, value in options.items():
        if name in _RENAMED:
            _take_renamed(name, value, options, named)
        elif name in _WITHOUT_EFFECT:
            warn_deprecated(f"the option {name} has no effect: there is one iterator")
        elif name in NOT_HONOURED:
            _refuse_unless_empty(name, value)
        else:
            named[name] = value
    unknown = [name for name in named if name not in known]
    if unknown:
        raise KafkaConfigurationError(
            "unknown options: " + ", ".join(_hint(name, known) for name in unknown)
        )
    return named


def _take_renamed(
    name: str, value: object, options: Mapping[str, object], named: dict[str, object]
) -> None:
    present = _RENAMED[name]
    if present in options:
        raise KafkaConfigurationError(f"{name} is the old name of {present}: give one of them")
    warn_deprecated(f"the option {name} is called {present} now")
    named[present] = value


def _refuse_unless_empty(name: str, value: object) -> None:
    if value is not None and value not in ([], ()):
        raise KafkaConfigurationError(f"{name} is not supported: {NOT_HONOURED[name]}")


def _hint(name: str, known: Collection[str]) -> str:
    underscored = name.replace(".", "_")
    if underscored != name and underscored in known:
        return f"{name!r} (write it with underscores: {underscored!r})"
    near = get_close_matches(underscored, known, n=1)
    return f"{name!r} (did you mean {near[0]!r}?)" if near else repr(name)
