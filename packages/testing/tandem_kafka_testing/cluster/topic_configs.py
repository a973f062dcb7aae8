"""The settings of topics that clients ask for, with Kafka's defaults."""

from __future__ import annotations

from typing import Final

from kafka import errors

from tandem_kafka_testing.cluster.produced import MAX_BYTES

#: By name. The first two change what brokers do; compaction and retention do not happen by
#: themselves.
DEFAULTS: Final = {
    "max.message.bytes": str(MAX_BYTES),
    "message.timestamp.type": "CreateTime",
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "delete.retention.ms": "86400000",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
}
_CHOICES: Final = {
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "cleanup.policy": ("delete", "compact", "compact,delete", "delete,compact"),
    "compression.type": ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
}

_UNLIMITED: Final = ("retention.bytes", "retention.ms")


def check_config(name: str, value: str | None) -> None:
    """Check a setting of a topic.

    Raises:
        InvalidConfigurationError: The name is unknown, or the value is not allowed.
    """
    if name not in DEFAULTS:
        raise errors.InvalidConfigurationError(f"Unknown topic config name: {name}")
    allowed = _CHOICES.get(name)
    valid = value is not None and (
        value in allowed if allowed is not None else _is_integer(name, value)
    )
    if not valid:
        raise errors.InvalidConfigurationError(
            f"Invalid value {value} for configuration {name}"
            + (f": must be one of {', '.join(allowed)}" if allowed is not None else "")
        )


def _is_integer(name: str, value: str) -> bool:
    """Return whether a value is an integer that Kafka allows; -1 is for no limit."""
    digits = value.removeprefix("-") if name in _UNLIMITED else value
    return digits.isascii() and digits.isdigit() and int(digits) < 2**63
