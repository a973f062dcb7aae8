"""Encodes metrics as `MetricsData` of OpenTelemetry in protobuf.

Only these few messages are needed, so the package does not depend on protobuf. The numbers are
those of the fields in `opentelemetry/proto/metrics/v1/metrics.proto` and the files it imports.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from tandem_kafka.dataclass import dataclass
from tandem_kafka.wire.framing import encode_varint

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_DELTA, _CUMULATIVE = 1, 2


@dataclass(frozen=True)
class Point:
    """A metric with its value.

    Attributes:
        name: For example ``org.apache.kafka.consumer.connection.count``.
        value: The value, or the difference to the last push for a delta.
        time_ns: When it was measured, in nanoseconds since the Unix epoch.
        attributes: The tags.
        start_ns: For a sum, the start of its interval; None for a gauge.
        delta: Whether the sum is a difference.
    """

    name: str
    value: float
    time_ns: int
    attributes: Mapping[str, str]
    start_ns: int | None = None
    delta: bool = False


def metrics_data(resource: Mapping[str, str], points: Iterable[Point]) -> bytes:
    """Return the bytes of a `MetricsData` with one resource and one scope."""
    scope = b"".join(_part(2, _metric(point)) for point in points)
    return _part(1, _part(1, _attributes(1, resource)) + _part(2, scope))


def _metric(point: Point) -> bytes:
    name = _part(1, point.name.encode())
    data = _part(1, _data_point(point))
    if point.start_ns is None:
        return name + _part(5, data)
    temporality = _DELTA if point.delta else _CUMULATIVE
    return name + _part(7, data + _number(2, temporality) + _number(3, 1))


def _data_point(point: Point) -> bytes:
    start = b"" if point.start_ns is None else _fixed(2, struct.pack("<Q", point.start_ns))
    time = _fixed(3, struct.pack("<Q", point.time_ns))
    value = _fixed(4, struct.pack("<d", point.value))
    return start + time + value + _attributes(7, point.attributes)


def _attributes(field: int, attributes: Mapping[str, str]) -> bytes:
    return b"".join(
        _part(field, _part(1, key.encode()) + _part(2, _part(1, value.encode())))
        for key, value in attributes.items()
    )


def _part(field: int, content: bytes) -> bytes:
    return encode_varint(field << 3 | _BYTES) + encode_varint(len(content)) + content


def _fixed(field: int, content: bytes) -> bytes:
    return encode_varint(field << 3 | _FIXED64) + content


def _number(field: int, value: int) -> bytes:
    return encode_varint(field << 3 | _VARINT) + encode_varint(value)
