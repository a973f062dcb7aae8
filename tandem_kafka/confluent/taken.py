"""What was taken from our consumer for the application, and how much of it the application has."""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, Message

from tandem_kafka import KafkaConsumer
from tandem_kafka.confluent.messages import is_end_of, key_of
from tandem_kafka.confluent.partitions import Assigned, Part
from tandem_kafka.runtime import new_lock

_flat: Final = chain.from_iterable


class Taken:
    """Takes records from our consumer, whose positions are behind all items.

    Little waits: `poll()` takes one record at a time, and `consume()` as many as it returns. Only a
    call that is interrupted or fails leaves some.

    Attributes:
        items: Records, and events as messages, in order. Always the same list, since C code appends
            to it. Its first element is a number: item `n` of all that were ever taken is at index
            `n - items[0]`. One store thus forgets items.
        given: How many the application has. `poll()` and `consume()` store it as their last action
            before they return. This store moves the positions and stored offsets of all
            partitions at once, so that an interrupt (Ctrl-C) between any two bytecodes neither
            loses nor commits a message. They store it only if `given` and `drops` are what they
            were when they read the items: CPython switches threads only where it runs signal
            handlers, hence not between this comparison and the return.
        drops: How often waiting items were dropped.
        one_more: Each `next(one_more, None)` takes the next record of an iteration, if any.
    """

    def __init__(self, kafka: KafkaConsumer[Any, Any], assigned: Assigned) -> None:
        self._kafka = kafka
        self._assigned = assigned
        self.items: list[Any] = [-1]  # so that the first item, number 0, is at index 1
        self.one_more = map(self.items.append, kafka)
        self.given = 0
        self.drops = 0
        #: How many of the given items are known to their partitions.
        self._settled = 0
        #: Held to change anything but by appending and by giving, for which there is no time.
        self._lock = new_lock()

    def take(self, wait_ms: float, limit: int) -> None:
        """Take up to `limit` records."""
        # Invariant: between the return of our consumer, which moves its positions, and the end of
        # the list, only C code runs, here and in `one_more`. An interrupt would lose the records.
        batches = map(self._kafka.poll, (wait_ms,), (limit,))
        self.items.extend(_flat(_flat(map(dict.values, batches))))

    def waiting(self) -> int:
        """Return the number of items that the application does not have."""
        number: int = self.items[0]
        return len(self.items) - (self.given - number)

    def settle(self) -> None:
        """Tell the partitions which records the application has.

        Call this before a position or stored offset is read, and before a partition is removed,
        added or sought. Any thread may call it. A second or a late call changes nothing.
        """
        with self._lock:
            given, base = self.given, self.items[0]
            last: dict[Any, Any] = {}
            for item in reversed(self.items[self._settled - base : given - base]):
                if type(item) is not Message:
                    last.setdefault(item[:2], item)
                    if len(last) == len(self._assigned.parts):
                        break
            for tp, record in last.items():
                part = self._assigned.get(tp)
                if part is not None and (part.last is None or part.last.offset < record.offset):
                    part.last = record
            self._settled = given

    def forget(self) -> None:
        """Forget what the application has."""
        with self._lock:
            self.settle()
            number = self._settled - 1
            self.items[: number - self.items[0] + 1] = (number,)

    def drop(self, part: Part) -> None:
        """Drop what waits of a partition, except for errors; `part.back` becomes its first offset.

        If another thread, or a signal handler, gets items meanwhile, look again.
        """
        with self._lock:
            while True:
                self.settle()
                given, drops = self.given, self.drops
                waiting = self.items[given - self.items[0] :]
                ends = [item for item in waiting if is_end_of(item, part.tp)]
                records = [item for item in waiting if key_of(item) == part.tp]
                if not ends and not records:
                    return
                if ends:
                    part.eof_at = OFFSET_INVALID  # it is to be reported again
                gone = {id(item) for item in (*ends, *records)}
                kept = [item for item in waiting if id(item) not in gone]
                size = len(waiting)
                if self.given == given and self.drops == drops:
                    if records:
                        part.back = records[0].offset
                    self.drops += 1
                    at = given - self.items[0]
                    self.items[at : at + size] = kept
                    return
