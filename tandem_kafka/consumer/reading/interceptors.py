"""Interceptors: they see returned records and committed offsets, on the application thread."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from tandem_kafka.consumer.reading.records import ConsumerRecords
from tandem_kafka.logs import ClientNames, client_logger
from tandem_kafka.types import ConsumerRecord, Offsets, TopicPartition

log = client_logger(__name__)


class Interceptors:
    """Calls the interceptors of `interceptor_classes` in order; logs their errors, as in Java.

    Attributes:
        consuming: Whether any interceptor has `on_consume()`.
        committing: Whether any interceptor has `on_commit()`.
    """

    def __init__(self, given: Sequence[Any], client: ClientNames | None = None) -> None:
        self._client = client
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
        """Pass the records through all interceptors and return the result.

        The result of an interceptor is ignored if it raises or returns anything but records of
        the same partitions. None means that it left the records unchanged.
        """
        for method in self._consume:
            try:
                records = _replaced(records, method(records))
            except Exception:
                log.warning(
                    "on_consume() of an interceptor failed; ignored",
                    exc_info=True,
                    client=self._client,
                )
        return records

    def on_commit(self, offsets: Offsets) -> None:
        """Pass committed offsets to all interceptors."""
        for method in self._commit:
            try:
                method(dict(offsets))
            except Exception:
                log.warning(
                    "on_commit() of an interceptor failed; ignored",
                    exc_info=True,
                    client=self._client,
                )

    def close(self) -> None:
        """Close the interceptors that have a `close()` method."""
        for each in self._objects:
            close = getattr(each, "close", None)
            try:
                if close is not None:
                    close()
            except Exception:
                log.warning(
                    "close() of an interceptor failed; ignored", exc_info=True, client=self._client
                )


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
    """Return the records of an interceptor; the next offsets stay those of poll()."""
    if after is None or after is before:
        return before
    if not _are_records(after, before):
        message = f"on_consume() must return records of the partitions it received, got {after!r}"
        raise TypeError(message)
    given: Mapping[TopicPartition, Any] = after
    found: ConsumerRecords[Any, Any] = ConsumerRecords()
    found.update({tp: records for tp, records in given.items() if len(records)})
    found.next_offsets, found.starts = before.next_offsets, before.starts
    return found
