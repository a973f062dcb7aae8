"""What became of each record in a share group, as its members and the brokers know it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.clock import NEVER_MS
from tandem_kafka_testing.share.in_flight import Delivery, InFlightBatch, RecordState
from tandem_kafka_testing.share.persisted import Change, PersistedState
from tandem_kafka_testing.share.sessions import ShareSession
from tandem_kafka_testing.simulation import Simulation
from tests.scenarios.numbered_records import value_of
from tests.scenarios.violation import Violation

if TYPE_CHECKING:
    from tests.scenarios.share_members import ShareMember

__all__ = ["Place", "ShareLedger"]

#: So many deliveries of one record are not lost by faults alone.
_MANY = 5
#: What a member does not want any more, brokers soon know.
_RETURNED_MS = 3_000
#: A partition and an offset.
Place = tuple[TopicPartition, int]


class _Watched(PersistedState):
    """The durable state of one partition, which tells the ledger of each change.

    Attributes:
        loads: How often a leader has begun with it.
        loaded_ms: When the last one did.
    """

    def __init__(self, tp: TopicPartition, ledger: ShareLedger) -> None:
        super().__init__()
        self._tp = tp
        self._ledger = ledger
        self.loads = self.loaded_ms = 0

    def write(self, start_offset: int, changes: Iterable[Change]) -> None:
        """Write the changes, and tell the ledger."""
        changes = list(changes)
        self._ledger.written(self._tp, changes)
        super().write(start_offset, changes)

    def batches(self, start_offset: int) -> list[InFlightBatch]:
        """Return what a new leader begins with."""
        self.loads += 1
        self.loaded_ms = self._ledger.now_ms()
        return super().batches(start_offset)


class _Holder(NamedTuple):
    """Who has a record: the member, the record, its session, and the leader's number."""

    member: ShareMember
    record: Any
    session: ShareSession
    loads: int


