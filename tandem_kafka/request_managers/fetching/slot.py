"""One of a broker's fetches: which partitions it asks for, and which may have to change.

A consumer may have ten thousand partitions of which eight are busy, so that a fetch must not cost
a look at each. A partition is looked at when something about it has changed (`to_check`); until
then it stays in the fetch session as it is, or out of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from tandem_kafka.network.request import Purpose
from tandem_kafka.request_managers.base import RequestState
from tandem_kafka.request_managers.fetching.response_handler import RequestedPartition
from tandem_kafka.request_managers.fetching.session import FetchSession, FetchTarget
from tandem_kafka.shared.partition import AssignedPartition
from tandem_kafka.types import TopicPartition

__all__ = ["FetchSlot"]


class FetchSlot:
    """A connection and a fetch session, with the partitions that are read through them.

    Attributes:
        partitions: Those that are in this slot, asked for or not; `placement` moves them.
        to_check: Those to be looked at before the next request.
        asked: What the request in flight, or the next one, asks for.
        reserved_bytes: What the request in flight is expected to bring at most.
        sent_count: Which of all fetches its last one was.
        pause_until_ms: No request before that.
        active: Those that brought something since the quiet ones were last sorted out.
        sorted_ms: When that was.
        parked: The request in flight finds nothing for what is asked, as far as is known: the
            broker keeps it until something comes or its time is over.
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

    def place(self, states: Iterable[AssignedPartition]) -> None:
        """Take these partitions and no others; look at all of them."""
        self.to_check = dict.fromkeys(states)
        self.partitions = set(self.to_check)
        for tp, requested in tuple(self.requested.items()):
            if requested.state not in self.partitions:
                self.exclude(tp)

    def add(self, state: AssignedPartition) -> None:
        """Take one more partition."""
        self.partitions.add(state)
        self.to_check[state] = None

    def remove(self, state: AssignedPartition) -> None:
        """Leave a partition to another slot."""
        self.partitions.discard(state)
        self.to_check.pop(state, None)
        self.exclude(state.tp)

    def note(self, state: AssignedPartition) -> None:
        """Look at a partition before the next request."""
        if state in self.partitions:
            self.to_check[state] = None

    def include(self, requested: RequestedPartition, target: FetchTarget) -> None:
        """Ask for a partition from the next request on."""
        self.requested[requested.state.tp] = requested
        self.session.include(requested.state.tp, target)

    def exclude(self, tp: TopicPartition) -> None:
        """Ask for a partition no longer."""
        if self.requested.pop(tp, None) is not None:
            self.session.exclude(tp)
