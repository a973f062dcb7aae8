"""The consumer's metrics: which there are, how they are computed, and who reads them.

`sensors.py` is the table of the sensors, `registry.py` records into them, `reader.py` collects what
`poll()` measures, and `statistics.py` computes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem_kafka.lazy_names import lazy_names

if TYPE_CHECKING:
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

#: The modules of the names, which are imported on first use: only a consumer needs the sensors.
_HOMES: Final = {
    "ReaderMeasurements": "reader",
    **dict.fromkeys(("AGES", "CONSUMER", "COORDINATOR", "FETCH", "SENSORS"), "sensors"),
    "ConsumerMetrics": "registry",
    "FLUSH_MS": "registry",
    "Gauge": "registry",
    "MetricChange": "registry",
    "Metrics": "registry",
    "Traffic": "registry",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
