"""Kills landings at random moments: `python -m tests.integration.landing_kills --help`.

Each life is a fork of this process, which has imported everything. It takes all partitions, and is
killed after a random time; every fourth one is killed after the next has begun. In the end the
table must have each record once.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import deltalake
import duckdb
import pyarrow.compute
import pyarrow.parquet

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.landing import Landing
from tandem_kafka.testing.kafka.admin import ClusterAdmin, Record
from tests.integration.landing_tables import (
    DeltaTable,
    DuckdbTable,
    ParquetTable,
    PostgresTable,
    SqliteTable,
    Table,
    postgres,
)

#: They are loaded before the forks.
LOADED = (deltalake, duckdb, pyarrow.compute, pyarrow.parquet)
KINDS = {"parquet": ParquetTable, "delta": DeltaTable, "sqlite": SqliteTable, "duckdb": DuckdbTable}
PARTITIONS = 3
#: The longest life, in lives that have time for all records: half of them are killed before.
LONGEST = 2
RECORDS_PER_LIFE = 60


@contextmanager
def new_table(kind: str, place: Path) -> Iterator[Table]:
    """Make an empty table."""
    if kind == "postgres":
        (place / "server").mkdir()
        with postgres(place / "server") as address:
            table = PostgresTable(address)
            table.create()
            yield table
        return
    made = KINDS[kind](place)
    if isinstance(made, SqliteTable | DuckdbTable):
        made.create()
    yield made


def live(table: Table, bootstrap: str, topic: str, until: int | None) -> None:
    """Land records until all are there, or for ever."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    with KafkaConsumer(
        group_id="landing",
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.assign(partitions)
        landing = Landing(
            consumer,
            table.open(),
            every=timedelta(milliseconds=10),
            rows=20,
            columns=["topic", "partition", "offset", "value"],
        )

        def all_landed() -> bool:
            return until is not None and until == sum(map(consumer.position, partitions))

        landing.run(all_landed)


def begin(table: Table, bootstrap: str, topic: str, until: int | None = None) -> int:
    """Begin a life in a fork, and return its process id."""
    child = os.fork()
    if not child:
        status = 1
        try:
            live(table, bootstrap, topic, until)
            status = 0
        except BaseException:  # noqa: BLE001 - nothing may leave the child
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def end(child: int) -> bool:
    """Kill a life; False if it had ended with an error."""
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def count(table: Table) -> int:
    """Count the rows in a fork: the threads of Delta Lake do not survive one."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, b"%d" % len(table.rows()))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        counted = int(answer.read())
    os.waitpid(child, 0)
    return counted


def run(kind: str, kills: int, seed: int, bootstrap: str) -> bool:
    """Kill lives, let the last one land what is left, and compare."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    topic = f"landing-{kind}-{seed}-{os.getpid()}"
    admin = ClusterAdmin(bootstrap)
    admin.create_topic(topic, PARTITIONS)
    expected: list[tuple[int, int, bytes]] = []
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd() if kind != "postgres" else None) as place,
        new_table(kind, Path(place)) as table,
    ):
        expected += _produce(admin, topic, expected, chance)
        began = time.monotonic()
        first = begin(table, bootstrap, topic, len(expected))
        failed = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
        longest_s = LONGEST * (time.monotonic() - began)
        overlapping: int | None = None
        killed: list[bool] = []
        for number in range(kills):
            child = begin(table, bootstrap, topic)
            if overlapping is not None:
                time.sleep(chance.uniform(0, 0.2))
                killed.append(end(overlapping))
                overlapping = None
            expected += _produce(admin, topic, expected, chance)
            time.sleep(chance.uniform(0, longest_s))
            if number % 4 == 3 and kind != "duckdb":  # DuckDB lets in one process
                overlapping = child
            else:
                killed.append(end(child))
        if overlapping is not None:
            killed.append(end(overlapping))
        before = count(table)
        last = begin(table, bootstrap, topic, len(expected))
        failed |= os.waitstatus_to_exitcode(os.waitpid(last, 0)[1])
        rows = table.rows()
    twice = len(rows) - len(set(rows))
    lost = len(set(expected) - set(rows))
    print(
        f"{kind}: {kills} kills, {len(expected)} records, {before} of them landed by lives that "
        f"were killed, {lost} lost, {twice} twice"
    )
    return all(killed) and not failed and rows == sorted(expected)


def _produce(
    admin: ClusterAdmin, topic: str, before: list[tuple[int, int, bytes]], chance: random.Random
) -> list[tuple[int, int, bytes]]:
    ends = [sum(partition == each for each, _, _ in before) for partition in range(PARTITIONS)]
    made = []
    for _ in range(RECORDS_PER_LIFE):
        partition = chance.randrange(PARTITIONS)
        made.append((partition, ends[partition], b"%d-%d" % (partition, ends[partition])))
        ends[partition] += 1
    admin.produce(topic, [Record(value, partition=partition) for partition, _, value in made])
    return made


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", choices=[*KINDS, "postgres"], required=True)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bootstrap-servers", required=True)
    given = parser.parse_args()
    sys.exit(0 if run(given.table, given.kills, given.seed, given.bootstrap_servers) else 1)


if __name__ == "__main__":
    main()
