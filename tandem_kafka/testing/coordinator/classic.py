"""A classic group: members, generations, and requests that wait for the others."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka import errors

from tandem_kafka.testing.coordinator import embedded
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
from tandem_kafka.testing.coordinator.votes import common, voted

if TYPE_CHECKING:
    from tandem_kafka.testing.coordinator.coordinator import GroupCoordinator

__all__ = ["ClassicGroup", "ClassicMember", "GroupState"]


class GroupState(enum.Enum):
    """Where a group stands."""

    EMPTY = "empty"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"


@dataclass(slots=True, eq=False)
class ClassicMember:
    """One member; `joining` and `syncing` are its requests that wait for the others."""

    member_id: str
    instance_id: str | None
    protocols: dict[str, bytes]
    session_ms: int
    rebalance_ms: int
    expires_ms: int = 0
    joining: JoinGroup | None = None
    syncing: SyncGroup | None = None
    assignment: bytes = b""


class ClassicGroup:
    """Members and generation.

    Attributes:
        known_ids: Ids handed out to members that have not joined yet (KIP-394).
        since_ms: When its last generation was complete, or its last member gone.
        rounds: Tells the timer of this rebalance from that of an older one.
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
        read = self._coordinator.log.group(GroupMetadata) or GroupMetadata(0)
        self.generation, self.protocol = read.generation, read.protocol
        self.protocol_type, self.leader = read.protocol_type, read.leader
        self.since_ms = read.since_ms
        self.members = {
            m.member_id: ClassicMember(
                m.member_id,
                m.instance_id,
                {read.protocol: m.subscription},
                m.session_timeout_ms,
                m.rebalance_timeout_ms,
                assignment=m.assignment,
            )
            for m in read.members
        }
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY
        for member in self.members.values():
            self.touch(member)
        if self.members and (not self.leader or self._is_too_big()):
            self.rebalance()  # without a leader the one that made it a classic group was not over

    def _refuse(self, member: ClassicMember, error: Error) -> None:
        """Answer what a member waits for."""
        self._answer_sync(member, error)
        joining, member.joining = member.joining, None
        if joining is not None:
            self._turn.answer(joining, JoinAnswer(error))

    # --- joining -------------------------------------------------------------------------------

    def handle_join(self, request: JoinGroup) -> None:
        """A member wants in, or again; answered when all have come or time is over."""
        before = self.with_instance(request.instance_id)
        member_id = request.member_id or request.new_id
        error = self._join_error(request, before, member_id)
        if error is not None:
            self._turn.answer(request, JoinAnswer(error, request.member_id))
            return
        if request.needs_id and not request.member_id:
            self.known_ids.add(member_id)
            self._turn.wake(self._turn.now_ms + request.session_ms, "known", member_id)
            self._turn.answer(request, JoinAnswer(errors.MemberIdRequiredError, member_id))
            return
        self.known_ids.discard(member_id)
        member = ClassicMember(
            member_id,
            request.instance_id,
            dict(request.protocols),
            request.session_ms,
            request.rebalance_ms,
            joining=request,
        )
        if not self.members:
            self.protocol_type = request.protocol_type
        if before is not None and before.member_id != member_id:
            self._come_back(before, member)
        else:
            self._join(member)

    def _join_error(
        self, request: JoinGroup, before: ClassicMember | None, member_id: str
    ) -> Error:
        if self._is_full_for(member_id):
            self.known_ids.discard(member_id)
            if self.members.pop(member_id, None) is not None:
                self._complete_if_all_are_here()
            return errors.GroupMaxSizeReachedError
        if before is not None and request.member_id not in ("", before.member_id):
            return errors.FencedInstanceIdError
        if request.member_id and member_id not in {*self.members, *self.known_ids}:
            return errors.UnknownMemberIdError
        mine = before.member_id if before is not None else member_id
        others = [m.protocols for m in self.members.values() if m.member_id != mine]
        of_the_kind = not others or request.protocol_type == self.protocol_type
        agrees = of_the_kind and common([request.protocols, *others])
        return None if agrees else errors.InconsistentGroupProtocolError

    def _is_too_big(self) -> bool:
        most = self._coordinator.settings.classic_max_size
        return bool(most) and len(self.members) > most

    def _is_full_for(self, member_id: str) -> bool:
        """Tell whether there is no room; in a rebalance there is for those who come first."""
        most = self._coordinator.settings.classic_max_size
        there = list(self.members.values())
        if self.state is GroupState.JOINING:
            there = [m for m in there if m.joining is not None]
        return bool(most) and member_id not in {m.member_id for m in there} and len(there) >= most

    def _join(self, member: ClassicMember) -> None:
        self.members[member.member_id] = member
        self.touch(member)
        if self.state is not GroupState.JOINING:
            self.rebalance()
        self._complete_if_all_are_here()

    def with_instance(self, instance_id: str | None) -> ClassicMember | None:
        """Return the static member of that name."""
        if instance_id is None:
            return None
        return next((m for m in self.members.values() if m.instance_id == instance_id), None)

    def _come_back(self, before: ClassicMember, member: ClassicMember) -> None:
        """A static member takes its own place under a new id; in a quiet group nobody notices."""
        self._refuse(before, errors.FencedInstanceIdError)
        del self.members[before.member_id]
        if self.leader == before.member_id:
            self.leader = member.member_id
        member.assignment = before.assignment
        if self.state is not GroupState.STABLE or self.protocol not in member.protocols:
            self._join(member)
            return
        self.members[member.member_id] = member
        self.write()
        self._answer_join(member, skip_assignment=True)

    def rebalance(self) -> None:
        """Begin a new round: everybody has to join again."""
        self.state = GroupState.JOINING
        self.rounds += 1
        for member in self.members.values():
            self._answer_sync(member, errors.RebalanceInProgressError)
        patience_ms = max((m.rebalance_ms for m in self.members.values()), default=0)
        self._turn.wake(self._turn.now_ms + patience_ms, "join", number=self.rounds)

    def give_up_waiting(self, rounds: int) -> None:
        """Go on without those that have not joined in time."""
        if self.state is GroupState.JOINING and rounds == self.rounds:
            for member_id in [m.member_id for m in self.members.values() if m.joining is None]:
                del self.members[member_id]
            self._complete_if_all_are_here()

    def _complete_if_all_are_here(self) -> None:
        members = list(self.members.values())
        if self.state is not GroupState.JOINING or any(m.joining is None for m in members):
            return
        if not members:
            self._end_of_members()
            return
        self.generation += 1
        self.state = GroupState.SYNCING
        self.protocol = voted([m.protocols for m in self.members.values()])
        if self.leader not in self.members:
            self.leader = members[0].member_id
        for member in members:
            self._answer_join(member)

    def _end_of_members(self) -> None:
        self.state = GroupState.EMPTY
        self.generation += 1
        self.protocol = self.leader = ""
        self.write()

    def _answer_join(self, member: ClassicMember, *, skip_assignment: bool = False) -> None:
        request, member.joining = member.joining, None
        if request is None:
            return
        self.touch(member)
        listed = [
            (m.member_id, m.instance_id, m.protocols[self.protocol]) for m in self.members.values()
        ]
        answer = JoinAnswer(
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader,
            members=listed if member.member_id == self.leader else [],
            skip_assignment=skip_assignment,
        )
        self._turn.answer(request, answer)

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
            self._complete_if_all_are_here()
        else:
            self.rebalance()
