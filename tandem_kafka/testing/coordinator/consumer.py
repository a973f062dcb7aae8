"""A KIP-848 group: its epochs, its target, and its members.

The group's epoch grows with whatever changes the target; how members move to it is in `members.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from kafka import errors

from tandem_kafka.testing.coordinator import records
from tandem_kafka.testing.coordinator.client_assignors import (
    Announced,
    HandedOver,
    common_assignor,
)
from tandem_kafka.testing.coordinator.computation import Computations
from tandem_kafka.testing.coordinator.context import GroupContext
from tandem_kafka.testing.coordinator.members import (
    STATIC_LEAVE_EPOCH,
    ConsumerGroupMember,
    MemberState,
    Partitions,
    advance,
)
from tandem_kafka.testing.coordinator.server_assignors import (
    preferred,
    spec_of,
    target_by,
)
from tandem_kafka.testing.coordinator.step import Error
from tandem_kafka.types import TopicPartition

__all__ = ["ConsumerGroup"]


class ConsumerGroup:
    """Members, epochs, the target.

    Attributes:
        epoch: Grows with whatever changes the target.
        assignment_epoch: That of the target; behind while a member computes the next one.
        assignor: The name of the assignor that made the target.
        computations: How members compute a target.
        along: What each member is to be told along with its part of the target.
        wanted: What each member subscribes to, as of the epoch.
        announced: The assignors that each member brought, as of the epoch.
        lives: How often it began; its epochs grow from one beginning to its end.
        unheard: What a classic member may own although it is free: its leader had taken it, or a
            new round had begun, when the group was upgraded; or the member was removed and joined
            again before it heard of that. Kafka gives it to others at once; so does this.
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
        self.along: dict[str, HandedOver | None] = {}
        self.wanted: dict[str, Partitions] = {}
        self.announced: dict[str, Announced] = {}
        self.computations = Computations(context, self)
        self.lives = 0
        self.unheard: dict[str, Partitions] = {}
        self._next_target_ms = 0
        self._outdated = False
        #: Whether the epoch has grown and nothing was done yet to have a target made.
        self._due = False

    def begin(
        self,
        epoch: int,
        members: list[ConsumerGroupMember],
        unheard: Mapping[str, Partitions],
    ) -> None:
        """Go on with the members of a classic group, and what they have."""
        self.lives += 1
        self.epoch = self.assignment_epoch = epoch
        self.members = {member.member_id: member for member in members}
        self.unheard = dict(unheard)
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
        """True from the first member on, also when all have left, until it is forgotten."""
        return bool(self.members) or self.epoch > 0

    def dissolve(self) -> None:
        """There is no such group any more."""
        for kind in records.OF_CONSUMER_GROUPS:
            self._context.log.end(kind)
        self.lives += 1
        self.unheard = {}
        self._next_target_ms = 0
        self.reload()

    # --- members -------------------------------------------------------------------------------

    def check(self, member_id: str, epoch: int) -> Error:
        """Return the error for a request of this member and epoch, if it is to be refused."""
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
        """Return the error for a commit of this member and epoch, if it is to be refused."""
        error, member = self.check(member_id, epoch), self.members.get(member_id)
        if error is None or member is None or epoch > member.epoch:
            return error
        exact = self._context.settings.commit_epochs == "exact"
        return error if exact or not member.had(partitions, epoch) else None

    def is_full_for(self, member_id: str) -> bool:
        """Tell whether there is no room for somebody, even in the place of a static member."""
        most = self._context.settings.consumer_max_size
        return bool(most) and member_id not in self.members and len(self.members) >= most

    def add(self, member_id: str, instance_id: str | None, *, classic: bool = False) -> Error:
        """Take a member in; a static one takes over from the one that went with its name.

        If either of the two is a classic member, the one before need not have gone.
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
            self.computations.begin_anew()
        return None

    def _replace(self, before: ConsumerGroupMember, member: ConsumerGroupMember) -> None:
        member_id, log = member.member_id, self._context.log
        del self.members[before.member_id]
        log.forget(before.member_id)
        member.assigned, member.along = before.assigned, before.along
        member.since = before.since
        member.rack, member.server_assignor = before.rack, before.server_assignor
        self.target[member_id] = self.target.pop(before.member_id, frozenset())
        self.along[member_id] = self.along.pop(before.member_id, None)
        self.wanted[member_id] = self.wanted.pop(before.member_id, frozenset())
        self.announced[member_id] = self.announced.pop(before.member_id, ())
        inherited = self.target[member_id], self.along[member_id]
        log.write(records.ConsumerGroupTargetAssignmentMember(*inherited), member_id)
        self._write_epoch()

    def with_instance(self, instance_id: str | None) -> ConsumerGroupMember | None:
        """Return the static member of that name."""
        found = (m for m in self.members.values() if m.instance_id == instance_id is not None)
        return next(found, None) if instance_id is not None else None

    def held_by_another(self, member_id: str, instance_id: str | None) -> bool:
        """Tell whether the static member of that name is another."""
        holder = self.with_instance(instance_id)
        return holder is not None and holder.member_id != member_id

    def leave(self, member_id: str, instance_id: str | None, epoch: int) -> Error:
        """A member says that it goes; with the static epoch it is expected back."""
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
        """A member is gone; what it had is free."""
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
        """Tell whether the last KIP-848 member is gone, and who is left may be a classic group."""
        left = [m for m in self.members.values() if m is not gone]
        all_classic = gone.classic is None and all(m.classic is not None for m in left)
        return all_classic and self._may_be_classic(len(left))

    def _may_be_classic(self, members: int) -> bool:
        """Return whether a classic group may have this number of members."""
        settings = self._context.settings
        most = settings.classic_max_size
        allowed = settings.migration_policy in ("downgrade", "bidirectional")
        return allowed and members > 0 and not (most and members > most)

    def touch(self, member: ConsumerGroupMember) -> None:
        """The member has been heard of: its session begins anew."""
        session_ms = self._context.settings.session_timeout_ms
        if member.classic is not None:
            session_ms = member.classic.session_timeout_ms
        member.expires_ms = self._step.now_ms + session_ms
        self._step.set_timer(member.expires_ms, "session", member.member_id)

    def expire(self, member_id: str) -> None:
        """The session of a member may be over."""
        member = self.members.get(member_id)
        if member is not None and self._step.now_ms >= member.expires_ms:
            self.remove(member_id, "expired")

    def give_up_waiting(self, member_id: str, epoch: int) -> None:
        """A member may not have given back in time."""
        member = self.members.get(member_id)
        waited = member is not None and member.state is MemberState.UNREVOKED
        if waited and member is not None and member.epoch == epoch:
            self.remove(member_id, "did not give back in time")

    def advance(self, member: ConsumerGroupMember, owned: Partitions | None) -> None:
        """Let a member go as far towards the target as the others allow."""
        target = self.target.get(member.member_id, frozenset())
        before = member.state, member.revoking
        (wanted,) = self._wants([member]).values()
        taken = self.taken_from(member)
        advance(member, target, self.assignment_epoch, owned, taken, wanted)
        member.note_epochs()
        if member.epoch == self.assignment_epoch:
            member.along = self.along.get(member.member_id)
        if member.state is MemberState.UNREVOKED and (member.state, member.revoking) != before:
            self._give_up_later(member)

    def taken_from(self, member: ConsumerGroupMember) -> set[TopicPartition]:
        """Return what others have, or were told to give back."""
        others = (m for m in self.members.values() if m is not member)
        return {tp for other in others for tp in other.assigned | other.revoking}

    def _give_up_later(self, member: ConsumerGroupMember) -> None:
        if member.classic is not None:
            return  # it must have joined and synced in time
        when_ms = self._step.now_ms + member.rebalance_ms
        self._step.set_timer(when_ms, "revocation", member.member_id, member.epoch)

    # --- the target ----------------------------------------------------------------------------

    def _wants(self, members: Iterable[ConsumerGroupMember]) -> dict[str, Partitions]:
        there = tuple(self._context.topics().items())
        return {m.member_id: _wanted(there, m.topics, m.regex) for m in members}

    def update_target(self) -> None:
        """Have a new target made if members, subscriptions, assignors or topics have changed.

        The epoch grows at once; the target follows when its time has come.
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
        """A topic was deleted: nobody has its partitions, and those of another one are given out.

        A classic member goes by names, and notices nothing.
        """
        for member in self.members.values():
            kept = frozenset(tp for tp in member.assigned if tp.topic != name)
            if member.classic is None and kept != member.assigned:
                member.assigned, member.untold = kept, True
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
        wanted = tuple((name, frozenset(tps)) for name, tps in self.wanted.items())
        announced = tuple(self.announced.items())
        log.write(records.ConsumerGroupPartitionMetadata(self.epoch, wanted, announced))

    def _assign(self) -> None:
        """Let a member compute if all have an assignor in common, else do it here."""
        name = common_assignor(self.announced)
        if name is None:
            self.computations.end()
            self._assign_here()
            return
        if not self.assignment_epoch:
            # Who computes has to be at an epoch, and there is none before the first target.
            self.install({}, self.epoch, "")
            self._grow()
        self.computations.wanted(name)

    def _assign_here(self) -> None:
        """Use the assignor of the coordinator's that most members ask for."""
        choices = (member.server_assignor for member in self.members.values())
        assignor = preferred(choices, self._context.settings.assignors)
        spec = spec_of(self.members.values(), self.wanted, self.target, self._context.topics())
        self.install(target_by(assignor, spec), self.epoch, assignor.name)

    def install(
        self,
        target: Mapping[str, Partitions],
        epoch: int,
        assignor: str,
        computed_by: str = "",
        along: Mapping[str, HandedOver] | None = None,
    ) -> None:
        """Make this the target, as of an epoch of the group."""
        log = self._context.log
        self.target = {name: target.get(name, frozenset()) for name in self.members}
        self.along = {name: (along or {}).get(name) for name in self.members}
        self.assignment_epoch, self.assignor = epoch, assignor
        for member_id, partitions in self.target.items():
            part = records.ConsumerGroupTargetAssignmentMember(partitions, self.along[member_id])
            log.write(part, member_id)
        log.write(records.ConsumerGroupTargetAssignmentMetadata(epoch, assignor, computed_by))
        self._step.note(f"target of epoch {epoch} by {assignor!r}")

    def subscribes(self, topic: str) -> bool:
        """Tell whether a member subscribes to a topic."""
        return any(
            topic in m.topics or (m.regex and re.fullmatch(m.regex, topic))
            for m in self.members.values()
        )

    # --- the log -------------------------------------------------------------------------------

    def write(self, member: ConsumerGroupMember) -> None:
        """Write what has changed about a member; before it is answered."""
        self._context.log.write(member.about(), member.member_id)
        self._context.log.write(member.current(), member.member_id)

    def reload(self) -> None:
        """Another coordinator reads the log and knows no more than that; sessions begin anew."""
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
        self.along = {member_id: target.along for member_id, target in targets.items()}
        current = log.members(records.ConsumerGroupCurrentMemberAssignment)
        self.members = {
            member_id: ConsumerGroupMember.read(member_id, about, current[member_id])
            for member_id, about in log.members(records.ConsumerGroupMemberMetadata).items()
            if member_id in current  # the last writes may be lost
        }
        # Somebody went, and the target had still to be made anew.
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
    """Return the partitions of a subscription; asked for with each heartbeat."""
    pattern = re.compile(regex) if regex else None
    return frozenset(
        TopicPartition(name, number)
        for name, count in there
        if name in topics or (pattern is not None and pattern.fullmatch(name))
        for number in range(count)
    )
