"""A KIP-848 group: its epochs, its target assignment, and its members.

Each change that affects the target increases the epoch of the group. `members.py` moves members to
their targets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from kafka import errors

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.coordinator import records
from tandem_kafka_testing.coordinator.client_assignors import (
    Announced,
    AssignorMetadata,
    common_assignor,
)
from tandem_kafka_testing.coordinator.computation import Computations
from tandem_kafka_testing.coordinator.context import GroupContext
from tandem_kafka_testing.coordinator.members import (
    STATIC_LEAVE_EPOCH,
    ConsumerGroupMember,
    MemberState,
    Partitions,
    advance,
)
from tandem_kafka_testing.coordinator.server_assignors import (
    compute_target,
    make_spec,
    most_requested,
)
from tandem_kafka_testing.coordinator.step import Error


class ConsumerGroup:
    """The members, the epochs and the target.

    Attributes:
        epoch: The epoch of the group; each change that affects the target increases it.
        assignment_epoch: The epoch of the target; behind while a member computes the next one.
        assignor: The name of the assignor that made the target.
        computations: How members compute a target.
        assignor_metadata: What the computing assignor sends to each member with its target.
        wanted: The subscribed partitions of each member, as of the epoch.
        announced: The client-side assignors of each member, as of the epoch.
        incarnation: Changes when the group begins or ends; its epochs grow in between.
        stale_ownership: Free partitions that a classic member may still own: its leader had revoked
            them, or a rebalance had begun, before the upgrade of the group; or the member was
            removed and has joined again without notice. Like Kafka, this assigns them at once.
    """

    def __init__(self, context: GroupContext, downgrade: Callable[[str | None], None]) -> None:
        self._context = context
        self._step = context.step
        self._downgrade = downgrade
        self.epoch = 0
        self.assignment_epoch = 0
        self.assignor = ""
        self.members: dict[str, ConsumerGroupMember] = {}
        self.target: dict[str, Partitions] = {}
        self.assignor_metadata: dict[str, AssignorMetadata | None] = {}
        self.wanted: dict[str, Partitions] = {}
        self.announced: dict[str, Announced] = {}
        self.computations = Computations(context, self)
        self.incarnation = 0
        self.stale_ownership: dict[str, Partitions] = {}
        self._next_target_ms = 0
        self._outdated = False
        #: Whether the epoch has grown and no target was requested yet.
        self._due = False

    def begin(
        self,
        epoch: int,
        members: list[ConsumerGroupMember],
        stale_ownership: Mapping[str, Partitions],
    ) -> None:
        """Continue with the members of a classic group and their partitions."""
        self.incarnation += 1
        self.epoch = self.assignment_epoch = epoch
        self.members = {member.member_id: member for member in members}
        self.stale_ownership = dict(stale_ownership)
        self.wanted = self._wants(members)
        self.announced = {m.member_id: () for m in members}
        for member in members:
            member.note_epochs()
            self.write(member)
            self.touch(member)
        self._write_epoch()
        self.install({m.member_id: m.assigned for m in members}, epoch, "")

    @property
    def exists(self) -> bool:
        """True from the first member until the group is forgotten, also without members."""
        return bool(self.members) or self.epoch > 0

    def dissolve(self) -> None:
        """End the group."""
        for kind in records.OF_CONSUMER_GROUPS:
            self._context.log.end(kind)
        self.incarnation += 1
        self.stale_ownership = {}
        self._next_target_ms = 0
        self.reload()

    # --- members -------------------------------------------------------------------------------

    def check(self, member_id: str, epoch: int) -> Error:
        """Return the error for a request with this member id and epoch, None if it is valid."""
        member = self.members.get(member_id)
        if member is None:
            return errors.UnknownMemberIdError
        if epoch != member.epoch:
            classic = member.classic is not None
            return errors.IllegalGenerationError if classic else errors.StaleMemberEpochError
        return None

    def check_commit(
        self, member_id: str, epoch: int, partitions: Iterable[TopicPartition]
    ) -> Error:
        """Return the error for a commit with this member id and epoch, None if it is valid."""
        error, member = self.check(member_id, epoch), self.members.get(member_id)
        if error is None or member is None or epoch > member.epoch:
            return error
        exact = self._context.settings.commit_epochs == "exact"
        return error if exact or not member.had(partitions, epoch) else None

    def is_full_for(self, member_id: str) -> bool:
        """Return whether the group is full, even for a member that replaces a static one."""
        most = self._context.settings.consumer_max_size
        return bool(most) and member_id not in self.members and len(self.members) >= most

    def add(self, member_id: str, instance_id: str | None, *, classic: bool = False) -> Error:
        """Add a member; a static one replaces the former member with its instance id.

        The former member must have left, unless one of the two is a classic member.
        """
        member = ConsumerGroupMember(member_id, instance_id)
        before = self.with_instance(instance_id)
        if before is not None and before.member_id != member_id:
            modern = not classic and before.classic is None
            if modern and before.epoch != STATIC_LEAVE_EPOCH:
                return errors.UnreleasedInstanceIdError
            self._replace(before, member)
        self.members[member_id] = member
        if before is not None:
            self.computations.restart()
        return None

    def _replace(self, before: ConsumerGroupMember, member: ConsumerGroupMember) -> None:
        member_id, log = member.member_id, self._context.log
        del self.members[before.member_id]
        log.forget(before.member_id)
        member.assigned, member.assignor_metadata = before.assigned, before.assignor_metadata
        member.since = before.since
        member.rack, member.server_assignor = before.rack, before.server_assignor
        self.target[member_id] = self.target.pop(before.member_id, frozenset())
        self.assignor_metadata[member_id] = self.assignor_metadata.pop(before.member_id, None)
        self.wanted[member_id] = self.wanted.pop(before.member_id, frozenset())
        self.announced[member_id] = self.announced.pop(before.member_id, ())
        inherited = self.target[member_id], self.assignor_metadata[member_id]
        log.write(records.ConsumerGroupTargetAssignmentMember(*inherited), member_id)
        self._write_epoch()

    def with_instance(self, instance_id: str | None) -> ConsumerGroupMember | None:
        """Return the static member with this instance id."""
        found = (m for m in self.members.values() if m.instance_id == instance_id is not None)
        return next(found, None) if instance_id is not None else None

    def held_by_another(self, member_id: str, instance_id: str | None) -> bool:
        """Return whether another member has this instance id."""
        holder = self.with_instance(instance_id)
        return holder is not None and holder.member_id != member_id

    def leave(self, member_id: str, instance_id: str | None, epoch: int) -> Error:
        """Let a member leave; with the static epoch, it may return."""
        if self.held_by_another(member_id, instance_id):
            return errors.FencedInstanceIdError
        member = self.members.get(member_id)
        if member is None:
            return errors.UnknownMemberIdError
        if epoch == STATIC_LEAVE_EPOCH:
            member.epoch = epoch
            member.revoking, member.since = frozenset(), dict.fromkeys(member.assigned, 0)
            self.write(member)
            self.computations.member_gone(member_id)
        else:
            self.remove(member_id, "left")
        return None

    def remove(self, member_id: str, why: str = "removed") -> None:
        """Remove a member; its partitions are free."""
        gone = self.members.pop(member_id, None)
        if gone is None:
            return
        self._step.note(f"{member_id} {why}")
        self._context.log.forget(member_id)
        if self.downgrades_without(gone):
            self._downgrade(None)
            return
        self.update_target()
        self.computations.member_gone(member_id)

    def downgrades_without(self, gone: ConsumerGroupMember) -> bool:
        """Return whether the group becomes a classic one without its last KIP-848 member."""
        others = [m for m in self.members.values() if m is not gone]
        all_classic = gone.classic is None and all(m.classic is not None for m in others)
        return all_classic and self._may_be_classic(len(others))

    def _may_be_classic(self, members: int) -> bool:
        """Return whether a classic group may have this number of members."""
        settings = self._context.settings
        most = settings.classic_max_size
        allowed = settings.migration_policy in ("downgrade", "bidirectional")
        return allowed and members > 0 and not (most and members > most)

    def touch(self, member: ConsumerGroupMember) -> None:
        """Restart the session of a member."""
        session_ms = self._context.settings.session_timeout_ms
        if member.classic is not None:
            session_ms = member.classic.session_timeout_ms
        member.expires_ms = self._step.now_ms + session_ms
        self._step.set_timer(member.expires_ms, "session", member.member_id)

    def expire(self, member_id: str) -> None:
        """Remove a member whose session has ended."""
        member = self.members.get(member_id)
        if member is not None and self._step.now_ms >= member.expires_ms:
            self.remove(member_id, "expired")

    def give_up_waiting(self, member_id: str, epoch: int) -> None:
        """Remove a member that has not revoked in time."""
        member = self.members.get(member_id)
        waited = member is not None and member.state is MemberState.UNREVOKED
        if waited and member is not None and member.epoch == epoch:
            self.remove(member_id, "did not revoke in time")

    def advance(self, member: ConsumerGroupMember, owned: Partitions | None) -> None:
        """Move a member as far towards its target as the others allow."""
        target = self.target.get(member.member_id, frozenset())
        before = member.state, member.revoking
        (wanted,) = self._wants([member]).values()
        taken = self.held_by_others(member)
        advance(member, target, self.assignment_epoch, owned, taken, wanted)
        member.note_epochs()
        if member.epoch == self.assignment_epoch:
            member.assignor_metadata = self.assignor_metadata.get(member.member_id)
        if member.state is MemberState.UNREVOKED and (member.state, member.revoking) != before:
            self._give_up_later(member)

    def held_by_others(self, member: ConsumerGroupMember) -> set[TopicPartition]:
        """Return the partitions that others own or have not revoked yet."""
        others = (m for m in self.members.values() if m is not member)
        return {tp for other in others for tp in other.assigned | other.revoking}

    def _give_up_later(self, member: ConsumerGroupMember) -> None:
        if member.classic is not None:
            return  # its JoinGroup and SyncGroup have separate timeouts
        when_ms = self._step.now_ms + member.rebalance_ms
        self._step.set_timer(when_ms, "revocation", member.member_id, member.epoch)

    # --- the target ----------------------------------------------------------------------------

    def _wants(self, members: Iterable[ConsumerGroupMember]) -> dict[str, Partitions]:
        there = tuple(self._context.topics().items())
        return {m.member_id: _wanted(there, m.topics, m.regex) for m in members}

    def update_target(self) -> None:
        """Make a new target if members, subscriptions, assignors or topics have changed.

        The epoch grows at once. The target follows after the assignment interval.
        """
        wanted = self._wants(self.members.values())
        announced = {m.member_id: m.assignors for m in self.members.values()}
        if self._outdated or (wanted, announced) != (self.wanted, self.announced):
            self.wanted, self.announced, self._outdated = wanted, announced, False
            self._grow()
            self._due = True
        if not self._due or self.epoch == self.assignment_epoch:
            return
        now_ms = self._step.now_ms
        if now_ms < self._next_target_ms:
            self._step.set_timer(self._next_target_ms, "target")
            return
        self._next_target_ms = now_ms + self._context.settings.assignment_interval_ms
        self._due = False
        self._assign()

    def forget_topic(self, name: str) -> None:
        """Take the partitions of a deleted topic from all members.

        A classic member uses names and keeps them.
        """
        for member in self.members.values():
            kept = frozenset(tp for tp in member.assigned if tp.topic != name)
            if member.classic is None and kept != member.assigned:
                member.assigned, member.assignment_changed = kept, True
                member.revoking = frozenset(tp for tp in member.revoking if tp.topic != name)
                self.write(member)
                self._outdated = True
        if self._outdated:
            self.update_target()

    def _grow(self) -> None:
        self.epoch += 1
        self._write_epoch()
        self._step.note(f"epoch {self.epoch}")

    def _write_epoch(self) -> None:
        log = self._context.log
        log.write(records.ConsumerGroupMetadata(self.epoch))
        wanted = tuple([(name, frozenset(tps)) for name, tps in self.wanted.items()])
        announced = tuple(self.announced.items())
        log.write(records.ConsumerGroupPartitionMetadata(self.epoch, wanted, announced))

    def _assign(self) -> None:
        """Request the target from a member if all share an assignor, else compute it here."""
        name = common_assignor(self.announced)
        if name is None:
            self.computations.end()
            self._assign_here()
            return
        if not self.assignment_epoch:
            # The computing member needs an epoch, and it has none before the first target.
            self.install({}, self.epoch, "")
            self._grow()
        self.computations.request_target(name)

    def _assign_here(self) -> None:
        """Use the server-side assignor that most members request."""
        choices = (member.server_assignor for member in self.members.values())
        assignor = most_requested(choices, self._context.settings.assignors)
        spec = make_spec(self.members.values(), self.wanted, self.target, self._context.topics())
        self.install(compute_target(assignor, spec), self.epoch, assignor.name)

    def install(
        self,
        target: Mapping[str, Partitions],
        epoch: int,
        assignor: str,
        computed_by: str = "",
        assignor_metadata: Mapping[str, AssignorMetadata] | None = None,
    ) -> None:
        """Make this the target of an epoch of the group."""
        log = self._context.log
        self.target = {name: target.get(name, frozenset()) for name in self.members}
        self.assignor_metadata = {
            name: (assignor_metadata or {}).get(name) for name in self.members
        }
        self.assignment_epoch, self.assignor = epoch, assignor
        for member_id, partitions in self.target.items():
            part = records.ConsumerGroupTargetAssignmentMember(
                partitions, self.assignor_metadata[member_id]
            )
            log.write(part, member_id)
        log.write(records.ConsumerGroupTargetAssignmentMetadata(epoch, assignor, computed_by))
        self._step.note(f"target of epoch {epoch} by {assignor!r}")

    def subscribes(self, topic: str) -> bool:
        """Return whether a member subscribes to a topic."""
        return any(
            topic in m.topics or (m.regex and re.fullmatch(m.regex, topic))
            for m in self.members.values()
        )

    # --- the log -------------------------------------------------------------------------------

    def write(self, member: ConsumerGroupMember) -> None:
        """Write the records of a member, before the response to it."""
        self._context.log.write(member.metadata_record(), member.member_id)
        self._context.log.write(member.assignment_record(), member.member_id)

    def reload(self) -> None:
        """Read the log, as another coordinator does; sessions begin again."""
        log = self._context.log
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
        self.assignor_metadata = {
            member_id: target.assignor_metadata for member_id, target in targets.items()
        }
        current = log.members(records.ConsumerGroupCurrentMemberAssignment)
        self.members = {
            member_id: ConsumerGroupMember.read(member_id, about, current[member_id])
            for member_id, about in log.members(records.ConsumerGroupMemberMetadata).items()
            if member_id in current  # the last records may be lost
        }
        # A member had left, and the new target was still missing.
        self._outdated = not self.wanted.keys() <= self.members.keys()
        for member in self.members.values():
            self.touch(member)
            if member.state is MemberState.UNREVOKED:
                self._give_up_later(member)
        self.computations.reload()
        behind = self.epoch > self.assignment_epoch
        self._due = behind and self.computations.current is None


@lru_cache(maxsize=200)
def _wanted(there: tuple[tuple[str, int], ...], topics: frozenset[str], regex: str) -> Partitions:
    """Return the partitions of a subscription, which each heartbeat needs."""
    pattern = re.compile(regex) if regex else None
    return frozenset(
        TopicPartition(name, number)
        for name, count in there
        if name in topics or (pattern is not None and pattern.fullmatch(name))
        for number in range(count)
    )
