"""The application thread: `KafkaConsumer` and its parts."""

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python
