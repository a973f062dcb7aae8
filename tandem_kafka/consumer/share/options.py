"""The options of a share consumer: those of `KafkaConsumer` that share groups have."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tandem_kafka.config import Config
from tandem_kafka.consumer.arguments import check_wait
from tandem_kafka.errors import InvalidArgumentError, InvalidOptionError, NoGroupError

_OF_THE_GROUP: Final = "the group has it: kafka-configs.sh --alter --group {group} --add-config "
_NO_OFFSETS: Final = "a share group has no positions to commit; acknowledge records"
_NO_REBALANCE: Final = "partitions of a share group are shared, so the coordinator assigns them"

#: Options of `KafkaConsumer` without a meaning, and what to do instead.
WITHOUT_MEANING: Final[Mapping[str, str]] = {
    "auto_commit_interval_ms": _NO_OFFSETS,
    "auto_offset_reset": _OF_THE_GROUP + "share.auto.offset.reset=earliest",
    "default_offset_commit_callback": _NO_OFFSETS,
    "enable_auto_commit": _NO_OFFSETS,
    "enable_incremental_fetch_sessions": "the sessions of share groups are always incremental",
    "group_instance_id": "members of a share group have no fixed partitions",
    "group_local_assignors": _NO_REBALANCE,
    "group_protocol": "share groups have one protocol",
    "group_remote_assignor": _NO_REBALANCE,
    "heartbeat_interval_ms": _OF_THE_GROUP + "share.heartbeat.interval.ms=...",
    "interceptor_classes": "interceptors see positions, which a share group does not have",
    "isolation_level": _OF_THE_GROUP + "share.isolation.level=read_committed",
    "max_partition_fetch_bytes": "a fetch of a share group has one limit, fetch_max_bytes",
    "partition_assignment_strategy": _NO_REBALANCE,
    "session_timeout_ms": _OF_THE_GROUP + "share.session.timeout.ms=...",
}


class How(NamedTuple):
    """How records are acknowledged.

    Attributes:
        implicit: Whether a record counts as handled when the next one is asked for.
        renew_ms: For how long the lock of a record is renewed; 0 for never.
    """

    implicit: bool
    renew_ms: float


def share_options(
    options: Mapping[str, Any], acknowledgement: str, renew: str, max_processing_ms: float
) -> tuple[Config, How]:
    """Check the arguments of a share consumer.

    Raises:
        KafkaConfigurationError: An option is unknown, has an invalid value, or has no meaning for a
            share group.
        NoGroupError: There is no `group_id`.
        InvalidArgumentError: Another argument has an invalid value.
    """
    for name, value, allowed in (
        ("acknowledgement", acknowledgement, ("implicit", "explicit")),
        ("renew", renew, ("off", "auto")),
    ):
        if value not in allowed:
            msg = f"{name} must be {allowed[0]!r} or {allowed[1]!r}, got {value!r}"
            raise InvalidArgumentError(msg)
    check_wait("max_processing_ms", max_processing_ms)
    how = How(acknowledgement == "implicit", max_processing_ms if renew == "auto" else 0)
    return _config(options), how


def _config(options: Mapping[str, Any]) -> Config:
    config, default = Config.from_options(options), Config()
    if config.group_id is None:
        msg = "ShareConsumer needs group_id=..., the name of its share group"
        raise NoGroupError(msg)
    for name, value in config.named.items():
        advice = WITHOUT_MEANING.get(name)
        if advice is not None and value != getattr(default, name):
            msg = (
                f"{name}={value!r} has no meaning for ShareConsumer: "
                f"{advice.format(group=config.group_id)}"
            )
            raise InvalidOptionError(msg)
    # For the log, which says it.
    return dataclasses.replace(config, group_protocol="share")  # type: ignore[arg-type]
