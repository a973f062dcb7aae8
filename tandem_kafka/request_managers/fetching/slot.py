"""A fetch slot: the partitions of one of a broker's fetches.

A consumer may have ten thousand partitions of which eight are busy, so a fetch must not check each
of them. A partition is only checked after a change (`to_check`). Until then, it stays included in
the fetch session or excluded from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tandem_kafka.network.request import Purpose
from tandem_kafka.request_managers.base import RequestState
from tandem_kafka.request_managers.fetching.response_handler import RequestedPartition
from tandem_kafka.request_managers.fetching.session import FetchSession, FetchTarget
from tandem_kafka.shared.partition import AssignedPartition
from tandem_kafka.types import TopicPartition

if TYPE_CHECKING:
    from tandem_kafka._native import StandingFetch

__all__ = ["FetchSlot", "StandingOrder"]


@dataclass(frozen=True, slots=True, eq=False)
class StandingOrder:
    """The order by which the transport repeats the fetch of a slot.

    Attributes:
        native: The transport's part.
        requested: The partitions, in the order of the native indexes.
        collect: Records what was measured since the last call; for any thread.
    """

    native: StandingFetch
    requested: list[RequestedPartition]
    collect: Callable[[], None]


class FetchSlot:
    """A connection and a fetch session, with the partitions that are fetched through them.

    Attributes:
        partitions: The partitions of this slot, requested or not; `placement` moves them.
        to_check: Partitions to check before the next request.
        requested: Partitions of the request in flight or of the next one.
        reserved_bytes: The expected maximum size of the response in flight.
        sent_count: The number of the slot's last fetch among all fetches.
        pause_until_ms: When the next request may be sent.
        active: Partitions with new data since quiet partitions were last moved.
        sorted_ms: When quiet partitions were last moved.
        parked: Whether the broker is expected to park the request in flight, because it has no
            data for the requested partitions.
        steady: Whether the last response was on time and without an error.
        standing: The order by which the transport repeats the fetch in flight.
    """

    def __init__(
        self, node_id: int, purpose: Purpose, session: FetchSession, state: RequestState
    ) -> None:
        self.node_id = node_id
        self.purpose = purpose
        self.session = session
        self.state = state
        self.partitions: set[AssignedPartition] = set()
        self.to_check: dict[AssignedPartition, None] = {}
        self.requested: dict[TopicPartition, RequestedPartition] = {}
        self.reserved_bytes = 0
        self.sent_count = 0
        self.pause_until_ms = 0
        self.active: set[AssignedPartition] = set()
        self.sorted_ms = 0
        self.parked = False
        self.steady = False
        self.standing: StandingOrder | None = None

    def place(self, states: Iterable[AssignedPartition]) -> None:
        """Replace the partitions of this slot, and check all of them."""
        self.to_check = dict.fromkeys(states)
        self.partitions = set(self.to_check)
        for tp, requested in tuple(self.requested.items()):
            if requested.state not in self.partitions:
                self.exclude(tp)

    def add(self, state: AssignedPartition) -> None:
        """Add a partition."""
        self.partitions.add(state)
        self.to_check[state] = None

    def remove(self, state: AssignedPartition) -> None:
        """Remove a partition, for another slot."""
        self.partitions.discard(state)
        self.to_check.pop(state, None)
        self.exclude(state.tp)

    def note(self, state: AssignedPartition) -> None:
        """Check a partition before the next request."""
        if state in self.partitions:
            self.to_check[state] = None

    def include(self, requested: RequestedPartition, target: FetchTarget) -> None:
        """Fetch a partition from the next request on."""
        self.requested[requested.state.tp] = requested
        self.session.include(requested.state.tp, target)

    def exclude(self, tp: TopicPartition) -> None:
        """Stop fetching a partition."""
        if self.requested.pop(tp, None) is not None:
            self.session.exclude(tp)
