"""Converts names of the Java client, librdkafka and this package to options of the consumer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from tandem_kafka.config import Config
from tandem_kafka.config.java import STORES_ADVICE, login_of, translate_stores, typed_value
from tandem_kafka.config.librdkafka import (
    IGNORED,
    PROPERTIES,
    REJECTED,
    needs_ssl_context,
    ssl_context_of,
)
from tandem_kafka.config.shown import show
from tandem_kafka.errors import KafkaConfigurationError

#: The commands set these themselves.
_MANAGED: Final = frozenset(
    """
    auto.offset.reset enable.auto.commit auto.commit.interval.ms enable.auto.offset.store
    enable.partition.eof key.deserializer value.deserializer interceptor.classes
    partition.assignment.strategy group.instance.id group.protocol metric.reporters
    default.offset.commit.callback statistics.interval.ms sasl.oauth.token.provider ssl.context
    """.split()  # noqa: SIM905 - more readable than a list of strings
)
#: Names in files of producers, streams and registries.
_FOREIGN: Final = (
    "key.serializer",
    "value.serializer",
    "acks",
    "buffer.memory",
    "max.block.ms",
    "max.request.size",
    "partitioner.class",
    "schema.registry.",
    "basic.auth.",
)
_JAVA: Final = ("ssl.truststore.", "ssl.keystore.", "sasl.jaas.config", "ssl.key.password")
_CLASSES: Final = "classes of the JVM cannot be used here"
_UNSUPPORTED: Final = {
    **REJECTED,
    "ssl.truststore.password": STORES_ADVICE,
    "ssl.truststore.certificates": "give a file in ssl.truststore.location",
    "ssl.keystore.key": "give a file in ssl.keystore.location",
    "ssl.keystore.certificate.chain": "give a file in ssl.keystore.location",
    "sasl.login.callback.handler.class": _CLASSES,
    "sasl.client.callback.handler.class": _CLASSES,
}
del _UNSUPPORTED["ssl.keystore.location"]  # a PEM file, the form of KIP-651
#: librdkafka's settings that only an SSL context can express.
_OF_CONTEXT: Final = ("ssl.ca.pem", "enable.ssl.certificate.verification")
#: librdkafka's settings in another unit.
_FACTORS: Final = {"queued.max.messages.kbytes": 1024}
_FIELDS: Final = {spec.name: spec for spec in dataclasses.fields(Config)}
_DEFAULT: Final = Config()


class Property(NamedTuple):
    """A setting as it was written.

    Attributes:
        name: With dots or underscores, in the form of the Java client, librdkafka or this package.
        value: The text.
        origin: The flag, the variable, or the file and its line, for error messages.
        lenient: Whether settings for other programs are skipped, as in files that programs share.
    """

    name: str
    value: str
    origin: str
    lenient: bool = False


def options_from(properties: Iterable[Property]) -> dict[str, Any]:
    """Return the options that settings from one source stand for.

    The names `ssl.ca.pem` and `enable.ssl.certificate.verification` are for `with_ssl_context`.

    Raises:
        KafkaConfigurationError: A name is unknown or unsupported, or a value is not allowed.
    """
    java: dict[str, str] = {}
    found: dict[str, Any] = {}
    for each in properties:
        name = each.name.strip().replace("_", ".")
        if _is_for_others(name, each):
            continue
        if name.startswith(_JAVA):
            java[name] = each.value
        else:
            try:
                found.update(_option(name, each.value))
            except KafkaConfigurationError as error:
                raise KafkaConfigurationError(f"{each.origin}: {error.args[0]}") from None
    translate_stores(java)
    jaas = java.pop("sasl.jaas.config", None)
    if jaas is not None:
        java.update(login_of(jaas))
    for name, value in java.items():
        found.update(_option(name, value))
    return found


def _is_for_others(name: str, given: Property) -> bool:
    """Whether to skip a setting.

    Raises:
        KafkaConfigurationError: It has no effect, and was meant for this command.
    """
    own = name.replace(".", "_") in _FIELDS or name in PROPERTIES
    managed = name in _MANAGED
    if not managed and (own or not (name in IGNORED or name.startswith(_FOREIGN))):
        return False
    if given.lenient:
        return True
    reason = "the command sets it" if managed else "it has no effect here"
    raise KafkaConfigurationError(f"{given.origin}: {name} cannot be set: {reason}")


def _option(name: str, value: str) -> dict[str, Any]:
    """Return the option for a setting, by its name."""
    if name in _OF_CONTEXT:
        return {name: value}
    if name in _UNSUPPORTED:
        raise KafkaConfigurationError(f"{name} cannot be used: {_UNSUPPORTED[name]}")
    if name in _SPECIAL:
        return _SPECIAL[name](value)
    option = name.replace(".", "_")
    if option in _FIELDS:
        return {option: _typed(name, option, value)}
    known = PROPERTIES.get(name)
    if known is None or known.option is None:
        near = get_close_matches(name, [*PROPERTIES, *(each.replace("_", ".") for each in _FIELDS)])
        hint = (
            f"; did you mean {near[0]}?"
            if near
            else "; `python -m pydoc tandem_kafka.ConsumerOptions` lists the options"
        )
        raise KafkaConfigurationError(f"there is no option {name}{hint}")
    if known.words:
        value = known.words.get(value.lower(), value)
    typed = _typed(name, known.option, value)
    return {known.option: typed * _FACTORS[name] if name in _FACTORS else typed}


def _check_of_names(value: str) -> dict[str, Any]:
    return {"ssl_check_hostname": value.lower() not in {"", "none"}}


def _source_of_tokens(value: str) -> dict[str, Any]:
    if value.strip().lower() != "oidc":
        raise KafkaConfigurationError(
            "sasl.oauthbearer.method must be oidc, because a command has no oauth_cb"
        )
    return {}  # the URL of the endpoint is enough


#: Settings that no option has under their name.
_SPECIAL: Final[Mapping[str, Callable[[str], dict[str, Any]]]] = {
    "ssl.endpoint.identification.algorithm": _check_of_names,
    "sasl.oauthbearer.method": _source_of_tokens,
}


def _typed(name: str, option: str, value: str) -> Any:
    declared, default = _FIELDS[option].type, getattr(_DEFAULT, option)
    return typed_value(name, value.strip(), declared, default)


def with_ssl_context(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merged options, with an SSL context if they need one.

    Raises:
        KafkaConfigurationError: The settings for the context cannot be used.
    """
    left = dict(options)
    values: dict[str, Any] = {name: left.pop(name) for name in _OF_CONTEXT if name in left}
    if "enable.ssl.certificate.verification" in values:
        text = str(values["enable.ssl.certificate.verification"]).strip().lower()
        if text not in {"true", "false"}:
            raise KafkaConfigurationError(
                f"enable.ssl.certificate.verification must be true or false, got {show(text)}"
            )
        values["enable.ssl.certificate.verification"] = text == "true"
    protocol = str(left.get("security_protocol", "PLAINTEXT")).upper()
    if protocol.endswith("SSL") and needs_ssl_context(left, values):
        left["ssl_context"] = ssl_context_of(left, values)
    return left
