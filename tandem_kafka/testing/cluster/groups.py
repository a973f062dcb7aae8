"""A classic consumer group as its coordinator keeps it."""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kafka import errors

from tandem_kafka.testing.cluster.call import Call
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import JoinGroupResponse, SyncGroupResponse

if TYPE_CHECKING:
    from tandem_kafka.testing.cluster.cluster import SimCluster

__all__ = ["Commit", "GroupState", "SimGroup", "SimMember", "refused_join"]

Commit = tuple[int, int, str]


class GroupState(enum.Enum):
    """Where a group stands."""

    EMPTY = "empty"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"


@dataclass(slots=True, eq=False)
class SimMember:
    """One member; `joining` and `syncing` are its requests that wait for the others."""

    member_id: str
    instance_id: str | None
    protocols: dict[str, bytes]
    session_ms: int
    rebalance_ms: int
    expires_ms: int = 0
    joining: Call | None = None
    syncing: Call | None = None
    assignment: bytes = b""


@dataclass(slots=True, eq=False)
class Written:
    """A generation as it was written when its leader had brought the assignment."""

    generation: int = 0
    protocol: str = ""
    leader: str = ""
    members: dict[str, SimMember] = field(default_factory=dict)


def refused_join(error: type[Exception], member_id: str = "") -> JoinGroupResponse:
    """Return the answer to a join that is refused."""
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=error.errno,  # type: ignore[attr-defined]
        generation_id=-1,
        protocol_type=None,
        protocol_name="",
        leader="",
        skip_assignment=False,
        member_id=member_id,
        members=[],
    )


