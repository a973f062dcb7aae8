"""The names and conventions of `confluent_kafka`'s consumer, implemented with `KafkaConsumer`.

To switch, change `from confluent_kafka import ...` to `from tandem_kafka.confluent import ...`.
`docs/coming-from/confluent-kafka.md` lists the differences.
"""

import tandem_kafka.kafka_python  # noqa: F401 - before any module of kafka-python

from tandem_kafka.confluent.consumer import Consumer
from tandem_kafka.confluent.deserializing import (
    ConsumeError,
    DeserializingConsumer,
    KeyDeserializationError,
    ValueDeserializationError,
)
from tandem_kafka.confluent.errors import KafkaError, KafkaException
from tandem_kafka.confluent.serialization import (
    MessageField,
    SerializationContext,
    SerializationError,
)
from tandem_kafka.confluent.values import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Message,
    TopicPartition,
)

__all__ = [
    "OFFSET_BEGINNING",
    "OFFSET_END",
    "OFFSET_INVALID",
    "OFFSET_STORED",
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NOT_AVAILABLE",
    "ConsumeError",
    "Consumer",
    "DeserializingConsumer",
    "KafkaError",
    "KafkaException",
    "KeyDeserializationError",
    "Message",
    "MessageField",
    "SerializationContext",
    "SerializationError",
    "TopicPartition",
    "ValueDeserializationError",
]
