"""The invariants: what must hold after every step, under all faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.types import TopicPartition
from tests.scenarios.numbered_records import value_of
from tests.scenarios.recreated_topics import OldRecords
from tests.scenarios.violation import Violation

if TYPE_CHECKING:
    from tests.scenarios.listener import CheckingListener
    from tests.scenarios.members import Members

__all__ = ["LATE_MS", "Invariants"]

#: The application thread may notice late: a few times up to two extra steps of the driver.
LATE_MS = 25
#: The period of a budget; its unused rest expires.
WINDOW_MS = 5_000
#: Iterations of one network loop per simulated second, and a burst on top: far more than any work
#: needs, far fewer than in a loop that spins.
ITERATIONS_PER_SECOND = 120
ITERATIONS_AT_ONCE = 600
#: Requests of one kind per member and second, and a burst on top.
REQUESTS_PER_SECOND = 20
REQUESTS_AT_ONCE = 100
#: Events in a queue between the two threads.
QUEUED = 100
#: Unsent requests of one member, its requests in flight, and its commits, including those that wait
#: for a coordinator. Most runs have a handful of each.
WAITING = 30

#: Requests that are rare unless something spins.
RARE = (
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupInstallAssignmentRequest",
    "ConsumerGroupPrepareAssignmentRequest",
    "FindCoordinatorRequest",
    "HeartbeatRequest",
    "JoinGroupRequest",
    "MetadataRequest",
    "SyncGroupRequest",
)


class Invariants:
    """Checks the invariants of one run.

    Attributes:
        read_to: The offset behind all records handed out, by partition.
        violations: Violations found on the network thread, where an error would not reach the run.
    """

    def __init__(self, members: Members) -> None:
        self._members = members
        self._cluster = members.simulation.cluster
        self._clock = members.simulation.clock
        self.history = members.history
        self.read_to = dict.fromkeys(members.partitions, 0)
        self.violations: list[str] = []
        self._next: dict[tuple[int, TopicPartition], int] = {}
        #: The committed offset and the number of commits when a member was assigned a partition;
        #: until the member hands out the first record.
        self._starts: dict[tuple[int, TopicPartition], tuple[int, int]] = {}
        self._commits_seen = 0
        #: How far each member has read; and the numbers of members by their member ids.
        self._reached: dict[tuple[int, TopicPartition], int] = {}
        self._numbers: dict[str, int] = {}
        self._highest: dict[TopicPartition, int] = {}
        self._member_ms = 0
        #: When the count of requests began, and how many there were before, by name.
        self._counted_ms = self._checked_ms = self._clock.now_ms()
        self._counted = Counter[str]()
        self._iterations: dict[int, tuple[int, int]] = {}
        self._seen_iterations: dict[int, int] = {}
        self._epochs = 0, 0
        self._targets: dict[str, frozenset[TopicPartition]] = {}
        self._incarnation = 0
        self.old_records = OldRecords(members.history)

    # --- records -------------------------------------------------------------------------------

    def handed_out(
        self, owner: CheckingListener, tp: TopicPartition, records: Sequence[Any]
    ) -> None:
        """Check that records are intact, in order, without gaps, and of owned partitions.

        Aborted records are not due. Records dropped by retention may have been read before or not.
        """
        if tp not in owner.owned:
            raise Violation(f"records of {tp}, {owner.owned} owned")
        if tp in owner.being_revoked:
            raise Violation(f"records of {tp} after its revocation began")
        self._members.steering.check_not_paused(owner, tp)
        self.history.polled(owner.number, tp, records)
        expected = self._next.get((owner.number, tp))
        for record in records:
            if self.old_records.is_old(owner.number, tp, record):
                continue
            if record.value != value_of(tp, record.offset, self.history.incarnation_of(tp.topic)):
                raise Violation(f"{tp}: {record.value!r} at offset {record.offset}")
            self._check_offset(owner, tp, record.offset, expected)
            expected = record.offset + 1
            self.read_to[tp] = max(self.read_to[tp], expected)
        if expected is not None:
            self._next[owner.number, tp] = expected
            reached = self._reached.get((owner.number, tp), 0)
            self._reached[owner.number, tp] = max(reached, expected)

    def _check_offset(
        self, owner: CheckingListener, tp: TopicPartition, offset: int, expected: int | None
    ) -> None:
        if self.history.is_undecided(tp, offset):
            raise Violation(f"{tp}: {offset} belongs to an open transaction")
        if expected is None:
            self._check_start(owner, tp, offset)
            return
        due = self.history.first_due(tp, expected)
        if offset != due and not due < offset <= self.history.last_due(tp, expected):
            raise Violation(f"{tp}: {offset} where {due} was due")

    def assigned(self, owner: CheckingListener, partitions: frozenset[TopicPartition]) -> None:
        """Note that the partitions are to be read from their committed offsets.

        A failed call is repeated. Its member may use the offset committed at the first call.
        """
        self._members.steering.forget(owner, partitions)
        for tp in partitions:
            self._next.pop((owner.number, tp), None)
            self.old_records.assigned(owner.number, tp)
            committed = self._cluster.committed(self._members.group_id, tp) or 0
            nothing = 0, len(self._cluster.commit_log)
            before, since = self._starts.get((owner.number, tp), nothing)
            self._starts[owner.number, tp] = max(before, committed), since

    def revoked(self, owner: CheckingListener, partitions: frozenset[TopicPartition]) -> None:
        """Forget partitions of which nothing was handed out yet."""
        self._members.steering.forget(owner, partitions)
        for tp in partitions:
            self._starts.pop((owner.number, tp), None)

    def _check_start(self, owner: CheckingListener, tp: TopicPartition, offset: int) -> None:
        """Check that a new owner starts at a commit in force since its assignment, or before.

        The commit may have been lost since. The owner's own commits do not count: they show only
        where it started. After a seek, the owner starts there instead (`sought`).
        """
        committed, since = self._starts.pop((owner.number, tp))
        late = self._cluster.commit_log[since:]
        own_id = self._members.id_of(owner) if late else ""
        # A commit made before a revocation, or by a producer, may be applied after the partition
        # was assigned to the member again.
        earlier = self._reached.get((owner.number, tp), 0)
        others = [
            commit[0]
            for of, commit, member_id in late
            if of == tp and (member_id != own_id or commit[0] <= earlier)
        ]
        due = self.history.last_due(tp, max(committed, *others, 0))
        if offset > due:
            raise Violation(f"{tp}: starts at {offset}, {due} was due")

    def recreated(self, topic: str) -> None:
        """Note that a topic was recreated: nothing is read or committed.

        The owner of a partition continues at the first record, or at a new committed offset.
        """
        self._members.steering.forget_all()
        for tp in [tp for tp in self.read_to if tp.topic == topic]:
            self.read_to[tp] = self._highest[tp] = 0
            self._reached = {key: to for key, to in self._reached.items() if key[1] != tp}
            for owner in self._members.listeners.values():
                key = owner.number, tp
                self.old_records.deleted(key, self._next.pop(key, None))
                if tp in owner.owned or key in self._starts:
                    self._starts[key] = 0, len(self._cluster.commit_log)

    def sought(self, owner: CheckingListener, tp: TopicPartition, offset: int) -> None:
        """Note a seek: the owner continues there, and may skip records before it."""
        key = owner.number, tp
        self.history.sought(*key, offset)
        self._starts.pop(key, None)
        self._next[key] = offset
        # The member may commit this offset: it is its position.
        self._reached[key] = max(self._reached.get(key, 0), offset)
        self.read_to[tp] = max(self.read_to[tp], offset)

    def handed_out_to(self, owner: CheckingListener) -> dict[TopicPartition, int]:
        """Return the offsets behind the records handed out, for the partitions of a member."""
        keys = ((owner.number, tp) for tp in sorted(owner.owned - owner.being_revoked))
        return {key[1]: self._next[key] for key in keys if key in self._next}

    def all_read(self) -> bool:
        """Return whether every record has been handed out."""
        return all(self._is_at_end(tp, to) for tp, to in self.read_to.items())

    def all_caught_up(self) -> bool:
        """Return whether every member is at the end of its partitions, also after seeks."""
        return all(
            self._is_at_end(tp, to)
            for owner in self._members.listeners.values()
            for tp, to in self.handed_out_to(owner).items()
        )

    def _is_at_end(self, tp: TopicPartition, offset: int) -> bool:
        return self._cluster.at(tp).log.end_offset <= self.history.last_due(tp, offset)

    def check_committed(self, owner: CheckingListener, revoked: frozenset[TopicPartition]) -> None:
        """Check that auto-commit has committed before a revocation, if there are no faults."""
        members = self._members
        automatic = members.concluding and members.options["enable_auto_commit"]
        if not automatic or members.scenario.keeps_partitions:
            return
        if members.id_of(owner) not in self.member_ids():
            return  # the coordinator rejects its commits
        for tp in sorted(revoked):
            offset = self._next.get((owner.number, tp), 0)
            committed = self._cluster.committed(self._members.group_id, tp) or 0
            if committed < offset:
                raise Violation(f"{tp}: revoked at {offset}, committed {committed}")

    # --- owners --------------------------------------------------------------------------------

    def member_ids(self) -> set[str]:
        """Return the ids of the members that the coordinator knows, except those that have left.

        A static member that left may return. Until then it keeps its place, but neither partitions
        whose revocation had begun, nor those that a newer generation assigned to others.
        """
        name = self._members.group_id
        members = self._cluster.consumer_group(name).members
        here = {member_id for member_id, member in members.items() if not member.away}
        group = self._cluster.group(name)
        return here.union(
            member_id
            for member_id, classic in group.members.items()
            if not 0 < classic.left_out_of <= group.generation
        )

    def check_sole_owner(self, me: CheckingListener, assigned: frozenset[TopicPartition]) -> None:
        """Check that no other member owns the partitions."""
        self.assigned(me, assigned)
        known = self.member_ids()
        in_group = {
            listener.number: member.group_metadata().member_id in known
            for member, listener in self._members.listeners.items()
        }
        for other in self._members.listeners.values():
            # A removed member does not know it yet; its partitions are lost all the same.
            shared = other.owned & assigned
            both = in_group[other.number] and in_group[me.number]
            if other is me or not (shared and both):
                continue
            if not (
                self._may_be_reassigned(other, shared) or self._belongs_to_old_topic(me, shared)
            ):
                raise Violation(f"{shared} of member {other.number} assigned to member {me.number}")

    def _may_be_reassigned(self, owner: CheckingListener, shared: set[TopicPartition]) -> bool:
        """Return whether Kafka's coordinator would also assign these to another member.

        A KIP-848 coordinator identifies partitions by topic ids. A member with partitions of a
        deleted topic has none of the new one until the coordinator sends a new target.
        """
        return self._belongs_to_old_topic(owner, shared) or self._taken_unnoticed(owner, shared)

    def _belongs_to_old_topic(self, owner: CheckingListener, shared: set[TopicPartition]) -> bool:
        """Return whether a topic was recreated and the member has nothing of the new one."""
        modern = self._members.options.get("group_protocol") == "consumer"
        if not modern or not any(self.history.incarnation_of(tp.topic) for tp in shared):
            return False
        group = self._cluster.consumer_group(self._members.group_id)
        member = group.members.get(self._members.id_of(owner))
        return member is None or not shared & (member.assigned | member.revoking)

    def _taken_unnoticed(self, owner: CheckingListener, shared: set[TopicPartition]) -> bool:
        """Return whether a classic member of a KIP-848 group lost these but was not informed."""
        stale_ownership = self._cluster.consumer_group(self._members.group_id).stale_ownership
        return shared <= stale_ownership.get(self._members.id_of(owner), frozenset())

    def check_thread(self, what: str) -> None:
        """Check that user code runs on the application thread."""
        if self._members.simulation.on_network_thread:
            self.violations.append(f"{what} on a network thread")

    # --- after every step ----------------------------------------------------------------------

    def check(self) -> None:
        """Check commits, the target assignment, deadlines, queues and budgets."""
        if self.violations:
            raise Violation(self.violations[0])
        self._check_commits()
        self._check_target()
        for member, listener in self._members.listeners.items():
            number, iterations = listener.number, member._core.driver.iterations  # type: ignore[attr-defined]
            if number not in self._members.stalled:
                if self._seen_iterations.get(number) != iterations:
                    # Only an iteration of its network loop fills these queues.
                    self._seen_iterations[number] = iterations
                    self._check_queues(member)
                self._check_waiting(member)
            self._check_iterations(iterations, number)
        self._check_requests()

    def _check_commits(self) -> None:
        """Check epochs, and that commits exceed neither what was handed out nor earlier ones."""
        log = self._cluster.commit_log
        if self._commits_seen == len(log):
            return
        for member, listener in self._members.listeners.items():
            self._numbers[member.group_metadata().member_id] = listener.number
        for tp, (offset, epoch, _), member_id in log[self._commits_seen :]:
            if not member_id:
                raise Violation(f"{tp}: {offset} committed without membership")
            self.history.check_epoch(tp, offset, epoch)
            # Members that have closed or have a new id are compared with what all have read.
            number = self._numbers.get(member_id)
            read = self._reached.get((number, tp), 0) if number is not None else self.read_to[tp]
            if offset > self.history.last_due(tp, max(read, self._highest.get(tp, 0))):
                raise Violation(f"{tp}: {offset} committed, {read} read")
            self._highest[tp] = max(self._highest.get(tp, 0), offset)
            self.history.committed(member_id, tp, offset)
        self._commits_seen = len(log)

    def _check_target(self) -> None:
        """Check that a new target has a newer epoch, and each partition once."""
        group = self._cluster.consumer_group(self._members.group_id)
        if group.incarnation != self._incarnation:
            # The group has been a classic one since.
            self._epochs, self._targets, self._incarnation = (0, 0), {}, group.incarnation
        epochs, before = (group.epoch, group.assignment_epoch), self._epochs
        if epochs == before and group.target == self._targets:
            return
        if epochs[0] < max(epochs[1], before[0]) or epochs[1] < before[1]:
            raise Violation(f"epochs of group and target {epochs}, {before} before")
        targets = [tp for target in group.target.values() for tp in target]
        if len(targets) > len(set(targets)):
            raise Violation(f"a target assigns partitions twice: {group.target}")
        same = epochs[1] == before[1]
        changed = {m for m, tps in group.target.items() if self._targets.get(m, tps) != tps}
        if same and changed:
            raise Violation(f"a new target with the old epoch {epochs[1]} for {sorted(changed)}")
        self._epochs, self._targets = epochs, dict(group.target)

    def _check_waiting(self, member: KafkaConsumer) -> None:
        link = member._core.engine
        if len(link.queue) > QUEUED:
            raise Violation(f"events queued for the network thread: {len(link.queue)}")
        deadline_ms = link.loop._reaper.next_deadline_ms()
        if deadline_ms < self._clock.now_ms() - LATE_MS:
            raise Violation(f"a call is {self._clock.now_ms() - deadline_ms} ms past its deadline")

    def _check_queues(self, member: KafkaConsumer) -> None:
        core = member._core
        link, config = core.engine, core.config
        background, reaper = len(link.background), len(link.loop._reaper)
        if background > QUEUED or reaper > QUEUED:
            raise Violation(f"events queued: {background=}, {reaper=}")
        client, group = link.loop._client, link.loop._managers.group  # type: ignore[attr-defined]
        unsent, in_flight = client.queued, client.in_flight
        commits = group.commit.waiting if group is not None else 0
        if max(unsent, in_flight, commits) > WAITING:
            raise Violation(f"requests pile up: {unsent=}, {in_flight=}, {commits=}")
        if link.buffer.held_bytes > config.fetch_buffer_max_bytes + config.fetch_max_bytes:
            raise Violation(f"{link.buffer.held_bytes} bytes are buffered")

    def _check_iterations(self, iterations: int, number: int) -> None:
        """Check the budget of loop iterations."""
        now_ms = self._clock.now_ms()
        if number not in self._iterations:
            self._iterations[number] = now_ms, iterations
            return
        since_ms, before = self._iterations[number]
        allowed = ITERATIONS_AT_ONCE + ITERATIONS_PER_SECOND * (now_ms - since_ms) // 1_000
        if iterations - before > allowed:
            done, took_ms = iterations - before, now_ms - since_ms
            raise Violation(f"member {number}: {done} iterations in {took_ms} ms")
        if now_ms - since_ms > WINDOW_MS:
            self._iterations[number] = now_ms, iterations

    def _check_requests(self) -> None:
        """Check the budget of requests of each kind."""
        now_ms = self._clock.now_ms()
        self._member_ms += (now_ms - self._checked_ms) * len(self._members.listeners)
        self._checked_ms = now_ms
        since_ms = now_ms - self._counted_ms
        received = sum([broker.received for broker in self._cluster.brokers.values()])
        allowed = REQUESTS_AT_ONCE + REQUESTS_PER_SECOND * self._member_ms / 1_000
        if since_ms <= WINDOW_MS and received - self._counted.total() <= allowed:
            return
        counted = Counter[str]()
        for broker in self._cluster.brokers.values():
            counted.update(broker.requests)
        for name in RARE:
            count = counted[name] - self._counted[name]
            if count > allowed:
                raise Violation(f"{count} times {name} in {since_ms} ms")
        if since_ms > WINDOW_MS:
            self._counted, self._counted_ms, self._member_ms = counted, now_ms, 0
