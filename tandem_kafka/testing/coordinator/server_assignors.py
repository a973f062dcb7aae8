"""How a coordinator assigns by itself."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from tandem_kafka.types import TopicPartition

__all__ = ["Assignor", "Partitions", "uniform"]

Partitions = AbstractSet[TopicPartition]
#: Takes what each member wants (partitions of its topics) and had; returns what each shall have.
Assignor = Callable[
    [dict[str, Partitions], dict[str, Partitions]], dict[str, frozenset[TopicPartition]]
]


def uniform(
    wanted: dict[str, Partitions], before: dict[str, Partitions]
) -> dict[str, frozenset[TopicPartition]]:
    """As many for each as for any other, and what one had stays where it was if that is fair."""
    target: dict[str, set[TopicPartition]] = {member_id: set() for member_id in wanted}
    everything = sorted(set().union(*wanted.values())) if wanted else []
    most = -(-len(everything) // max(1, len(wanted)))
    for tp in everything:
        having = [m for m in wanted if tp in before.get(m, ()) and tp in wanted[m]]
        if having and len(target[having[0]]) < most:
            target[having[0]].add(tp)
    placed = set().union(*target.values()) if target else set()
    for tp in everything:
        if tp not in placed:
            candidates = [m for m in wanted if tp in wanted[m]]
            target[min(candidates, key=lambda m: (len(target[m]), m))].add(tp)
    _level(target, wanted)
    return {member_id: frozenset(partitions) for member_id, partitions in target.items()}


def _level(target: dict[str, set[TopicPartition]], wanted: dict[str, Partitions]) -> None:
    """Move one by one from who has most to who has least."""
    while target:
        least = min(target, key=lambda m: (len(target[m]), m))
        for rich in sorted(target, key=lambda m: (-len(target[m]), m)):
            movable = sorted(target[rich] & wanted[least])
            if len(target[rich]) - len(target[least]) > 1 and movable:
                target[rich].remove(movable[-1])
                target[least].add(movable[-1])
                break
        else:
            return
