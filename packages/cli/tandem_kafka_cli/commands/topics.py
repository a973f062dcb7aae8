"""`tandem-kafka topics`: the topics of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from tandem_kafka_cli import flags
from tandem_kafka_cli.output import Column, show
from tandem_kafka_cli.records.filters import compiled

if TYPE_CHECKING:
    from tandem_kafka import KafkaConsumer
    from tandem_kafka.types import TopicInfo
    from tandem_kafka_cli.connection import Connection


_COLUMNS: Final = (
    Column("topic"),
    Column("partitions", number=True),
    Column("replicas", number=True),
    Column("without_leader", "no leader", number=True),
    Column("under_replicated", "not in sync", number=True),
    Column("offsets", number=True),
)


@click.command()
@click.argument("pattern", required=False)
@click.option("-a", "--all", "internal", is_flag=True, help="Internal topics, too.")
@click.option("--offsets", "counted", is_flag=True, help="Add how many offsets each topic holds.")
@flags.JSON
@flags.connected
def command(
    connection: Connection, pattern: str | None, internal: bool, counted: bool, as_json: bool
) -> None:
    """List the topics whose name matches PATTERN, a regular expression; all without one.

    The columns count partitions without a leader, and partitions with replicas out of sync.
    """
    wanted = None if pattern is None else compiled(pattern, "PATTERN")
    with connection.consumer() as consumer:
        topics = [
            topic
            for name, topic in sorted(consumer.cluster().topics.items())
            if (internal or not topic.internal) and (wanted is None or wanted.search(name.encode()))
        ]
        held = _held(consumer, topics) if counted else {}
    show(_COLUMNS, _rows(topics, held), as_json=as_json)


def _rows(topics: list[TopicInfo], held: dict[str, int]) -> Iterator[dict[str, Any]]:
    for topic in topics:
        partitions = topic.partitions.values()
        row = {
            "topic": topic.name,
            "partitions": len(partitions),
            "replicas": max((len(each.replicas) for each in partitions), default=0),
            "without_leader": sum(each.leader_id < 0 for each in partitions),
            "under_replicated": sum(len(each.isr) < len(each.replicas) for each in partitions),
        }
        yield {**row, "offsets": held[topic.name]} if held else row


def _held(consumer: KafkaConsumer, topics: list[TopicInfo]) -> dict[str, int]:
    """Return the number of offsets between beginning and end, by topic."""
    from tandem_kafka.types import TopicPartition

    partitions = [
        TopicPartition(each.name, number) for each in topics for number in each.partitions
    ]
    beginnings, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    held = dict.fromkeys((each.name for each in topics), 0)
    for tp in partitions:
        held[tp.topic] += ends[tp] - beginnings[tp]
    return held
