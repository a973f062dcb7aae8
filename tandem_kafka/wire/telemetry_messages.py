"""Messages for metrics that brokers subscribe to (KIP-714), which kafka-python lacks."""

from __future__ import annotations

from tandem_kafka.runtime.kafka_python import schemas_may_be_read

from kafka.protocol.api_message import ApiMessage

_SCHEMAS = "tandem_kafka.wire"


with schemas_may_be_read():

    class GetTelemetrySubscriptionsRequest(  # type: ignore[call-arg]
        ApiMessage, load_json=_SCHEMAS
    ):
        """A request for the metrics to push (KIP-714)."""

    class GetTelemetrySubscriptionsResponse(  # type: ignore[call-arg]
        ApiMessage, load_json=_SCHEMAS
    ):
        """The metrics that a broker subscribes to."""

    class PushTelemetryRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """Metrics for a broker that subscribes to them."""

    class PushTelemetryResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """Whether the broker has accepted the metrics."""
