"""What the leader of a classic group does beside being a member.

It computes everybody's assignment, and watches the topics of the whole group: whoever assigned
them has to notice when one of them grows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tandem_kafka.assignors.classic import ClassicAssignors, topics_of
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher

__all__ = ["LEADER_WAIT_MS", "Leadership"]

log = logging.getLogger(__name__)

#: How long the leader waits for the metadata of topics that only others subscribe to.
LEADER_WAIT_MS = 5_000


class Leadership:
    """Held from the JoinGroup response that says so until another says otherwise."""

    def __init__(
        self, context: ManagerContext, metadata: MetadataRefresher, assignors: ClassicAssignors
    ) -> None:
        self._context = context
        self._metadata = metadata
        self._assignors = assignors
        #: What the members of the group subscribe to; empty for one who does not lead.
        self._topics: frozenset[str] = frozenset()
        self._give_up_ms = 0
        #: Partition counts that the assignment was computed from.
        self._assigned_from: Mapping[str, int] | None = None

    def joined(self, message: Any) -> None:
        """Take a JoinGroup response: it makes us the leader, or somebody else."""
        self.end()
        if not self.leads(message):
            return
        self._topics = topics_of(message.members)
        self._give_up_ms = self._context.clock.now_ms() + LEADER_WAIT_MS
        self._metadata.watch(self._topics)

    def leads(self, joined: Any) -> bool:
        """Tell whether a JoinGroup response makes us the leader."""
        return bool(joined.leader == joined.member_id)

    def end(self) -> None:
        """Lead no more."""
        self._topics = frozenset()
        self._assigned_from = None
        self._metadata.watch(self._topics)

    def wait_ms(self, now_ms: int) -> int:
        """Return how long SyncGroup has to wait for the group's topics to be known."""
        return 0 if self._metadata.knows(self._topics) else max(0, self._give_up_ms - now_ms)

    def plan(self, joined: Any) -> Callable[[], Mapping[str, bytes]]:
        """Return what computes the assignments that SyncGroup carries; it runs the user's code."""
        self._assigned_from = self._partition_counts(self._topics)
        group_id = self._context.config.group_id
        if joined.skip_assignment:
            # KIP-814: we have led this generation before, and its assignment stands.
            log.info("group %s: leading again as static member", group_id)
            return dict
        name, members = joined.protocol_name, joined.members
        log.info("group %s: leads it, members: %d, assignor: %s", group_id, len(members), name)
        snapshot = self._context.metadata.snapshot
        return lambda: self._assignors.assign(name, snapshot, members)

    @property
    def outdated(self) -> bool:
        """True when a topic of the group has got other partitions than were assigned."""
        counted = self._assigned_from
        return counted is not None and self._partition_counts(counted) != counted

    def _partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        known = self._context.metadata.snapshot.topics
        return {t: len(known[t].partitions) if t in known else 0 for t in topics}
