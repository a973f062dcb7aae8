"""A share group (KIP-932): its members, its epochs and its target assignment.

Members do not wait for each other: a member gets its target with its next heartbeat.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka import errors

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.coordinator import records
from tandem_kafka_testing.coordinator.context import GroupContext
from tandem_kafka_testing.coordinator.members import JOIN_EPOCH, LEAVE_EPOCH
from tandem_kafka_testing.coordinator.requests import (
    AlterShareOffsets,
    DeleteShareOffsets,
    ShareHeartbeat,
    ShareHeartbeatResult,
)
from tandem_kafka_testing.coordinator.share_assignor import assign_shared
from tandem_kafka_testing.coordinator.step import Error

Partitions = frozenset[TopicPartition]

#: The epoch of a group before its first member.
_FIRST_EPOCH = 1


@dataclass(slots=True, eq=False)
class ShareGroupMember:
    """One member."""

    member_id: str
    topics: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = 0
    assigned: Partitions = frozenset()
    expires_ms: int = 0


class ShareGroup:
    """The members, the epochs and the target.

    Attributes:
        epoch: The epoch of the group; grows when members, subscriptions or topics change.
        assignment_epoch: The epoch of the target, which members have with it.
        members: By id, oldest first.
        target: The partitions of each member as of the epoch.
        initialized: The partitions whose state the share coordinator keeps. Others are assigned
            with the next epoch.
    """

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._step = context.step
        self.epoch = 0
        self.assignment_epoch = 0
        self.members: dict[str, ShareGroupMember] = {}
        self.target: dict[str, Partitions] = {}
        self.initialized: Partitions = frozenset()
        self._wanted: dict[str, Partitions] = {}
        self._next_target_ms = 0

    @property
    def exists(self) -> bool:
        """True from the first member until the group is deleted, also without members."""
        return self.epoch > 0

    def dissolve(self) -> None:
        """End the group."""
        for kind in records.OF_SHARE_GROUPS:
            self._context.log.end(kind)
        self.reload()

    def handle_heartbeat(self, request: ShareHeartbeat, *, conflict: bool) -> None:
        """Handle a heartbeat: the member joins, continues or leaves.

        Args:
            request: The heartbeat.
            conflict: Whether a group of another type has this name.
        """
        self._step.respond(request, self._answer(request, conflict=conflict))

    def _answer(self, request: ShareHeartbeat, *, conflict: bool) -> ShareHeartbeatResult:
        error = errors.GroupIdNotFoundError if conflict else self._error(request)
        if error is not None:
            return ShareHeartbeatResult(error)
        if request.epoch == LEAVE_EPOCH:
            self.remove(request.member_id, "left")
            return ShareHeartbeatResult(epoch=LEAVE_EPOCH)
        settings = self._context.settings
        if request.member_id not in self.members:
            self.members[request.member_id] = ShareGroupMember(request.member_id)
        member = self.members[request.member_id]
        if request.topics is not None:
            member.topics = request.topics
        self._touch(member)
        self._update_target()
        before = member.assigned
        if member.epoch != self.assignment_epoch:
            member.previous_epoch, member.epoch = member.epoch, self.assignment_epoch
            member.assigned = self.target.get(member.member_id, frozenset())
        self._write(member)
        everything = request.epoch == JOIN_EPOCH or request.topics is not None
        return ShareHeartbeatResult(
            epoch=member.epoch,
            interval_ms=settings.share_heartbeat_interval_ms,
            assigned=member.assigned if everything or member.assigned != before else None,
        )

    def _error(self, request: ShareHeartbeat) -> Error:
        """Return the error for a member id and an epoch, None if they are valid."""
        member = self.members.get(request.member_id)
        if request.epoch == JOIN_EPOCH:
            full = len(self.members) >= self._context.settings.share_max_size
            return errors.GroupMaxSizeReachedError if full and member is None else None
        if not self.exists:
            return errors.GroupIdNotFoundError
        if member is None:
            return errors.UnknownMemberIdError
        valid = request.epoch in (LEAVE_EPOCH, member.epoch, member.previous_epoch)
        return None if valid else errors.FencedMemberEpochError

    def _touch(self, member: ShareGroupMember) -> None:
        """Restart the session of a member."""
        session_ms = self._context.settings.share_session_timeout_ms
        member.expires_ms = self._step.now_ms + session_ms
        self._step.set_timer(member.expires_ms, "session", member.member_id)

    def expire(self, member_id: str) -> None:
        """Remove a member whose session has ended."""
        member = self.members.get(member_id)
        if member is not None and self._step.now_ms >= member.expires_ms:
            self.remove(member_id, "expired")

    def remove(self, member_id: str, why: str = "removed") -> None:
        """Remove a member; the others get its partitions with the next target."""
        if self.members.pop(member_id, None) is None:
            return
        self._step.note(f"{member_id} {why}")
        self._context.log.forget(member_id)
        self.target.pop(member_id, None)
        self._update_epoch()

    def forget_topic(self, name: str) -> None:
        """Forget the states of a deleted topic; members lose it with the next target."""
        self.initialized = frozenset(tp for tp in self.initialized if tp.topic != name)

    # --- start offsets --------------------------------------------------------------------------

    def handle_alter(self, request: AlterShareOffsets, *, conflict: bool) -> None:
        """Let partitions begin anew, in a group without members, or in a new one."""
        error: Error = errors.NonEmptyGroupError if self.members else None
        if conflict:
            error = errors.GroupIdNotFoundError
        if error is None and request.partitions:
            if not self.exists:
                self.epoch = self.assignment_epoch = _FIRST_EPOCH
            self.initialized |= request.partitions
            self._write_epoch()
        self._step.respond(request, error)

    def handle_delete(self, request: DeleteShareOffsets) -> None:
        """Forget topics."""
        if not self.exists or self.members:
            error = errors.NonEmptyGroupError if self.members else errors.GroupIdNotFoundError
            self._step.respond(request, error)
            return
        known = request.topics & {tp.topic for tp in self.initialized}
        for name in known:
            self.forget_topic(name)
        self._write_epoch()
        self._step.respond(request, known)

    # --- the target ----------------------------------------------------------------------------

    def _update_epoch(self) -> None:
        """Begin an epoch if members, subscriptions or topics have changed.

        A partition is assigned after its state was initialized, which the group requests with its
        first epoch for the partition.
        """
        there = self._context.topics()
        everything = {
            m.member_id: frozenset(
                TopicPartition(name, number)
                for name in m.topics
                for number in range(there.get(name, 0))
            )
            for m in self.members.values()
        }
        wanted = {name: tps & self.initialized for name, tps in everything.items()}
        missing = frozenset(tp for tps in everything.values() for tp in tps) - self.initialized
        if wanted != self._wanted or missing:
            self.epoch = max(self.epoch, _FIRST_EPOCH) + 1
            self._wanted = wanted
            self.initialized |= missing
            self._step.note(f"share group epoch {self.epoch}")
            self._write_epoch()

    def _update_target(self) -> None:
        """Make the target of the epoch, but not before the assignment interval has passed."""
        self._update_epoch()
        now_ms = self._step.now_ms
        if self.assignment_epoch < self.epoch and now_ms >= self._next_target_ms:
            interval_ms = self._context.settings.share_assignment_interval_ms
            self._next_target_ms = now_ms + interval_ms
            self.target = assign_shared(self._wanted, self.target)
            self.assignment_epoch = self.epoch
            self._write_epoch()
            for member_id, partitions in self.target.items():
                target = records.ShareGroupTargetAssignmentMember(partitions)
                self._context.log.write(target, member_id)

    def _write_epoch(self) -> None:
        wanted = tuple(self._wanted.items())
        record = records.ShareGroupMetadata(
            self.epoch, self.assignment_epoch, self.initialized, wanted
        )
        self._context.log.write(record)

    # --- the log -------------------------------------------------------------------------------

    def _write(self, member: ShareGroupMember) -> None:
        record = records.ShareGroupMember(
            member.topics, member.epoch, member.previous_epoch, member.assigned
        )
        self._context.log.write(record, member.member_id)

    def reload(self) -> None:
        """Read the log, as another coordinator does; sessions begin again."""
        log = self._context.log
        metadata = log.group(records.ShareGroupMetadata)
        self.epoch = metadata.epoch if metadata is not None else 0
        self.assignment_epoch = metadata.assignment_epoch if metadata is not None else 0
        self.initialized = metadata.initialized if metadata is not None else frozenset()
        self._wanted = dict(metadata.wanted) if metadata is not None else {}
        targets = log.members(records.ShareGroupTargetAssignmentMember)
        self.target = {member_id: target.partitions for member_id, target in targets.items()}
        self.members = {
            member_id: ShareGroupMember(
                member_id, it.topics, it.epoch, it.previous_epoch, it.assigned
            )
            for member_id, it in log.members(records.ShareGroupMember).items()
        }
        for member in self.members.values():
            self.target.setdefault(member.member_id, frozenset())
            self._touch(member)