@dataclass(eq=False)
class SimGroup:
    """Members, generation and committed offsets.

    Attributes:
        known_ids: Ids handed out to members that have not joined yet (KIP-394).
        commits: Offset, leader epoch and metadata by partition.
    """

    cluster: SimCluster
    group_id: str
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol: str = ""
    leader: str = ""
    members: dict[str, SimMember] = field(default_factory=dict)
    known_ids: set[str] = field(default_factory=set)
    commits: dict[TopicPartition, Commit] = field(default_factory=dict)
    #: What the newest commits replaced, for a coordinator that loses them.
    undo: deque[tuple[TopicPartition, Commit | None]] = field(
        default_factory=lambda: deque(maxlen=50)
    )
    #: The last generation that was written: what a coordinator that takes over knows.
    written: Written | None = None
    #: Tells the timer of this rebalance from that of an older one.
    rounds: int = 0

    # --- another coordinator -------------------------------------------------------------------

    def store(self, tp: TopicPartition, commit: Commit) -> None:
        """Take a commit in."""
        self.undo.append((tp, self.commits.get(tp)))
        self.commits[tp] = commit

    def write(self) -> None:
        """Keep the generation as it is: it is complete."""
        members = {
            m.member_id: replace(m, joining=None, syncing=None) for m in self.members.values()
        }
        self.written = Written(self.generation, self.protocol, self.leader, members)

    def reload(self) -> None:
        """Another coordinator knows what was written, and nobody who waits for an answer."""
        for member in list(self.members.values()):
            self._answer_sync(member, errors.NotCoordinatorError)
            self._refuse_join(member)
        self.known_ids.clear()
        self.rounds += 1
        written = self.written or Written()
        self.generation, self.protocol = written.generation, written.protocol
        self.leader = written.leader
        self.members = {m.member_id: replace(m) for m in written.members.values()}
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY
        for member in self.members.values():
            self.touch(member)

    def _refuse_join(self, member: SimMember) -> None:
        call, member.joining = member.joining, None
        if call is not None:
            call.broker.answer(call, refused_join(errors.NotCoordinatorError))

    # --- joining -------------------------------------------------------------------------------

    def join(self, member: SimMember, call: Call) -> None:
        """A member wants in, or again; answered when all have come or time is over."""
        member.joining = call
        self.members[member.member_id] = member
        self.touch(member)
        if self.state is not GroupState.JOINING:
            self.rebalance()
        self._complete_if_all_are_here()

    def with_instance(self, instance_id: str | None) -> SimMember | None:
        """Return the static member of that name."""
        if instance_id is None:
            return None
        return next((m for m in self.members.values() if m.instance_id == instance_id), None)

    def come_back(self, before: SimMember, member: SimMember, call: Call) -> None:
        """A static member takes its own place under a new id; in a quiet group nobody notices."""
        del self.members[before.member_id]
        if self.leader == before.member_id:
            self.leader = member.member_id
        member.assignment = before.assignment
        if self.state is not GroupState.STABLE:
            self.join(member, call)
            return
        self.members[member.member_id] = member
        member.joining = call
        self.write()
        self._answer_join(member, skip_assignment=True)

    def rebalance(self) -> None:
        """Begin a new round: everybody has to join again."""
        self.state = GroupState.JOINING
        self.rounds += 1
        for member in list(self.members.values()):
            self._answer_sync(member, errors.RebalanceInProgressError)
        this = self.rounds
        patience_ms = max((m.rebalance_ms for m in self.members.values()), default=0)
        when_ms = self.cluster.clock.now_ms() + patience_ms
        self.cluster.network.at(when_ms, lambda: self._give_up_waiting(this))

    def _give_up_waiting(self, rounds: int) -> None:
        if self.state is GroupState.JOINING and rounds == self.rounds:
            for member_id in [m.member_id for m in self.members.values() if m.joining is None]:
                del self.members[member_id]
            self._complete_if_all_are_here()

    def _complete_if_all_are_here(self) -> None:
        members = list(self.members.values())
        if self.state is not GroupState.JOINING or any(m.joining is None for m in members):
            return
        if not members:
            self.state = GroupState.EMPTY
            return
        self.generation += 1
        self.state = GroupState.SYNCING
        common = set.intersection(*(set(m.protocols) for m in members))
        self.protocol = next(name for name in members[0].protocols if name in common)
        self.leader = members[0].member_id
        for member in members:
            self._answer_join(member)

    def _answer_join(self, member: SimMember, *, skip_assignment: bool = False) -> None:
        call, member.joining = member.joining, None
        if call is None:
            return
        self.touch(member)
        entry = JoinGroupResponse.JoinGroupResponseMember
        listed = [
            entry(
                member_id=m.member_id,
                group_instance_id=m.instance_id,
                metadata=m.protocols[self.protocol],
            )
            for m in self.members.values()
        ]
        call.broker.answer(
            call,
            JoinGroupResponse(
                throttle_time_ms=0,
                error_code=0,
                generation_id=self.generation,
                protocol_type="consumer",
                protocol_name=self.protocol,
                leader=self.leader,
                skip_assignment=skip_assignment,
                member_id=member.member_id,
                members=listed if member.member_id == self.leader else [],
            ),
        )

    # --- syncing -------------------------------------------------------------------------------

    def sync(self, member: SimMember, assignments: dict[str, bytes], call: Call) -> None:
        """A member asks for its assignment; the leader brings everybody's."""
        member.syncing = call
        if self.state is GroupState.SYNCING and member.member_id == self.leader:
            self.state = GroupState.STABLE
            for other in list(self.members.values()):
                other.assignment = assignments.get(other.member_id, b"")
            self.write()
        if self.state is GroupState.STABLE:
            for other in list(self.members.values()):
                self._answer_sync(other, None)

    def _answer_sync(self, member: SimMember, error: type[Exception] | None) -> None:
        call, member.syncing = member.syncing, None
        if call is None:
            return
        call.broker.answer(
            call,
            SyncGroupResponse(
                throttle_time_ms=0,
                error_code=0 if error is None else error.errno,  # type: ignore[attr-defined]
                protocol_type="consumer",
                protocol_name=self.protocol,
                assignment=b"" if error is not None else member.assignment,
            ),
        )

    # --- members -------------------------------------------------------------------------------

    def check(
        self, member_id: str, generation: int, instance_id: str | None = None
    ) -> type[Exception] | None:
        """Return the error for a request of this member and generation, if it is to be refused."""
        holder = self.with_instance(instance_id)
        if holder is not None and holder.member_id != member_id:
            return errors.FencedInstanceIdError  # type: ignore[no-any-return]
        member = self.members.get(member_id)
        if member is None:
            return errors.UnknownMemberIdError  # type: ignore[no-any-return]
        if generation != self.generation:
            return errors.IllegalGenerationError  # type: ignore[no-any-return]
        self.touch(member)
        return None

    def touch(self, member: SimMember) -> None:
        """The member has been heard of: its session begins anew."""
        member.expires_ms = self.cluster.clock.now_ms() + member.session_ms
        self.cluster.network.at(member.expires_ms, lambda: self._expire(member))

    def _expire(self, member: SimMember) -> None:
        alive = member.joining is not None or self.cluster.clock.now_ms() < member.expires_ms
        if not alive and self.members.get(member.member_id) is member:
            self.cluster.trace.note(f"group {self.group_id}: {member.member_id} expired")
            self.remove(member.member_id)

    def remove(self, member_id: str) -> None:
        """A member is gone; those that are left rebalance."""
        self.members.pop(member_id, None)
        if not self.members:
            self.state = GroupState.EMPTY
            self.write()
        elif self.state is GroupState.JOINING:
            self._complete_if_all_are_here()
        else:
            self.rebalance()
