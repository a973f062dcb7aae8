"""Share groups (KIP-932) on the broker's side: share partitions and share sessions.

State machines without input or output, as Apache Kafka 4.3 keeps them. The group itself is in
`tandem_kafka_testing.coordinator`, and `tandem_kafka_testing.cluster` connects the two.
"""

from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python
