"""`kafka.*` options under the names of the Java client, for this consumer and for the producer.

Jobs arrive with the options of Spark's own connector. What means the same here is translated,
what cannot be honoured is refused with the reason. Three options of the Java client are taken and
left out, as jobs carry them along and they change nothing of what is read (`_WITHOUT_EFFECT`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Final

from tandem_kafka.config import Config
from tandem_kafka.errors import KafkaConfigurationError

__all__ = ["consumer_options", "producer_options", "servers_of", "what_to_check"]

_MANAGED: Final = {
    "auto.offset.reset": "use startingOffsets",
    "enable.auto.commit": "Spark keeps the offsets in its checkpoint",
    "key.deserializer": "keys are handed out as binary; decode them with column functions",
    "value.deserializer": "values are handed out as binary; decode them with column functions",
    "key.serializer": "keys are written as they are, string or binary",
    "value.serializer": "values are written as they are, string or binary",
    "interceptor.classes": "interceptors are classes of the JVM",
}
_STORES: Final = "stores of the JVM cannot be read here: give PEM files"
_REFUSED: Final = {
    "ssl.truststore.password": _STORES,
    "ssl.truststore.certificates": "name a file: kafka.ssl.truststore.location",
    "ssl.keystore.key": "name a file: kafka.ssl.keystore.location",
    "ssl.keystore.certificate.chain": "name a file: kafka.ssl.keystore.location",
    "sasl.login.callback.handler.class": "callback handlers are classes of the JVM",
    "sasl.client.callback.handler.class": "callback handlers are classes of the JVM",
    "partitioner.class": "partitioners are classes of the JVM: give kafka.partitioner, with one of "
    "librdkafka's names, or the column partition",
}
#: Producer settings on which the guarantees in docs/reference/spark.md depend.
_GUARANTEED: Final = {
    "acks": frozenset({"all", "-1"}),
    "request.required.acks": frozenset({"all", "-1"}),
    "enable.idempotence": frozenset({"true"}),
}
#: Of the Java client: batches are sized in bytes, no group is joined, reporters are of the JVM.
_WITHOUT_EFFECT: Final = frozenset({"max.poll.records", "session.timeout.ms", "metric.reporters"})

#: Likewise: `tandem.flushTimeoutMs` bounds the time that a task waits.
_WITHOUT_EFFECT_ON_THE_SINK: Final = frozenset({"max.block.ms", "metric.reporters"})

_JAAS_FIELD: Final = re.compile(r"""(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)')""")


def servers_of(kafka: Mapping[str, str]) -> str:
    """Return the option with the brokers' addresses, as errors show it; empty without addresses."""
    found = kafka.get("bootstrap.servers", kafka.get("bootstrap_servers", "")).strip()
    return f"kafka.bootstrap.servers={found}" if found else ""


def what_to_check(place: str) -> str:
    """Return what a user can do when no broker answers; `place` is where the client runs."""
    return (
        f"check the addresses, that brokers run and can be reached from {place}, and "
        "kafka.security.protocol"
    )


