"""Converts `kafka.*` options from the Java client's names to those of our consumer and producer.

Existing jobs bring the options of Spark's own connector. Equivalent options are translated, and
unsupported ones are rejected with the reason. Options in `_WITHOUT_EFFECT` are accepted and
ignored: many jobs set them, and they do not affect the records that are read.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Final

from tandem_kafka import config
from tandem_kafka.config.java import STORES_ADVICE, login_of, translate_stores, typed_value
from tandem_kafka.errors import KafkaConfigurationError

#: Prefix of the client's options among those of Spark.
_PREFIX: Final = "kafka."
_MANAGED: Final = {
    "auto.offset.reset": "use startingOffsets",
    "enable.auto.commit": "Spark keeps the offsets in its checkpoint",
    "key.deserializer": "the column key is binary; decode it with column functions",
    "value.deserializer": "the column value is binary; decode it with column functions",
    "key.serializer": "keys are written unchanged, as string or binary",
    "value.serializer": "values are written unchanged, as string or binary",
    "interceptor.classes": "interceptors are classes of the JVM",
}
_REJECTED: Final = {
    "ssl.truststore.password": STORES_ADVICE,
    "ssl.truststore.certificates": "give a file in kafka.ssl.truststore.location",
    "ssl.keystore.key": "give a file in kafka.ssl.keystore.location",
    "ssl.keystore.certificate.chain": "give a file in kafka.ssl.keystore.location",
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
#: Source options: batches are sized in bytes, no group is joined, reporters are JVM classes.
_WITHOUT_EFFECT: Final = frozenset({"max.poll.records", "session.timeout.ms", "metric.reporters"})

#: Sink options: `tandem.flushTimeoutMs` limits the time that a task waits.
_WITHOUT_EFFECT_ON_THE_SINK: Final = frozenset({"max.block.ms", "metric.reporters"})


def servers_of(kafka: Mapping[str, str]) -> str:
    """Return the option with the brokers' addresses for an error message; empty if not set."""
    found = kafka.get("bootstrap.servers", kafka.get("bootstrap_servers", "")).strip()
    return f"kafka.bootstrap.servers={found}" if found else ""


def what_to_check(place: str) -> str:
    """Return advice for when no broker responds; `place` is the machine that runs the client."""
    return (
        "check the addresses, kafka.security.protocol, and that the brokers are running and can "
        f"be reached from {place}"
    )


def consumer_options(kafka: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of a `KafkaConsumer`; `kafka` has the names without the prefix `kafka.`.

    Raises:
        KafkaConfigurationError: An option is managed by the source, unknown, or unsupported.
    """
    return dict(_consumer_options(tuple(kafka.items())))


@functools.lru_cache(maxsize=64)
def _consumer_options(kafka: tuple[tuple[str, str], ...]) -> Mapping[str, Any]:
    """Check options once in a process: each task of a query has the same ones."""
    fields = {spec.name: spec for spec in dataclasses.fields(config.Config)}
    default = config.Config()
    found: dict[str, Any] = {}
    for name, value in _common(dict(kafka)).items():
        if name in _WITHOUT_EFFECT:
            continue
        key = name.replace(".", "_")
        if key not in fields:
            raise KafkaConfigurationError(f"kafka.{name}: there is no such option")
        found[key] = typed_value(name, value, fields[key].type, getattr(default, key), _PREFIX)
    config.Config.from_options(found)
    return found


def producer_options(kafka: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration of confluent-kafka's producer.

    That producer accepts most names of the Java client, and reports the names it does not know.

    Raises:
        KafkaConfigurationError: An option disables idempotence or `acks=all`, is managed by the
            sink, or is unsupported; or its value is not allowed.
    """
    found = {
        _PRODUCER_NAMES.get(name, name): _PRODUCER_VALUES.get(name, _unchanged)(name, value)
        for name, value in _common(kafka).items()
        if name not in _WITHOUT_EFFECT_ON_THE_SINK
    }
    if "transactional.id" in found:
        raise KafkaConfigurationError(
            "kafka.transactional.id cannot be set, because tasks would fence each other: set "
            "tandem.transactionalIdPrefix instead"
        )
    for name in _GUARANTEED.keys() & found.keys():
        _check_guarantee(name, found.pop(name))
    return {
        "linger.ms": "20",
        # The Java client's choice of partition for a key, so that co-partitioned topics stay so.
        "partitioner": "murmur2_random",
        **found,
        "enable.idempotence": "true",
        "acks": "all",
    }


def _check_guarantee(name: str, value: str) -> None:
    allowed = _GUARANTEED[name]
    if value.strip().lower() not in allowed:
        raise KafkaConfigurationError(
            f"kafka.{name}={value} is not allowed: the sink requires idempotent writes and "
            f"acks=all. Remove the option, or set it to "
            f"{' or '.join(sorted(allowed, reverse=True))}"
        )


#: Our option names, with librdkafka's.
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


def _unchanged(_name: str, value: str) -> str:
    return value


def _algorithm(name: str, value: str) -> str:
    return "https" if typed_value(name, value, "bool", None, _PREFIX) else "none"


def _kilobytes(name: str, value: str) -> str:
    return str(max(1, typed_value(name, value, "int", None, _PREFIX) // 1024))


#: Our options whose values librdkafka writes otherwise.
_PRODUCER_VALUES: Final = {"buffer.memory": _kilobytes, "ssl.check.hostname": _algorithm}


def _common(kafka: Mapping[str, str]) -> dict[str, str]:
    """Reject managed and unsupported names and translate security options; names keep dots."""
    found: dict[str, str] = {}
    for given, value in kafka.items():
        name = given.replace("_", ".")
        if name in _MANAGED:
            raise KafkaConfigurationError(f"kafka.{name} cannot be set: {_MANAGED[name]}")
        if name in _REJECTED:
            raise KafkaConfigurationError(f"kafka.{name} cannot be used: {_REJECTED[name]}")
        found[name] = value
    translate_stores(found, _PREFIX)
    jaas = found.pop("sasl.jaas.config", None)
    if jaas is not None:
        found.update(login_of(jaas, _PREFIX))
    if found.get("sasl.kerberos.service.name") == "":
        del found["sasl.kerberos.service.name"]
    return found
