"""Every kind of topic as a table: contents, columns, transactions, gaps, retention, growth."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from packages.spark.tests.query import Query, Row, columns, plan, read, shipped, source, tasks
from packages.spark.tests.session import since
from packages.spark.tests.simulated import Stored, append, simulated
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce

from pyspark.sql.types import StructField, StructType  # isort: skip - see session

TP = TopicPartition("orders", 0)
LEVELS = ["read_uncommitted", "read_committed"]
NAMES = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
PAIR = [("h", b"1"), ("", None), ("h", b"")]


def offsets(rows: list[Row]) -> list[int]:
    return [row["offset"] for row in rows]


def awkward(simulation: Simulation) -> None:
    """Write records with and without each part."""
    create_topic(simulation, "orders", 2)
    stored = [
        Stored(0, None, None, timestamp_ms=1_700_000_000_123),
        Stored(1, b"", b"", PAIR, timestamp_ms=1),
        Stored(2, b"\x00\xff", b"k", timestamp_ms=1_700_000_000_124),
    ]
    append(simulation.cluster, TP, *stored)
    append(simulation.cluster, TP, Stored(0, b"v", b"k"), append_time_ms=1_700_000_000_999)


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1_000, UTC)


def test_a_row_has_what_its_record_has() -> None:
    with simulated() as simulation:
        awkward(simulation)
        rows = read(simulation.cluster.bootstrap(), subscribe="orders", includeHeaders=True)
        assert list(rows[0]) == NAMES
        assert [(row["key"], row["value"]) for row in rows] == [
            (None, None),
            (b"", b""),
            (b"k", b"\x00\xff"),
            (b"k", b"v"),
        ]
        assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [
            ("orders", 0, number) for number in range(4)
        ]
        assert [row["timestamp"] for row in rows] == [
            *(at(1_700_000_000_123), at(1), at(1_700_000_000_124), at(1_700_000_000_999)),
        ]
        assert [row["timestampType"] for row in rows] == [0, 0, 0, 1]
        headers = [{"key": name, "value": value} for name, value in PAIR]
        assert [row["headers"] for row in rows] == [None, headers, None, None]


@pytest.mark.parametrize("seed", range(8))
def test_columns_in_any_order(seed: int) -> None:
    """Also the same number of them in another order, and without the offset."""
    random = Random(seed)  # noqa: S311 - not a secret
    names = NAMES[:] if seed == 0 else random.sample(NAMES, random.randint(1, len(NAMES)))
    if seed == 0:
        names.reverse()
    with simulated(seed) as simulation:
        awkward(simulation)
        given: dict[str, Any] = {"subscribe": "orders", "includeHeaders": True}
        whole = read(simulation.cluster.bootstrap(), **given)
        rows = read(simulation.cluster.bootstrap(), columns(",".join(names)), **given)
        assert [list(row) for row in rows] == [names] * 4
        assert rows == [{name: row[name] for name in names} for row in whole]


def test_columns_that_are_never_null() -> None:
    """A schema may say so of them, and Spark expects it of what is read."""
    names = ["topic", "partition", "offset", "timestamp", "timestampType"]
    given = columns(",".join(names))
    strict = StructType([StructField(each.name, each.dataType, nullable=False) for each in given])
    with simulated() as simulation:
        awkward(simulation)
        rows = read(simulation.cluster.bootstrap(), strict, subscribe="orders")
        assert rows == read(simulation.cluster.bootstrap(), given, subscribe="orders")
        assert len(rows) == 4


def transactions(simulation: Simulation) -> dict[str, list[int]]:
    """Write committed, aborted, plain, compacted and open records; return the visible offsets."""
    create_topic(simulation, "orders", 1)
    cluster = simulation.cluster
    with cluster.transaction() as first:
        first.produce(TP, b"a", b"b")  # 0, 1; the marker is 2
    aborted = cluster.transaction(first.producer_id)
    aborted.produce(TP, b"x", b"x")  # 3, 4
    produce(simulation, TP, 2)  # 5, 6
    aborted.produce(TP, b"x")  # 7
    aborted.abort()  # 8
    append(cluster, TP, Stored(2), Stored(3), Stored(6), offsets=9)  # 11, 12, 15 of 9 to 17
    cluster.at(TP).log.end_offset += 4  # 18 to 21 are gone with their batches
    produce(simulation, TP, 1)  # 22
    with cluster.transaction() as empty:
        empty.produce(TP, b"y")  # 23, 24
    cluster.transaction().produce(TP, b"open")  # 25
    produce(simulation, TP, 2)  # 26, 27
    decided = [0, 1, 5, 6, 11, 12, 15, 22, 23]
    everything = sorted([*decided, 3, 4, 7, 25, 26, 27])
    return {"read_committed": decided, "read_uncommitted": everything}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("most", [None, 1, 4, 7])
def test_aborted_and_open_transactions_and_gaps(level: str, most: int | None) -> None:
    with simulated(f"{level} {most}") as simulation:
        visible = transactions(simulation)[level]
        given = {"subscribe": "orders", "kafka__isolation__level": level}
        if most is not None:
            given["maxRecordsPerPartition"] = str(most)
        rows = read(simulation.cluster.bootstrap(), **given)
        assert sorted(offsets(rows)) == visible


@pytest.mark.parametrize("level", LEVELS)
def test_every_range_of_a_log_with_gaps(level: str) -> None:
    """Each record of the range once, in order, whichever record, marker or gap it is cut at."""
    with simulated(level) as simulation:
        visible = transactions(simulation)[level]
        of = source(
            simulation.cluster.bootstrap(), subscribe="orders", kafka__isolation__level=level
        )
        reader = of.reader(of.schema())
        (whole,) = reader.partitions()
        for start in range(whole.end):
            for end in range(start + 1, whole.end + 1, 3):
                batches = reader.read(shipped(replace(whole, start=start, end=end)))
                found = [at for batch in batches for at in batch.column("offset").to_pylist()]
                assert found == [at for at in visible if start <= at < end], (start, end)


def test_nothing_is_fetched_beyond_a_range() -> None:
    """A consumer that is kept for the next task is silent."""
    with simulated() as simulation:
        create_topic(simulation, "orders", 1)
        for _ in range(8):
            produce(simulation, TP, 1)
        given = {"subscribe": "orders", "endingOffsets": '{"orders": {"0": 5}}'}
        assert offsets(read(simulation.cluster.bootstrap(), **given)) == [0, 1, 2, 3, 4]
        before = list(simulation.trace.lines)
        simulation.sleep(2_000)
        assert not [line for line in simulation.trace.lines if line not in before]


@since(4, 2, "offsets of the batch start")
def test_an_open_transaction_is_read_when_it_is_committed() -> None:
    with simulated() as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 3)
        transaction = simulation.cluster.transaction()
        transaction.produce(TP, b"open")
        produce(simulation, TP, 2)
        query = Query(
            simulation.cluster.bootstrap(),
            subscribe="orders",
            startingOffsets="earliest",
            kafka__isolation__level="read_committed",
        )
        query.run()
        assert offsets(query.rows) == [0, 1, 2]
        transaction.commit()
        query.run()
        assert offsets(query.rows) == [0, 1, 2, 3, 4, 5]


def test_records_that_retention_has_deleted_before_the_plan() -> None:
    """They are no loss: the log begins later."""
    with simulated() as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 9)
        simulation.cluster.delete_records(TP, 6)
        servers = simulation.cluster.bootstrap()
        assert plan(servers, subscribe="orders") == ["orders-0 [6, 9)"]
        assert offsets(read(servers, subscribe="orders")) == [6, 7, 8]
        simulation.cluster.delete_records(TP, 9)
        assert plan(servers, subscribe="orders") == []


def test_an_empty_topic_has_a_task_without_rows() -> None:
    with simulated() as simulation:
        create_topic(simulation, "orders", 3)
        servers = simulation.cluster.bootstrap()
        choices: list[dict[str, Any]] = [{"subscribe": "orders"}, {"subscribePattern": "none"}]
        for given in choices:
            assert plan(servers, **given) == []
            assert tasks(servers, **given) == [[]]


def growing_after_the_first_batch(simulation: Simulation, query: Query) -> Callable[[str], None]:
    """A second partition gets three records, and the first one two."""

    def grow(step: str) -> None:
        if step == "end of the batch" and query.commits == 1:
            simulation.cluster.add_partitions("orders", 2)
            produce(simulation, TopicPartition("orders", 1), 3)
            produce(simulation, TP, 2)

    return grow


@since(4, 2, "offsets of the batch start")
@pytest.mark.parametrize("given", [{"subscribe": "orders"}, {"subscribePattern": "ord.*"}])
@pytest.mark.parametrize("restarted", [False, True])
def test_new_partitions_are_read_from_their_beginning(
    given: dict[str, Any], restarted: bool
) -> None:
    with simulated() as simulation:
        create_topic(simulation, "orders", 1)
        query = Query(simulation.cluster.bootstrap(), **given)  # from latest

        query.before = growing_after_the_first_batch(simulation, query)
        for triggers in (1, 2) if restarted else (3,):
            query.run("processingTime", triggers=triggers)
        found = sorted((row["partition"], row["offset"]) for row in query.rows)
        assert found == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]


@since(4, 2, "offsets of the batch start")
def test_a_run_to_the_end_of_now_leaves_new_partitions_to_the_next() -> None:
    with simulated() as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 4)
        servers = simulation.cluster.bootstrap()
        query = Query(
            servers, subscribe="orders", startingOffsets="earliest", maxOffsetsPerTrigger=2
        )

        query.before = growing_after_the_first_batch(simulation, query)
        query.run()
        assert query.counts == [2, 2]
        query.run()
        found = sorted((row["partition"], row["offset"]) for row in query.rows)
        assert found == [*((0, at) for at in range(6)), *((1, at) for at in range(3))]


@since(4, 2, "offsets of the batch start")
@pytest.mark.parametrize("restarted", [False, True])
def test_a_pattern_gains_topics_between_batches(restarted: bool) -> None:
    with simulated() as simulation:
        query = Query(simulation.cluster.bootstrap(), subscribePattern="^orders-")
        names = ["orders-a", "users", "orders-b", "my-orders-c"]

        def create(step: str) -> None:
            if step == "latestOffset" and query.offsets and names:
                (tp,) = create_topic(simulation, names.pop(0), 1)
                produce(simulation, tp, 2)

        query.before = create
        for _ in range(8 if restarted else 1):
            query.run("processingTime", triggers=1 if restarted else 8)
        assert [(row["topic"], row["offset"]) for row in query.rows] == [
            (name, offset) for name in ("orders-a", "orders-b") for offset in (0, 1)
        ]


@since(4, 2, "offsets of the batch start")
def test_a_run_without_news_makes_no_batch() -> None:
    """Spark compares offsets as text; a batch for nothing would never end the run."""
    with simulated() as simulation:
        create_topic(simulation, "orders", 12)
        produce(simulation, TopicPartition("orders", 11), 2)
        query = Query(
            simulation.cluster.bootstrap(), subscribe="orders", startingOffsets="earliest"
        )
        for trigger in ("availableNow", "once", "processingTime"):
            query.run(trigger, triggers=3)
        assert query.counts == [2]
        assert query.end_of("orders") == {number: 2 * (number == 11) for number in range(12)}
        assert list(json.loads(query.offsets[0])["orders"]) == [str(n) for n in range(12)]
