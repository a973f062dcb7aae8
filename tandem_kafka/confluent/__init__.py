"""The consumer of `confluent_kafka`, implemented with `KafkaConsumer`.

To switch, import `Consumer` from here; everything else stays `confluent_kafka`'s own, so that its
producers, admin clients and `except` clauses accept what this one returns.
`docs/coming-from/confluent-kafka.md` lists the differences. `consumer.py` has the methods, and
`taken.py` what was taken from `KafkaConsumer` and is not returned yet.
"""

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

try:
    from confluent_kafka import (
        OFFSET_BEGINNING,
        OFFSET_END,
        OFFSET_INVALID,
        OFFSET_STORED,
        TIMESTAMP_CREATE_TIME,
        TIMESTAMP_LOG_APPEND_TIME,
        TIMESTAMP_NOT_AVAILABLE,
        KafkaError,
        KafkaException,
        Message,
        TopicPartition,
    )
    from confluent_kafka.error import (
        ConsumeError,
        KeyDeserializationError,
        ValueDeserializationError,
    )
    from confluent_kafka.serialization import (
        MessageField,
        SerializationContext,
        SerializationError,
    )

    Message(offset=0)
except (ImportError, TypeError) as error:
    # Before 2.13, Python cannot construct a Message.
    msg = (
        "tandem_kafka.confluent uses the classes of confluent-kafka, 2.13 or later: "
        "pip install 'tandem-kafka[confluent]'"
    )
    raise ImportError(msg) from error

from tandem_kafka.confluent.consumer import Consumer
from tandem_kafka.confluent.deserializing import DeserializingConsumer

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
