"""The wire protocol: messages and the choice of their versions."""

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python
