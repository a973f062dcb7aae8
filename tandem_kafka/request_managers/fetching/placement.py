"""Assigns each partition to a fetch slot of a broker.

Each broker has two slots for busy partitions, each with its own connection and fetch session. While
the consumer processes one response, the broker already prepares the other. For each fetch, a broker
checks every partition of the session, which delays a few busy partitions among thousands. With many
partitions, those without new data therefore move to a third slot, whose fetch stays parked at the
broker.

A fetch without data is parked for up to `fetch_max_wait_ms`, and the broker does not read the next
request of this connection before. A partition may become fetchable in the meantime, because its
buffer has drained or it was resumed. It then takes the bypass, a fourth slot whose fetches are
never parked for long. Once it has caught up, the busy slot with fewer partitions takes it back.
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
from tandem_kafka.state.partition import AssignedPartition
from tandem_kafka.types import TopicPartition

#: The `slot` of a partition is an index into this tuple.
_PURPOSES: Final = (
    Purpose.FETCH_0,
    Purpose.FETCH_1,
    Purpose.FETCH_QUIET,
    Purpose.FETCH_BYPASS,
)
_BUSY: Final = _PURPOSES[:2]
_QUIET: Final = 2
_BYPASS: Final = 3
#: A slot with fewer partitions moves none to the quiet slot.
MANY: Final = 50
#: How long a partition has no new data before it counts as quiet.
QUIET_AFTER_MS: Final = 1_000


class FetchPlacement:
    """Keeps every assigned partition with a known broker in one slot.

    Attributes:
        slots: The slots by broker and purpose.
        lease_ends_ms: The earliest time at which a preferred replica expires.
    """

    def __init__(
        self,
        context: ManagerContext,
        metadata: MetadataRefresher,
        follow: Callable[[Mapping[TopicPartition, AssignedPartition]], None],
    ) -> None:
        self._context = context
        self._metadata = metadata
        #: Called with the assignment when it may have changed.
        self._follow = follow
        self.slots: dict[tuple[int, Purpose], FetchSlot] = {}
        self._slot_of: dict[AssignedPartition, FetchSlot] = {}
        self._seen_versions = (-1, -1)
        self.lease_ends_ms = FOREVER_MS

    def has(self, state: AssignedPartition) -> bool:
        """Tell whether a partition is assigned and has a slot."""
        return state in self._slot_of

    def update(self, now_ms: int) -> None:
        """Apply changes of the assignment, leaders and replicas; note other changes."""
        subscription, snapshot = self._context.subscription, self._context.metadata.snapshot
        versions = (subscription.version, snapshot.version)
        if versions != self._seen_versions or now_ms >= self.lease_ends_ms:
            self._seen_versions = (-1, -1)  # until all are placed
            self._place_all(now_ms)
            self._seen_versions = versions
        changed = subscription.changes.states
        while changed:
            state, _ = changed.popitem()
            slot = self._slot_of.get(state)
            if slot is None:
                continue
            if slot.purpose is Purpose.FETCH_QUIET:
                # Invariant: a partition that was resumed or sought, for example, does not wait for
                # the parked fetch.
                self._activate(slot, state)
            else:
                slot.note(state)

    def handle_response(
        self, slot: FetchSlot, brought: Iterable[AssignedPartition], now_ms: int
    ) -> None:
        """Move partitions between busy and quiet slots, after a response with data for some."""
        if slot.purpose is Purpose.FETCH_QUIET:
            for state in brought:
                if state in slot.partitions:
                    self._activate(slot, state)
            return
        slot.brought(brought)
        if len(slot.partitions) < MANY or not slot.sorted_ms:
            slot.sorted_ms = now_ms
        else:
            self._move_quiet(slot, self._slot(slot.node_id, Purpose.FETCH_QUIET), now_ms)

    def prepare_to_send(self, slot: FetchSlot, now_ms: int) -> None:
        """Let a free slot take partitions from other slots."""
        if slot.purpose in _BUSY:
            self._take_from_bypass(slot, now_ms)
        elif slot.purpose is Purpose.FETCH_QUIET:
            for purpose in _BUSY:
                busy = self.slots.get((slot.node_id, purpose))
                if busy is not None and busy.sorted_ms and len(busy.partitions) >= MANY:
                    self._move_quiet(busy, slot, now_ms)

    def _move_quiet(self, slot: FetchSlot, quiet_slot: FetchSlot, now_ms: int) -> None:
        """Move inactive partitions to the quiet slot, unless its fetch is already parked."""
        if now_ms - slot.sorted_ms < QUIET_AFTER_MS or quiet_slot.state.in_flight:
            return
        slot.end_standing_fetch()  # Invariant: what it has brought is active
        for state in slot.partitions - slot.active:
            self._move(state, slot, quiet_slot, _QUIET)
        slot.quiet_moved(now_ms)

    def _activate(self, slot: FetchSlot, state: AssignedPartition) -> None:
        """Move a partition to a busy slot, preferably to one whose fetch is not parked."""
        targets = [self._slot(slot.node_id, purpose) for purpose in _BUSY]
        index = min((0, 1), key=lambda i: (targets[i].parked, len(targets[i].partitions)))
        self._move(state, slot, targets[index], index)

    def bypass(self, slot: FetchSlot, state: AssignedPartition) -> None:
        """Move a partition away from a parked fetch."""
        for purpose in _BUSY:
            # Only their next requests take it back; see `can_take_from_bypass`.
            self._slot(slot.node_id, purpose).end_standing_fetch()
        self._move(state, slot, self._slot(slot.node_id, Purpose.FETCH_BYPASS), _BYPASS)

    def can_take_from_bypass(self, slot: FetchSlot) -> bool:
        """Tell whether this slot may take partitions from the bypass."""
        bypass = self.slots.get((slot.node_id, Purpose.FETCH_BYPASS))
        return bypass is not None and bool(bypass.partitions) and slot.purpose in _BUSY

    def bypass_wait_ms(self, slot: FetchSlot, now_ms: int) -> int:
        """Return the remaining backoff of the bypass after a failure, in ms."""
        bypass = self.slots.get((slot.node_id, Purpose.FETCH_BYPASS))
        return 0 if bypass is None or bypass.state.in_flight else bypass.state.wait_ms(now_ms)

    def _take_from_bypass(self, slot: FetchSlot, now_ms: int) -> None:
        """Take back partitions that have caught up, or all of them if the bypass fails.

        A slot takes at most half of all partitions. Otherwise the broker would be idle while the
        consumer processes their response.
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

    # --- placing all partitions ----------------------------------------------------------------

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
                # The leader returns no records but this replica, so we need its address.
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
            self.slots[key] = FetchSlot(
                node_id,
                purpose,
                session,
                self._context.request_state(),
                self._context.buffer.queue.reserve,
            )
        return self.slots[key]
