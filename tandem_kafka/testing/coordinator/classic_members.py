"""Classic members inside of a KIP-848 group: JoinGroup, SyncGroup and Heartbeat stand for its own.

A member's generation is its epoch. It is told by the answer to a heartbeat that it has to join
again, and then goes one step towards the target: what it names as its own in JoinGroup is what a
KIP-848 member would name in a heartbeat, and SyncGroup brings what it may have. There is no leader,
and nobody waits for another.
"""

from __future__ import annotations

from collections.abc import Callable

from kafka import errors

from tandem_kafka.testing.coordinator import embedded
from tandem_kafka.testing.coordinator.consumer import ConsumerGroup
from tandem_kafka.testing.coordinator.context import GroupContext
from tandem_kafka.testing.coordinator.members import ConsumerGroupMember, MemberState
from tandem_kafka.testing.coordinator.records import ClassicMemberMetadata
from tandem_kafka.testing.coordinator.requests import (
    Heartbeat,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    SyncGroup,
    SyncResult,
)
from tandem_kafka.testing.coordinator.step import Error

__all__ = ["ClassicMembers"]


class ClassicMembers:
    """Those of one KIP-848 group."""

    def __init__(
        self, context: GroupContext, group: ConsumerGroup, downgrade: Callable[[str | None], None]
    ) -> None:
        self._group = group
        self._downgrade = downgrade
        self._step = context.step

    # --- joining -------------------------------------------------------------------------------

    def handle_join(self, request: JoinGroup) -> None:
        """A member comes, or comes again; it is answered at once."""
        self._step.respond(request, self._joined(request))

    def _joined(self, request: JoinGroup) -> JoinResult:
        group, member_id = self._group, request.member_id
        error = self._join_error(request)
        if error is not None:
            return JoinResult(error, member_id)
        if not member_id:
            member_id = request.new_id
            if request.needs_id:
                return JoinResult(errors.MemberIdRequiredError, member_id)
        try:
            said = embedded.subscription(next(iter(request.protocols.values())))
        except embedded.MALFORMED:
            return JoinResult(errors.UnknownError, member_id)
        before = group.with_instance(request.instance_id)
        group.unheard[member_id] = said.owned
        if member_id in group.members:
            group.unheard[member_id] = said.owned - group.members[member_id].assigned
        else:
            error = group.add(member_id, request.instance_id, classic=True)
            if error is not None:
                return JoinResult(error, member_id)
        member = group.members[member_id]
        member.classic = ClassicMemberMetadata(request.session_ms, tuple(request.protocols.items()))
        member.topics, member.regex, member.assignors = said.topics, "", ()
        member.rebalance_ms = request.rebalance_ms
        member.rack = said.rack or member.rack
        group.update_target()
        group.advance(member, said.owned)
        group.write(member)
        member.rejoin_by_ms = 0
        answer = JoinResult(
            member_id=member_id,
            generation=member.epoch,
            protocol_type=embedded.CONSUMER,
            protocol=next(iter(request.protocols)),
        )
        if before is not None and before.classic is None and group.downgrades_without(before):
            self._downgrade(member_id)
            return answer
        group.touch(member)
        member.sync_by_ms = self._step.now_ms + member.rebalance_ms
        self._step.set_timer(member.sync_by_ms, "sync", member_id)
        return answer

    def _join_error(self, request: JoinGroup) -> Error:
        group, member_id = self._group, request.member_id
        if group.is_full_for(member_id):
            return errors.GroupMaxSizeReachedError
        others = [m.classic for m in group.members.values() if m.classic is not None]
        common = set(request.protocols).intersection(*(dict(o.protocols) for o in others))
        if request.protocol_type != embedded.CONSUMER or not common:
            return errors.InconsistentGroupProtocolError
        if request.instance_id is None or not member_id:
            return None
        return self._holder_error(member_id, request.instance_id)

    def _holder_error(self, member_id: str, instance_id: str) -> Error:
        holder = self._group.with_instance(instance_id)
        if holder is None:
            return errors.UnknownMemberIdError
        return None if holder.member_id == member_id else errors.FencedInstanceIdError

    # --- the other requests --------------------------------------------------------------------

    def handle_sync(self, request: SyncGroup) -> None:
        """A member that has joined asks what it may have."""
        error = self._error(request.member_id, request.instance_id, request.generation)
        if error is not None:
            self._step.respond(request, SyncResult(error))
            return
        member = self._group.members[request.member_id]
        protocol = member.classic.protocols[0][0] if member.classic is not None else ""
        behind = self._is_behind(member) and member.state is not MemberState.UNREVOKED
        if request.protocol is not None and request.protocol != protocol:
            error = errors.InconsistentGroupProtocolError
        elif behind:
            self._call_in(member)
            error = errors.RebalanceInProgressError
        else:
            member.sync_by_ms = 0
            self._group.touch(member)
        assignment = b"" if error is not None else embedded.assignment(member.assigned)
        self._step.respond(request, SyncResult(error, protocol, assignment))

    def handle_heartbeat(self, request: Heartbeat) -> None:
        """A member is alive; it is told to join if there is something for it to give or take."""
        error = self._error(request.member_id, request.instance_id, request.generation)
        if error is None:
            member = self._group.members[request.member_id]
            self._group.touch(member)
            self._group.update_target()
            if self._has_to_join(member):
                self._call_in(member)
                error = errors.RebalanceInProgressError
        self._step.respond(request, error)

    def handle_leave(self, request: LeaveGroup) -> None:
        """A member goes, or somebody removes one: by its id, or a static one by its name.

        The KIP-848 members can be removed like that, too.
        """
        holder = self._group.with_instance(request.instance_id)
        member_id = request.member_id or (holder.member_id if holder is not None else "")
        error: Error = None
        if request.instance_id is not None and member_id:
            error = self._holder_error(member_id, request.instance_id)
        if error is None and member_id not in self._group.members:
            error = errors.UnknownMemberIdError
        if error is None:
            self._group.remove(member_id, "left")
        self._step.respond(request, error)

    def _error(self, member_id: str, instance_id: str | None, generation: int) -> Error:
        if instance_id is not None:
            error = self._holder_error(member_id, instance_id)
            if error is not None:
                return error
        member = self._group.members.get(member_id)
        if member is None or member.classic is None:
            return errors.UnknownMemberIdError
        return None if generation == member.epoch else errors.IllegalGenerationError

    # --- who has to join again -----------------------------------------------------------------

    def _has_to_join(self, member: ConsumerGroupMember) -> bool:
        """Tell whether there is a step that a member can take."""
        if self._is_behind(member) or member.state is MemberState.UNREVOKED:
            return True
        if member.state is not MemberState.UNRELEASED:
            return False
        lacking = self._group.target.get(member.member_id, frozenset()) - member.assigned
        return not lacking & self._group.taken_from(member)

    def _is_behind(self, member: ConsumerGroupMember) -> bool:
        """Tell whether there is a newer target; a newer epoch of the group is none yet."""
        return member.epoch < self._group.assignment_epoch

    def _call_in(self, member: ConsumerGroupMember) -> None:
        if not member.rejoin_by_ms:
            member.rejoin_by_ms = self._step.now_ms + member.rebalance_ms
            self._step.set_timer(member.rejoin_by_ms, "rejoin", member.member_id)

    def give_up_waiting(self, member_id: str, kind: str) -> None:
        """A member may not have joined or synced in time."""
        member = self._group.members.get(member_id)
        if member is None or member.classic is None:
            return
        by_ms = member.rejoin_by_ms if kind == "rejoin" else member.sync_by_ms
        if 0 < by_ms <= self._step.now_ms:
            self._group.remove(member_id, f"did not {kind} in time")
