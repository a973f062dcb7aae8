"""Partitions grouped by topic, as requests have them, and the entries of a response one by one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar
from uuid import UUID

from kafka.errors import UnknownTopicIdError

from tandem_kafka.errors import IncompleteResponseError, TopicAuthorizationFailedError, for_code
from tandem_kafka.types import TopicPartition

__all__ = ["answered_entries", "by_topic", "raise_error_of"]

T = TypeVar("T")
E = TypeVar("E")


def by_topic(
    partitions: Mapping[TopicPartition, T], make: Callable[[TopicPartition, T], E]
) -> dict[str, list[E]]:
    """Return one entry per partition, grouped by topic in the order of the partitions."""
    entries: dict[str, list[E]] = {}
    for tp, what in partitions.items():
        entries.setdefault(tp.topic, []).append(make(tp, what))
    return entries


def answered_entries(
    topics: Iterable[Any],
    asked: Collection[TopicPartition],
    names: Mapping[UUID, str] | None = None,
) -> dict[TopicPartition, Any]:
    """Return the entry of each partition that was asked for.

    Args:
        topics: The topics of the response.
        asked: The partitions of the request.
        names: The names of the topic ids in the request; None if the response names its topics.

    Raises:
        UnknownTopicIdError: The response has a topic id that was not in the request.
        IncompleteResponseError: A partition that was asked for is missing.
    """
    entries = {}
    for topic in topics:
        name = _name(topic, names)
        for entry in topic.partitions:
            number = getattr(entry, "partition_index", None)
            tp = TopicPartition(name, entry.partition if number is None else number)
            if tp in asked:
                entries[tp] = entry
    missing = [tp for tp in asked if tp not in entries]
    if missing:
        raise IncompleteResponseError(
            "the response leaves out "
            + ", ".join(f"{tp.topic}-{tp.partition}" for tp in missing[:10])
        )
    return entries


def _name(topic: Any, names: Mapping[UUID, str] | None) -> str:
    if names is None:
        name = getattr(topic, "name", None)
        return str(topic.topic if name is None else name)
    if topic.topic_id not in names:
        raise UnknownTopicIdError(f"the response has topic id {topic.topic_id}, which is unknown")
    return names[topic.topic_id]


def raise_error_of(entries: Mapping[TopicPartition, Any]) -> None:
    """Raise the error that decides, if any: unauthorized topics together, else the first."""
    errors = {tp: for_code(entry.error_code) for tp, entry in entries.items() if entry.error_code}
    unauthorized = {tp.topic for tp, e in errors.items() if e is TopicAuthorizationFailedError}
    if unauthorized:
        raise TopicAuthorizationFailedError(unauthorized)
    for tp, error in errors.items():
        raise error(f"{tp.topic}-{tp.partition}")
