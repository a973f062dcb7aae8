"""tandem-kafka: a Kafka consumer with an application thread and a network thread."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tandem_kafka.version import __version__

if TYPE_CHECKING:
    from tandem_kafka.config import ConsumerOptions
    from tandem_kafka.consumer.consumer import KafkaConsumer
    from tandem_kafka.consumer.listener import ConsumerRebalanceListener
    from tandem_kafka.consumer.records import ConsumerRecords
    from tandem_kafka.native import native_available
    from tandem_kafka.types import (
        ConsumerGroupMetadata,
        ConsumerRecord,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        SubscriptionPattern,
        TopicPartition,
    )

__all__ = [
    "ConsumerGroupMetadata",
    "ConsumerOptions",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerRecords",
    "KafkaConsumer",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "SubscriptionPattern",
    "TopicPartition",
    "__version__",
    "native_available",
]

#: Where names come from when they are first used: for a query Spark starts processes of which some
#: only look at `tandem_kafka.spark.source`, and the client takes half a second to import.
_HOMES: Final = {
    "ConsumerOptions": "tandem_kafka.config",
    "ConsumerRebalanceListener": "tandem_kafka.consumer.listener",
    "ConsumerRecords": "tandem_kafka.consumer.records",
    "KafkaConsumer": "tandem_kafka.consumer.consumer",
    "native_available": "tandem_kafka.native",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES.get(name, "tandem_kafka.types")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
