"""The tasks of the leader of a classic group.

The leader computes the assignments of all members. It also watches the topics of the whole group,
because it must trigger a rebalance when the number of partitions changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tandem_kafka.assignors.classic import ClassicAssignors, topics_of
from tandem_kafka.logs import client_logger
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher

log = client_logger(__name__)

#: How long the leader waits for the metadata of topics to which only other members subscribe.
LEADER_WAIT_MS = 5_000


class Leadership:
    """The leadership, from one JoinGroup response to the next."""

    def __init__(
        self, context: ManagerContext, metadata: MetadataRefresher, assignors: ClassicAssignors
    ) -> None:
        self._context = context
        self._metadata = metadata
        self._assignors = assignors
        #: The subscribed topics of all members; empty if this member is not the leader.
        self._topics: frozenset[str] = frozenset()
        self._give_up_ms = 0
        #: The partition counts from which the assignment was computed.
        self._assigned_from: Mapping[str, int] | None = None

    def joined(self, message: Any) -> None:
        """Process a JoinGroup response, which names the leader."""
        self.end()
        if not self.leads(message):
            return
        self._topics = topics_of(message.members)
        self._give_up_ms = self._context.clock.now_ms() + LEADER_WAIT_MS
        self._metadata.watch(self._topics)

    def leads(self, joined: Any) -> bool:
        """Tell whether a JoinGroup response makes this member the leader."""
        return bool(joined.leader == joined.member_id)

    def end(self) -> None:
        """End the leadership."""
        self._topics = frozenset()
        self._assigned_from = None
        self._metadata.watch(self._topics)

    def wait_ms(self, now_ms: int) -> int:
        """Return how long SyncGroup must wait for metadata of the group's topics."""
        return 0 if self._metadata.knows(self._topics) else max(0, self._give_up_ms - now_ms)

    def plan(self, joined: Any) -> Callable[[], Mapping[str, bytes]]:
        """Return a function that computes the assignments for SyncGroup with the user's code."""
        self._assigned_from = self._partition_counts(self._topics)
        group_id = self._context.config.group_id
        if joined.skip_assignment:
            # KIP-814: this static member was the leader before, and its assignment remains valid.
            log.info("group %s: leader again as a static member, keeping the assignment", group_id)
            return dict
        name, members = joined.protocol_name, joined.members
        log.info("group %s: leader of %d members, assignor %s", group_id, len(members), name)
        snapshot = self._context.metadata.snapshot
        return lambda: self._assignors.assign(name, snapshot, members)

    @property
    def outdated(self) -> bool:
        """True if the partition count of a topic has changed since the assignment."""
        counted = self._assigned_from
        return counted is not None and self._partition_counts(counted) != counted

    def _partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        known = self._context.metadata.snapshot.topics
        return {t: len(known[t].partitions) if t in known else 0 for t in topics}
