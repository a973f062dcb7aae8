"""What an operator may set of groups; Kafka's options, but quicker unless told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tandem_kafka.testing.coordinator.server_assignors import (
    PartitionAssignor,
    RangeAssignor,
    UniformAssignor,
)

__all__ = ["CommitEpochs", "GroupSettings", "MigrationPolicy"]

#: Which epochs a commit of a member of a KIP-848 group may name.
CommitEpochs = Literal["exact", "assigned"]

#: What `group.consumer.migration.policy` can be.
MigrationPolicy = Literal["disabled", "upgrade", "downgrade", "bidirectional"]


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings of a group.

    Attributes:
        heartbeat_interval_ms: What KIP-848 members are told
            (`group.consumer.heartbeat.interval.ms`).
        session_timeout_ms: Who of them is not heard of for so long is gone
            (`group.consumer.session.timeout.ms`).
        consumer_max_size: Who comes to a KIP-848 group when there are so many is refused; 0 for no
            limit (`group.consumer.max.size`).
        classic_max_size: The same for a classic group (`group.max.size`).
        heartbeat_limits_ms: What `heartbeat_interval_ms` may be
            (`group.consumer.min.heartbeat.interval.ms` and `max`).
        session_limits_ms: What `session_timeout_ms` may be
            (`group.consumer.min.session.timeout.ms` and `max`).
        classic_session_limits_ms: What a classic member may ask for
            (`group.min.session.timeout.ms` and `max`).
        initial_rebalance_delay_ms: So long a classic group that was empty waits for more members,
            and again if one comes meanwhile, up to the first one's rebalance timeout
            (`group.initial.rebalance.delay.ms`, 3000 in Kafka); 0 for not at all.
        offsets_retention_ms: So long a commit is kept that is not in use: of a group without
            members, or of a topic that none subscribes to (`offsets.retention.minutes`).
        offsets_retention_check_interval_ms: How often such commits are looked for.
        migration_policy: Which way a group that has members may go from one protocol to the other
            (`group.consumer.migration.policy`).
        commit_epochs: Which epoch a commit of a member of a KIP-848 group has to name: `exact`
            that of the member, as before Kafka 4.3, or `assigned` that or an older one, if the
            member has had the partitions since then (KIP-1251).
        assignment_interval_ms: A new target is computed this long after the one before at the
            earliest; until then members stay at the old one, and who is new has nothing.
        computation_timeout_ms: So long a member that computes may take to ask, and then to bring
            its assignment.
        assignors: How the coordinator can assign by itself: it takes the one that most members ask
            for, among equals and if nobody asks the first (`group.consumer.assignors`).
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
    assignors: tuple[PartitionAssignor, ...] = (UniformAssignor(), RangeAssignor())

    def __post_init__(self) -> None:
        """Check what has limits.

        Raises:
            ValueError: A value is not within them.
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
        names = [assignor.name for assignor in self.assignors]
        if not names or len({*names}) < len(names):
            msg = f"assignors={names}: must be one or more, each of a name of its own"
            raise ValueError(msg)
        for name, chosen, choices in (
            ("migration_policy", self.migration_policy, get_args(MigrationPolicy)),
            ("commit_epochs", self.commit_epochs, get_args(CommitEpochs)),
        ):
            if chosen not in choices:
                msg = f"{name}={chosen!r}: must be one of {', '.join(choices)}"
                raise ValueError(msg)
