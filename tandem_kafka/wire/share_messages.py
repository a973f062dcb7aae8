"""Messages of share groups (KIP-932), which kafka-python lacks."""

from __future__ import annotations

from tandem_kafka.runtime.kafka_python import schemas_may_be_read

from typing import Any

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.schemas.fields.codecs import Bytes, UnsignedVarInt32

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


class _View(Bytes):
    """Bytes in the memory of the response; kafka-python's own are a copy."""

    @classmethod
    def emit_decode_from(
        cls,
        ctx: Any,
        var_name: str,
        indent: str,
        compact: bool = True,  # noqa: ARG003 - all versions of the message are flexible
    ) -> None:
        """Write the lines that decode a compact field."""
        length = ctx.next_var("length")
        UnsignedVarInt32.emit_decode_from(ctx, length, indent)
        ctx.emit(indent, f"{var_name} = data[pos:pos+{length}-1] if {length} else None")
        ctx.emit(indent, f"pos += max(0, {length}-1)")


_partition: Any = ShareFetchResponse.fields["responses"].fields["partitions"]
_partition.fields["records"]._type = _View  # noqa: SLF001 - there is no other way to replace it
