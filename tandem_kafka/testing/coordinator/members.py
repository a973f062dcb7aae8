"""A member of a KIP-848 group, and its way from what it has to what it is to have.

It moves in up to two steps: first it gives back what the target does not have, and says so; then it
gets what it lacks, each partition once the owner before has let go of it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from tandem_kafka.testing.coordinator import records
from tandem_kafka.testing.coordinator.client_assignors import ClientAssignor, HandedOver
from tandem_kafka.types import TopicPartition

__all__ = [
    "JOIN_EPOCH",
    "LEAVE_EPOCH",
    "STATIC_LEAVE_EPOCH",
    "ConsumerGroupMember",
    "MemberState",
    "Partitions",
    "advance",
]

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2

Partitions = frozenset[TopicPartition]


class MemberState(enum.Enum):
    """How far a member is on its way to the target."""

    STABLE = "stable"
    #: It has not said yet that it gave everything back.
    UNREVOKED = "unrevoked"
    #: Others have not let go yet of what it is to get.
    UNRELEASED = "unreleased"


@dataclass(slots=True, eq=False)
class ConsumerGroupMember:
    """One member.

    Attributes:
        assigned: What it may own.
        revoking: What it was told to give back and has not said it did.
        since: From which epoch on it has each of them, and of what it is to give back (KIP-1251).
        along: What it was told along with the partitions of its epoch.
        assignors: Those it could compute the group's assignment with.
        server_assignor: That of the coordinator's that it asked for last; None if it never did.
        rack: Where it stands; None if it did not say.
        classic: What it said in JoinGroup; None if it uses KIP-848's protocol.
        rejoin_by_ms: When a classic member that was called in must have joined; 0 if it was not.
        sync_by_ms: When a classic member that has joined must have synced; 0 if it has.
        untold: What it has was taken from it since the last answer.
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
    untold: bool = False
    revoking: Partitions = frozenset()
    since: dict[TopicPartition, int] = field(default_factory=dict)
    along: HandedOver | None = None
    assignors: tuple[ClientAssignor, ...] = ()
    server_assignor: str | None = None
    rack: str | None = None
    classic: records.ClassicMemberMetadata | None = None
    rejoin_by_ms: int = 0
    sync_by_ms: int = 0

    @property
    def away(self) -> bool:
        """True for a static member that said it would be back."""
        return self.epoch == STATIC_LEAVE_EPOCH

    def about(self) -> records.ConsumerGroupMemberMetadata:
        """Return the record of what it said of itself."""
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

    def current(self) -> records.ConsumerGroupCurrentMemberAssignment:
        """Return the record of what it has, and how far it is."""
        return records.ConsumerGroupCurrentMemberAssignment(
            self.epoch,
            self.previous_epoch,
            self.state.value,
            self.assigned,
            self.revoking,
            self.along,
            tuple(sorted(self.since.items())),
        )

    def note_epochs(self) -> None:
        """What it has been given since the last call, it has from its epoch on."""
        has = self.assigned | self.revoking
        self.since = {tp: self.since.get(tp, self.epoch) for tp in has}

    def had(self, partitions: Iterable[TopicPartition], epoch: int) -> bool:
        """Tell whether it has partitions, and had them at an epoch."""
        return all(self.since.get(tp, epoch + 1) <= epoch for tp in partitions)

    @classmethod
    def read(
        cls,
        member_id: str,
        about: records.ConsumerGroupMemberMetadata,
        current: records.ConsumerGroupCurrentMemberAssignment,
    ) -> ConsumerGroupMember:
        """Return the member that was written."""
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
            revoking=current.partitions_pending_revocation,
            since=dict(current.assignment_epochs),
            along=current.along,
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
    """Let a member go as far towards a target as the others allow.

    Args:
        member: The member.
        target: What it is to have.
        epoch: Of the target.
        owned: What the member says that it has; None if it says nothing.
        taken: What others have, or were told to give back.
        wanted: The partitions that it subscribes to now; the others it has to give back, also
            before there is a target that has heard of it.
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
