"""What was taken from our consumer for the application, and how much of it the application has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, Message

from tandem_kafka import KafkaConsumer
from tandem_kafka.confluent.messages import is_end_of, key_of
from tandem_kafka.confluent.partitions import Assigned, Part
from tandem_kafka.types import TopicPartition

__all__ = ["Hand", "Taken"]

_flat: Final = chain.from_iterable


class Hand:
    """Records, and events as messages, in order.

    Attributes:
        items: All of them.
        given: How many the application has. `poll()` and `consume()` store it as their last action
            before they return. This store moves the positions and stored offsets of all its
            partitions at once, so that an interrupt (Ctrl-C) between any two bytecodes neither
            loses nor commits a message.
        settled: How many of these are known to their partitions.
        one_more: Each `next(one_more, None)` takes the next record of an iteration, if any.
    """

    __slots__ = ("given", "items", "one_more", "settled")

    def __init__(self, records: Iterator[Any], items: list[Any]) -> None:
        self.items = items
        self.one_more = map(items.append, records)
        self.given = 0
        self.settled = 0


class Taken:
    """Takes records from our consumer, whose positions are behind all items of the hand.

    Attributes:
        hand: Writer: the thread that polls, which replaces the hand when nothing is being taken.
    """

    def __init__(self, kafka: KafkaConsumer[Any, Any], assigned: Assigned) -> None:
        self._kafka = kafka
        self._assigned = assigned
        self.hand = Hand(kafka, [])
        self._taking = 0

    def take(self, wait_ms: float, limit: int) -> None:
        """Take up to `limit` records."""
        # Invariant: between the return of our consumer, which moves its positions, and the end of
        # the list, only C code runs, here and in `one_more`. An interrupt would lose the records.
        batches = map(self._kafka.poll, (wait_ms,), (limit,))
        self._taking += 1
        try:
            self.hand.items.extend(_flat(_flat(map(dict.values, batches))))
        finally:
            self._taking -= 1

    def waiting(self) -> int:
        """Return the number of items that the application does not have."""
        return len(self.hand.items) - self.hand.given

    def settle(self) -> None:
        """Tell the partitions which records the application has.

        Call this before a position or stored offset is read, and before a partition is removed,
        added or sought. Any thread may: doing it twice, or late, changes nothing.
        """
        hand = self.hand
        given = hand.given
        last: dict[Any, Any] = {}
        for item in reversed(hand.items[hand.settled : given]):
            if type(item) is not Message:
                last.setdefault(item[:2], item)
                if len(last) == len(self._assigned.parts):
                    break
        for tp, record in last.items():
            part = self._assigned.get(tp)
            if part is not None and (part.last is None or part.last.offset < record.offset):
                part.last = record
        hand.settled = given

    def begin(self) -> None:
        """Forget what the application has, and keep the rest.

        Not while records are being taken, as in a callback, or beside a caller of another thread
        (to which our consumer then raises an error): they would go to the previous hand.
        """
        self.settle()
        if self._taking:
            return
        hand = self.hand
        self.hand = Hand(self._kafka, hand.items[hand.given :])

    def first_of(self, part: Part) -> int | None:
        """Return the offset of a partition's first record that waits, if any."""
        hand = self.hand
        waiting = (item for item in hand.items[hand.given :] if key_of(item) == part.tp)
        return next((record.offset for record in waiting), None)

    def drop(self, *tps: TopicPartition) -> None:
        """Drop what waits of some partitions, except for errors."""
        self.settle()
        hand = self.hand
        parts = [part for part in map(self._assigned.get, tps) if part is not None]
        kept = []
        for item in hand.items[hand.given :]:
            ended = [part for part in parts if is_end_of(item, part.tp)]
            for part in ended:
                part.eof_at = OFFSET_INVALID  # it is to be reported again
            if not ended and key_of(item) not in tps:
                kept.append(item)
        hand.items[hand.given :] = kept
