"""Kills landings at random moments: `python -m tests.integration.tables.landing_kills --help`.

Each life is a fork of this process, which has imported everything. It takes all partitions, and is
killed after a random time; every fourth one is killed after the next has begun. With --recreate N,
the topic is deleted and created again while every Nth life runs, once all of it is landed. In the
end the table must have each record of each topic once.
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
from tandem_kafka.errors import KafkaError
from tandem_kafka.tables import Landing
from tandem_kafka_testing.kafka.admin import ClusterAdmin, Record
from tests.integration.tables.landing_tables import (
    DeltaTable,
    DuckdbTable,
    ParquetTable,
    PostgresTable,
    Row,
    SqliteTable,
    Table,
    postgres,
)

#: They are loaded before the forks.
LOADED = (deltalake, duckdb, pyarrow.compute, pyarrow.parquet)
KINDS = {"parquet": ParquetTable, "delta": DeltaTable, "sqlite": SqliteTable, "duckdb": DuckdbTable}
PARTITIONS = 3
_NUMBERS = range(PARTITIONS)
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


def made_anew(admin: ClusterAdmin, topic: str, partitions: int = 1) -> None:
    """Delete a topic, and create it again."""
    admin.delete_topic(topic)
    deadline = time.monotonic() + 30
    while True:  # a real broker deletes it later
        try:
            admin.create_topic(topic, partitions)
        except KafkaError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


class Produced:
    """What was produced to a topic, and to those of its name that were deleted.

    Attributes:
        present: The records of the topic.
        former: Those of deleted ones.
        topics: How many topics there were.
    """

    def __init__(self, admin: ClusterAdmin, topic: str, chance: random.Random) -> None:
        self.present: list[Row] = []
        self.former: list[Row] = []
        self.topics = 1
        self._admin = admin
        self._topic = topic
        self._chance = chance
        admin.create_topic(topic, PARTITIONS)

    def add(self) -> None:
        """Produce records."""
        ends = [sum(partition == each for each, _, _ in self.present) for partition in _NUMBERS]
        made = []
        for _ in range(RECORDS_PER_LIFE):
            partition = self._chance.randrange(PARTITIONS)
            value = b"%d-%d-%d" % (self.topics, partition, ends[partition])
            made.append((partition, ends[partition], value))
            ends[partition] += 1
        records = [Record(value, partition=partition) for partition, _, value in made]
        self._admin.produce(self._topic, records)
        self.present += made

    def begin_anew(self) -> None:
        """Delete the topic, and create it again."""
        made_anew(self._admin, self._topic, PARTITIONS)
        self.former += self.present
        self.present = []
        self.topics += 1


class Lives:
    """Lives of a landing.

    Attributes:
        well: Whether none had an error.
    """

    def __init__(self, table: Table, bootstrap: str, topic: str) -> None:
        self.well = True
        self._of = table, bootstrap, topic
        self._running: list[int] = []

    def begin(self) -> None:
        """Begin one that is killed later."""
        self._running.append(begin(*self._of))

    def kill(self, *, but: int = 0) -> None:
        """Kill the first ones."""
        while len(self._running) > but:
            self.well &= end(self._running.pop(0))

    def land(self, until: int) -> None:
        """Land records until all are there."""
        status = os.waitpid(begin(*self._of, until), 0)[1]
        self.well &= os.waitstatus_to_exitcode(status) == 0


def run(kind: str, kills: int, seed: int, bootstrap: str, recreate: int = 0) -> bool:
    """Kill lives, let the last one land what is left, and compare."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    topic = f"landing-{kind}-{seed}-{os.getpid()}"
    produced = Produced(ClusterAdmin(bootstrap), topic, chance)
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd() if kind != "postgres" else None) as place,
        new_table(kind, Path(place)) as table,
    ):
        produced.add()
        lives = Lives(table, bootstrap, topic)
        began = time.monotonic()
        lives.land(len(produced.present))
        longest_s = LONGEST * (time.monotonic() - began)
        for number in range(kills):
            again = recreate and number % recreate == recreate - 1
            if again:
                lives.kill()
                lives.land(len(produced.present))
            lives.begin()
            time.sleep(chance.uniform(0, 0.2))
            lives.kill(but=1)
            if again:
                time.sleep(chance.uniform(0, longest_s))  # it may have begun to read, or not
                produced.begin_anew()
            produced.add()
            time.sleep(chance.uniform(0, longest_s))
            if number % 4 != 3 or kind == "duckdb":  # DuckDB lets in one process
                lives.kill()
        lives.kill()
        before = count(table)
        lives.land(len(produced.present))
        rows = table.rows()
    expected = sorted(produced.former + produced.present)
    twice = len(rows) - len(set(rows))
    lost = len(set(expected) - set(rows))
    print(
        f"{kind}: {kills} kills, {len(expected)} records of {produced.topics} topics, {before} of "
        f"them landed before the last life, {lost} lost, {twice} twice"
    )
    return lives.well and rows == expected


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", choices=[*KINDS, "postgres"], required=True)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--recreate", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bootstrap-servers", required=True)
    given = parser.parse_args()
    options = given.table, given.kills, given.seed, given.bootstrap_servers, given.recreate
    sys.exit(0 if run(*options) else 1)


if __name__ == "__main__":
    main()