class ShareLedger:
    """The records of a share group.

    Args:
        simulation: The simulation.
        group_id: The group.
        partitions: The partitions of its topic.
        calm: Whether nothing fails, so that no lock is lost that is renewed.

    Attributes:
        accepted: Records that a member has accepted, perhaps without success.
        rejected: Records that a member has rejected, perhaps without success.
        confirmed: Accepted records of which a commit() said that they are stored.
        final: The last state of each record that is done.
        handed: How often each record was handed out.
        got: How many records each member got, by its number.
        handed_ms: When each was handed out first.
        deliveries: How often brokers have delivered the records that are done.
        violations: Violations found while a broker worked, where no error reaches the run.
    """

    def __init__(
        self,
        simulation: Simulation,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        calm: bool = False,
    ) -> None:
        self._simulation = simulation
        self._cluster = simulation.cluster
        self._group_id = group_id
        self.accepted: set[Place] = set()
        self.rejected: set[Place] = set()
        self.confirmed: set[Place] = set()
        self.final: dict[Place, RecordState] = {}
        self.handed: Counter[Place] = Counter()
        self.got: Counter[int] = Counter()
        self.handed_ms: dict[Place, int] = {}
        self.deliveries = 0
        self._calm = calm
        #: Until when members give back what their applications have not come for.
        self._returning_until_ms = -1
        self._returned: Counter[Place] = Counter()
        #: Whose record it is for as long as nothing fails: its member, and until when.
        self._kept: dict[Place, tuple[ShareMember, int]] = {}
        self.violations: list[str] = []
        self._holders: dict[Place, _Holder] = {}
        #: The delivery counts that a member has got of a record.
        self._counts: dict[tuple[ShareMember, Place], set[int]] = {}
        self._watched: dict[TopicPartition, _Watched] = {}
        for tp in partitions:
            self.watch(tp)

    def watch(self, tp: TopicPartition) -> None:
        """Note what becomes of the records of a partition, before a member has it."""
        topic_id = self._cluster.topics[tp.topic].topic_id
        watched = self._watched[tp] = _Watched(tp, self)
        self._cluster.share_states[self._group_id, topic_id, tp.partition] = watched

    def now_ms(self) -> int:
        """Return the time."""
        return self._simulation.clock.now_ms()

    @property
    def limit(self) -> int:
        """How often a record is delivered."""
        return self._cluster.coordination.of(self._group_id).settings.share_delivery_count_limit

    # --- the brokers -----------------------------------------------------------------------------

    def written(self, tp: TopicPartition, changes: Iterable[Change]) -> None:
        """Check what a leader writes: a record is done once, and for a reason."""
        for span, state, count in changes:
            for offset in range(span.first, span.last + 1):
                self._written((tp, offset), state, count)

    def _written(self, place: Place, state: RecordState, count: int) -> None:
        done = self.final.get(place)
        if done is not None:
            self.violations.append(f"{place} is {state} after {done}")
        if self.now_ms() <= self._returning_until_ms:
            self._returned[place] += 1
        if not state.terminal:
            return
        self.final[place] = state
        self.deliveries += count
        accepted = state is RecordState.ACKNOWLEDGED
        if accepted and place not in self.accepted:
            self.violations.append(f"{place} is acknowledged, and nobody has accepted it")
        if not accepted and place not in self.rejected and count < self.limit:
            self.violations.append(f"{place} is archived after {count} deliveries")
        if not accepted and place not in self.rejected and not self.handed[place]:
            self._unseen(place, count)

    def _unseen(self, place: Place, count: int) -> None:
        # Faults may lose a few deliveries, but not so many of the same record. Without faults, one
        # is lost behind a slow record.
        excused = self._returned[place] >= count - 1 if self._calm else self.limit < _MANY
        if not excused:
            self.violations.append(
                f"{place} is archived unseen: {count} deliveries, {self._returned[place]} of them "
                f"to members that ended, and no application has got it"
            )

    def all_done(self) -> bool:
        """Return whether each record is accepted, rejected, or was delivered often enough."""
        return len(self.final) == self.records

    @property
    def records(self) -> int:
        """How many there are."""
        return sum(self._cluster.at(tp).log.end_offset for tp in self._watched)

    def account(self) -> dict[str, int]:
        """Return what became of the records."""
        states = Counter(self.final.values())
        return {
            "records": self.records,
            "deliveries": self.deliveries,
            "handed out": self.handed.total(),
            "accepted": states[RecordState.ACKNOWLEDGED],
            "archived": states[RecordState.ARCHIVED],
            "archived unseen": sum(
                1
                for place, state in self.final.items()
                if state is RecordState.ARCHIVED and not self.handed[place]
            ),
            "confirmed": len(self.confirmed),
        }

    def undone(self) -> list[Place]:
        """Return the records that are not done."""
        return [
            (tp, offset)
            for tp in self._watched
            for offset in range(self._cluster.at(tp).log.end_offset)
            if (tp, offset) not in self.final
        ]

    # --- the members -----------------------------------------------------------------------------

    def handed_out(self, member: ShareMember, record: Any) -> None:
        """Check a record that a member gets."""
        tp = TopicPartition(record.topic, record.partition)
        place = tp, record.offset
        watched, now_ms = self._watched[tp], self.now_ms()
        if record.value != value_of(tp, record.offset):
            raise Violation(f"{place}: {record.value!r}")
        self.handed[place] += 1
        self.got[member.number] += 1
        self.handed_ms.setdefault(place, now_ms)
        self._check_kept(member, place)
        counts = self._counts.setdefault((member, place), set())
        if record.delivery_count in counts:
            raise Violation(f"member {member.number} has got {place} with this count before")
        counts.add(record.delivery_count)
        # A leader that moves or restarts forgets deliveries that it has not written.
        if max(self.handed[place], record.delivery_count) > self.limit + watched.loads - 1:
            raise Violation(
                f"{place} delivered {self.handed[place]} times, by {watched.loads} leaders, "
                f"with the delivery count {record.delivery_count}"
            )
        run = record._origin
        if now_ms >= run.lock_times(record.offset)[0]:
            raise Violation(f"{place} is handed out after its lock")
        session = self._session(member, run.partition.node_id)
        if session is None or run.partition.lost:
            return  # the broker has ended the locks, and the member does not know it yet
        if watched.loaded_ms >= run.partition.requested_ms:
            return  # so has another leader
        if place in self.confirmed:
            raise Violation(f"{place} was confirmed, and is delivered to member {member.number}")
        self._check_holder(place)
        self._check_lock(member, place, run.partition.node_id)
        self._holders[place] = _Holder(member, record, session, watched.loads)

    def released_all(self, member: ShareMember) -> None:
        """Note that a member releases all its records, also those it never acknowledged."""
        self._holders = {
            place: each for place, each in self._holders.items() if each.member is not member
        }
        self.let_go(member)

    def check_lost(self, member: ShareMember, place: Place) -> None:
        """Check that a member may have lost the lock of a record that it acknowledges."""
        holder, until_ms = self._kept.get(place, (None, 0))
        if holder is member and self.now_ms() < until_ms:
            raise Violation(f"member {member.number} has lost the lock of {place} without a fault")

    def let_go(self, member: ShareMember) -> None:
        """Note that a member gives up its records without an acknowledgement."""
        self._returning_until_ms = self.now_ms() + _RETURNED_MS
        for place, (holder, _) in tuple(self._kept.items()):
            if holder is member and place not in self.accepted and place not in self.rejected:
                del self._kept[place]

    def _check_kept(self, member: ShareMember, place: Place) -> None:
        """Check, if nothing fails, that nobody works on the record, or has accepted it in time."""
        now_ms = self.now_ms()
        before, until_ms = self._kept.pop(place, (member, 0))
        if now_ms < until_ms:
            raise Violation(
                f"{place} is handed out to member {member.number} again, and member "
                f"{before.number} has renewed its lock or acknowledged it"
            )
        if self._calm and member.renews_ms:
            self._kept[place] = member, now_ms + member.renews_ms

    def _check_holder(self, place: Place) -> None:
        """Check that nobody else has the record in work, with a lock that the broker knows."""
        before = self._holders.pop(place, None)
        if before is None or not before.member.alive:
            return
        run = before.record._origin
        known = self._session(before.member, run.partition.node_id) is before.session
        same = self._watched[place[0]].loads == before.loads
        sure_ms = run.lock_times(place[1])[0]
        if known and same and not run.partition.lost and self.now_ms() < sure_ms:
            raise Violation(
                f"{place} is locked for member {before.member.number} for "
                f"{sure_ms - self.now_ms()} ms more, and handed out"
            )

    def _check_lock(self, member: ShareMember, place: Place, node_id: int) -> None:
        """Check that the leader has locked the record for the member."""
        delivery = self._delivery(place, node_id)
        if delivery is None or (delivery.acquired and delivery.member_id == member.member_id):
            return
        raise Violation(
            f"{place} is handed out to member {member.number} ({member.member_id}), and is "
            f"{delivery.state} of {delivery.member_id!r}"
        )

    def _delivery(self, place: Place, node_id: int) -> Delivery | None:
        tp, offset = place
        topic_id = self._cluster.topics[tp.topic].topic_id
        key = self._group_id, topic_id, tp.partition
        led = self._cluster.brokers[node_id].share_partitions.get(key)
        if led is None or self._cluster.at(tp).leader != node_id:
            return None
        for batch in led.share._batches:
            if batch.first <= offset <= batch.last:
                return batch.whole if batch.each is None else batch.each[offset]
        return None

    def _session(self, member: ShareMember, node_id: int) -> ShareSession | None:
        sessions = self._cluster.brokers[node_id].share_sessions._sessions
        return sessions.get((self._group_id, member.member_id))

    def acknowledged(self, member: ShareMember, place: Place, how: str) -> None:
        """Note what a member is about to do with a record."""
        if how == "accept":
            self.accepted.add(place)
        elif how == "reject":
            self.rejected.add(place)
        kept = self._kept.get(place)
        if kept is not None and kept[0] is member:
            if how == "release":
                del self._kept[place]
            elif how != "renew" and self.now_ms() < kept[1]:
                self._kept[place] = member, NEVER_MS
        holder = self._holders.get(place)
        if how != "renew" and holder is not None and holder.member is member:
            del self._holders[place]

    def confirm(self, place: Place) -> None:
        """Check that an accepted record of which commit() says so is done.

        A broker ignores acknowledgements before the first record that is not done. A record whose
        lock had ended may have been archived there.
        """
        if place not in self.final:
            raise Violation(f"{place} is not done, and commit() says that it is accepted")
        self.confirmed.add(place)

    def check(self) -> None:
        """Raise what was found while a broker worked."""
        if self.violations:
            raise Violation(self.violations[0])
