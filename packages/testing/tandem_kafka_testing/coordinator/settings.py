"""Settings of groups: Kafka's options, with shorter defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, get_args

from tandem_kafka_testing.coordinator.server_assignors import (
    RangeAssignor,
    ServerAssignor,
    UniformAssignor,
)

#: The epochs that commits of KIP-848 members may have.
CommitEpochs = Literal["exact", "assigned"]

#: The values of `group.consumer.migration.policy`.
MigrationPolicy = Literal["disabled", "upgrade", "downgrade", "bidirectional"]

_DURATION: Final = re.compile(
    r"by_duration:P(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}

#: The values of `share.isolation.level`.
IsolationLevel = Literal["read_uncommitted", "read_committed"]


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings of a group.

    Attributes:
        heartbeat_interval_ms: Heartbeat interval of KIP-848 members
            (`group.consumer.heartbeat.interval.ms`).
        session_timeout_ms: Session timeout of KIP-848 members
            (`group.consumer.session.timeout.ms`).
        consumer_max_size: Largest size of a KIP-848 group; 0 for no limit
            (`group.consumer.max.size`).
        classic_max_size: Largest size of a classic group; 0 for no limit (`group.max.size`).
        heartbeat_limits_ms: Limits of `heartbeat_interval_ms`
            (`group.consumer.min.heartbeat.interval.ms` and `max`).
        session_limits_ms: Limits of `session_timeout_ms`
            (`group.consumer.min.session.timeout.ms` and `max`).
        classic_session_limits_ms: Limits of the session timeout of classic members
            (`group.min.session.timeout.ms` and `max`).
        initial_rebalance_delay_ms: How long an empty classic group waits for more members; 0 for
            no delay. Each new member repeats the delay, up to the rebalance timeout of the first
            one (`group.initial.rebalance.delay.ms`, 3000 in Kafka).
        offsets_retention_ms: How long unused commits are kept: of a group without members, or of a
            topic without subscribers (`offsets.retention.minutes`).
        offsets_retention_check_interval_ms: How often expired commits are dropped.
        migration_policy: The allowed conversions of a group with members
            (`group.consumer.migration.policy`).
        commit_epochs: The epoch in commits of KIP-848 members. `exact` requires the member's
            epoch, as before Kafka 4.3. `assigned` also allows an older one, if the member has
            owned the partitions since then (KIP-1251).
        assignment_interval_ms: Shortest time between two targets. Until a new one is computed,
            members keep the old one, and new members have no partitions.
        computation_timeout_ms: Timeout for each request of a computing member.
        assignors: The server-side assignors. The most requested one is used; with equal requests,
            or without any, the first one (`group.consumer.assignors`).
        share_heartbeat_interval_ms: Heartbeat interval of share members
            (`share.heartbeat.interval.ms`).
        share_session_timeout_ms: Session timeout of share members (`share.session.timeout.ms`).
        share_assignment_interval_ms: Shortest time between two targets of a share group
            (`share.assignment.interval.ms`, 1000 in Kafka).
        share_max_size: Largest size of a share group (`group.share.max.size`).
        share_auto_offset_reset: Where a share group begins: "latest", "earliest", or
            "by_duration:" and an ISO 8601 duration (`share.auto.offset.reset`).
        share_isolation_level: Whether a share group reads records of open and aborted transactions
            (`share.isolation.level`).
        share_record_lock_duration_ms: How long a member may keep a record
            (`share.record.lock.duration.ms`).
        share_delivery_count_limit: How often a record is offered (`share.delivery.count.limit`).
        share_max_record_locks: Largest number of records in flight of a partition
            (`share.partition.max.record.locks`).
        share_renew_acknowledge_enable: Whether members may renew their locks
            (`share.renew.acknowledge.enable`).
    """

    heartbeat_interval_ms: int = 500
    session_timeout_ms: int = 6_000
    consumer_max_size: int = 0
    classic_max_size: int = 0
    heartbeat_limits_ms: tuple[int, int] = (100, 15_000)
    session_limits_ms: tuple[int, int] = (1_000, 1_800_000)
    classic_session_limits_ms: tuple[int, int] = (6_000, 1_800_000)
    initial_rebalance_delay_ms: int = 0
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000
    migration_policy: MigrationPolicy = "bidirectional"
    commit_epochs: CommitEpochs = "assigned"
    assignment_interval_ms: int = 0
    computation_timeout_ms: int = 5_000
    assignors: tuple[ServerAssignor, ...] = (UniformAssignor(), RangeAssignor())
    share_heartbeat_interval_ms: int = 5_000
    share_session_timeout_ms: int = 45_000
    share_assignment_interval_ms: int = 0
    share_max_size: int = 200
    share_auto_offset_reset: str = "latest"
    share_isolation_level: IsolationLevel = "read_uncommitted"
    share_record_lock_duration_ms: int = 30_000
    share_delivery_count_limit: int = 5
    share_max_record_locks: int = 2_000
    share_renew_acknowledge_enable: bool = True

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: A value is outside its limits.
        """
        for name, value, (least, most) in (
            ("heartbeat_interval_ms", self.heartbeat_interval_ms, self.heartbeat_limits_ms),
            ("session_timeout_ms", self.session_timeout_ms, self.session_limits_ms),
        ):
            if not least <= value <= most:
                msg = f"{name}={value}: must be from {least} to {most}"
                raise ValueError(msg)
        if self.initial_rebalance_delay_ms < 0:
            msg = f"initial_rebalance_delay_ms={self.initial_rebalance_delay_ms}: must be 0 or more"
            raise ValueError(msg)
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            msg = (
                f"heartbeat_interval_ms={self.heartbeat_interval_ms}: must be below "
                f"session_timeout_ms={self.session_timeout_ms}"
            )
            raise ValueError(msg)
        duration_ms(self.share_auto_offset_reset)
        names = [assignor.name for assignor in self.assignors]
        if not names or len({*names}) < len(names):
            msg = f"assignors={names}: must be one or more, each of a name of its own"
            raise ValueError(msg)
        for name, chosen, choices in (
            ("migration_policy", self.migration_policy, get_args(MigrationPolicy)),
            ("commit_epochs", self.commit_epochs, get_args(CommitEpochs)),
            ("share_isolation_level", self.share_isolation_level, get_args(IsolationLevel)),
        ):
            if chosen not in choices:
                msg = f"{name}={chosen!r}: must be one of {', '.join(choices)}"
                raise ValueError(msg)


def duration_ms(strategy: str) -> int:
    """Return the milliseconds of a reset strategy such as "by_duration:PT1H"; 0 without any.

    Raises:
        ValueError: There is no such strategy.
    """
    if strategy in ("latest", "earliest"):
        return 0
    found = _DURATION.fullmatch(strategy)
    if found is None:
        msg = (
            f"share_auto_offset_reset={strategy!r}: must be latest, earliest, or by_duration: and "
            "an ISO 8601 duration, such as by_duration:PT1H"
        )
        raise ValueError(msg)
    return sum(round(float(found[unit] or 0) * ms) for unit, ms in _MS.items())
