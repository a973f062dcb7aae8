"""Request managers: one state machine per subject, which the loop polls for requests."""

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python
