"""A classic group: members, generations, and requests that wait for the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka import errors

from tandem_kafka.testing.coordinator import embedded
from tandem_kafka.testing.coordinator.classic_group_member import ClassicMember, GroupState
from tandem_kafka.testing.coordinator.classic_joins import ClassicJoins
from tandem_kafka.testing.coordinator.records import GroupMetadata, GroupMetadataMember
from tandem_kafka.testing.coordinator.requests import (
    Heartbeat,
    JoinAnswer,
    JoinGroup,
    LeaveGroup,
    SyncAnswer,
    SyncGroup,
)
from tandem_kafka.testing.coordinator.turn import Error
from tandem_kafka.testing.coordinator.votes import voted

if TYPE_CHECKING:
    from tandem_kafka.testing.coordinator.coordinator import GroupCoordinator

__all__ = ["ClassicGroup"]


class ClassicGroup:
    """Members and generation.

    Attributes:
        known_ids: Ids handed out to members that have not joined yet (KIP-394).
        since_ms: When its last generation was complete, or its last member gone.
        rounds: Tells the timer of this rebalance from that of an older one.
        joins: How JoinGroup is served.
        starting: Whether a group that was empty waits for more members, though all are here.
    """

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator
        self._turn = coordinator.turn
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol = ""
        self.leader = ""
        self.members: dict[str, ClassicMember] = {}
        self.known_ids: set[str] = set()
        self.rounds = 0
        self.since_ms = 0
        self.joins = ClassicJoins(coordinator, self)
        self.starting = False
        #: Whether one has come since it began to wait; as in Kafka that may be a wait before.
        self._newcomer = False
        #: How much longer it may wait when it has waited.
        self._delays_left_ms = 0

    # --- the log -------------------------------------------------------------------------------

    def write(self) -> None:
        """Write the generation as it is: it is complete."""
        members = tuple(
            GroupMetadataMember(
                m.member_id,
                m.instance_id,
                m.session_ms,
                m.rebalance_ms,
                m.protocols[self.protocol],
                m.assignment,
            )
            for m in self.members.values()
        )
        self.since_ms = self._turn.now_ms
        record = GroupMetadata(
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader,
            members,
            self.since_ms,
        )
        self._coordinator.log.write(record)

    def begin(self, generation: int, protocol_type: str, members: list[ClassicMember]) -> None:
        """Go on with the members of a KIP-848 group that all use the classic protocol."""
        self.generation, self.protocol_type = generation, protocol_type
        self.members = {member.member_id: member for member in members}
        self.state, self.leader = GroupState.STABLE, ""
        self.protocol = voted([m.protocols for m in self.members.values()])
        self.write()
        for member in members:
            self.touch(member)

    def dissolve(self, error: Error) -> None:
        """There is no such group any more; who waits is told so by an error."""
        for member in self.members.values():
            self._refuse(member, error)
        self._coordinator.log.end(GroupMetadata)
        self.members = {}
        self.reload()

    def reload(self) -> None:
        """Another coordinator knows what was written, and nobody who waits for an answer."""
        for member in self.members.values():
            self._refuse(member, errors.NotCoordinatorError)
        self.known_ids.clear()
        self.rounds += 1
        self.starting = self._newcomer = False
        read = self._coordinator.log.group(GroupMetadata) or GroupMetadata(0)
        self.generation, self.protocol = read.generation, read.protocol
        self.protocol_type, self.leader = read.protocol_type, read.leader
        self.since_ms = read.since_ms
        before = self.members
        self.members = {
            m.member_id: ClassicMember(
                m.member_id,
                m.instance_id,
                {read.protocol: m.subscription},
                m.session_timeout_ms,
                m.rebalance_timeout_ms,
                assignment=m.assignment,
                # Not of the log: whatever it was told, it owns under the next coordinator too.
                told=before[m.member_id].told if m.member_id in before else m.assignment,
            )
            for m in read.members
        }
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY
        for member in self.members.values():
            self.touch(member)
        most = self._coordinator.settings.classic_max_size
        too_big = bool(most) and len(self.members) > most
        if self.members and (not self.leader or too_big):
            self.rebalance()  # without a leader the one that made it a classic group was not over

    def _refuse(self, member: ClassicMember, error: Error) -> None:
        """Answer what a member waits for."""
        self._answer_sync(member, error)
        joining, member.joining = member.joining, None
        if joining is not None:
            self._turn.answer(joining, JoinAnswer(error))

    # --- rounds --------------------------------------------------------------------------------

    def add(self, member: ClassicMember, request: JoinGroup) -> None:
        """A member joins, or again, and waits for the others; unless one is on a round begins."""
        if self.starting and member.member_id not in self.members:
            self._newcomer = True
        self.members[member.member_id] = member
        member.update(request)
        member.joining = request
        self.touch(member)
        if self.state is not GroupState.JOINING:
            self.rebalance()
        if not self.starting:
            self.complete_if_all_are_here()

    def replace(self, before: ClassicMember, member_id: str) -> ClassicMember:
        """Let a static member go on under another id; who has the old one is told that it ended."""
        self._refuse(before, errors.FencedInstanceIdError)
        del self.members[before.member_id]
        if self.leader == before.member_id:
            self.leader = member_id
        member = ClassicMember(member_id, before.instance_id, assignment=before.assignment)
        self.members[member_id] = member
        return member

    def rebalance(self) -> None:
        """Begin a new round: everybody has to join again."""
        for member in self.members.values():
            if self.state is GroupState.SYNCING:
                member.assignment = b""
            self._answer_sync(member, errors.RebalanceInProgressError)
        patience_ms = max((m.rebalance_ms for m in self.members.values()), default=0)
        delay_ms = self._coordinator.settings.initial_rebalance_delay_ms
        self.starting = self.state is GroupState.EMPTY and delay_ms > 0
        self.state = GroupState.JOINING
        self.rounds += 1
        if self.starting:
            self._delay(delay_ms, patience_ms)
        else:
            self._turn.wake(self._turn.now_ms + patience_ms, "join", number=self.rounds)

    def _delay(self, delay_ms: int, patience_ms: int) -> None:
        self._delays_left_ms = max(patience_ms - delay_ms, 0)
        self._turn.wake(self._turn.now_ms + delay_ms, "delay", number=self.rounds)

    def end_delay(self, rounds: int) -> None:
        """A group that was empty has waited for members; if one came meanwhile, it waits again.

        Altogether not longer than the first member's rebalance timeout, unless that is shorter
        than one delay.
        """
        if not self.starting or rounds != self.rounds:
            return
        if self._newcomer and self._delays_left_ms:
            self._newcomer = False
            left_ms = self._delays_left_ms
            delay_ms = self._coordinator.settings.initial_rebalance_delay_ms
            self._delay(min(delay_ms, left_ms), left_ms)
        else:
            self.complete_if_all_are_here()

    def give_up_waiting(self, rounds: int) -> None:
        """Go on without those that have not joined in time."""
        if self.state is GroupState.JOINING and rounds == self.rounds:
            for member_id in [m.member_id for m in self.members.values() if m.joining is None]:
                del self.members[member_id]
            self.complete_if_all_are_here()

    def complete_if_all_are_here(self) -> None:
        """Begin the next generation if the round is over."""
        members = list(self.members.values())
        if self.state is not GroupState.JOINING or any(m.joining is None for m in members):
            return
        if not members:
            self._end_of_members()
            return
        self.generation += 1
        self.state, self.starting = GroupState.SYNCING, False
        self.protocol = voted([m.protocols for m in self.members.values()])
        if self.leader not in self.members:
            self.leader = members[0].member_id
        for member in members:
            request, member.joining = member.joining, None
            if request is not None:
                self.touch(member)
                self._turn.answer(request, self.told(member))

    def _end_of_members(self) -> None:
        self.state, self.starting = GroupState.EMPTY, False
        self.generation += 1
        self.protocol = self.leader = ""
        self.write()

    def told(self, member: ClassicMember) -> JoinAnswer:
        """Return what a member is told of the generation that there is."""
        listed = [
            (m.member_id, m.instance_id, m.protocols[self.protocol]) for m in self.members.values()
        ]
        return JoinAnswer(
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader,
            members=listed if member.member_id == self.leader else [],
        )

    # --- syncing -------------------------------------------------------------------------------

    def handle_sync(self, request: SyncGroup) -> None:
        """A member asks for its assignment; the leader brings everybody's."""
        error = self.check(request.member_id, request.generation, request.instance_id)
        if error is None and self.state is GroupState.JOINING:
            error = errors.RebalanceInProgressError
        if error is not None:
            self._turn.answer(request, SyncAnswer(error))
            return
        self.members[request.member_id].syncing = request
        if self.state is GroupState.SYNCING and request.member_id == self.leader:
            self.state = GroupState.STABLE
            for member in self.members.values():
                member.assignment = request.assignments.get(member.member_id, b"")
            self.write()
        if self.state is GroupState.STABLE:
            for member in self.members.values():
                self._answer_sync(member, None)

    def _answer_sync(self, member: ClassicMember, error: Error) -> None:
        request, member.syncing = member.syncing, None
        if request is not None:
            member.told = member.told if error is not None else member.assignment
            assignment = b"" if error is not None else member.assignment
            self._turn.answer(request, SyncAnswer(error, self.protocol, assignment))

    def subscribes(self, topic: str) -> bool:
        """Tell whether a member subscribes to a topic; one that cannot be read may."""
        try:
            return any(
                topic in embedded.subscription(m.protocols[self.protocol]).topics
                for m in self.members.values()
            )
        except embedded.MALFORMED:
            return True

    # --- members -------------------------------------------------------------------------------

    def with_instance(self, instance_id: str | None) -> ClassicMember | None:
        """Return the static member of that name."""
        if instance_id is None:
            return None
        return next((m for m in self.members.values() if m.instance_id == instance_id), None)

    def handle_heartbeat(self, request: Heartbeat) -> None:
        """A member is alive; it is told if it has to join again."""
        error = self.check(request.member_id, request.generation, request.instance_id)
        if error is None and self.state is GroupState.JOINING:
            error = errors.RebalanceInProgressError
        self._turn.answer(request, error)

    def handle_leave(self, request: LeaveGroup) -> None:
        """A member goes, or somebody removes a static one by its name."""
        holder = self.with_instance(request.instance_id)
        member_id = request.member_id or (holder.member_id if holder is not None else "")
        error: Error = None
        if holder is not None and holder.member_id != member_id:
            error = errors.FencedInstanceIdError
        elif member_id in self.known_ids:
            self.known_ids.discard(member_id)
        elif member_id not in self.members:
            error = errors.UnknownMemberIdError
        else:
            self.remove(member_id)
        self._turn.answer(request, error)

    def check(self, member_id: str, generation: int, instance_id: str | None = None) -> Error:
        """Return the error for a request of this member and generation, if it is to be refused."""
        holder = self.with_instance(instance_id)
        if holder is not None and holder.member_id != member_id:
            return errors.FencedInstanceIdError
        member = self.members.get(member_id)
        if member is None:
            return errors.UnknownMemberIdError
        if generation != self.generation:
            return errors.IllegalGenerationError
        self.touch(member)
        return None

    def touch(self, member: ClassicMember) -> None:
        """The member has been heard of: its session begins anew."""
        member.expires_ms = self._turn.now_ms + member.session_ms
        self._turn.wake(member.expires_ms, "session", member.member_id)

    def expire(self, member_id: str) -> None:
        """The session of a member may be over."""
        member = self.members.get(member_id)
        if member is None or member.joining is not None or self._turn.now_ms < member.expires_ms:
            return
        self._turn.note(f"{member_id} expired")
        self.remove(member_id)

    def remove(self, member_id: str) -> None:
        """A member is gone; those that are left rebalance."""
        gone = self.members.pop(member_id, None)
        if gone is not None:
            self._refuse(gone, errors.UnknownMemberIdError)
        if not self.members:
            self._end_of_members()
        elif self.state is GroupState.JOINING:
            self.complete_if_all_are_here()
        else:
            self.rebalance()
