"""Records as JSON lines."""

from __future__ import annotations

import base64
from typing import Any, TypeAlias

from tandem_kafka.cli.output import json_text
from tandem_kafka.types import ConsumerRecord

Json: TypeAlias = str | dict[str, str] | None


def json_bytes(content: bytes | None) -> Json:
    """Return bytes as text, or as `{"base64": "..."}` if they are not UTF-8."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def as_json(record: ConsumerRecord[Any, Any]) -> bytes:
    """Return a record as one line of JSON; the timestamp is in milliseconds, null if none."""
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp if record.timestamp >= 0 else None,
        "key": json_bytes(record.key),
        "value": json_bytes(record.value),
        "headers": [[name, json_bytes(content)] for name, content in record.headers],
    }
    return json_text(fields).encode() + b"\n"
