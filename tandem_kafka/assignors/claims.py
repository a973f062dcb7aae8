"""Finds the owner of each partition from the claims of the members (KIP-792).

A member that missed a rebalance still claims its previous partitions, so the newest generation
wins. Two claims of the same generation are both ignored, because no assignor has assigned both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from tandem_kafka.assignors.group import NO_GENERATION, Member, Topics
from tandem_kafka.dataclass import dataclass
from tandem_kafka.types import TopicPartition

#: A generation, and the member that claims a partition in it.
_Claim = tuple[int, str]


@dataclass(frozen=True)
class Claims:
    """The partitions that the members of a group own.

    Attributes:
        owners: The owner of each claimed partition; None for conflicting claims of the same
            generation.
        owned: The partitions of each member, in the order of its claims.
        previous: For partitions claimed from a generation older than the newest one of the group,
            the member with the newest of these claims.
    """

    owners: Mapping[TopicPartition, str | None]
    owned: Mapping[str, list[TopicPartition]]
    previous: Mapping[TopicPartition, str]


def resolve_claims(members: Iterable[Member], topics: Topics) -> Claims:
    """Find the owner of each partition that still exists.

    Args:
        members: The members of the group, ordered by id.
        topics: Partitions by topic.
    """
    members = list(members)
    claimed: dict[TopicPartition, list[_Claim]] = defaultdict(list)
    for member in members:
        for tp in dict.fromkeys(member.owned):
            if tp.partition in topics.get(tp.topic, ()):
                claimed[tp].append((member.generation, member.member_id))
    newest = max((member.generation for member in members), default=NO_GENERATION)
    owners = {tp: _owner(found) for tp, found in claimed.items()}
    owned: dict[str, list[TopicPartition]] = defaultdict(list)
    for tp, owner in owners.items():
        if owner is not None:
            owned[owner].append(tp)
    previous = {}
    for tp, found in claimed.items():
        older = [claim for claim in found if claim[0] < newest]
        if older:
            previous[tp] = max(older, key=itemgetter(0))[1]
    return Claims(owners, owned, previous)


def _owner(claims: Sequence[_Claim]) -> str | None:
    newest = max(claims)
    return newest[1] if sum(claim[0] == newest[0] for claim in claims) == 1 else None
