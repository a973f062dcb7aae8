"""Records of deleted topics whose names were used again."""

from __future__ import annotations

from typing import Any

from tandem_kafka.types import TopicPartition
from tests.scenarios.history import History
from tests.scenarios.numbered_records import value_of
from tests.scenarios.violation import Violation

__all__ = ["OldRecords"]

Key = tuple[int, TopicPartition]


class OldRecords:
    """Checks records of a deleted topic.

    A member that owned a partition when its topic was deleted may still hand out the records that
    it had fetched.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        #: The next offset in the deleted topic, by member and partition; None if any is allowed.
        self._next: dict[Key, int | None] = {}

    def assigned(self, number: int, tp: TopicPartition) -> None:
        """Note that a member was assigned a partition of the present topic."""
        self._next.pop((number, tp), None)

    def deleted(self, key: Key, due: int | None) -> None:
        """Note that the topic was deleted when the next offset of a member was `due`."""
        self._next[key] = due

    def is_old(self, number: int, tp: TopicPartition, record: Any) -> bool:
        """Return whether a record belongs to a deleted topic.

        Raises:
            Violation: The member never owned the partition of that topic, the record is out of
                order, or it follows records of the new topic.
        """
        key, incarnation = (number, tp), self._history.incarnation_of(tp.topic)
        if not any(record.value == value_of(tp, record.offset, old) for old in range(incarnation)):
            self._next.pop(key, None)
            return False
        if key not in self._next:
            raise Violation(f"{tp}: {record.value!r} belongs to a deleted topic")
        due = self._next[key]
        if due is not None and record.offset != due:
            raise Violation(f"{tp}: {record.value!r} of a deleted topic, {due} was due")
        self._next[key] = record.offset + 1
        return True
