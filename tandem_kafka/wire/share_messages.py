"""Messages of share groups (KIP-932), which kafka-python lacks."""

from __future__ import annotations

from tandem_kafka.runtime.kafka_python import schemas_may_be_read

from kafka.protocol.api_message import ApiMessage

_SCHEMAS = "tandem_kafka.wire"


with schemas_may_be_read():

    class ShareGroupHeartbeatRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """The heartbeat of a member of a share group."""

    class ShareGroupHeartbeatResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """The coordinator's response to a heartbeat."""

    class ShareFetchRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """Acquires records and acknowledges others."""

    class ShareFetchResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """Records that were acquired, and the results of acknowledgements."""

    class ShareAcknowledgeRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """Acknowledges records without acquiring others."""

    class ShareAcknowledgeResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """The results of acknowledgements."""
