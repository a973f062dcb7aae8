"""Consumers seen from outside: probes by HTTP, metrics for Prometheus, and OpenTelemetry.

`probe.py` serves the health of consumers: `probe_server.py` answers requests, `health_page.py` is
the page for people, and `health_history.py` what it shows besides the present.

`traced_consumers.py` and `traced_share_consumers.py` have the consumers with spans and metrics of
OpenTelemetry, `traced.py` what these have in common, and `telemetry.py` the names of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem_kafka.lazy_names import lazy_names

if TYPE_CHECKING:
    from tandem_kafka.observability.probe import Probe
    from tandem_kafka.observability.prometheus import ConsumerCollector
    from tandem_kafka.observability.traced_consumers import (
        TracedAsyncKafkaConsumer,
        TracedKafkaConsumer,
    )
    from tandem_kafka.observability.traced_share_consumers import (
        TracedAsyncShareConsumer,
        TracedShareConsumer,
    )

__all__ = [
    "ConsumerCollector",
    "Probe",
    "TracedAsyncKafkaConsumer",
    "TracedAsyncShareConsumer",
    "TracedKafkaConsumer",
    "TracedShareConsumer",
]

_HOMES: Final = {
    "ConsumerCollector": "prometheus",
    "Probe": "probe",
    "TracedAsyncKafkaConsumer": "traced_consumers",
    "TracedAsyncShareConsumer": "traced_share_consumers",
    "TracedKafkaConsumer": "traced_consumers",
    "TracedShareConsumer": "traced_share_consumers",
}

__getattr__, __dir__ = lazy_names(
    __name__, _HOMES, opentelemetry="otel", prometheus_client="prometheus"
)
