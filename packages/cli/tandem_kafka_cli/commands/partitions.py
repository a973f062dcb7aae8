"""`tandem-kafka partitions`: sizes, leaders, first and last records of a topic's partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from tandem_kafka_cli import flags
from tandem_kafka_cli.output import Column, show
from tandem_kafka_cli.times import shown_duration

if TYPE_CHECKING:
    from tandem_kafka import KafkaConsumer
    from tandem_kafka.types import TopicInfo, TopicPartition
    from tandem_kafka_cli.connection import Connection


_COLUMNS: Final = (
    Column("partition", "#", number=True),
    Column("leader", number=True),
    Column("replicas"),
    Column("out_of_sync", "lagging"),
    Column("first", number=True),
    Column("end", number=True),
    Column("size", number=True),
    Column("first_time", "oldest", number=True),
    Column("last_time", "newest", number=True),
)
_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")


@click.command()
@flags.TOPIC
@flags.PARTITIONS
@flags.JSON
@flags.connected
def command(connection: Connection, topic: str, partitions: tuple[int, ...], as_json: bool) -> None:
    """Show the partitions of a topic.

    The size is that of the largest replica. The ages are those of the first and the last record;
    --json has their timestamps.
    """
    from tandem_kafka_cli.connection import described_topic, partitions_of

    with connection.consumer() as consumer:
        chosen = partitions_of(consumer, topic, partitions)
        described = described_topic(consumer.cluster(), topic)
        rows = _rows(connection, consumer, described, chosen)
    with connection.administration() as administration:
        sizes = administration.sizes(topic)
    for tp, row in zip(chosen, rows, strict=True):
        row["size"] = sizes.get(tp)
    now_ms = connection.environment.clock.wall_ms()
    shown = rows if as_json else [_for_people(row, now_ms) for row in rows]
    show(_COLUMNS, shown, as_json=as_json)


def _rows(
    connection: Connection,
    consumer: KafkaConsumer,
    topic: TopicInfo,
    chosen: Sequence[TopicPartition],
) -> list[dict[str, Any]]:
    beginnings, ends = consumer.beginning_offsets(chosen), consumer.end_offsets(chosen)
    first, last = _times(connection, consumer, beginnings, ends)
    rows = []
    for tp in chosen:
        info = topic.partitions[tp.partition]
        rows.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "leader": info.leader_id if info.leader_id >= 0 else None,
                "replicas": list(info.replicas),
                "out_of_sync": sorted(set(info.replicas) - set(info.isr)) or None,
                "first": beginnings[tp],
                "end": ends[tp],
                "first_time": first.get(tp),
                "last_time": last.get(tp),
            }
        )
    return rows


def _times(
    connection: Connection,
    consumer: KafkaConsumer,
    beginnings: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return the timestamps of the first and of the last record of each partition."""
    from tandem_kafka_cli.records.last import last_of_each

    held = {tp: end for tp, end in ends.items() if beginnings[tp] < end}
    found = consumer.offsets_for_times(dict.fromkeys(held, 0)) if held else {}
    first = {tp: at.timestamp for tp, at in found.items() if at is not None}
    records = last_of_each(consumer, held, 1, connection.environment.clock)
    return first, {tp: each[-1].timestamp for tp, each in records.items() if each}


def _for_people(row: dict[str, Any], now_ms: int) -> dict[str, Any]:
    size = row["size"]
    return {
        **row,
        "replicas": ",".join(map(str, row["replicas"])),
        "size": None if size is None else shown_bytes(size),
        "first_time": _age(row["first_time"], now_ms),
        "last_time": _age(row["last_time"], now_ms),
    }


def _age(timestamp_ms: int | None, now_ms: int) -> str | None:
    return None if timestamp_ms is None else f"{shown_duration(now_ms - timestamp_ms)} ago"


def shown_bytes(size: int) -> str:
    """Return a size in a unit that leaves at most four digits."""
    number = float(size)
    for unit in _UNITS[:-1]:
        if number < 1000:
            return (
                f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"
            )
        number /= 1000
    return f"{number:.1f} {_UNITS[-1]}"
