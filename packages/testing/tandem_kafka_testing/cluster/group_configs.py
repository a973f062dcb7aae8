"""The settings of groups that clients ask for, by their names in Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka import errors

from tandem_kafka_testing.coordinator.settings import GroupSettings

#: The field of `GroupSettings` for each setting.
FIELDS: Final = {
    "consumer.heartbeat.interval.ms": "heartbeat_interval_ms",
    "consumer.session.timeout.ms": "session_timeout_ms",
    "share.heartbeat.interval.ms": "share_heartbeat_interval_ms",
    "share.session.timeout.ms": "share_session_timeout_ms",
    "share.assignment.interval.ms": "share_assignment_interval_ms",
    "share.auto.offset.reset": "share_auto_offset_reset",
    "share.isolation.level": "share_isolation_level",
    "share.record.lock.duration.ms": "share_record_lock_duration_ms",
    "share.delivery.count.limit": "share_delivery_count_limit",
    "share.partition.max.record.locks": "share_max_record_locks",
    "share.renew.acknowledge.enable": "share_renew_acknowledge_enable",
}
_BOOLEANS: Final = {"true": True, "false": False}


def fields_of(settings: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the fields of `GroupSettings` with their values; the default for a value None.

    Raises:
        InvalidConfigurationError: A name is unknown, or a value is not allowed.
    """
    defaults = GroupSettings()
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in FIELDS:
            raise errors.InvalidConfigurationError(f"Unknown group config name: {name}")
        default = getattr(defaults, FIELDS[name])
        found[FIELDS[name]] = default if value is None else _parsed(name, value, default)
    return found


def _parsed(name: str, value: str, default: object) -> object:
    if isinstance(default, str):
        return value
    if isinstance(default, bool) and value.lower() in _BOOLEANS:
        return _BOOLEANS[value.lower()]
    if not isinstance(default, bool) and value.isascii() and value.isdigit():
        return int(value)
    raise errors.InvalidConfigurationError(f"Invalid value {value} for configuration {name}")
