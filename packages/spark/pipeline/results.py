"""Reads the job's output: the Parquet files, and the topics of totals and dead letters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow.dataset

from pipeline.figures import DeadLetter, Found, Row, Total
from tandem_kafka import ConsumerRecord, KafkaConsumer, TopicPartition

Record = ConsumerRecord[bytes | None, bytes | None]

__all__ = ["collect", "count_records", "end_of"]

_COLUMNS: Final = ("id", "customer", "country", "cents", "at")


def collect(bootstrap: str, topics: dict[str, str], files: Path) -> Found:
    """Collect all output; `topics` has the topics of orders, totals and dead letters."""
    letters = list(_records(bootstrap, topics["dead_letters"]))
    return Found(
        count_records(bootstrap, topics["orders"]),
        list(_rows(files)),
        [_total(record) for record in _records(bootstrap, topics["totals"])],
        [_dead_letter(record) for record in letters],
        sorted((each.timestamp / 1_000, (each.key or b"").decode()) for each in letters),
    )


def count_records(bootstrap: str, topic: str) -> int:
    """Return the number of records in a topic."""
    with KafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        return end_of(consumer, topic)


def end_of(consumer: KafkaConsumer, topic: str) -> int:
    """Return the number of records in a topic."""
    partitions = [TopicPartition(topic, n) for n in consumer.partitions_for_topic(topic) or ()]
    return sum(consumer.end_offsets(partitions).values())


def _records(bootstrap: str, topic: str) -> Iterator[Record]:
    """Read a topic from its beginning to its end."""
    with KafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        partitions = [TopicPartition(topic, n) for n in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(each) < end for each, end in ends.items()):
            for records in consumer.poll(timeout_ms=1_000).values():
                yield from records


def _total(record: Record) -> tuple[tuple[int, str], Total]:
    fields = json.loads(record.value or b"{}")
    key = (fields["window_start_ms"], fields["country"])
    if record.key != f"{key[0]}|{key[1]}".encode():
        raise ValueError(f"the total of {key} has the key {record.key!r}")
    return key, Total(fields["orders"], fields["cents"])


def _dead_letter(record: Record) -> tuple[str, DeadLetter]:
    headers = dict(record.headers)
    reason = (headers["reason"] or b"").decode()
    return (record.key or b"").decode(), DeadLetter(record.value or b"", reason)


def _rows(files: Path) -> Iterator[tuple[int, Row]]:
    paths = sorted(set(_finished_files(files / "_spark_metadata")))
    table = pyarrow.dataset.dataset(paths).to_table(columns=list(_COLUMNS))
    columns: dict[str, list[Any]] = {name: table[name].to_pylist() for name in _COLUMNS}
    for number, customer, country, cents, at in zip(*columns.values(), strict=True):
        yield number, Row(customer, country, cents, round(at.timestamp() * 1_000))


def _finished_files(log: Path) -> Iterator[str]:
    """Yield the valid files, which Spark lists in its log; a kill may leave others."""
    for entry in log.iterdir():
        if entry.name.startswith("."):
            continue
        for line in entry.read_text().splitlines():
            if line.startswith("{"):
                yield json.loads(line)["path"].removeprefix("file://")
