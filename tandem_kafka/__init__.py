"""tandem-kafka: a Kafka consumer with an application thread and a network thread."""

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
    "native_available",
]
