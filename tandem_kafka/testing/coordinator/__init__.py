"""What a group coordinator writes, so that the one after it knows what it knew."""

from __future__ import annotations

import tandem_kafka.kafka_python  # noqa: F401 - before any module of kafka-python
