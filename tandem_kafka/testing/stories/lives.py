"""Records of topics that were deleted, of a name that another topic has by now."""

from __future__ import annotations

from typing import Any

from tandem_kafka.testing.stories.books import Books
from tandem_kafka.testing.stories.numbered import value_of
from tandem_kafka.testing.stories.violation import Violation
from tandem_kafka.types import TopicPartition

__all__ = ["Lives"]

Key = tuple[int, TopicPartition]


class Lives:
    """Who had a partition when its topic was deleted may still hand out what it had fetched."""

    def __init__(self, books: Books) -> None:
        self._books = books
        #: What comes next of the old topic, by member and partition; None if that may be anything.
        self._next: dict[Key, int | None] = {}

    def begin(self, number: int, tp: TopicPartition) -> None:
        """A member was told to own a partition: of the topic that there is now."""
        self._next.pop((number, tp), None)

    def end(self, key: Key, due: int | None) -> None:
        """The topic was deleted where a member would have gone on at `due`."""
        self._next[key] = due

    def is_of_an_old_topic(self, number: int, tp: TopicPartition, record: Any) -> bool:
        """Tell whether a record is of an old topic; it is in order if so, and before the new one.

        Raises:
            Violation: It is of one that its member never had, or not in order.
        """
        key, life = (number, tp), self._books.life_of(tp.topic)
        if not any(record.value == value_of(tp, record.offset, old) for old in range(life)):
            self._next.pop(key, None)
            return False
        if key not in self._next:
            raise Violation(f"{tp}: {record.value!r} is of a topic that is gone")
        due = self._next[key]
        if due is not None and record.offset != due:
            raise Violation(f"{tp}: {record.value!r} of a topic that is gone, {due} was due")
        self._next[key] = record.offset + 1
        return True
