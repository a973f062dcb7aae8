"""Consumers that report to OpenTelemetry (extra `otel`).

`consumers.py` has the two consumers, `telemetry.py` the names of spans and metrics.
"""

from __future__ import annotations

try:
    import opentelemetry.trace  # noqa: F401 - the extra
except ImportError as error:
    raise ImportError(
        "tandem_kafka.opentelemetry needs opentelemetry-api: pip install 'tandem-kafka[otel]'"
    ) from error

from tandem_kafka.opentelemetry.consumers import TracedAsyncKafkaConsumer, TracedKafkaConsumer

__all__ = ["TracedAsyncKafkaConsumer", "TracedKafkaConsumer"]
