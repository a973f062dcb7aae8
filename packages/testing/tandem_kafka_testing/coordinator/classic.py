"""A classic group: its members, its generations, and the parked requests."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kafka import errors

from tandem_kafka_testing.coordinator import consumer_protocol
from tandem_kafka_testing.coordinator.classic_group_member import ClassicGroupState, ClassicMember
from tandem_kafka_testing.coordinator.context import GroupContext
from tandem_kafka_testing.coordinator.records import GroupMetadata, GroupMetadataMember
from tandem_kafka_testing.coordinator.requests import (
    Heartbeat,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    SyncGroup,
    SyncResult,
)
from tandem_kafka_testing.coordinator.step import Error

#: How long a new member may wait for its first response; it cannot send heartbeats yet.
NEW_MEMBER_MS = 300_000


def common_protocols(offers: Sequence[Collection[str]]) -> set[str]:
    """Return the protocols that all members support."""
    return set(offers[0]).intersection(*offers[1:])


def elect_protocol(offers: Sequence[Collection[str]]) -> str:
    """Return the protocol with the most votes.

    Each member votes for its first common protocol. With equal votes, the first vote wins.
    """
    possible = common_protocols(offers)
    votes: dict[str, int] = {}
    for offer in offers:
        name = next(name for name in offer if name in possible)
        votes[name] = votes.get(name, 0) + 1
    return max(votes, key=lambda name: votes[name])


class ClassicGroup:
    """The members and the generation.

    Attributes:
        known_ids: Ids given to members that have not joined yet (KIP-394).
        since_ms: When the last generation was complete, or the last member left.
        rounds: Number of rebalances; distinguishes their timers.
        unsynced: Ids of members of this generation that have not sent SyncGroup yet.
        starting: Whether the initial rebalance delay is running.
    """

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._step = context.step
        self.state = ClassicGroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol = ""
        self.leader = ""
        self.members: dict[str, ClassicMember] = {}
        self.known_ids: set[str] = set()
        self.rounds = 0
        self.since_ms = 0
        self.unsynced: set[str] = set()
        self.starting = False
        #: Whether a member joined in the delay or, as in Kafka, in an earlier one.
        self._joined_meanwhile = False
        #: The rest of the delays after the present one.
        self._delays_left_ms = 0
        #: Removed members. No record says so before the next complete generation: until then, the
        #: next coordinator reads them from the log, and they are members again.
        self._removed: dict[str, ClassicMember] = {}

    @property
    def exists(self) -> bool:
        """True from the first id that was given to a member, until the group is forgotten."""
        return bool(self.known_ids or self.members) or self.generation > 0

    # --- the log -------------------------------------------------------------------------------

    def write(self) -> None:
        """Write the complete generation."""
        members = tuple(
            [
                GroupMetadataMember(
                    m.member_id,
                    m.instance_id,
                    m.session_ms,
                    m.rebalance_ms,
                    m.protocols[self.protocol],
                    m.assignment,
                )
                for m in self.members.values()
            ]
        )
        self.since_ms = self._step.now_ms
        record = GroupMetadata(
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader,
            members,
            self.since_ms,
        )
        self._context.log.write(record)

    def begin(self, generation: int, protocol_type: str, members: list[ClassicMember]) -> None:
        """Continue with the members of a KIP-848 group, which all use the classic protocol."""
        self.generation, self.protocol_type = generation, protocol_type
        self.members = {member.member_id: member for member in members}
        self.state, self.leader = ClassicGroupState.STABLE, ""
        self.protocol = elect_protocol([m.protocols for m in self.members.values()])
        self.write()
        for member in members:
            self.touch(member)

    def dissolve(self, error: Error) -> None:
        """End the group; parked requests get the error."""
        for member in self.members.values():
            self._reject(member, error)
        self._context.log.end(GroupMetadata)
        self.members = {}
        self.reload()

    def reload(self) -> None:
        """Read the log, as another coordinator does; parked requests get NOT_COORDINATOR."""
        for member in self.members.values():
            self._reject(member, errors.NotCoordinatorError)
        self.known_ids.clear()
        self.unsynced.clear()
        self.rounds += 1
        self.starting = self._joined_meanwhile = False
        read = self._context.log.group(GroupMetadata) or GroupMetadata(0)
        self.generation, self.protocol = read.generation, read.protocol
        self.protocol_type, self.leader = read.protocol_type, read.leader
        self.since_ms = read.since_ms
        before = self._removed | self.members
        self.members = {
            m.member_id: ClassicMember(
                m.member_id,
                m.instance_id,
                {read.protocol: m.subscription},
                m.session_timeout_ms,
                m.rebalance_timeout_ms,
                assignment=m.assignment,
                is_new=False,
                # Not in the log: what the member itself knows, under the next coordinator, too.
                last_assignment=before[m.member_id].last_assignment
                if m.member_id in before
                else m.assignment,
                left_out_of=before[m.member_id].left_out_of if m.member_id in before else 0,
            )
            for m in read.members
        }
        self.state = ClassicGroupState.STABLE if self.members else ClassicGroupState.EMPTY
        for member in self.members.values():
            self.touch(member)
        most = self._context.settings.classic_max_size
        too_big = bool(most) and len(self.members) > most
        if self.members and (not self.leader or too_big):
            self.rebalance()  # without a leader, the rebalance of a downgrade was not complete

    def _reject(self, member: ClassicMember, error: Error) -> None:
        """Respond to the parked requests of a member with an error."""
        self.end_sync(member, error)
        joining, member.joining = member.joining, None
        if joining is not None:
            self._step.respond(joining, JoinResult(error))

    # --- rounds --------------------------------------------------------------------------------

    def add(self, member: ClassicMember, request: JoinGroup) -> None:
        """Park the JoinGroup of a member, and begin a rebalance if there is none."""
        if member.member_id not in self.members:
            self._joined_meanwhile = self._joined_meanwhile or self.starting
            self._expire_in(member, NEW_MEMBER_MS)
        self.members[member.member_id] = member
        member.update(request)
        member.joining = request
        if self.state is ClassicGroupState.JOINING:
            self.complete_if_all_are_here()
        else:
            self.rebalance()

    def replace(self, before: ClassicMember, member_id: str) -> ClassicMember:
        """Give a static member a new id; parked requests with the old id are fenced."""
        self._reject(before, errors.FencedInstanceIdError)
        self._removed[before.member_id] = self.members.pop(before.member_id)
        if self.leader == before.member_id:
            self.leader = member_id
        member = ClassicMember(
            member_id, before.instance_id, assignment=before.assignment, is_new=False
        )
        self.members[member_id] = member
        return member

    def rebalance(self) -> None:
        """Begin a rebalance: every member must join again."""
        for member in self.members.values():
            if self.state is ClassicGroupState.SYNCING:
                member.assignment = b""
            self.end_sync(member, errors.RebalanceInProgressError)
        self.unsynced.clear()
        delay_ms = self._context.settings.initial_rebalance_delay_ms
        was_empty = self.state is ClassicGroupState.EMPTY
        self.state = ClassicGroupState.JOINING
        self.rounds += 1
        self.starting = was_empty and delay_ms > 0
        if self.starting:
            self._delay(delay_ms, self._patience_ms)
        elif was_empty or self._all_are_here:
            self._complete()
        else:
            self._wait()

    @property
    def _patience_ms(self) -> int:
        """The timeout to join, and then to sync."""
        return max((m.rebalance_ms for m in self.members.values()), default=0)

    def _wait(self) -> None:
        patience_ms = max(self._patience_ms, 1)  # with 0, the timer would be due at once, for ever
        self._step.set_timer(self._step.now_ms + patience_ms, "join", number=self.rounds)

    def _delay(self, delay_ms: int, patience_ms: int) -> None:
        self._delays_left_ms = max(patience_ms - delay_ms, 0)
        self._step.set_timer(self._step.now_ms + delay_ms, "delay", number=self.rounds)

    def end_delay(self, rounds: int) -> None:
        """End the initial rebalance delay, or repeat it if a member has joined meanwhile.

        All delays together last at most for the rebalance timeout of the first member, or for one
        delay if that is longer.
        """
        if not self.starting or rounds != self.rounds:
            return
        if self._joined_meanwhile and self._delays_left_ms:
            self._joined_meanwhile = False
            left_ms = self._delays_left_ms
            delay_ms = self._context.settings.initial_rebalance_delay_ms
            self._delay(min(delay_ms, left_ms), left_ms)
        else:
            self._complete()

    def give_up_waiting(self, rounds: int) -> None:
        """Continue without the members that have not joined in time."""
        if self.state is ClassicGroupState.JOINING and rounds == self.rounds:
            self._complete()

    @property
    def _all_are_here(self) -> bool:
        """Whether all members have joined, including those that were given an id."""
        return not self.known_ids and all(m.joining for m in self.members.values())

    def complete_if_all_are_here(self) -> None:
        """Begin the next generation if all members have joined and no delay is running."""
        if self.state is ClassicGroupState.JOINING and not self.starting and self._all_are_here:
            self._complete()

    def _complete(self) -> None:
        """Begin the next generation with the members that have joined, and all static members."""
        late = [m for m in self.members.values() if m.joining is None]
        for member in late:
            if member.instance_id is None:
                self.drop(member.member_id)
        if not self.members:
            self._end_of_members()
            return
        here = [m for m in self.members.values() if m.joining is not None]
        if not here:
            self._wait()  # no member could be the leader
            return
        self.generation += 1
        self.state, self.starting = ClassicGroupState.SYNCING, False
        self.protocol = elect_protocol([m.protocols for m in self.members.values()])
        if self.leader not in {m.member_id for m in here}:
            self.leader = here[0].member_id
        self._await_syncs()
        for member in self.members.values():
            self.touch(member)
            request, member.joining, member.is_new = member.joining, None, False
            if request is None:
                member.left_out_of = member.left_out_of or self.generation
            else:
                self._step.respond(request, self.join_result(member))

    def _await_syncs(self) -> None:
        """All members of the new generation must send SyncGroup in time."""
        self.unsynced = set(self.members)
        until_ms = self._step.now_ms + self._patience_ms
        self._step.set_timer(until_ms, "unsynced", number=self.rounds)

    def end_sync(self, member: ClassicMember, error: Error) -> None:
        """Respond to the SyncGroup of a member, if there is one; its session begins again."""
        request, member.syncing = member.syncing, None
        if request is None:
            return
        self.touch(member)
        if error is None:
            self.hand_out(member, request)
        else:
            self._step.respond(request, SyncResult(error, self.protocol))

    def hand_out(self, member: ClassicMember, request: SyncGroup) -> None:
        """Respond to a SyncGroup with the assignment of the member."""
        member.last_assignment = member.assignment
        self._step.respond(request, SyncResult(None, self.protocol, member.assignment))

    def _end_of_members(self) -> None:
        self.state, self.starting = ClassicGroupState.EMPTY, False
        self.generation += 1
        self.protocol = self.leader = ""
        self.write()

    def join_result(self, member: ClassicMember) -> JoinResult:
        """Return the response to a JoinGroup in the present generation."""
        member.left_out_of = 0
        listed = [
            (m.member_id, m.instance_id, m.protocols[self.protocol]) for m in self.members.values()
        ]
        return JoinResult(
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader,
            members=listed if member.member_id == self.leader else [],
        )

    def subscribes(self, topic: str) -> bool:
        """Return whether a member may subscribe to a topic; True for unreadable subscriptions."""
        try:
            return any(
                topic in consumer_protocol.read_subscription(m.protocols[self.protocol]).topics
                for m in self.members.values()
            )
        except consumer_protocol.MALFORMED:
            return True

    # --- members -------------------------------------------------------------------------------

    def with_instance(self, instance_id: str | None) -> ClassicMember | None:
        """Return the static member with this instance id."""
        if instance_id is None:
            return None
        return next((m for m in self.members.values() if m.instance_id == instance_id), None)

    def handle_heartbeat(self, request: Heartbeat) -> None:
        """Handle a heartbeat; during a rebalance, the response requests a JoinGroup."""
        error = self.check(request.member_id, request.generation, request.instance_id)
        if error is None:
            self.touch(self.members[request.member_id])
            if self.state is ClassicGroupState.JOINING:
                error = errors.RebalanceInProgressError
        self._step.respond(request, error)

    def handle_leave(self, request: LeaveGroup) -> None:
        """Handle LeaveGroup of a member, or for a static member by its instance id."""
        member_id = request.member_id
        if not member_id:
            holder = self.with_instance(request.instance_id)
            member_id = holder.member_id if holder is not None else ""
        error: Error = None
        if member_id not in self.known_ids:
            error = self.check_id(member_id, request.instance_id)
        if error is None:
            self.drop(member_id)
            self.complete_if_all_are_here()
            if self.state in (ClassicGroupState.STABLE, ClassicGroupState.SYNCING):
                self.rebalance()
        self._step.respond(request, error)

    def check_id(self, member_id: str, instance_id: str | None) -> Error:
        """Return the error for an unknown member id or a fenced instance id."""
        holder = self.with_instance(instance_id)
        if holder is not None and holder.member_id != member_id:
            return errors.FencedInstanceIdError
        unknown = member_id not in self.members or (holder is None and instance_id is not None)
        return errors.UnknownMemberIdError if unknown else None

    def check(self, member_id: str, generation: int, instance_id: str | None = None) -> Error:
        """Return the error for a request with this member id and generation, None if valid."""
        error = self.check_id(member_id, instance_id)
        stale = generation != self.generation
        return errors.IllegalGenerationError if error is None and stale else error

    def touch(self, member: ClassicMember) -> None:
        """Restart the session of a member."""
        self._expire_in(member, member.session_ms)

    def _expire_in(self, member: ClassicMember, duration_ms: int) -> None:
        member.expires_ms = self._step.now_ms + duration_ms
        self._step.set_timer(member.expires_ms, "session", member.member_id)

    def expire(self, member_id: str) -> None:
        """Remove a member whose session has ended, or an unused id.

        A member with a parked request keeps its session. A new member does so for a limited time
        only, because it may be gone.
        """
        member = self.members.get(member_id)
        if member is None:
            if member_id in self.known_ids:
                self.remove(member_id)
            return
        waits = not member.is_new and (member.joining or member.syncing)
        if not waits and self._step.now_ms >= member.expires_ms:
            self._step.note(f"{member_id} expired")
            self.remove(member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member that has not left by itself; the remaining members rebalance."""
        known = member_id in self.known_ids
        self.drop(member_id)
        if self.state is ClassicGroupState.JOINING:
            if self._all_are_here:
                self._complete()
        elif not known:
            self.rebalance()

    def drop(self, member_id: str) -> None:
        """Forget a member or an unused id; parked requests get an error."""
        self.known_ids.discard(member_id)
        self.unsynced.discard(member_id)
        gone = self.members.pop(member_id, None)
        if gone is not None:
            self._removed[member_id] = gone
            self._reject(gone, errors.UnknownMemberIdError)
