"""Classic members in a KIP-848 group: their JoinGroup, SyncGroup and Heartbeat.

The generation of a member is its epoch. A heartbeat response requests a JoinGroup. With it, the
member takes one step towards its target: the owned partitions in JoinGroup correspond to those in
a KIP-848 heartbeat, and the SyncGroup response has the assignment. There is no leader, and no
member waits for another.
"""

from __future__ import annotations

from collections.abc import Callable

from kafka import errors

from tandem_kafka_testing.coordinator import consumer_protocol
from tandem_kafka_testing.coordinator.context import GroupContext
from tandem_kafka_testing.coordinator.kip848 import ConsumerGroup
from tandem_kafka_testing.coordinator.members import ConsumerGroupMember, MemberState
from tandem_kafka_testing.coordinator.records import ClassicMemberMetadata
from tandem_kafka_testing.coordinator.requests import (
    Heartbeat,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    SyncGroup,
    SyncResult,
)
from tandem_kafka_testing.coordinator.step import Error


class ClassicMembers:
    """Handles the requests of the classic members of one KIP-848 group."""

    def __init__(
        self, context: GroupContext, group: ConsumerGroup, downgrade: Callable[[str | None], None]
    ) -> None:
        self._group = group
        self._downgrade = downgrade
        self._step = context.step

    # --- joining -------------------------------------------------------------------------------

    def handle_join(self, request: JoinGroup) -> None:
        """Handle JoinGroup; the response is sent at once."""
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
            said = consumer_protocol.read_subscription(next(iter(request.protocols.values())))
        except consumer_protocol.MALFORMED:
            return JoinResult(errors.UnknownError, member_id)
        before = group.with_instance(request.instance_id)
        group.stale_ownership[member_id] = said.owned
        if member_id in group.members:
            group.stale_ownership[member_id] = said.owned - group.members[member_id].assigned
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
        result = JoinResult(
            member_id=member_id,
            generation=member.epoch,
            protocol_type=consumer_protocol.CONSUMER,
            protocol=next(iter(request.protocols)),
        )
        if before is not None and before.classic is None and group.downgrades_without(before):
            self._downgrade(member_id)
            return result
        group.touch(member)
        member.sync_by_ms = self._step.now_ms + member.rebalance_ms
        self._step.set_timer(member.sync_by_ms, "sync", member_id)
        return result

    def _join_error(self, request: JoinGroup) -> Error:
        group, member_id = self._group, request.member_id
        if group.is_full_for(member_id):
            return errors.GroupMaxSizeReachedError
        others = [m.classic for m in group.members.values() if m.classic is not None]
        common = set(request.protocols).intersection(*(dict(o.protocols) for o in others))
        if request.protocol_type != consumer_protocol.CONSUMER or not common:
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
        """Handle SyncGroup; the response has the assignment."""
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
            self._request_rejoin(member)
            error = errors.RebalanceInProgressError
        else:
            member.sync_by_ms = 0
            self._group.touch(member)
        assignment = (
            b"" if error is not None else consumer_protocol.write_assignment(member.assigned)
        )
        self._step.respond(request, SyncResult(error, protocol, assignment))

    def handle_heartbeat(self, request: Heartbeat) -> None:
        """Handle a heartbeat; the response requests a JoinGroup if the assignment must change."""
        error = self._error(request.member_id, request.instance_id, request.generation)
        if error is None:
            member = self._group.members[request.member_id]
            self._group.touch(member)
            self._group.update_target()
            if self._has_to_join(member):
                self._request_rejoin(member)
                error = errors.RebalanceInProgressError
        self._step.respond(request, error)

    def handle_leave(self, request: LeaveGroup) -> None:
        """Handle LeaveGroup for a member id, or for a static member by its instance id.

        This can also remove KIP-848 members.
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

    # --- rejoining ------------------------------------------------------------------------------

    def _has_to_join(self, member: ConsumerGroupMember) -> bool:
        """Return whether a member can take a step towards its target."""
        if self._is_behind(member) or member.state is MemberState.UNREVOKED:
            return True
        if member.state is not MemberState.UNRELEASED:
            return False
        lacking = self._group.target.get(member.member_id, frozenset()) - member.assigned
        return not lacking & self._group.held_by_others(member)

    def _is_behind(self, member: ConsumerGroupMember) -> bool:
        """Return whether there is a newer target; a newer group epoch is not enough."""
        return member.epoch < self._group.assignment_epoch

    def _request_rejoin(self, member: ConsumerGroupMember) -> None:
        if not member.rejoin_by_ms:
            member.rejoin_by_ms = self._step.now_ms + member.rebalance_ms
            self._step.set_timer(member.rejoin_by_ms, "rejoin", member.member_id)

    def give_up_waiting(self, member_id: str, kind: str) -> None:
        """Remove a member that has not joined or synced in time."""
        member = self._group.members.get(member_id)
        if member is None or member.classic is None:
            return
        by_ms = member.rejoin_by_ms if kind == "rejoin" else member.sync_by_ms
        if 0 < by_ms <= self._step.now_ms:
            self._group.remove(member_id, f"did not {kind} in time")
