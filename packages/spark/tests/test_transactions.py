"""Rows written in transactions: a read_committed reader receives each of them once."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from packages.spark.tests.jobs import (
    KILLS,
    PATIENCE_S,
    Job,
    kill_driver,
    noted,
    seeded,
    start_job,
    until,
)
from packages.spark.tests.session import Tables, since
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record

from pyspark_tandem_kafka.options import SinkOptions  # isort: skip
from pyspark_tandem_kafka.producing import DeliveryError  # isort: skip
from pyspark_tandem_kafka.transactions import TaskWrite, deliver_once  # isort: skip


def options(kafka: RealKafka, topic: str | None, **more: str) -> SinkOptions:
    given = {"kafka.bootstrap.servers": kafka.bootstrap(), "tandem.transactionalIdPrefix": "p"}
    return SinkOptions.parse(given | ({} if topic is None else {"topic": topic}) | more)


def values(*numbers: int, topic: str | None = None) -> Any:
    columns = {"value": pa.array([b"%d" % n for n in numbers], pa.binary())}
    if topic is not None:
        columns["topic"] = pa.array([topic] * len(numbers))
    return pa.RecordBatch.from_pydict(columns)


def committed(tables: Tables, topic: str, level: str = "read_committed") -> list[int]:
    found = tables.read(topic, kafka__isolation__level=level).collect()
    return sorted(int(row.value) for row in found)


def test_a_repeated_task_writes_its_rows_once(kafka: RealKafka, topic: str, tables: Tables) -> None:
    write = TaskWrite(f"{topic}-sink", "query q", 7, 0)
    for _ in range(3):
        deliver_once(iter([values(1, 2), values(), values(3)]), options(kafka, topic), write)
    assert committed(tables, topic) == [1, 2, 3]
    following = TaskWrite(write.prefix, "query q", 7, 1)
    deliver_once(iter([values(4)]), options(kafka, topic), following)
    assert committed(tables, topic) == [1, 2, 3, 4]
    deliver_once(iter([values()]), options(kafka, topic), following)


def test_a_repeated_task_may_begin_with_another_topic(
    kafka: RealKafka, topic: str, tables: Tables
) -> None:
    other = kafka.admin.create_topic(f"{topic}-other")
    write = TaskWrite(f"{topic}-sink", "query q", 0)
    batches = [values(1, topic=topic), values(2, topic=other)]
    deliver_once(iter(batches), options(kafka, None), write)
    deliver_once(iter(batches[::-1]), options(kafka, None), write)
    assert (committed(tables, topic), committed(tables, other)) == ([1], [2])


def test_a_later_attempt_fences_an_earlier_one(
    kafka: RealKafka, topic: str, tables: Tables
) -> None:
    """The first attempt is slow and still running, as in speculative execution."""
    write = TaskWrite(f"{topic}-sink", "query q", 0)
    begun, overtaken = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def slowly() -> Iterator[Any]:
        yield values(1)
        begun.set()
        assert overtaken.wait(60)
        yield values(2)

    def first_attempt() -> None:
        try:
            deliver_once(slowly(), options(kafka, topic), write)
        except DeliveryError as error:
            raised.append(error)

    thread = threading.Thread(target=first_attempt)
    thread.start()
    assert begun.wait(60)
    deliver_once(iter([values(1, 2)]), options(kafka, topic), write)
    overtaken.set()
    thread.join(60)
    assert "has taken over the transactional id" in str(raised[0])
    assert committed(tables, topic) == [1, 2]


def test_rows_of_a_failed_attempt_are_not_read(
    kafka: RealKafka, topic: str, tables: Tables
) -> None:
    write = TaskWrite(f"{topic}-sink", "query q", 0)

    def failing() -> Iterator[Any]:
        yield values(*range(2_000))
        time.sleep(0.1)  # gives the producer time to send them
        raise ValueError("of the job")

    with pytest.raises(ValueError, match="of the job"):
        deliver_once(failing(), options(kafka, topic), write)
    assert committed(tables, topic) == []
    deliver_once(iter([values(*range(5))]), options(kafka, topic), write)
    assert committed(tables, topic) == list(range(5))


def test_a_task_repeated_with_different_rows_fails(kafka: RealKafka, topic: str) -> None:
    write = TaskWrite(f"{topic}-sink", "query q", 0)
    deliver_once(iter([values(1, 2)]), options(kafka, topic), write)
    with pytest.raises(DeliveryError, match=r"repeated with 1 rows, .*has 2 rows"):
        deliver_once(iter([values(1)]), options(kafka, topic), write)


def test_a_late_attempt_of_an_earlier_batch_writes_nothing(
    kafka: RealKafka, topic: str, tables: Tables
) -> None:
    """An executor that was cut off may make such an attempt."""
    old, new = (TaskWrite(f"{topic}-sink", "query q", 0, batch) for batch in (9, 10))
    for write in (old, new):
        deliver_once(iter([values(write.batch)]), options(kafka, topic), write)
    with pytest.raises(DeliveryError, match="out of date: batch 10 is already written"):
        deliver_once(iter([values(9)]), options(kafka, topic), old)
    assert committed(tables, topic) == [9, 10]


def test_a_timeout_above_that_of_the_broker_is_rejected(topic: str, tables: Tables) -> None:
    rows = tables.spark.range(1).selectExpr("string(id) value")
    given = {"tandem__transactionalIdPrefix": "p", "kafka__transaction__timeout__ms": "900001"}
    with pytest.raises(Exception, match=r"transaction\.max\.timeout\.ms is less"):
        tables.write(rows, topic=topic, **given)


@pytest.mark.partitions(2)
def test_a_batch_query_with_an_epoch_is_written_once(topic: str, tables: Tables) -> None:
    """`foreachBatch` may repeat it."""
    rows = tables.spark.range(1_000).selectExpr("string(id) value").repartition(3)
    named = {"topic": topic, "tandem__transactionalIdPrefix": f"{topic}-sink"}
    for _ in range(2):
        tables.write(rows, tandem__transactionEpoch="batch 1", **named)
    assert committed(tables, topic) == list(range(1_000))
    tables.write(rows, **named)
    assert len(committed(tables, topic)) == 2_000


class Copying:
    """A stream between two topics whose driver is killed and restarted."""

    def __init__(self, kafka: RealKafka, topic: str, tables: Tables, jobs: list[Job]) -> None:
        self.kafka, self.topic, self.tables, self.jobs = kafka, topic, tables, jobs
        self.target = kafka.admin.create_topic(f"{topic}-copy", 2)
        self.total = 0
        self._chance = seeded()

    def run(self, *prefix: str) -> None:
        """Kill the job several times, and then let it finish."""
        for _ in range(KILLS):
            self._produce()
            goal = noted(self.tables.folder, "offsets") + 3
            job = self._start(*prefix)
            until(job, lambda goal=goal: noted(self.tables.folder, "offsets") >= goal)
            time.sleep(self._chance.random() * 0.3)  # a random delay
            kill_driver(job)
        self._produce()
        assert self._start(*prefix).wait(PATIENCE_S) == 0

    def found(self, level: str = "read_committed") -> Counter[int]:
        """Return the number of copies of each row in the target."""
        return Counter(committed(self.tables, self.target, level))

    def _produce(self) -> None:
        numbers = range(self.total, self.total + 3_000)
        self.kafka.admin.produce(self.topic, [Record(b"%d" % n, partition=n % 3) for n in numbers])
        self.total += len(numbers)

    def _start(self, *prefix: str) -> Job:
        folder = self.tables.folder
        job = start_job(self.kafka, self.topic, folder, "local[2,4]", self.target, *prefix)
        self.jobs.append(job)
        return job


@pytest.fixture
def copying(kafka: RealKafka, topic: str, tables: Tables, jobs: list[Job]) -> Copying:
    return Copying(kafka, topic, tables, jobs)


@pytest.mark.full("takes long with Spark")
@pytest.mark.timeout(300 + 150 * KILLS)
@pytest.mark.partitions(3)
@since(4, 2, "rate limits")
def test_a_killed_stream_writes_every_row_once(copying: Copying) -> None:
    copying.run(f"{copying.target}-sink")
    found, total = copying.found(), copying.total
    assert (found.total(), len(found)) == (total, total)
    aborted = copying.found("read_uncommitted").total() - total
    print(f"{KILLS} kills: {aborted} rows of {total} in aborted transactions")


@pytest.mark.full("takes long with Spark")
@pytest.mark.timeout(300 + 150 * KILLS)
@pytest.mark.partitions(3)
@since(4, 2, "rate limits")
def test_without_transactions_a_killed_stream_loses_no_row(copying: Copying) -> None:
    copying.run()
    found, total = copying.found(), copying.total
    assert len(found) == total
    print(f"{KILLS} kills: {found.total() - total} duplicates of {total} rows")
