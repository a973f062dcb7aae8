"""Option names: known ones, old ones, and those without effect with the security protocol."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from tandem_kafka.errors import KafkaConfigurationError
from tandem_kafka.logs import client_logger

log = client_logger(__name__)

#: Names of kafka-python 2.x, and their present names.
_RENAMED: Final = {"api_version_auto_timeout_ms": "bootstrap_timeout_ms"}
_WITHOUT_EFFECT: Final = {"legacy_iterator"}
_TOPICS: Final = "topics come first, without a name: KafkaConsumer('orders', ...)"
#: What other clients take as an option.
_ELSEWHERE: Final = {
    "loop": "leave it out; for asyncio, AsyncKafkaConsumer takes the event loop that runs",
    "topic": _TOPICS,
    "topics": _TOPICS,
}


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
    # For errors only.
    from difflib import get_close_matches  # noqa: PLC0415

    from kafka import KafkaProducer  # noqa: PLC0415

    from tandem_kafka.config.librdkafka import IGNORED, PROPERTIES  # noqa: PLC0415

    underscored = name.replace(".", "_")
    if underscored != name and underscored in known:
        return f"{name!r} (write it with underscores: {underscored!r})"
    words = sorted(underscored.split("_"))
    same = [each for each in known if sorted(each.split("_")) == words]
    near = same or get_close_matches(underscored, known, n=1)
    dotted = underscored.replace("_", ".")
    if underscored in _ELSEWHERE:
        advice = _ELSEWHERE[underscored]
    elif underscored in KafkaProducer.DEFAULT_CONFIG:
        here = f"; of a consumer: {near[0]!r}" if near else "; leave it out here"
        advice = f"an option of KafkaProducer{here}"
    elif not same and ((found := PROPERTIES.get(dotted)) is not None or dotted in IGNORED):
        here = f"here it is {found.option!r}" if found and found.option else "leave it out here"
        advice = f"of librdkafka; {here}"
    elif near:
        advice = f"did you mean {near[0]!r}?"
    else:
        advice = "help(KafkaConsumer) describes all options"
    return f"{name!r} ({advice})"


#: The simulated cluster of tandem-kafka-testing makes consumers with the options of a test.
_PACKAGES = ("tandem_kafka", "tandem_kafka_testing")


def warn_deprecated(text: str) -> None:
    """Warn with a DeprecationWarning at the first caller outside these packages.

    Python shows such a warning only when it points at the user's own code.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PACKAGES:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, DeprecationWarning, stacklevel=level)


#: Prefixes of options, and the part of `security_protocol` that they need.
_PARTS: Final = {"ssl_": "SSL", "sasl_": "SASL"}
_PROTOCOLS: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")


def without_use(
    options: Mapping[str, object], protocol: str, defaults: Mapping[str, object]
) -> frozenset[str]:
    """Return the names of options without effect; log those whose value asks for something.

    Args:
        options: What was given.
        protocol: The value of `security_protocol`.
        defaults: Values that ask for nothing, by name; None and an empty text do not either.
    """
    missing = {name: part for name in options if (part := _missing(name, protocol))}
    meant = [name for name in missing if not _asks_nothing(options[name], defaults[name])]
    if meant:
        log.warning(
            "%s: no effect with security_protocol=%r; set %s",
            ", ".join(meant),
            protocol,
            _protocols_with(protocol, (missing[name] for name in meant)),
        )
    return frozenset(missing)


def _missing(name: str, protocol: str) -> str | None:
    """Return the part that the option needs but the protocol lacks."""
    for prefix, part in _PARTS.items():
        if name.startswith(prefix) and part not in protocol.split("_"):
            return part
    return None


def _protocols_with(protocol: str, parts: Iterable[str]) -> str:
    """Name the protocols that have these parts in addition to those of the present one."""
    needed = {*protocol.split("_"), *parts} - {"PLAINTEXT"}
    return " or ".join(repr(each) for each in _PROTOCOLS if needed <= set(each.split("_")))


def _asks_nothing(value: object, default: object) -> bool:
    """Compare without running a comparison of the user's."""
    plain = isinstance(value, (str, int))
    return value is None or (plain and value in ("", default))
