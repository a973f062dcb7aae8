"""SyncGroup of a classic group: the leader brings the assignment, the others wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka import errors

from tandem_kafka.testing.coordinator.classic_group_member import ClassicMember, GroupState
from tandem_kafka.testing.coordinator.requests import SyncAnswer, SyncGroup
from tandem_kafka.testing.coordinator.turn import Error

if TYPE_CHECKING:
    from tandem_kafka.testing.coordinator.classic import ClassicGroup
    from tandem_kafka.testing.coordinator.coordinator import GroupCoordinator

__all__ = ["ClassicSyncs"]


class ClassicSyncs:
    """Those of one classic group.

    Attributes:
        pending: Ids of members of this generation that have not asked for their assignment yet.
    """

    def __init__(self, coordinator: GroupCoordinator, group: ClassicGroup) -> None:
        self._turn = coordinator.turn
        self._group = group
        self.pending: set[str] = set()

    def begin(self, patience_ms: int) -> None:
        """A generation has begun: all its members have to sync in time."""
        self.pending = set(self._group.members)
        self._turn.wake(self._turn.now_ms + patience_ms, "unsynced", number=self._group.rounds)

    def give_up_waiting(self, rounds: int) -> None:
        """Go on without those that have joined and did not sync in time."""
        group = self._group
        if rounds != group.rounds or group.state is GroupState.JOINING or not self.pending:
            return
        for member_id in sorted(self.pending):
            self._turn.note(f"{member_id} did not sync in time")
            group.drop(member_id)
        group.rebalance()

    def handle_sync(self, request: SyncGroup) -> None:
        """A member asks for its assignment; the leader brings everybody's."""
        group = self._group
        error = group.check(request.member_id, request.generation, request.instance_id)
        if error is None and request.protocol not in (None, group.protocol):
            error = errors.InconsistentGroupProtocolError
        elif error is None and group.state is GroupState.JOINING:
            error = errors.RebalanceInProgressError
        if error is not None:
            self._turn.answer(request, SyncAnswer(error))
            return
        member = group.members[request.member_id]
        self.pending.discard(member.member_id)
        if group.state is GroupState.STABLE:
            self._assign(member, request)
            return
        member.syncing = request
        if request.member_id == group.leader:
            group.state = GroupState.STABLE
            for each in group.members.values():
                each.assignment = request.assignments.get(each.member_id, b"")
            group.write()
            for each in group.members.values():
                self.end(each, None)

    def end(self, member: ClassicMember, error: Error) -> None:
        """Answer a member if it waits for its assignment; its session begins anew."""
        request, member.syncing = member.syncing, None
        if request is None:
            return
        self._group.touch(member)
        if error is None:
            self._assign(member, request)
        else:
            self._turn.answer(request, SyncAnswer(error, self._group.protocol))

    def _assign(self, member: ClassicMember, request: SyncGroup) -> None:
        member.told = member.assignment
        self._turn.answer(request, SyncAnswer(None, self._group.protocol, member.assignment))
