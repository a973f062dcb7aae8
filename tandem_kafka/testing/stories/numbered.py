"""Records whose values name their partition and offset, so that a reader can check them."""

from __future__ import annotations

from tandem_kafka.testing.simulation import Simulation
from tandem_kafka.types import TopicPartition

__all__ = ["create_topic", "next_values", "produce", "value_of"]


def value_of(tp: TopicPartition, offset: int, life: int = 0) -> bytes:
    """Return what the record at an offset holds, in a topic that was made anew so many times."""
    return f"{tp.topic}-{tp.partition}-{offset}{f'~{life}' if life else ''}".encode()


def produce(simulation: Simulation, tp: TopicPartition, count: int) -> None:
    """Append records whose values tell their offsets."""
    simulation.cluster.produce(tp, *next_values(simulation, tp, count))


def next_values(
    simulation: Simulation, tp: TopicPartition, count: int, life: int = 0
) -> list[bytes]:
    """Return what the next records of a partition hold."""
    end = simulation.cluster.at(tp).log.end_offset
    return [value_of(tp, end + number, life) for number in range(count)]


def create_topic(simulation: Simulation, name: str, partitions: int) -> list[TopicPartition]:
    """Create a topic and return its partitions."""
    simulation.cluster.create_topic(name, partitions)
    return [TopicPartition(name, number) for number in range(partitions)]
