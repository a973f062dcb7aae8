"""SyncGroup of a classic group: the leader sends the assignment, the others wait for it."""

from __future__ import annotations

from kafka import errors

from tandem_kafka_testing.coordinator.classic import ClassicGroup
from tandem_kafka_testing.coordinator.classic_group_member import ClassicGroupState
from tandem_kafka_testing.coordinator.context import GroupContext
from tandem_kafka_testing.coordinator.requests import SyncGroup, SyncResult


class ClassicSyncs:
    """Handles the SyncGroup requests of one classic group."""

    def __init__(self, context: GroupContext, group: ClassicGroup) -> None:
        self._step = context.step
        self._group = group

    def give_up_waiting(self, rounds: int) -> None:
        """Continue without the members that have not synced in time."""
        group = self._group
        if rounds != group.rounds or group.state is ClassicGroupState.JOINING or not group.unsynced:
            return
        for member_id in sorted(group.unsynced):
            self._step.note(f"{member_id} did not sync in time")
            group.drop(member_id)
        group.rebalance()

    def handle_sync(self, request: SyncGroup) -> None:
        """Handle SyncGroup; that of the leader has the assignments of all members."""
        group = self._group
        error = group.check(request.member_id, request.generation, request.instance_id)
        if error is None and request.protocol not in (None, group.protocol):
            error = errors.InconsistentGroupProtocolError
        elif error is None and group.state is ClassicGroupState.JOINING:
            error = errors.RebalanceInProgressError
        if error is not None:
            self._step.respond(request, SyncResult(error))
            return
        member = group.members[request.member_id]
        group.unsynced.discard(member.member_id)
        if group.state is ClassicGroupState.STABLE:
            group.hand_out(member, request)
            return
        member.syncing = request
        if request.member_id == group.leader:
            group.state = ClassicGroupState.STABLE
            for each in group.members.values():
                each.assignment = request.assignments.get(each.member_id, b"")
            group.write()
            for each in group.members.values():
                group.end_sync(each, None)
