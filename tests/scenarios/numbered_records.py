"""Records whose values name their partition and offset, so that a reader can check them."""

from __future__ import annotations

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.simulation import Simulation

__all__ = ["create_topic", "next_values", "produce", "value_of"]


def value_of(tp: TopicPartition, offset: int, incarnation: int = 0) -> bytes:
    """Return the value of the record at an offset.

    Args:
        tp: The partition.
        offset: The offset of the record.
        incarnation: How often the topic was recreated.
    """
    suffix = f"~{incarnation}" if incarnation else ""
    return f"{tp.topic}-{tp.partition}-{offset}{suffix}".encode()


def produce(simulation: Simulation, tp: TopicPartition, count: int) -> None:
    """Append records whose values name their offsets."""
    simulation.cluster.produce(tp, *next_values(simulation, tp, count))


def next_values(
    simulation: Simulation, tp: TopicPartition, count: int, incarnation: int = 0
) -> list[bytes]:
    """Return the values of the next records of a partition."""
    end = simulation.cluster.at(tp).log.end_offset
    return [value_of(tp, end + number, incarnation) for number in range(count)]


def create_topic(simulation: Simulation, name: str, partitions: int) -> list[TopicPartition]:
    """Create a topic and return its partitions."""
    simulation.cluster.create_topic(name, partitions)
    return [TopicPartition(name, number) for number in range(partitions)]
