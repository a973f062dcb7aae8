"""Records moves of the sticky assignor, to avoid unnecessary ones."""

from __future__ import annotations

from collections import defaultdict

from tandem_kafka.types import TopicPartition


class Moves:
    """The origins of moved partitions.

    It is pointless to exchange two partitions of a topic between two members. If a partition of the
    same topic has moved in the opposite direction, it therefore returns instead.
    """

    def __init__(self) -> None:
        self._origins: dict[TopicPartition, str] = {}
        #: Partitions by topic, origin and present member, in the order of their moves.
        self._moved: dict[tuple[str, str, str], dict[TopicPartition, None]] = defaultdict(dict)

    def to(self, tp: TopicPartition, source: str, target: str) -> list[tuple[TopicPartition, str]]:
        """Return the moves that take one partition from the source and add one to the target.

        Args:
            tp: A partition of the source.
            source: The member with too many partitions.
            target: Another member that subscribes to the topic.
        """
        origin = self._origins.get(tp, source)
        came = self._moved.get((tp.topic, target, origin))
        if not came:
            moves = [(tp, target)]
        elif origin == source:
            moves = [(next(iter(came)), target)]
        else:
            moves = [(tp, origin), (next(iter(came)), target)]
        for moved, member_id in moves:
            self._note(moved, source if moved == tp else origin, member_id)
        return moves

    def _note(self, tp: TopicPartition, source: str, target: str) -> None:
        origin = self._origins.pop(tp, source)
        if origin != source:
            del self._moved[tp.topic, origin, source][tp]
        if origin != target:
            self._origins[tp] = origin
            self._moved[tp.topic, origin, target][tp] = None
