"""A real Apache Kafka for tests: brokers in separate processes, on free ports of this machine.

from tandem_kafka_testing.kafka import RealKafka

with RealKafka(brokers=3, version="4.3.0") as kafka:
    kafka.admin.create_topic("orders", 4)
    consumer = KafkaConsumer("orders", **kafka.options())

It needs the extra `kafka`, and no Java: the first use downloads Kafka to a cache. `broker.py` is a
cluster, `jars.py` fetches Kafka, `java.py` finds a Java runtime, and `proxy.py` cuts connections.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tandem_kafka_testing.kafka.broker import RealKafka
    from tandem_kafka_testing.kafka.jars import KAFKA_VERSION
    from tandem_kafka_testing.kafka.maven import DownloadError

__all__ = ["KAFKA_VERSION", "DownloadError", "RealKafka"]

#: The module of each name, imported when it is first used: a cluster needs more than its jars.
_HOMES: Final = {
    "DownloadError": "tandem_kafka_testing.kafka.maven",
    "KAFKA_VERSION": "tandem_kafka_testing.kafka.jars",
    "RealKafka": "tandem_kafka_testing.kafka.broker",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
