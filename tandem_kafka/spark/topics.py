"""Looks up the existing partitions in the cluster on every call.

A consumer's cached metadata may be minutes old. A stream queries the cluster before each
micro-batch, so that a batch reflects partitions added or removed since the last one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tandem_kafka.callers import run
from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.consumer.owned import shared
from tandem_kafka.events.application import ListTopics, PartitionsForTopic
from tandem_kafka.types import TopicPartition

__all__ = ["PlanningConsumer"]


class PlanningConsumer(KafkaConsumer):
    """A consumer that looks up topics and offsets, and reads no records."""

    @shared
    def all_partitions(self) -> set[TopicPartition]:
        """Return the partitions of all visible topics, except internal ones.

        Raises:
            KafkaTimeoutError: The cluster did not respond in time.
        """
        found = run(self._core.ask(ListTopics(deadline_ms=self._core.deadline_ms(None))))
        return {tp for each in found.values() if not each.internal for tp in _partitions(each)}

    @shared
    def partitions_of(self, names: Iterable[str]) -> set[TopicPartition]:
        """Return the partitions of these topics; a topic that does not exist has none.

        Raises:
            KafkaTimeoutError: The cluster did not respond in time.
            TopicAuthorizationFailedError, InvalidTopicError: The cluster rejected the request.
        """
        found: set[TopicPartition] = set()
        for name in names:
            event = PartitionsForTopic(deadline_ms=self._core.deadline_ms(None), topic=name)
            topic = run(self._core.ask(event))
            found.update(() if topic is None else _partitions(topic))
        return found


def _partitions(topic: Any) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for number in topic.partitions]
