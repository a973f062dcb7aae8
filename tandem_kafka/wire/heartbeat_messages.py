"""The heartbeat of KIP-848 groups, which kafka-python lacks."""

from __future__ import annotations

from tandem_kafka.runtime.kafka_python import schemas_may_be_read

from kafka.protocol.api_message import ApiMessage

_SCHEMAS = "tandem_kafka.wire"


with schemas_may_be_read():

    class ConsumerGroupHeartbeatRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """The heartbeat of a member of a KIP-848 group."""

    class ConsumerGroupHeartbeatResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """The coordinator's response to a heartbeat."""
