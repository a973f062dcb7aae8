"""A fetch slot: the partitions of one of a broker's fetches.

A consumer may have ten thousand partitions of which eight are busy, so a fetch must not check each
of them. A partition is only checked after a change (`to_check`). Until then, it stays included in
the fetch session or excluded from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from tandem_kafka.network.request import Purpose
from tandem_kafka.request_managers.base import RequestState
from tandem_kafka.request_managers.fetching.response_handler import RequestedPartition
from tandem_kafka.request_managers.fetching.session import FetchSession, FetchTarget, SessionRequest
from tandem_kafka.state.partition import AssignedPartition
from tandem_kafka.types import TopicPartition


class FetchSlot:
    """A connection and a fetch session, with the partitions that are fetched through them.

    Invariant: while the transport repeats the fetch of this slot, nothing that the fetch depends on
    changes. Each method that changes the partitions of the slot, of its session or those to check
    therefore ends the standing fetch first. Outside, they are read-only views.

    Args:
        node_id: The broker.
        purpose: The connection.
        session: The fetch session.
        state: Whether a fetch is in flight, and the backoff after a failure.
        reserve: Adds to the bytes that all fetches in flight may bring.

    Attributes:
        reserved_bytes: The expected maximum size of the response in flight.
        sent_count: The number of the slot's last fetch among all fetches.
        pause_until_ms: When the next request may be sent.
        sorted_ms: When quiet partitions were last moved.
        parked: Whether the broker is expected to park the request in flight, because it has no
            data for the requested partitions.
        steady: Whether the last response was on time and without an error.
        settled: Whether nothing has changed since the request in flight was made.
    """

    def __init__(
        self,
        node_id: int,
        purpose: Purpose,
        session: FetchSession,
        state: RequestState,
        reserve: Callable[[int], None],
    ) -> None:
        self.node_id = node_id
        self.purpose = purpose
        self.session = session
        self.state = state
        self._reserve = reserve
        self._partitions: set[AssignedPartition] = set()
        self._to_check: dict[AssignedPartition, None] = {}
        self._requested: dict[TopicPartition, RequestedPartition] = {}
        self._end_standing: Callable[[], None] | None = None
        self.reserved_bytes = 0
        self.sent_count = 0
        self.pause_until_ms = 0
        self._active: set[AssignedPartition] = set()
        self.sorted_ms = 0
        self.parked = False
        self.steady = False
        self.settled = False

    @property
    def partitions(self) -> AbstractSet[AssignedPartition]:
        """The partitions of this slot, requested or not; `placement` moves them."""
        return self._partitions

    @property
    def active(self) -> AbstractSet[AssignedPartition]:
        """The partitions with new data since quiet partitions were last moved."""
        return self._active

    @property
    def to_check(self) -> Mapping[AssignedPartition, None]:
        """Partitions to check before the next request; empty while the fetch stands."""
        return self._to_check

    @property
    def requested(self) -> Mapping[TopicPartition, RequestedPartition]:
        """Partitions of the request in flight or of the next one.

        Their offsets are those from before a fetch that stands.
        """
        return self._requested

    # --- the standing fetch ----------------------------------------------------------------------

    @property
    def standing(self) -> bool:
        """Whether the transport repeats the fetch in flight."""
        return self._end_standing is not None

    def stand(self, end: Callable[[], None]) -> None:
        """Note that the transport repeats the fetch in flight until `end` is called."""
        self._end_standing = end

    def end_standing_fetch(self) -> None:
        """End the standing fetch, if any, and let none be made for the request in flight."""
        self.settled = False
        end, self._end_standing = self._end_standing, None
        if end is not None:
            end()

    def repeated(
        self, epoch: int, repetitions: Iterable[tuple[RequestedPartition, int, int]]
    ) -> list[AssignedPartition]:
        """Take over what a standing fetch has requested, and return its partitions.

        Args:
            epoch: The session's epoch of the request in flight.
            repetitions: Each partition as it was when the fetch began to stand, and the offset and
                size of its last request.
        """
        targets, brought = {}, []
        for before, offset, max_bytes in repetitions:
            tp = before.state.tp
            if self._requested.get(tp) is before:
                known = self.session.target(tp)
                self._requested[tp] = replace(before, offset=offset, max_bytes=max_bytes)
                targets[tp] = replace(known, offset=offset, max_bytes=max_bytes)
                brought.append(before.state)
        self.session.repeated(epoch, targets)
        return brought

    # --- the partitions --------------------------------------------------------------------------

    def place(self, states: Iterable[AssignedPartition]) -> None:
        """Replace the partitions of this slot, and check all of them."""
        self.end_standing_fetch()
        self._to_check = dict.fromkeys(states)
        self._partitions = set(self._to_check)
        self._active &= self._partitions
        for tp, requested in tuple(self._requested.items()):
            if requested.state not in self._partitions:
                self.exclude(tp)

    def add(self, state: AssignedPartition) -> None:
        """Add a partition."""
        self.end_standing_fetch()
        self._partitions.add(state)
        self._to_check[state] = None

    def remove(self, state: AssignedPartition) -> None:
        """Remove a partition, for another slot."""
        self.end_standing_fetch()
        self._partitions.discard(state)
        self._active.discard(state)
        self._to_check.pop(state, None)
        self.exclude(state.tp)

    def note(self, state: AssignedPartition) -> None:
        """Check a partition before the next request."""
        if state in self._partitions:
            self.end_standing_fetch()
            self._to_check[state] = None

    def brought(self, states: Iterable[AssignedPartition]) -> None:
        """Note that there was new data of these partitions, if they are still in this slot."""
        self._active.update(self._partitions.intersection(states))

    def quiet_moved(self, now_ms: int) -> None:
        """Note that quiet partitions have been moved; from now on, none has had new data."""
        self._active.clear()
        self.sorted_ms = now_ms

    def checked(self, state: AssignedPartition) -> None:
        """Check a partition no more until something about it changes."""
        self._to_check.pop(state, None)

    def include(self, requested: RequestedPartition, target: FetchTarget) -> None:
        """Fetch a partition from the next request on."""
        self.end_standing_fetch()
        self._requested[requested.state.tp] = requested
        self.session.include(requested.state.tp, target)

    def exclude(self, tp: TopicPartition) -> None:
        """Stop fetching a partition."""
        self.end_standing_fetch()
        if self._requested.pop(tp, None) is not None:
            self.session.exclude(tp)

    # --- the request -----------------------------------------------------------------------------

    def next_request(self) -> SessionRequest:
        """Return the session's part of the next request, which is sent soon."""
        self.settled = True
        return self.session.build()

    def expect(self, most_bytes: int) -> bool:
        """Note what the fetch in flight may bring; return whether a partition is behind.

        Args:
            most_bytes: The limit of a response.
        """
        # No data is expected from quiet partitions.
        quiet = self.purpose is Purpose.FETCH_QUIET
        behind = [] if quiet else [each for each in self._requested.values() if each.behind]
        self.reserve(min(most_bytes, sum(requested.max_bytes for requested in behind)))
        self.parked = not behind and self.purpose is not Purpose.FETCH_BYPASS
        return bool(behind)

    def reserve(self, size: int) -> None:
        """Count these bytes as those that the fetch in flight may bring."""
        self._reserve(size - self.reserved_bytes)
        self.reserved_bytes = size

    def arrived(self) -> None:
        """Note that no fetch is in flight any more."""
        self.end_standing_fetch()
        self.reserve(0)
        self.parked = self.steady = False
