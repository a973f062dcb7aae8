"""Which slot of which broker each partition is fetched through.

A broker has two slots for partitions that are busy, each with a connection and a fetch session of
its own over a share of them: while the records of one answer are taken in, the broker already
prepares the other. Where there are many partitions, those that bring nothing are sorted out into
a third, whose fetch stays parked at the broker: a broker looks at every partition of a session
for each fetch, so that a few busy ones among thousands would wait for that each time.

A fetch that finds nothing is parked for up to `fetch_max_wait_ms`, and a broker takes the next
request of that connection only then. A partition that may be fetched again meanwhile, because its
buffer has drained or it was resumed, does not wait for that: it takes the bypass, a fourth
connection whose fetches are never parked for long, until it has caught up and one of the two busy
slots is free: the one with fewer partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.request import Purpose
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.fetching.session import FetchSession
from tandem_kafka.request_managers.fetching.slot import FetchSlot
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.shared.partition import AssignedPartition
from tandem_kafka.types import TopicPartition

__all__ = ["FetchPlacement"]

#: A partition's `slot` is an index of this.
_PURPOSES: Final = (
    Purpose.FETCH_0,
    Purpose.FETCH_1,
    Purpose.FETCH_QUIET,
    Purpose.FETCH_BYPASS,
)
_BUSY: Final = _PURPOSES[:2]
_QUIET: Final = 2
_BYPASS: Final = 3
#: Below so many partitions in a slot none is sorted out.
_MANY: Final = 50
#: How long a partition brings nothing before it counts as quiet.
_QUIET_AFTER_MS: Final = 1_000


class FetchPlacement:
    """Keeps every assigned partition whose broker is known in one slot.

    Attributes:
        slots: By broker and purpose.
        lease_ends_ms: When a partition is to be read from its leader again, for one at least.
    """

    def __init__(
        self,
        context: ManagerContext,
        metadata: MetadataRefresher,
        follow: Callable[[Mapping[TopicPartition, AssignedPartition]], None],
    ) -> None:
        self._context = context
        self._metadata = metadata
        #: Told of the assignment when it may have changed.
        self._follow = follow
        self.slots: dict[tuple[int, Purpose], FetchSlot] = {}
        self._slot_of: dict[AssignedPartition, FetchSlot] = {}
        self._seen_versions = (-1, -1)
        self.lease_ends_ms = FOREVER_MS

    def has(self, state: AssignedPartition) -> bool:
        """Tell whether a partition is ours, and in a slot."""
        return state in self._slot_of

    def update(self, now_ms: int) -> None:
        """Follow assignment, leaders and replicas; note what else has changed."""
        subscription, snapshot = self._context.subscription, self._context.metadata.snapshot
        versions = (subscription.version, snapshot.version)
        if versions != self._seen_versions or now_ms >= self.lease_ends_ms:
            self._seen_versions = versions
            self._place_all(now_ms)
        changed = subscription.changes.states
        while changed:
            state, _ = changed.popitem()
            slot = self._slot_of.get(state)
            if slot is None:
                continue
            if slot.purpose is Purpose.FETCH_QUIET:
                # Resumed or sought, for example: not to wait for the parked fetch.
                self._activate(slot, state)
            else:
                slot.note(state)

    def handle_response(
        self, slot: FetchSlot, brought: Iterable[AssignedPartition], now_ms: int
    ) -> None:
        """After an answer that brought something for these: sort busy and quiet ones."""
        if slot.purpose is Purpose.FETCH_QUIET:
            for state in brought:
                if state in slot.partitions:
                    self._activate(slot, state)
            return
        slot.active.update(brought)
        if len(slot.partitions) < _MANY or not slot.sorted_ms:
            slot.sorted_ms = now_ms
        else:
            self._move_quiet(slot, self._slot(slot.node_id, Purpose.FETCH_QUIET), now_ms)

    def prepare_to_send(self, slot: FetchSlot, now_ms: int) -> None:
        """A slot is free: it may take over partitions of others."""
        if slot.purpose in _BUSY:
            self._take_from_bypass(slot, now_ms)
        elif slot.purpose is Purpose.FETCH_QUIET:
            for purpose in _BUSY:
                busy = self.slots.get((slot.node_id, purpose))
                if busy is not None and busy.sorted_ms and len(busy.partitions) >= _MANY:
                    self._move_quiet(busy, slot, now_ms)

    def _move_quiet(self, slot: FetchSlot, quiet_slot: FetchSlot, now_ms: int) -> None:
        """Move what has brought nothing for a while; not into a fetch that is parked already."""
        if now_ms - slot.sorted_ms < _QUIET_AFTER_MS or quiet_slot.state.in_flight:
            return
        for state in slot.partitions - slot.active:
            self._move(state, slot, quiet_slot, _QUIET)
        slot.active.clear()
        slot.sorted_ms = now_ms

    def _activate(self, slot: FetchSlot, state: AssignedPartition) -> None:
        """Move a partition to the busy ones, to one whose fetch is not parked if there is one."""
        targets = [self._slot(slot.node_id, purpose) for purpose in _BUSY]
        index = min((0, 1), key=lambda i: (targets[i].parked, len(targets[i].partitions)))
        self._move(state, slot, targets[index], index)

    def bypass(self, slot: FetchSlot, state: AssignedPartition) -> FetchSlot:
        """Move a partition away from a parked fetch; returns the slot that takes it."""
        target = self._slot(slot.node_id, Purpose.FETCH_BYPASS)
        self._move(state, slot, target, _BYPASS)
        return target

    def can_take_from_bypass(self, slot: FetchSlot) -> bool:
        """Tell whether there are partitions on the bypass that this slot may take."""
        bypass = self.slots.get((slot.node_id, Purpose.FETCH_BYPASS))
        return bypass is not None and bool(bypass.partitions) and slot.purpose in _BUSY

    def bypass_wait_ms(self, slot: FetchSlot, now_ms: int) -> int:
        """How long the bypass beside a slot is not to be tried again, because it failed."""
        bypass = self.slots.get((slot.node_id, Purpose.FETCH_BYPASS))
        return 0 if bypass is None or bypass.state.in_flight else bypass.state.wait_ms(now_ms)

    def _take_from_bypass(self, slot: FetchSlot, now_ms: int) -> None:
        """Take back what has caught up on the bypass, or anything if the bypass does not work.

        Not more than half of all: if one slot had them all, the broker would have nothing to do
        while their records are taken in.
        """
        if not self.can_take_from_bypass(slot):
            return
        bypass = self.slots[slot.node_id, Purpose.FETCH_BYPASS]
        failing = self.bypass_wait_ms(slot, now_ms) > 0
        ready = [each.state for each in bypass.requested.values() if failing or not each.behind]
        both = sum(len(self._slot(slot.node_id, each).partitions) for each in _BUSY)
        half = (both + len(bypass.partitions) + 1) // 2
        index = _PURPOSES.index(slot.purpose)
        for state in ready[: max(0, half - len(slot.partitions))]:
            self._move(state, bypass, slot, index)

    def _move(
        self, state: AssignedPartition, source: FetchSlot, target: FetchSlot, index: int
    ) -> None:
        source.remove(state)
        target.add(state)
        state.slot = index
        self._slot_of[state] = target

    # --- everything anew -----------------------------------------------------------------------

    def _place_all(self, now_ms: int) -> None:
        subscription, snapshot = self._context.subscription, self._context.metadata.snapshot
        self.lease_ends_ms = FOREVER_MS * FOREVER_MS
        by_node: dict[int, list[AssignedPartition]] = defaultdict(list)
        for state in subscription.assigned.values():
            node_id = self._read_from(state, now_ms)
            if node_id in snapshot.nodes:
                by_node[node_id].append(state)
        self._follow(subscription.assigned)
        placed: dict[FetchSlot, list[AssignedPartition]] = {s: [] for s in self.slots.values()}
        for node_id, states in by_node.items():
            self._fill_slots(node_id, states, placed)
        self._slot_of = {}
        for slot, states in placed.items():
            slot.place(states)
            self._slot_of.update(dict.fromkeys(states, slot))
        gone = [
            key
            for key, slot in self.slots.items()
            if not slot.partitions and key[0] not in snapshot.nodes
        ]
        for key in gone:
            del self.slots[key]

    def _read_from(self, state: AssignedPartition, now_ms: int) -> int:
        replica = state.preferred_replica
        info = self._context.metadata.snapshot.partition(state.tp)
        if replica is not None:
            online = (
                replica.node_id in self._context.metadata.snapshot.nodes
                and info is not None
                and replica.node_id not in info.offline_replicas
            )
            if online and now_ms < replica.expires_ms:
                self.lease_ends_ms = min(self.lease_ends_ms, replica.expires_ms)
                return replica.node_id
            state.preferred_replica = None
            if not online:
                # The leader sends us there and gives us nothing before we know the way.
                self._metadata.request_update()
        return info.leader_id if info is not None else -1

    def _fill_slots(
        self,
        node_id: int,
        states: Iterable[AssignedPartition],
        placed: dict[FetchSlot, list[AssignedPartition]],
    ) -> None:
        first, second = (placed.setdefault(self._slot(node_id, each), []) for each in _BUSY)
        unplaced = []
        for state in states:
            if state.slot < 0:
                unplaced.append(state)
            else:
                placed.setdefault(self._slot(node_id, _PURPOSES[state.slot]), []).append(state)
        for state in unplaced:
            state.slot = 0 if len(first) <= len(second) else 1
            (first, second)[state.slot].append(state)

    def _slot(self, node_id: int, purpose: Purpose) -> FetchSlot:
        key = (node_id, purpose)
        if key not in self.slots:
            incremental = self._context.config.enable_incremental_fetch_sessions
            session = FetchSession(incremental=incremental)
            self.slots[key] = FetchSlot(node_id, purpose, session, self._context.request_state())
        return self.slots[key]
