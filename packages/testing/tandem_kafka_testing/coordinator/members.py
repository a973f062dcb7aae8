"""A member of a KIP-848 group, and its way to its target assignment.

It moves in up to two steps. First it revokes the partitions that are not in its target, and
confirms that. Then it gets the missing ones, each after its previous owner has revoked it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.coordinator import records
from tandem_kafka_testing.coordinator.client_assignors import AssignorMetadata, ClientAssignor

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2

Partitions = frozenset[TopicPartition]


class MemberState(enum.Enum):
    """The state of a member on the way to its target."""

    STABLE = "stable"
    #: It has not confirmed its revocation.
    UNREVOKED = "unrevoked"
    #: Others still own partitions of its target.
    UNRELEASED = "unreleased"


@dataclass(slots=True, eq=False)
class ConsumerGroupMember:
    """One member.

    Attributes:
        assigned: The partitions that it may own.
        revoking: The partitions whose revocation it has not confirmed.
        since: The epoch of each assigned or revoked partition (KIP-1251).
        assignor_metadata: What the computing assignor sends to it with its partitions.
        assignors: Its client-side assignors.
        server_assignor: The server-side assignor of its last request; None without one.
        rack: Its rack; None if unknown.
        classic: The fields of its JoinGroup; None for a KIP-848 member.
        rejoin_by_ms: Deadline of a requested JoinGroup; 0 without one.
        sync_by_ms: Deadline of the SyncGroup after a JoinGroup; 0 without one.
        assignment_changed: Whether partitions were taken from it since the last response.
    """

    member_id: str
    instance_id: str | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    topics: frozenset[str] = frozenset()
    regex: str = ""
    rebalance_ms: int = 0
    expires_ms: int = 0
    assigned: Partitions = frozenset()
    assignment_changed: bool = False
    revoking: Partitions = frozenset()
    since: dict[TopicPartition, int] = field(default_factory=dict)
    assignor_metadata: AssignorMetadata | None = None
    assignors: tuple[ClientAssignor, ...] = ()
    server_assignor: str | None = None
    rack: str | None = None
    classic: records.ClassicMemberMetadata | None = None
    rejoin_by_ms: int = 0
    sync_by_ms: int = 0

    @property
    def away(self) -> bool:
        """True for a static member that has left and may return."""
        return self.epoch == STATIC_LEAVE_EPOCH

    def metadata_record(self) -> records.ConsumerGroupMemberMetadata:
        """Return the record of its subscription and other metadata."""
        return records.ConsumerGroupMemberMetadata(
            self.instance_id,
            self.topics,
            self.regex,
            self.rebalance_ms,
            self.assignors,
            self.classic,
            self.rack,
            self.server_assignor,
        )

    def assignment_record(self) -> records.ConsumerGroupCurrentMemberAssignment:
        """Return the record of its assignment and state."""
        return records.ConsumerGroupCurrentMemberAssignment(
            self.epoch,
            self.previous_epoch,
            self.state.value,
            self.assigned,
            self.revoking,
            self.assignor_metadata,
            tuple(sorted(self.since.items())),
            self.assignment_changed,
        )

    def note_epochs(self) -> None:
        """Note its epoch for the partitions assigned since the last call."""
        has = self.assigned | self.revoking
        self.since = {tp: self.since.get(tp, self.epoch) for tp in has}

    def had(self, partitions: Iterable[TopicPartition], epoch: int) -> bool:
        """Return whether it owns partitions now and owned them at an epoch."""
        return all(self.since.get(tp, epoch + 1) <= epoch for tp in partitions)

    @classmethod
    def read(
        cls,
        member_id: str,
        about: records.ConsumerGroupMemberMetadata,
        current: records.ConsumerGroupCurrentMemberAssignment,
    ) -> ConsumerGroupMember:
        """Return the member of these records."""
        return cls(
            member_id,
            about.instance_id,
            epoch=current.member_epoch,
            previous_epoch=current.previous_member_epoch,
            state=MemberState(current.state),
            topics=about.subscribed_topic_names,
            regex=about.subscribed_topic_regex,
            rebalance_ms=about.rebalance_timeout_ms,
            assigned=current.assigned_partitions,
            assignment_changed=current.assignment_changed,
            revoking=current.partitions_pending_revocation,
            since=dict(current.assignment_epochs),
            assignor_metadata=current.assignor_metadata,
            assignors=about.assignors,
            server_assignor=about.server_assignor,
            rack=about.rack_id,
            classic=about.classic,
        )


def advance(
    member: ConsumerGroupMember,
    target: Partitions,
    epoch: int,
    owned: Partitions | None,
    taken: AbstractSet[TopicPartition],
    wanted: Partitions,
) -> None:
    """Move a member as far towards a target as the others allow.

    Args:
        member: The member.
        target: Its partitions in the target.
        epoch: The epoch of the target.
        owned: The partitions that the member reports; None if it reports none.
        taken: The partitions that others own or have not revoked.
        wanted: Its subscribed partitions. It must revoke all others, even if the target is older
            than the subscription.
    """
    target &= wanted
    unwanted = member.assigned - wanted
    if member.state is MemberState.UNREVOKED and (owned is None or owned & member.revoking):
        member.assigned -= unwanted
        member.revoking |= unwanted
        return
    if member.state is MemberState.STABLE and member.epoch == epoch and not unwanted:
        return
    kept = member.assigned & target
    revoking = member.assigned - target
    if revoking and (owned is None or owned & revoking):
        member.assigned, member.revoking = kept, revoking
        member.state = MemberState.UNREVOKED
        return
    member.revoking = frozenset()
    member.assigned = kept | (target - taken)
    member.state = MemberState.UNRELEASED if target & taken else MemberState.STABLE
    if member.epoch != epoch:
        member.previous_epoch, member.epoch = member.epoch, epoch
