"""Option names: known ones, and old ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from tandem_kafka.config.deprecation import warn_deprecated
from tandem_kafka.errors import KafkaConfigurationError

#: Names of kafka-python 2.x, and their present names.
_RENAMED: Final = {"api_version_auto_timeout_ms": "bootstrap_timeout_ms"}
_WITHOUT_EFFECT: Final = {"legacy_iterator"}


def current_names(options: Mapping[str, object], known: Collection[str]) -> Mapping[str, object]:
    """Return the options with their present names.

    Raises:
        KafkaConfigurationError: Some options are unknown; the text names all of them.
    """
    present = {name: _RENAMED.get(name, name) for name in options if name not in _WITHOUT_EFFECT}
    for name in options:
        if name in _WITHOUT_EFFECT:
            warn_deprecated(f"the option {name} has no effect: there is one iterator")
        elif present[name] != name:
            _check_renamed(name, present[name], options)
    unknown = [name for name in present.values() if name not in known]
    if unknown:
        raise KafkaConfigurationError(
            "unknown options: " + ", ".join(_hint(name, known) for name in unknown)
        )
    return {present[name]: options[name] for name in present}


def _check_renamed(name: str, present: str, options: Collection[str]) -> None:
    if present in options:
        raise KafkaConfigurationError(f"{name} is the old name of {present}: set only one of them")
    warn_deprecated(f"the option {name} is deprecated: use {present}")


def _hint(name: str, known: Collection[str]) -> str:
    underscored = name.replace(".", "_")
    if underscored != name and underscored in known:
        return f"{name!r} (write it with underscores: {underscored!r})"
    from difflib import get_close_matches  # noqa: PLC0415 - for errors only

    near = get_close_matches(underscored, known, n=1)
    return f"{name!r} (did you mean {near[0]!r}?)" if near else repr(name)
