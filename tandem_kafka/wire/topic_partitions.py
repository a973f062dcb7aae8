"""Groups partitions by topic for requests, and finds the entries of partitions in responses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar
from uuid import UUID

from kafka.errors import UnknownTopicIdError

from tandem_kafka.errors import (
    IncompleteResponseError,
    KafkaError,
    TopicAuthorizationFailedError,
    TopicsDeniedError,
    for_code,
)
from tandem_kafka.types import TopicPartition, names_of

T = TypeVar("T")
E = TypeVar("E")
K = TypeVar("K")


def by_topic(
    partitions: Mapping[TopicPartition, T], make: Callable[[TopicPartition, T], E]
) -> dict[str, list[E]]:
    """Return one entry per partition, grouped by topic in the order of the partitions."""
    entries: dict[str, list[E]] = {}
    for tp, what in partitions.items():
        entries.setdefault(tp.topic, []).append(make(tp, what))
    return entries


def numbers_by(entries: Iterable[tuple[K, Iterable[int]]]) -> dict[K, frozenset[int]]:
    """Return partition numbers by topic or topic id, which may have several entries."""
    found: dict[K, set[int]] = {}
    for key, numbers in entries:
        found.setdefault(key, set()).update(numbers)
    return {key: frozenset(numbers) for key, numbers in found.items()}


def requested_entries(
    topics: Iterable[Any],
    asked: Collection[TopicPartition],
    names: Mapping[UUID, str] | None = None,
) -> dict[TopicPartition, Any]:
    """Return the entry of each requested partition that the response has; see `missing_error`.

    Args:
        topics: The topics of the response.
        asked: The partitions of the request.
        names: The names of the topic ids in the request; None if the response has topic names.

    Raises:
        UnknownTopicIdError: The response has a topic id that was not in the request.
    """
    entries = {}
    for topic in topics:
        name = _name(topic, names)
        for entry in topic.partitions:
            number = getattr(entry, "partition_index", None)
            tp = TopicPartition(name, entry.partition if number is None else number)
            if tp in asked:
                entries[tp] = entry
    return entries


def missing_error(missing: Iterable[TopicPartition]) -> IncompleteResponseError:
    """Return the error of requested partitions without an entry; the others have their results."""
    return IncompleteResponseError(
        f"the response lacks the requested partitions {names_of(sorted(missing)[:10])}"
    )


def _name(topic: Any, names: Mapping[UUID, str] | None) -> str:
    if names is None:
        name = getattr(topic, "name", None)
        return str(topic.topic if name is None else name)
    if topic.topic_id not in names:
        raise UnknownTopicIdError(f"the response has the unknown topic id {topic.topic_id}")
    return names[topic.topic_id]


def raise_error_of(
    entries: Mapping[TopicPartition, Any], asked: Iterable[TopicPartition] = ()
) -> None:
    """Raise the error of `error_of`, if any."""
    error = error_of(entries, asked)
    if error is not None:
        raise error


def error_of(
    entries: Mapping[TopicPartition, Any], asked: Iterable[TopicPartition] = ()
) -> KafkaError | None:
    """Return an error for all unauthorized topics together, else the first error, if any.

    If there is none, it is that of the requested partitions without an entry.
    """
    errors = {tp: for_code(entry.error_code) for tp, entry in entries.items() if entry.error_code}
    unauthorized = {tp.topic for tp, e in errors.items() if e is TopicAuthorizationFailedError}
    if unauthorized:
        return TopicsDeniedError(unauthorized)
    found = next((error(f"{tp.topic}-{tp.partition}") for tp, error in errors.items()), None)
    missing = [tp for tp in asked if tp not in entries]
    return missing_error(missing) if missing and found is None else found
