"""The second round of a cooperative rebalance: it assigns what the first one has planned.

The first round revokes what moves. If the second one balanced anew, it could find something else to
revoke and call for a third round. Kafka's `cooperative-sticky` does so without end for some groups
whose members differ in topics and racks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tandem_kafka.assignors.group import Assignment, Member, Topics
from tandem_kafka.types import TopicPartition

__all__ = ["Plan"]

#: Topics, rack and partitions of each member.
_Situation = dict[str, tuple[frozenset[str], str, frozenset[TopicPartition]]]


class Plan:
    """What the members of a group are to have in the end."""

    def __init__(self) -> None:
        #: What a round expects to find next, and its target. One field: a round that was given up
        #: may still be computing on another thread.
        self._last: tuple[_Situation, Topics, Assignment] | None = None

    def remember(
        self, members: Sequence[Member], topics: Topics, target: Assignment, assigned: Assignment
    ) -> None:
        """Take note of a round.

        Args:
            members: The members of the group.
            topics: Partitions by topic.
            target: What the members are to have in the end.
            assigned: What they get in this round, and are expected to own in the next.
        """
        self._last = _situation(members, assigned), topics, target

    def recall(self, members: Sequence[Member], topics: Topics) -> Assignment | None:
        """Return the target of the last round, None if the group has changed since in any way."""
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
