"""What holds after every step of a story, whatever the network, the brokers and the members do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.testing.stories.lives import Lives
from tandem_kafka.testing.stories.numbered import value_of
from tandem_kafka.testing.stories.violation import Violation
from tandem_kafka.types import TopicPartition

if TYPE_CHECKING:
    from tandem_kafka.testing.stories.listener import Watched
    from tandem_kafka.testing.stories.members import Members

__all__ = ["LATE_MS", "Invariants"]

#: The application thread notices a little late: up to two extra steps of the driver, a few times.
LATE_MS = 25
#: What is left of a budget is not saved up for longer.
WINDOW_MS = 5_000
#: Turns of one network thread per second of simulated time, and so many more at any moment; far
#: more than any work takes, far less than a loop that spins.
TURNS_PER_SECOND = 120
TURNS_AT_ONCE = 600
#: Requests of one kind per member and second, and so many more at any moment.
REQUESTS_PER_SECOND = 20
REQUESTS_AT_ONCE = 100
#: Events in a queue between the two threads.
QUEUED = 100
#: Requests of one member that wait to be sent, or for their answers; and its commits, also those
#: that wait for a coordinator. Each is a handful in most stories.
WAITING = 30

#: Requests of which there are few unless something spins.
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
    """The books of one story.

    Attributes:
        read_to: Everything before this offset has been handed out, by partition.
        broken: What was found on the network thread, where nothing can be raised.
    """

    def __init__(self, members: Members) -> None:
        self._members = members
        self._cluster = members.simulation.cluster
        self._clock = members.simulation.clock
        self.books = members.books
        self.read_to = dict.fromkeys(members.partitions, 0)
        self.broken: list[str] = []
        self._next: dict[tuple[int, TopicPartition], int] = {}
        #: What was committed when somebody was told to own a partition, and how many commits there
        #: were by then; until it hands out the first record.
        self._begins: dict[tuple[int, TopicPartition], tuple[int, int]] = {}
        self._commits_seen = 0
        #: How far each has read, and what it was committed at; and the numbers of members by the
        #: ids that they had.
        self._reached: dict[tuple[int, TopicPartition], int] = {}
        self._numbers: dict[str, int] = {}
        self._highest: dict[TopicPartition, int] = {}
        self._member_ms = 0
        #: From when on requests are counted, and how many there had been by then, by name.
        self._counted_ms = self._checked_ms = self._clock.now_ms()
        self._counted = Counter[str]()
        self._turns: dict[int, tuple[int, int]] = {}
        self._seen_turns: dict[int, int] = {}
        self._epochs = 0, 0
        self._targets: dict[str, frozenset[TopicPartition]] = {}
        self._lives = 0
        self.lives = Lives(members.books)

    # --- records -------------------------------------------------------------------------------

    def handed_out(self, owner: Watched, tp: TopicPartition, records: Sequence[Any]) -> None:
        """Records are whole, in order, without a gap, and of partitions that are owned.

        What was aborted is no record; what retention drops may have been read before or not.
        """
        if tp not in owner.owned:
            raise Violation(f"records of {tp}, {owner.owned} owned")
        if tp in owner.leaving:
            raise Violation(f"records of {tp} after it began to be given back")
        self._members.steering.check_not_paused(owner, tp)
        expected = self._next.get((owner.number, tp))
        for record in records:
            if self.lives.is_of_an_old_topic(owner.number, tp, record):
                continue
            if record.value != value_of(tp, record.offset, self.books.life_of(tp.topic)):
                raise Violation(f"{tp}: {record.value!r} at offset {record.offset}")
            self._check_offset(owner, tp, record.offset, expected)
            expected = record.offset + 1
            self.read_to[tp] = max(self.read_to[tp], expected)
        if expected is not None:
            self._next[owner.number, tp] = expected
            reached = self._reached.get((owner.number, tp), 0)
            self._reached[owner.number, tp] = max(reached, expected)

    def _check_offset(
        self, owner: Watched, tp: TopicPartition, offset: int, expected: int | None
    ) -> None:
        if self.books.is_undecided(tp, offset):
            raise Violation(f"{tp}: {offset} is of a transaction that is not over")
        if expected is None:
            self._check_beginning(owner, tp, offset)
            return
        due = self.books.first_due(tp, expected)
        if offset != due and not due < offset <= self.books.last_due(tp, expected):
            raise Violation(f"{tp}: {offset} where {due} was due")

    def assigned(self, owner: Watched, partitions: frozenset[TopicPartition]) -> None:
        """Reading begins anew at what is committed.

        A call that failed is made again: its member may know what was committed at the first one.
        """
        self._members.steering.forget(owner, partitions)
        for tp in partitions:
            self._next.pop((owner.number, tp), None)
            self.lives.begin(owner.number, tp)
            committed = self._cluster.committed(self._members.group_id, tp) or 0
            nothing = 0, len(self._cluster.commit_log)
            before, since = self._begins.get((owner.number, tp), nothing)
            self._begins[owner.number, tp] = max(before, committed), since

    def given_back(self, owner: Watched, partitions: frozenset[TopicPartition]) -> None:
        """What was not begun with will not be."""
        self._members.steering.forget(owner, partitions)
        for tp in partitions:
            self._begins.pop((owner.number, tp), None)

    def _check_beginning(self, owner: Watched, tp: TopicPartition, offset: int) -> None:
        """Who takes over begins no later than at a commit that was in force since it was told.

        That it may have lost since then does not count, nor does what it committed itself: it
        knows no more than where it began. Who seeks begins there instead (`sought`).
        """
        committed, since = self._begins.pop((owner.number, tp))
        late = self._cluster.commit_log[since:]
        own_id = self._members.id_of(owner) if late else ""
        # A commit from before it gave the partition back, or of a producer, may count later than it
        # was told that it has it again.
        earlier = self._reached.get((owner.number, tp), 0)
        others = [
            commit[0]
            for of, commit, member_id in late
            if of == tp and (member_id != own_id or commit[0] <= earlier)
        ]
        due = self.books.last_due(tp, max(committed, *others, 0))
        if offset > due:
            raise Violation(f"{tp}: begins at {offset}, {due} was due")

    def recreated(self, topic: str) -> None:
        """Another topic has the name: nothing is read of it, and nothing committed.

        The owner of a partition continues at its first record, or at the committed offset.
        """
        self._members.steering.forget_all()
        for tp in [tp for tp in self.read_to if tp.topic == topic]:
            self.read_to[tp] = self._highest[tp] = 0
            self._reached = {key: to for key, to in self._reached.items() if key[1] != tp}
            for owner in self._members.listeners.values():
                key = owner.number, tp
                self.lives.end(key, self._next.pop(key, None))
                if tp in owner.owned or key in self._begins:
                    self._begins[key] = 0, len(self._cluster.commit_log)

    def sought(self, owner: Watched, tp: TopicPartition, offset: int) -> None:
        """Reading goes on at an offset of the application's; what is before it may be left out."""
        key = owner.number, tp
        self._begins.pop(key, None)
        self._next[key] = offset
        # It may be committed: it is the member's position.
        self._reached[key] = max(self._reached.get(key, 0), offset)
        self.read_to[tp] = max(self.read_to[tp], offset)

    def handed_out_to(self, owner: Watched) -> dict[TopicPartition, int]:
        """Return the offsets behind what was handed out of the partitions that a member has."""
        keys = ((owner.number, tp) for tp in sorted(owner.owned - owner.leaving))
        return {key[1]: self._next[key] for key in keys if key in self._next}

    def all_read(self) -> bool:
        """Tell whether every record that was produced has been handed out."""
        return all(self._is_at_end(tp, to) for tp, to in self.read_to.items())

    def all_caught_up(self) -> bool:
        """Tell whether nobody has anything left to read, also of those who have gone back."""
        return all(
            self._is_at_end(tp, to)
            for owner in self._members.listeners.values()
            for tp, to in self.handed_out_to(owner).items()
        )

    def _is_at_end(self, tp: TopicPartition, offset: int) -> bool:
        return self._cluster.at(tp).log.end_offset <= self.books.last_due(tp, offset)

    def check_committed(self, owner: Watched, told: frozenset[TopicPartition]) -> None:
        """Without faults, who commits by itself has done so before it gives partitions back."""
        members = self._members
        automatic = members.concluding and members.options["enable_auto_commit"]
        if not automatic or members.scenario.keeps_partitions:
            return
        if members.id_of(owner) not in self.known():
            return  # nobody takes its commits
        for tp in sorted(told):
            offset = self._next.get((owner.number, tp), 0)
            committed = self._cluster.committed(self._members.group_id, tp) or 0
            if committed < offset:
                raise Violation(f"{tp}: given back at {offset}, committed {committed}")

    # --- owners --------------------------------------------------------------------------------

    def known(self) -> set[str]:
        """Return the ids of those that the coordinator takes for members, and that have not left.

        Who has an instance id and may come back keeps its place, but not what it was giving back,
        nor what another has by a generation that began without it.
        """
        name = self._members.group_id
        members = self._cluster.consumer_group(name).members
        here = {member_id for member_id, member in members.items() if not member.away}
        group = self._cluster.group(name)
        return here.union(
            member_id
            for member_id, classic in group.members.items()
            if classic.left_out_of != group.generation
        )

    def check_nobody_else_owns(self, me: Watched, told: frozenset[TopicPartition]) -> None:
        """A partition has one owner among those that are members."""
        self.assigned(me, told)
        known = self.known()
        in_group = {
            listener.number: member.group_metadata().member_id in known
            for member, listener in self._members.listeners.items()
        }
        for other in self._members.listeners.values():
            # Who has been dropped will hear of it; what it owns or takes over is lost by then.
            shared = other.owned & told
            both = in_group[other.number] and in_group[me.number]
            if other is me or not (shared and both):
                continue
            if not (self._may_be_given_on(other, shared) or self._is_of_the_old(me, shared)):
                raise Violation(f"{shared} of member {other.number} given to member {me.number}")

    def _may_be_given_on(self, owner: Watched, shared: set[TopicPartition]) -> bool:
        """Tell whether a coordinator that knows no better gives these to another.

        A KIP-848 coordinator identifies partitions by topic ids. A member with partitions of a
        deleted topic has none of the new one until the coordinator sends a new target.
        """
        return self._is_of_the_old(owner, shared) or self._taken_unheard(owner, shared)

    def _is_of_the_old(self, owner: Watched, shared: set[TopicPartition]) -> bool:
        """Tell whether a topic was made anew of which the coordinator gave a member nothing."""
        modern = self._members.options.get("group_protocol") == "consumer"
        if not modern or not any(self.books.life_of(tp.topic) for tp in shared):
            return False
        group = self._cluster.consumer_group(self._members.group_id)
        member = group.members.get(self._members.id_of(owner))
        return member is None or not shared & (member.assigned | member.revoking)

    def _taken_unheard(self, owner: Watched, shared: set[TopicPartition]) -> bool:
        """Tell whether a classic member in a KIP-848 group has not heard that it lost these."""
        unheard = self._cluster.consumer_group(self._members.group_id).unheard
        return shared <= unheard.get(self._members.id_of(owner), frozenset())

    def check_thread(self, what: str) -> None:
        """What is the user's runs on the application thread."""
        if self._members.simulation.on_network_thread:
            self.broken.append(f"{what} on a network thread")

    # --- after every step ----------------------------------------------------------------------

    def check(self) -> None:
        """Check commits, the target, deadlines, queues and pace."""
        if self.broken:
            raise Violation(self.broken[0])
        self._check_commits()
        self._check_target()
        for member, listener in self._members.listeners.items():
            number, turns = listener.number, member._core.driver.turns  # type: ignore[attr-defined]  # noqa: SLF001
            if number not in self._members.stalled:
                if self._seen_turns.get(number) != turns:
                    # Nothing else fills these but a turn of its network thread.
                    self._seen_turns[number] = turns
                    self._check_queues(member)
                self._check_waiting(member)
            self._check_turns(turns, number)
        self._check_requests()

    def _check_commits(self) -> None:
        """None is ahead of what its member was handed out, or of a commit that it went on from."""
        log = self._cluster.commit_log
        if self._commits_seen == len(log):
            return
        for member, listener in self._members.listeners.items():
            self._numbers[member.group_metadata().member_id] = listener.number
        for tp, (offset, _, _), member_id in log[self._commits_seen :]:
            if not member_id:
                raise Violation(f"{tp}: {offset} committed by none of the members")
            # Who has closed, or has another id by now, is held against what all have read.
            number = self._numbers.get(member_id)
            read = self._reached.get((number, tp), 0) if number is not None else self.read_to[tp]
            if offset > self.books.last_due(tp, max(read, self._highest.get(tp, 0))):
                raise Violation(f"{tp}: {offset} committed, {read} read")
            self._highest[tp] = max(self._highest.get(tp, 0), offset)
        self._commits_seen = len(log)

    def _check_target(self) -> None:
        """A target is of a newer epoch than the one before, and has each partition once."""
        group = self._cluster.consumer_group(self._members.group_id)
        if group.lives != self._lives:
            # It was a classic group in between.
            self._epochs, self._targets, self._lives = (0, 0), {}, group.lives
        epochs, before = (group.epoch, group.assignment_epoch), self._epochs
        if epochs == before and group.target == self._targets:
            return
        if epochs[0] < max(epochs[1], before[0]) or epochs[1] < before[1]:
            raise Violation(f"epochs of group and target {epochs}, {before} before")
        targets = [tp for target in group.target.values() for tp in target]
        if len(targets) > len(set(targets)):
            raise Violation(f"a target with partitions twice: {group.target}")
        same = epochs[1] == before[1]
        changed = {m for m, tps in group.target.items() if self._targets.get(m, tps) != tps}
        if same and changed:
            raise Violation(f"another target of the same epoch {epochs[1]} for {sorted(changed)}")
        self._epochs, self._targets = epochs, dict(group.target)

    def _check_waiting(self, member: KafkaConsumer) -> None:
        link = member._core.engine  # noqa: SLF001
        if len(link.queue) > QUEUED:
            raise Violation(f"events queued for the network thread: {len(link.queue)}")
        deadline_ms = link.loop._reaper.next_deadline_ms()  # noqa: SLF001
        if deadline_ms < self._clock.now_ms() - LATE_MS:
            raise Violation(f"a call waits {self._clock.now_ms() - deadline_ms} ms too long")

    def _check_queues(self, member: KafkaConsumer) -> None:
        core = member._core  # noqa: SLF001
        link, config = core.engine, core.config
        background, reaper = len(link.background), len(link.loop._reaper)  # noqa: SLF001
        if background > QUEUED or reaper > QUEUED:
            raise Violation(f"events queued: {background=}, {reaper=}")
        client, group = link.loop._client, link.loop._managers.group  # noqa: SLF001
        unsent, in_flight = client.queued, client.in_flight
        commits = group.commit.waiting if group is not None else 0
        if max(unsent, in_flight, commits) > WAITING:
            raise Violation(f"requests pile up: {unsent=}, {in_flight=}, {commits=}")
        if link.buffer.held_bytes > config.fetch_buffer_max_bytes + config.fetch_max_bytes:
            raise Violation(f"{link.buffer.held_bytes} bytes are buffered")

    def _check_turns(self, turns: int, number: int) -> None:
        """Budget: so many turns a second, and some to begin with; what is left is not saved up."""
        now_ms = self._clock.now_ms()
        if number not in self._turns:
            self._turns[number] = now_ms, turns
            return
        since_ms, before = self._turns[number]
        allowed = TURNS_AT_ONCE + TURNS_PER_SECOND * (now_ms - since_ms) // 1_000
        if turns - before > allowed:
            raise Violation(f"member {number}: {turns - before} turns in {now_ms - since_ms} ms")
        if now_ms - since_ms > WINDOW_MS:
            self._turns[number] = now_ms, turns

    def _check_requests(self) -> None:
        """Budget of each kind, as for turns: what is left after a while is not saved up."""
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
