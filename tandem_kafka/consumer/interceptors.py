"""Interceptors: they see what is handed out and what is committed, on the application thread."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from tandem_kafka.consumer.records import ConsumerRecords
from tandem_kafka.types import ConsumerRecord, OffsetAndMetadata, TopicPartition

__all__ = ["Interceptors"]

log = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class Interceptors:
    """Those of `interceptor_classes`, in their order; what they raise is logged, as in Java.

    Attributes:
        consuming: Whether one of them wants to see records.
        committing: Whether one of them wants to see commits.
    """

    def __init__(self, given: Sequence[Any]) -> None:
        self._objects: list[Any] = []
        try:
            for each in given:
                self._objects.append(each() if inspect.isclass(each) else each)
        except BaseException:
            self.close()
            raise
        self._consume = self._methods("on_consume")
        self._commit = self._methods("on_commit")
        self.consuming = bool(self._consume)
        self.committing = bool(self._commit)

    def _methods(self, name: str) -> list[Callable[[Any], Any]]:
        found = (getattr(each, name, None) for each in self._objects)
        return [method for method in found if method is not None]

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        """Return the records as the interceptors leave them, each after the one before.

        One that raises, or returns what are no records of the same partitions, changes nothing;
        None stands for what it was given.
        """
        for method in self._consume:
            try:
                records = _replaced(records, method(records))
            except Exception:
                log.warning("an interceptor failed in on_consume()", exc_info=True)
        return records

    def on_commit(self, offsets: Offsets) -> None:
        """Tell of offsets that have been committed."""
        for method in self._commit:
            try:
                method(dict(offsets))
            except Exception:
                log.warning("an interceptor failed in on_commit()", exc_info=True)

    def close(self) -> None:
        """Close those that can be closed."""
        for each in self._objects:
            close = getattr(each, "close", None)
            try:
                if close is not None:
                    close()
            except Exception:
                log.warning("an interceptor failed in close()", exc_info=True)


def _are_records(
    after: object, before: ConsumerRecords
) -> TypeGuard[Mapping[TopicPartition, Sequence[ConsumerRecord]]]:
    if not isinstance(after, Mapping) or not after.keys() <= before.keys():
        return False
    return all(
        isinstance(records, Sequence) and all(hasattr(each, "offset") for each in records)
        for records in after.values()
    )


def _replaced(before: ConsumerRecords, after: object) -> ConsumerRecords:
    """Take what an interceptor returned; positions stay where poll() has moved them."""
    if after is None or after is before:
        return before
    if not _are_records(after, before):
        message = f"on_consume() must return records of the partitions it was given, got {after!r}"
        raise TypeError(message)
    given: Mapping[TopicPartition, Any] = after
    found: ConsumerRecords[Any, Any] = ConsumerRecords()
    found.update({tp: records for tp, records in given.items() if len(records)})
    found.next_offsets = before.next_offsets
    return found
