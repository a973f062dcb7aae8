"""Converts options of the Java client from text: key stores in PEM, login modules, types.

The callers have the names in the Java client's form, with dots. `prefix` precedes the names in
error messages.
"""

from __future__ import annotations

import re
from typing import Any, Final

from tandem_kafka.config.shown import show
from tandem_kafka.errors import KafkaConfigurationError

STORES_ADVICE: Final = (
    "Python cannot read JVM key stores: use PEM files (keytool -importkeystore and openssl pkcs12 "
    "convert stores)"
)

_JAAS_FIELD: Final = re.compile(r"""(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)')""")


def translate_stores(found: dict[str, str], prefix: str = "") -> None:
    """Replace the Java client's TLS options with the corresponding options of this package.

    Raises:
        KafkaConfigurationError: A store is not a PEM file.
    """
    for store, target in (("truststore", ("cafile",)), ("keystore", ("certfile", "keyfile"))):
        kind = found.pop(f"ssl.{store}.type", None)
        location = found.pop(f"ssl.{store}.location", None)
        if location is None:
            continue
        if (kind or "JKS").upper() != "PEM":
            raise KafkaConfigurationError(
                f"{prefix}ssl.{store}.location cannot be used: {STORES_ADVICE} "
                f"with {prefix}ssl.{store}.type=PEM"
            )
        for each in target:
            found.setdefault(f"ssl.{each}", location)
    if "ssl.key.password" in found:
        found["ssl.password"] = found.pop("ssl.key.password")
    if "ssl.endpoint.identification.algorithm" in found:
        algorithm = found.pop("ssl.endpoint.identification.algorithm")
        found["ssl.check.hostname"] = "false" if algorithm in {"", "none"} else "true"


def login_of(jaas: str, prefix: str = "") -> dict[str, str]:
    """Return the user name and password from a JAAS line for PLAIN or SCRAM.

    Raises:
        KafkaConfigurationError: The line is for another login module.
    """
    fields = {}
    for name, quoted, single in _JAAS_FIELD.findall(jaas):
        fields[name] = re.sub(r"\\(.)", r"\1", quoted) if quoted else single
    if fields.keys() != {"username", "password"}:
        raise KafkaConfigurationError(
            f"{prefix}sasl.jaas.config: only the login modules of PLAIN and SCRAM are supported, "
            'with username="..." and password="..."'
        )
    return {
        "sasl.plain.username": fields["username"],
        "sasl.plain.password": fields["password"],
    }


def typed_value(name: str, value: str, declared: Any, default: object, prefix: str = "") -> Any:
    """Convert an option's value to its declared type.

    Raises:
        KafkaConfigurationError: The value does not have that type.
    """
    text = str(declared)
    if text.startswith("bool"):
        if value.lower() not in {"true", "false"}:
            raise KafkaConfigurationError(
                f"{prefix}{name} must be true or false, got {show(value)}"
            )
        return value.lower() == "true"
    if text.startswith("int"):
        try:
            return int(value)
        except ValueError:
            message = f"{prefix}{name} must be a whole number, got {show(value)}"
            raise KafkaConfigurationError(message) from None
    if text.startswith(("str", "Literal")) or isinstance(default, (str, tuple)):
        return value
    raise KafkaConfigurationError(f"{prefix}{name} cannot be set here: its value is not text")
