"""Consumers that report to OpenTelemetry (extra `otel`).

`consumers.py` and `share_consumers.py` have the consumers, `traced.py` what these have in common,
and `telemetry.py` the names of spans and metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import opentelemetry.trace  # noqa: F401 - the extra
except ImportError as error:
    raise ImportError(
        "tandem_kafka.observability needs opentelemetry-api: pip install 'tandem-kafka[otel]'"
    ) from error

from tandem_kafka.observability.traced_consumers import (
    TracedAsyncKafkaConsumer,
    TracedKafkaConsumer,
)

if TYPE_CHECKING:
    from tandem_kafka.observability.traced_share_consumers import (
        TracedAsyncShareConsumer,
        TracedShareConsumer,
    )

__all__ = [
    "TracedAsyncKafkaConsumer",
    "TracedAsyncShareConsumer",
    "TracedKafkaConsumer",
    "TracedShareConsumer",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # As in `aio`: a consumer imports only what it uses.
    from tandem_kafka.observability import share_consumers  # noqa: PLC0415

    return getattr(share_consumers, name)
