"""The plan of a cooperative rebalance, which the second round assigns.

The first round revokes the partitions that move. Invariant: if the group is as the first round left
it, the second one does not balance again. It could revoke further partitions and require a third
round. For this reason, Kafka's `cooperative-sticky` rebalances without end for some groups whose
members differ in topics and racks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tandem_kafka.assignors.group import Assignment, Member, Topics
from tandem_kafka.types import TopicPartition

#: Topics, rack and partitions of each member.
_Situation = dict[str, tuple[frozenset[str], str, frozenset[TopicPartition]]]


class Plan:
    """The target assignment of the last round."""

    def __init__(self) -> None:
        #: The expected state before the next round, and its target. It is a single field,
        #: because an abandoned round may still be running on another thread.
        self._last: tuple[_Situation, Topics, Assignment] | None = None

    def remember(
        self, members: Sequence[Member], topics: Topics, target: Assignment, assigned: Assignment
    ) -> None:
        """Store the target of a round.

        Args:
            members: The members of the group.
            topics: Partitions by topic.
            target: The target assignment.
            assigned: The assignment of this round, which the members must own in the next one.
        """
        self._last = _situation(members, assigned), topics, target

    def recall(self, members: Sequence[Member], topics: Topics) -> Assignment | None:
        """Return the target of the last round, or None if the group has changed since."""
        if self._last is None:
            return None
        situation, known, target = self._last
        owned = {member.member_id: member.owned for member in members}
        return target if (situation, known) == (_situation(members, owned), topics) else None


def _situation(
    members: Sequence[Member], owned: Mapping[str, Sequence[TopicPartition]]
) -> _Situation:
    return {
        member.member_id: (member.topics, member.rack, frozenset(owned[member.member_id]))
        for member in members
    }
