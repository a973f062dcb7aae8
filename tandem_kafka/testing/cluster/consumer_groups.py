"""A KIP-848 group as its coordinator keeps it: epochs, targets, and who may have what yet.

The group's epoch grows with whatever changes the target. A member moves to it in up to two steps:
first it gives back what the target does not have, and says so; then it gets what it lacks, each
partition once the owner before has let go of it.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka import errors

from tandem_kafka.testing.coordinator import records
from tandem_kafka.testing.coordinator.client_assignors import (
    Announced,
    ClientAssignor,
    common_assignor,
)
from tandem_kafka.testing.coordinator.computation import Computations
from tandem_kafka.testing.coordinator.log import GroupLog
from tandem_kafka.testing.coordinator.server_assignors import Assignor, Partitions, uniform
from tandem_kafka.types import TopicPartition

if TYPE_CHECKING:
    from tandem_kafka.testing.cluster.cluster import SimCluster

__all__ = ["ConsumerGroup", "ConsumerGroupMember", "MemberState"]

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2


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
        assignors: Those it could compute the group's assignment with.
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
    assigned: frozenset[TopicPartition] = frozenset()
    revoking: frozenset[TopicPartition] = frozenset()
    assignors: tuple[ClientAssignor, ...] = ()

    @property
    def away(self) -> bool:
        """True for a static member that said it would be back."""
        return self.epoch == STATIC_LEAVE_EPOCH


@dataclass(eq=False)
class ConsumerGroup:
    """Members, epochs, the target.

    Attributes:
        epoch: Grows with whatever changes the target.
        assignment_epoch: That of the target; behind while a member computes the next one.
        assignor: The name of the assignor that made the target.
        computations: How members compute a target.
        heartbeat_interval_ms: What members are told.
        session_timeout_ms: Who is not heard of for so long is gone.
        max_size: Who comes when there are so many is refused; 0 for no limit.
        assignment_interval_ms: A new target is computed this long after the one before at the
            earliest; until then members stay at the old one, and who is new has nothing.
        log: What a coordinator that takes over will know.
    """

    cluster: SimCluster
    group_id: str
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    heartbeat_interval_ms: int = 500
    session_timeout_ms: int = 6_000
    max_size: int = 0
    assignment_interval_ms: int = 0
    assignors: dict[str, Assignor] = field(default_factory=lambda: {"uniform": uniform})
    members: dict[str, ConsumerGroupMember] = field(default_factory=dict)
    target: dict[str, frozenset[TopicPartition]] = field(default_factory=dict)
    wanted: dict[str, Partitions] = field(default_factory=dict)
    announced: dict[str, Announced] = field(default_factory=dict)
    log: GroupLog = field(default_factory=GroupLog)
    _next_target_ms: int = 0
    _outdated: bool = False

    def __post_init__(self) -> None:
        self.computations = Computations(self)

    # --- members -------------------------------------------------------------------------------

    def find(
        self, member_id: str, instance_id: str | None, epoch: int, owned: Partitions | None
    ) -> type[Exception] | None:
        """Return the error for a heartbeat of this member and epoch, if it is to be refused."""
        member = self.members.get(member_id)
        if epoch == JOIN_EPOCH:
            return self._check_join(member, owned)
        if self._held_by_another(member_id, instance_id):
            return errors.FencedInstanceIdError  # type: ignore[no-any-return]
        if member is None:
            return errors.UnknownMemberIdError  # type: ignore[no-any-return]
        if epoch == member.epoch:
            return None
        # The answer before may have been lost: then it comes with the epoch before.
        behind = epoch == member.previous_epoch and epoch < member.epoch
        if behind and owned is not None and owned <= member.assigned:
            return None
        return errors.FencedMemberEpochError  # type: ignore[no-any-return]

    def _check_join(
        self, member: ConsumerGroupMember | None, owned: Partitions | None
    ) -> type[Exception] | None:
        """Who joins owns nothing. A member that is known may join at any time, if not static."""
        if owned is None or owned:
            return errors.InvalidRequestError  # type: ignore[no-any-return]
        static = member is not None and member.instance_id is not None
        if static and member is not None and member.epoch != STATIC_LEAVE_EPOCH:
            return errors.UnreleasedInstanceIdError  # type: ignore[no-any-return]
        return None

    def check(self, member_id: str, epoch: int) -> type[Exception] | None:
        """Return the error for a commit of this member and epoch, if it is to be refused."""
        member = self.members.get(member_id)
        if member is None:
            return errors.UnknownMemberIdError  # type: ignore[no-any-return]
        if epoch != member.epoch:
            return errors.StaleMemberEpochError  # type: ignore[no-any-return]
        return None

    def add(self, member_id: str, instance_id: str | None) -> type[Exception] | None:
        """Take a member in; a static one takes over from the one that went with its name."""
        member = ConsumerGroupMember(member_id, instance_id)
        before = self._with_instance(instance_id)
        if before is not None and before.member_id != member_id:
            if before.epoch != STATIC_LEAVE_EPOCH:
                return errors.UnreleasedInstanceIdError  # type: ignore[no-any-return]
            del self.members[before.member_id]
            self.log.forget(before.member_id)
            member.assigned = before.assigned
            self.target[member_id] = self.target.pop(before.member_id, frozenset())
            self.wanted[member_id] = self.wanted.pop(before.member_id, frozenset())
            self.announced[member_id] = self.announced.pop(before.member_id, ())
            inherited = records.ConsumerGroupTargetAssignmentMember(self.target[member_id])
            self.log.write(inherited, member_id)
            self._write_epoch()
        elif self.max_size and len(self.members) >= self.max_size:
            return errors.GroupMaxSizeReachedError  # type: ignore[no-any-return]
        self.members[member_id] = member
        if before is not None:
            self.computations.begin_anew()
        return None

    def _with_instance(self, instance_id: str | None) -> ConsumerGroupMember | None:
        found = (m for m in self.members.values() if m.instance_id == instance_id is not None)
        return next(found, None) if instance_id is not None else None

    def _held_by_another(self, member_id: str, instance_id: str | None) -> bool:
        holder = self._with_instance(instance_id)
        return holder is not None and holder.member_id != member_id

    def leave(self, member_id: str, instance_id: str | None, epoch: int) -> type[Exception] | None:
        """A member says that it goes; with the static epoch it is expected back."""
        if self._held_by_another(member_id, instance_id):
            return errors.FencedInstanceIdError  # type: ignore[no-any-return]
        member = self.members.get(member_id)
        if member is None:
            return errors.UnknownMemberIdError  # type: ignore[no-any-return]
        if epoch == STATIC_LEAVE_EPOCH:
            member.epoch = epoch
            member.revoking = frozenset()
            self.write(member)
            self.computations.member_gone(member_id)
        else:
            self.remove(member_id, "left")
        return None

    def remove(self, member_id: str, why: str = "removed") -> None:
        """A member is gone; what it had is free."""
        if self.members.pop(member_id, None) is not None:
            self.cluster.trace.note(f"group {self.group_id}: {member_id} {why}")
            self.log.forget(member_id)
            self.update_target()
            self.computations.member_gone(member_id)

    def touch(self, member: ConsumerGroupMember) -> None:
        """The member has been heard of: its session begins anew."""
        member.expires_ms = self.cluster.clock.now_ms() + self.session_timeout_ms
        self.cluster.network.at(member.expires_ms, lambda: self._expire(member))

    def _expire(self, member: ConsumerGroupMember) -> None:
        due = self.cluster.clock.now_ms() >= member.expires_ms
        if due and self.members.get(member.member_id) is member:
            self.remove(member.member_id, "expired")

    # --- the target ----------------------------------------------------------------------------

    def _wants(self, member: ConsumerGroupMember) -> Partitions:
        pattern = re.compile(member.regex) if member.regex else None
        return frozenset(
            TopicPartition(name, partition.number)
            for name, topic in self.cluster.topics.items()
            if name in member.topics or (pattern is not None and pattern.fullmatch(name))
            for partition in topic.partitions
        )

    def update_target(self) -> None:
        """Have a new target made if members, subscriptions, assignors or topics have changed."""
        wanted = {m.member_id: self._wants(m) for m in self.members.values()}
        announced = {m.member_id: m.assignors for m in self.members.values()}
        if not self._outdated and (wanted, announced) == (self.wanted, self.announced):
            return
        now_ms = self.cluster.clock.now_ms()
        if now_ms < self._next_target_ms:
            self.cluster.network.at(self._next_target_ms, self.update_target)
            return
        self._next_target_ms = now_ms + self.assignment_interval_ms
        self.wanted, self.announced, self._outdated = wanted, announced, False
        self._grow()
        self._assign()

    def _grow(self) -> None:
        self.epoch += 1
        self._write_epoch()
        self.cluster.trace.note(f"group {self.group_id}: epoch {self.epoch}")

    def _write_epoch(self) -> None:
        self.log.write(records.ConsumerGroupMetadata(self.epoch))
        wanted = tuple((name, frozenset(tps)) for name, tps in self.wanted.items())
        announced = tuple(self.announced.items())
        self.log.write(records.ConsumerGroupPartitionMetadata(self.epoch, wanted, announced))

    def _assign(self) -> None:
        """Let a member compute if all have an assignor in common, else do it here."""
        name = common_assignor(self.announced)
        if name is None:
            self.computations.end()
            server_side, assign = next(iter(self.assignors.items()))
            self.install(assign(self.wanted, dict(self.target)), self.epoch, server_side)
            return
        if not self.assignment_epoch:
            # Who computes has to be at an epoch, and there is none before the first target.
            self.install({}, self.epoch, "")
            self._grow()
        self.computations.wanted(name)

    def install(
        self,
        target: Mapping[str, frozenset[TopicPartition]],
        epoch: int,
        assignor: str,
        computed_by: str = "",
    ) -> None:
        """Make this the target, as of an epoch of the group."""
        self.target = {name: target.get(name, frozenset()) for name in self.members}
        self.assignment_epoch, self.assignor = epoch, assignor
        for member_id, partitions in self.target.items():
            self.log.write(records.ConsumerGroupTargetAssignmentMember(partitions), member_id)
        self.log.write(records.ConsumerGroupTargetAssignmentMetadata(epoch, assignor, computed_by))
        self.cluster.trace.note(f"group {self.group_id}: target of epoch {epoch} by {assignor!r}")

    # --- the log -------------------------------------------------------------------------------

    def write(self, member: ConsumerGroupMember) -> None:
        """Write what has changed about a member; before it is answered."""
        about = records.ConsumerGroupMemberMetadata(
            member.instance_id, member.topics, member.regex, member.rebalance_ms, member.assignors
        )
        current = records.ConsumerGroupCurrentMemberAssignment(
            member.epoch,
            member.previous_epoch,
            member.state.value,
            member.assigned,
            member.revoking,
        )
        self.log.write(about, member.member_id)
        self.log.write(current, member.member_id)

    def reload(self) -> None:
        """Another coordinator reads the log and knows no more than that; sessions begin anew."""
        self.log = log = GroupLog.read(self.log.records)
        metadata = log.group(records.ConsumerGroupMetadata)
        topics = log.group(records.ConsumerGroupPartitionMetadata)
        self.epoch = metadata.epoch if metadata is not None else 0
        self.wanted = dict(topics.wanted) if topics is not None else {}
        self.announced = dict(topics.announced) if topics is not None else {}
        made = log.group(records.ConsumerGroupTargetAssignmentMetadata)
        self.assignment_epoch = made.assignment_epoch if made is not None else 0
        self.assignor = made.assignor if made is not None else ""
        targets = log.members(records.ConsumerGroupTargetAssignmentMember)
        self.target = {member_id: target.partitions for member_id, target in targets.items()}
        current = log.members(records.ConsumerGroupCurrentMemberAssignment)
        self.members = {
            member_id: _member(member_id, about, current[member_id])
            for member_id, about in log.members(records.ConsumerGroupMemberMetadata).items()
        }
        # Somebody went, and the target had still to be made anew.
        self._outdated = not self.wanted.keys() <= self.members.keys()
        for member in self.members.values():
            self.touch(member)
            if member.state is MemberState.UNREVOKED:
                self._give_up_later(member)
        self.computations.reload()

    # --- one member on its way -----------------------------------------------------------------

    def advance(self, member: ConsumerGroupMember, owned: Partitions | None) -> None:
        """Let a member go as far towards the target as the others allow."""
        if member.state is MemberState.UNREVOKED and (owned is None or owned & member.revoking):
            return
        if member.state is MemberState.STABLE and member.epoch == self.assignment_epoch:
            return
        target = self.target.get(member.member_id, frozenset())
        kept = member.assigned & target
        revoking = member.assigned - target
        if revoking and (owned is None or owned & revoking):
            self._await_revocation(member, kept, revoking)
            return
        taken = self._taken_by_others(member)
        member.revoking = frozenset()
        member.assigned = kept | (target - taken)
        member.state = MemberState.UNRELEASED if target & taken else MemberState.STABLE
        self._set_epoch(member, self.assignment_epoch)

    def _taken_by_others(self, member: ConsumerGroupMember) -> set[TopicPartition]:
        others = (m for m in self.members.values() if m is not member)
        return {tp for other in others for tp in other.assigned | other.revoking}

    def _await_revocation(
        self,
        member: ConsumerGroupMember,
        kept: frozenset[TopicPartition],
        revoking: frozenset[TopicPartition],
    ) -> None:
        member.assigned, member.revoking = kept, revoking
        member.state = MemberState.UNREVOKED
        self._give_up_later(member)

    def _give_up_later(self, member: ConsumerGroupMember) -> None:
        epoch = member.epoch

        def give_up() -> None:
            same = self.members.get(member.member_id) is member and member.epoch == epoch
            if same and member.state is MemberState.UNREVOKED:
                self.remove(member.member_id, "did not give back in time")

        when_ms = self.cluster.clock.now_ms() + member.rebalance_ms
        self.cluster.network.at(when_ms, give_up)

    def _set_epoch(self, member: ConsumerGroupMember, epoch: int) -> None:
        if member.epoch != epoch:
            member.previous_epoch, member.epoch = member.epoch, epoch


def _member(
    member_id: str,
    about: records.ConsumerGroupMemberMetadata,
    current: records.ConsumerGroupCurrentMemberAssignment,
) -> ConsumerGroupMember:
    return ConsumerGroupMember(
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
        assignors=about.assignors,
    )
