"""Records whose values tell their partition and offset, so that whoever reads one can check it."""

from __future__ import annotations

from tandem_kafka.testing.simulation import Simulation
from tandem_kafka.types import TopicPartition

__all__ = ["create_topic", "produce", "value_of"]


def value_of(tp: TopicPartition, offset: int) -> bytes:
    """Return what the record at an offset holds."""
    return f"{tp.topic}-{tp.partition}-{offset}".encode()


def produce(simulation: Simulation, tp: TopicPartition, count: int) -> None:
    """Append records whose values tell their offsets."""
    end = simulation.cluster.at(tp).log.end_offset
    simulation.cluster.produce(tp, *(value_of(tp, end + number) for number in range(count)))


def create_topic(simulation: Simulation, name: str, partitions: int) -> list[TopicPartition]:
    """Create a topic and return its partitions."""
    simulation.cluster.create_topic(name, partitions)
    return [TopicPartition(name, number) for number in range(partitions)]
