"""The consumer's metrics: which there are, how they are computed, and who reads them.

`sensors.py` is the table of the sensors, `registry.py` records into them, `reader.py` collects what
`poll()` measures, and `statistics.py` computes.
"""

from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

from kafka.metrics import Metrics

from tandem_kafka.metrics.reader import ReaderMeasurements
from tandem_kafka.metrics.registry import (
    FLUSH_MS,
    ConsumerMetrics,
    Gauge,
    MetricChange,
    Traffic,
)
from tandem_kafka.metrics.sensors import AGES, CONSUMER, COORDINATOR, FETCH, SENSORS

__all__ = [
    "AGES",
    "CONSUMER",
    "COORDINATOR",
    "FETCH",
    "FLUSH_MS",
    "SENSORS",
    "ConsumerMetrics",
    "Gauge",
    "MetricChange",
    "Metrics",
    "ReaderMeasurements",
    "Traffic",
]
