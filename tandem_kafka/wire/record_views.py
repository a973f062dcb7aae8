"""The records of a ShareFetch response (KIP-932) stay in its memory; kafka-python copies bytes."""

from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

from typing import Any

from kafka.protocol.schemas.fields.codecs import Bytes, UnsignedVarInt32


class _View(Bytes):
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


def view_records(response: Any) -> None:
    """Let the message class decode records as views."""
    partition = response.fields["responses"].fields["partitions"]
    partition.fields["records"]._type = _View  # noqa: SLF001 - there is no other way to replace it
