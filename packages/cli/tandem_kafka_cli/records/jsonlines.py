"""Records as JSON lines."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import Any, TypeAlias

from tandem_kafka.types import ConsumerRecord
from tandem_kafka_cli.output import json_safe

Json: TypeAlias = str | dict[str, str] | None


def json_bytes(content: bytes | None) -> Json:
    """Return bytes as text, or as `{"base64": "..."}` if they are not UTF-8."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def json_value(value: Any) -> Any:
    """Return a value that JSON has; bytes are as in `json_bytes`.

    A float that JSON does not have is a string: NaN, Infinity or -Infinity.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    if isinstance(value, bytes):
        return json_bytes(value)
    if isinstance(value, list):
        return [json_value(each) for each in value]
    if isinstance(value, dict):
        return {_name(key): json_value(each) for key, each in value.items()}
    return value


def _name(key: object) -> str:
    return json.dumps(key) if isinstance(key, bool) else str(key)


def as_json(records: Sequence[ConsumerRecord[Any, Any]]) -> bytes:
    """Return records as lines of JSON; the timestamp is in milliseconds, null if none."""
    return "".join(map(_line, records)).encode()


def _line(record: ConsumerRecord[Any, Any]) -> str:
    # By hand, as `json.dumps` of a dict takes three times as long.
    topic, partition, offset = encode_basestring(record.topic), record.partition, record.offset
    timestamp = record.timestamp if record.timestamp >= 0 else "null"
    headers = ",".join(
        f"[{encode_basestring(name)},{_encoded(content)}]" for name, content in record.headers
    )
    return (
        json_safe(
            f'{{"topic":{topic},"partition":{partition},"offset":{offset},"timestamp":{timestamp},'
            f'"key":{_encoded(record.key)},"value":{_encoded(record.value)},"headers":[{headers}]}}'
        )
        + "\n"
    )


def _encoded(content: bytes | None) -> str:
    """The JSON of `json_bytes`."""
    if content is None:
        return "null"
    try:
        return encode_basestring(content.decode())
    except UnicodeDecodeError:
        return f'{{"base64":"{base64.b64encode(content).decode()}"}}'
