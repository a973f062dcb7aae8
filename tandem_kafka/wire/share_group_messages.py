"""Messages for the administration of share groups (KIP-932), which kafka-python lacks."""

from __future__ import annotations

from tandem_kafka.runtime.kafka_python import schemas_may_be_read

from kafka.protocol.api_message import ApiMessage

_SCHEMAS = "tandem_kafka.wire"


with schemas_may_be_read():

    class ShareGroupDescribeRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """Asks for the state of share groups."""

    class ShareGroupDescribeResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """Share groups as their coordinator sees them."""

    class DescribeShareGroupOffsetsRequest(  # type: ignore[call-arg]
        ApiMessage, load_json=_SCHEMAS
    ):
        """Asks for the start offsets of share groups."""

    class DescribeShareGroupOffsetsResponse(  # type: ignore[call-arg]
        ApiMessage, load_json=_SCHEMAS
    ):
        """Start offsets and lag of share groups."""

    class AlterShareGroupOffsetsRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """Moves the start offsets of a share group without members."""

    class AlterShareGroupOffsetsResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """Says which start offsets were moved."""

    class DeleteShareGroupOffsetsRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """Deletes what a share group without members keeps of topics."""

    class DeleteShareGroupOffsetsResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """Says for which topics the offsets were deleted."""
