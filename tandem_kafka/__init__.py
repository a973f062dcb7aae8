"""tandem-kafka: a Kafka consumer with an application thread and a network thread."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tandem_kafka.version import __version__

if TYPE_CHECKING:
    from kafka import IsolationLevel, KafkaAdminClient, KafkaProducer, OffsetSpec

    from tandem_kafka._kafka import (
        AsyncConsumerRebalanceListener,
        ConsumerRebalanceListener,
        DefaultSerializer,
        Deserializer,
        JsonSerializer,
        Serializer,
        TopicPartitionReplica,
    )
    from tandem_kafka.config import ConsumerOptions
    from tandem_kafka.consumer.aio.consumer import AsyncKafkaConsumer
    from tandem_kafka.consumer.aio.share_consumer import AsyncShareConsumer
    from tandem_kafka.consumer.consumer import KafkaConsumer
    from tandem_kafka.consumer.diagnosis import diagnose_on_signal
    from tandem_kafka.consumer.health import Health, PartitionHealth
    from tandem_kafka.consumer.installation import install, uninstall
    from tandem_kafka.consumer.reading.records import ConsumerRecords
    from tandem_kafka.consumer.share.consumer import ShareConsumer
    from tandem_kafka.consumer.share.record import ShareRecord, ShareRecords
    from tandem_kafka.runtime.native import native_available
    from tandem_kafka.tables.record_batches import read
    from tandem_kafka.types import (
        AsyncRebalanceListener,
        ConsumerGroupMetadata,
        ConsumerRecord,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        SubscriptionPattern,
        TopicPartition,
    )

__all__ = [
    "AsyncConsumerRebalanceListener",
    "AsyncKafkaConsumer",
    "AsyncRebalanceListener",
    "AsyncShareConsumer",
    "ConsumerGroupMetadata",
    "ConsumerOptions",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerRecords",
    "DefaultSerializer",
    "Deserializer",
    "Health",
    "IsolationLevel",
    "JsonSerializer",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "PartitionHealth",
    "Serializer",
    "ShareConsumer",
    "ShareRecord",
    "ShareRecords",
    "SubscriptionPattern",
    "TopicPartition",
    "TopicPartitionReplica",
    "__version__",
    "diagnose_on_signal",
    "install",
    "native_available",
    "read",
    "uninstall",
]

#: Names re-exported from kafka-python, so that a program only needs to change its import line.
_OF_KAFKA_PYTHON: Final = (
    "AsyncConsumerRebalanceListener",
    "DefaultSerializer",
    "Deserializer",
    "IsolationLevel",
    "JsonSerializer",
    "KafkaAdminClient",
    "KafkaProducer",
    "OffsetSpec",
    "Serializer",
    "TopicPartitionReplica",
)

#: The modules of the names, which are imported on first use: some processes that Spark starts for
#: a query only need `pyspark_tandem_kafka.source`.
_HOMES: Final = {
    **dict.fromkeys(_OF_KAFKA_PYTHON, "tandem_kafka.runtime.kafka_python"),
    "AsyncKafkaConsumer": "tandem_kafka.consumer.aio.consumer",
    "AsyncShareConsumer": "tandem_kafka.consumer.aio.share_consumer",
    "ConsumerOptions": "tandem_kafka.config",
    "ConsumerRebalanceListener": "kafka.consumer.subscription_state",
    "ConsumerRecords": "tandem_kafka.consumer.reading.records",
    "Health": "tandem_kafka.consumer.health",
    "KafkaConsumer": "tandem_kafka.consumer.consumer",
    "PartitionHealth": "tandem_kafka.consumer.health",
    "diagnose_on_signal": "tandem_kafka.consumer.diagnosis",
    "install": "tandem_kafka.consumer.installation",
    "ShareConsumer": "tandem_kafka.consumer.share.consumer",
    "ShareRecord": "tandem_kafka.consumer.share.record",
    "ShareRecords": "tandem_kafka.consumer.share.record",
    "native_available": "tandem_kafka.runtime.native",
    "read": "tandem_kafka.tables.record_batches",
    "uninstall": "tandem_kafka.consumer.installation",
}


if os.environ.get("TANDEM_KAFKA_IMPL"):
    # An implementation that is required and missing fails here, not at the first use.
    import_module("tandem_kafka.runtime.native")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with import_module("tandem_kafka.runtime.kafka_python").whole_imports():
        found = getattr(import_module(_HOMES.get(name, "tandem_kafka.types")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    names: list[str] = import_module("tandem_kafka.lazy_names").listed(__name__, __all__)
    return names
