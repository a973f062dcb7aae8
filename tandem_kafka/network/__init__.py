"""The network client: connections, transports and requests."""

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python