def consumer_options(kafka: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of a `KafkaConsumer`, given those after the prefix `kafka.`.

    Raises:
        KafkaConfigurationError: One is managed by the source, unknown, or cannot be honoured.
    """
    fields = {spec.name: spec for spec in dataclasses.fields(Config)}
    default = Config()
    found: dict[str, Any] = {}
    for name, value in _common(kafka).items():
        if name in _WITHOUT_EFFECT:
            continue
        key = name.replace(".", "_")
        if key not in fields:
            raise KafkaConfigurationError(f"kafka.{name}: there is no such option")
        found[key] = _typed(name, value, fields[key].type, getattr(default, key))
    Config.from_options(found)
    return found


def producer_options(kafka: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration of confluent-kafka's producer, likewise.

    It knows most names of the Java client; a name it does not know is its error, by name.

    Raises:
        KafkaConfigurationError: One would have rows written without idempotence or all acks, is
            managed by the sink, or cannot be honoured.
    """
    found = {
        _PRODUCER_NAMES.get(name, name): value
        for name, value in _common(kafka).items()
        if name not in _WITHOUT_EFFECT_ON_THE_SINK
    }
    if "transactional.id" in found:
        raise KafkaConfigurationError(
            "kafka.transactional.id cannot be set, as tasks would shut each other out: give "
            "tandem.transactionalIdPrefix"
        )
    for name in _GUARANTEED.keys() & found.keys():
        _check_guarantee(name, found.pop(name))
    if "ssl.endpoint.identification.algorithm" in found:
        checks = found["ssl.endpoint.identification.algorithm"] == "true"
        found["ssl.endpoint.identification.algorithm"] = "https" if checks else "none"
    if "queue.buffering.max.kbytes" in found:
        found["queue.buffering.max.kbytes"] = str(
            max(1, int(found["queue.buffering.max.kbytes"]) // 1024)
        )
    return {
        "linger.ms": "20",
        # Where the Java client puts a key, so that joins on partitions keep working.
        "partitioner": "murmur2_random",
        **found,
        "enable.idempotence": "true",
        "acks": "all",
    }


def _check_guarantee(name: str, value: str) -> None:
    allowed = _GUARANTEED[name]
    if value.strip().lower() not in allowed:
        raise KafkaConfigurationError(
            f"kafka.{name}={value} is not allowed: the sink writes idempotently and waits for all "
            f"replicas in sync; leave it out, or give {' or '.join(sorted(allowed, reverse=True))}"
        )


#: Of ours to librdkafka's.
_PRODUCER_NAMES: Final = {
    "buffer.memory": "queue.buffering.max.kbytes",
    "max.request.size": "message.max.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "ssl.cafile": "ssl.ca.location",
    "ssl.certfile": "ssl.certificate.location",
    "ssl.keyfile": "ssl.key.location",
    "ssl.password": "ssl.key.password",
    "ssl.crlfile": "ssl.crl.location",
    "ssl.check.hostname": "ssl.endpoint.identification.algorithm",
    "sasl.plain.username": "sasl.username",
    "sasl.plain.password": "sasl.password",
    "metadata.max.age.ms": "topic.metadata.refresh.interval.ms",
}


def _common(kafka: Mapping[str, str]) -> dict[str, str]:
    """Check the names and translate security; names keep their dots."""
    found: dict[str, str] = {}
    for given, value in kafka.items():
        name = given.replace("_", ".")
        if name in _MANAGED:
            raise KafkaConfigurationError(f"kafka.{name} cannot be set: {_MANAGED[name]}")
        if name in _REFUSED:
            raise KafkaConfigurationError(f"kafka.{name} cannot be used: {_REFUSED[name]}")
        found[name] = value
    _translate_tls(found)
    jaas = found.pop("sasl.jaas.config", None)
    if jaas is not None:
        found.update(_login(jaas))
    if found.get("sasl.kerberos.service.name") == "":
        del found["sasl.kerberos.service.name"]
    return found


def _translate_tls(found: dict[str, str]) -> None:
    for store, target in (("truststore", ("cafile",)), ("keystore", ("certfile", "keyfile"))):
        kind = found.pop(f"ssl.{store}.type", None)
        location = found.pop(f"ssl.{store}.location", None)
        if location is None:
            continue
        if (kind or "JKS").upper() != "PEM":
            raise KafkaConfigurationError(
                f"kafka.ssl.{store}.location cannot be used: {_STORES} "
                f"and kafka.ssl.{store}.type=PEM"
            )
        for each in target:
            found.setdefault(f"ssl.{each}", location)
    if "ssl.key.password" in found:
        found["ssl.password"] = found.pop("ssl.key.password")
    if "ssl.endpoint.identification.algorithm" in found:
        algorithm = found.pop("ssl.endpoint.identification.algorithm")
        found["ssl.check.hostname"] = "false" if algorithm in {"", "none"} else "true"


def _login(jaas: str) -> dict[str, str]:
    """Return user and password out of the JAAS line of PLAIN and SCRAM."""
    fields = {}
    for name, quoted, single in _JAAS_FIELD.findall(jaas):
        fields[name] = re.sub(r"\\(.)", r"\1", quoted) if quoted else single
    if fields.keys() != {"username", "password"}:
        raise KafkaConfigurationError(
            "kafka.sasl.jaas.config: only the login modules of PLAIN and SCRAM are understood, "
            'with username="..." and password="..."'
        )
    return {
        "sasl.plain.username": fields["username"],
        "sasl.plain.password": fields["password"],
    }


def _typed(name: str, value: str, declared: Any, default: object) -> Any:
    """Return an option's value as the type it is declared with."""
    text = str(declared)
    if text.startswith("bool"):
        if value.lower() not in {"true", "false"}:
            raise KafkaConfigurationError(f"kafka.{name} must be true or false, got {value!r}")
        return value.lower() == "true"
    if text.startswith("int"):
        try:
            return int(value)
        except ValueError:
            message = f"kafka.{name} must be a whole number, got {value!r}"
            raise KafkaConfigurationError(message) from None
    if text.startswith(("str", "Literal")) or isinstance(default, (str, tuple)):
        return value
    raise KafkaConfigurationError(f"kafka.{name} cannot be given as text")
