"""Topics that are deleted and created again: noticed always, whatever is known of the old one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

import packages.spark.tests.session  # noqa: F401 - skips all of this without pyspark
from packages.spark.tests.test_planning import LIMITED, batch, reader
from packages.spark.tests.test_topics_found import simulation
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing import Simulation

from pyspark.sql.datasource import DataSourceReader  # isort: skip - see session
import pyspark_tandem_kafka.cluster as clusters  # isort: skip
from pyspark_tandem_kafka.cluster import DataLossError  # isort: skip
from pyspark_tandem_kafka.stream import ReadMaxRows, StreamReader  # isort: skip

__all__ = ["simulation"]

USERS = TopicPartition("users", 0)
OFFSETS = {"startingOffsets": "earliest"}
BOTH_IDS = r"topic users was deleted and created again \(its id was {}, and is {}\)"

pytestmark = LIMITED


@pytest.fixture
def cluster(simulation: Simulation) -> Simulation:
    """The simulated cluster, whose topic `users` has three records."""
    produce(simulation, "old", 3)
    return simulation


def produce(simulation: Simulation, value: str, count: int, tp: TopicPartition = USERS) -> None:
    simulation.cluster.produce(tp, *(f"{value}-{number}".encode() for number in range(count)))


def recreate(simulation: Simulation, records: int) -> str:
    """Recreate the topic with so many records; return a pattern with its two ids."""
    was = simulation.cluster.topics["users"].topic_id
    now = simulation.cluster.recreate_topic("users").topic_id
    produce(simulation, "new", records)
    return BOTH_IDS.format(was, now)


class Query:
    """A query and its checkpoint, over restarts."""

    def __init__(self, **options: str) -> None:
        self.options = OFFSETS | options
        self.log: list[str] = []
        self.start()

    def start(self, **options: str) -> None:
        """Start, or start again with a new planning process."""
        self.options |= options
        self.source: StreamReader = reader(**self.options)

    def begin(self) -> dict[str, Any]:
        offset: dict[str, Any] = json.loads(self.log[-1]) if self.log else {}
        return offset or self.source.initialOffset()

    def plan(self) -> list[Any]:
        """Plan a batch, and write its end to the log; no ranges if there is nothing new."""
        start = self.begin()
        end = self.source.latestOffset(start, ReadMaxRows(2**62))
        if end == start:
            return []
        self.log.append(json.dumps(end))
        return self.source.partitions(start, end)

    def read(self, ranges: list[Any]) -> list[str]:
        return values(self.source, ranges)

    def batch(self) -> list[str]:
        return self.read(self.plan())


def values(source: StreamReader | DataSourceReader, ranges: list[Any]) -> list[str]:
    batches = [found for each in ranges for found in source.read(each)]
    return [value.decode() for found in batches for value in found.column("value").to_pylist()]


@pytest.mark.parametrize("restarted", [True, False])
@pytest.mark.parametrize("records", [0, 2, 3, 5])
def test_a_stream_notices_between_two_batches(
    cluster: Simulation, records: int, restarted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether the new topic is shorter, as long or longer."""
    query = Query()
    assert query.batch() == ["old-0", "old-1", "old-2"]
    ids = recreate(cluster, records)
    if restarted:
        query.start()
    with pytest.raises(DataLossError, match=ids):
        query.batch()
    query.start(failOnDataLoss="false")
    assert query.batch() == [f"new-{number}" for number in range(records)]
    assert "was deleted and created again" in caplog.text
    caplog.clear()
    produce(cluster, "next", 1)
    assert query.batch() == ["next-0"]
    assert "may have been lost" not in caplog.text


def test_a_stream_continues_if_the_topic_is_the_same(cluster: Simulation) -> None:
    query = Query()
    query.batch()
    assert query.batch() == []
    query.start()
    cluster.cluster.add_partitions("users", 2)
    produce(cluster, "next", 1)
    produce(cluster, "added", 1, TopicPartition("users", 1))
    assert sorted(query.batch()) == ["added-0", "next-0"]


def test_a_topic_with_fewer_partitions(cluster: Simulation) -> None:
    cluster.cluster.add_partitions("users", 2)
    produce(cluster, "old-1", 1, TopicPartition("users", 1))
    query = Query(failOnDataLoss="false", minOffsetsPerTrigger="3")
    query.batch()
    cluster.cluster.delete_topic("users")
    cluster.cluster.create_topic("users", 1)
    produce(cluster, "new", 1)
    assert query.batch() == []
    produce(cluster, "new", 2)
    assert query.batch() == ["new-0", "new-0", "new-1"]


def test_a_run_to_the_end_of_now_with_a_limit(cluster: Simulation) -> None:
    query = Query()
    query.batch()
    recreate(cluster, 5)
    query.start(failOnDataLoss="false")
    query.source.prepareForTriggerAvailableNow()
    found = []
    for _ in range(3):
        start = query.begin()
        end = query.source.latestOffset(start, ReadMaxRows(2))
        query.log.append(json.dumps(end))
        found.append(query.read(query.source.partitions(start, end)))
    assert found == [["new-0", "new-1"], ["new-2", "new-3"], ["new-4"]]
    last = json.loads(query.log[-1])
    assert query.source.latestOffset(last, ReadMaxRows(2)) == last


@pytest.mark.parametrize("known", [True, False])
def test_a_run_to_the_end_of_now_whose_broker_was_behind(
    cluster: Simulation, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """It knows the old topic or none when the end is fixed, before Spark says where to begin."""
    before = dict.fromkeys([USERS], cluster.cluster.topics["users"].topic_id)
    query = Query(failOnDataLoss="false")
    query.batch()
    recreate(cluster, 5)
    assert len(query.batch()) == 5
    for fail in ("false", "true") if known else ("false",):
        query.start(failOnDataLoss=fail)
        with monkeypatch.context() as behind:
            behind.setattr(clusters, "_existing", lambda *_: before if known else {})
            query.source.prepareForTriggerAvailableNow()
        assert query.batch() == []
    produce(cluster, "next", 1)
    query.start()
    assert query.batch() == ["next-0"]


def test_a_broker_that_is_behind_for_a_moment_is_asked_again(
    cluster: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = cluster.cluster.topics["users"].topic_id
    recreate(cluster, 5)
    query = Query()
    assert len(query.batch()) == 5
    found, behind = clusters._existing, [dict.fromkeys([USERS], old), {}]
    monkeypatch.setattr(clusters, "_existing", lambda *of: behind.pop() if behind else found(*of))
    produce(cluster, "next", 1)
    query.start(failOnDataLoss="false")
    assert query.batch() == ["next-0"]
    assert not behind


def test_a_topic_that_is_gone_for_a_while_keeps_its_id(cluster: Simulation) -> None:
    """Another one was recreated, and the batch waits for more records."""
    orders = TopicPartition("orders", 0)
    produce(cluster, "orders", 3, orders)
    query = Query(subscribe="orders,users", failOnDataLoss="false", minOffsetsPerTrigger="3")
    assert len(query.batch()) == 6
    cluster.cluster.delete_topic("orders")
    recreate(cluster, 1)
    assert query.batch() == []
    cluster.cluster.create_topic("orders")
    produce(cluster, "again", 5, orders)
    assert sorted(query.batch()) == [*(f"again-{number}" for number in range(5)), "new-0"]


@pytest.mark.parametrize("records", [0, 2, 3, 5])
def test_a_task_notices_after_the_plan(
    cluster: Simulation, records: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Its rows are dropped with it; the next batch begins with the new topic."""
    query = Query(**{"kafkaConsumer.pollTimeoutMs": "100"})
    ranges = query.plan()
    ids = recreate(cluster, records)
    with pytest.raises(DataLossError, match=ids):
        query.read(ranges)
    query.start(failOnDataLoss="false")
    repeated = query.source.partitions(query.source.initialOffset(), json.loads(query.log[-1]))
    assert query.read(repeated) == []
    assert "was deleted and created again" in caplog.text
    assert query.batch() == [f"new-{number}" for number in range(records)]


@pytest.mark.parametrize("records", [2, 3, 5])
def test_a_topic_that_is_recreated_while_a_task_reads_it(cluster: Simulation, records: int) -> None:
    query = Query(**{"tandem.batchBytes": "1"})
    [planned] = query.plan()
    produce(cluster, "later", 2_000)
    batches = query.source.read(planned)
    assert next(batches).num_rows
    ids = recreate(cluster, records)
    with pytest.raises(DataLossError, match=ids):
        list(batches)


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("records", [2, 3, 5])
def test_a_worker_that_knew_the_old_topic_reads_the_new_one(
    cluster: Simulation, records: int, fail: str
) -> None:
    assert values(batch(), batch().partitions()) == ["old-0", "old-1", "old-2"]
    recreate(cluster, records)
    again = batch(failOnDataLoss=fail)
    assert values(again, again.partitions()) == [f"new-{number}" for number in range(records)]


@pytest.mark.parametrize("left", [0, 1])
def test_a_planned_batch_whose_new_partitions_are_gone(cluster: Simulation, left: int) -> None:
    """The log has it, so each restart plans it again. No broker has offsets of such partitions."""
    gone = TopicPartition("users", left)
    query = Query(failOnDataLoss="false")
    query.batch()
    cluster.cluster.delete_topic("users")
    cluster.cluster.create_topic("users", 2)
    produce(cluster, "new", 1, gone)
    query.plan()
    cluster.cluster.delete_topic("users")
    if left:
        cluster.cluster.create_topic("users", left)
    start, end = map(json.loads, query.log)
    query.start()
    assert query.read(query.source.partitions(start, end)) == []
    query.start(failOnDataLoss="true")
    with pytest.raises(DataLossError, match="was deleted and created again"):
        query.source.partitions(start, end)
    del start[next(key for key in start if key.startswith("id of "))]
    start.pop("users")
    with pytest.raises(DataLossError, match=f"partitions are gone: .*{gone.topic}-{left}"):
        query.source.partitions(start, end)


def test_a_task_whose_partition_the_new_topic_lacks(cluster: Simulation) -> None:
    cluster.cluster.add_partitions("users", 2)
    produce(cluster, "old", 1, TopicPartition("users", 1))
    query = Query(**{"kafkaConsumer.pollTimeoutMs": "100"})
    [planned] = [each for each in query.plan() if each.partition == 1]
    ids = recreate(cluster, 3)
    del cluster.cluster.topics["users"].partitions[1:]
    with pytest.raises(DataLossError, match=ids):
        query.read([planned])


def test_a_batch_notices_after_the_plan(cluster: Simulation) -> None:
    source = batch()
    ranges = source.partitions()
    ids = recreate(cluster, 3)
    with pytest.raises(DataLossError, match=ids):
        values(source, ranges)


def test_a_checkpoint_without_ids_is_continued_and_gets_them(cluster: Simulation) -> None:
    query = Query()
    query.batch()
    ends = {"users": {"0": 3}}
    query.log = [json.dumps(ends)]
    query.start()
    assert query.batch() == []
    assert json.loads(query.log[-1]) == ends
    produce(cluster, "next", 1)
    assert query.batch() == ["next-0"]
    ids = recreate(cluster, 9)
    with pytest.raises(DataLossError, match=ids):
        query.batch()


def test_all_recreated_topics_are_named(cluster: Simulation) -> None:
    def recreated() -> Mapping[str, Any]:
        return {name: cluster.cluster.recreate_topic(name) for name in ("users", "orders")}

    query = Query(subscribe="users,orders")
    query.batch()
    recreated()
    with pytest.raises(DataLossError, match=r"topic orders was .*; topic users was ") as caught:
        query.batch()
    assert "set failOnDataLoss to false" in str(caught.value)


def test_a_spark_that_does_not_say_where_a_batch_starts(cluster: Simulation) -> None:
    """Before 4.2: the reader remembers it, and after a restart the plan has both ids."""
    source = reader(**OFFSETS)
    start = source.latestOffset()
    ids = recreate(cluster, 5)
    with pytest.raises(DataLossError, match=ids):
        source.latestOffset()
    source = reader(**OFFSETS)
    end = source.latestOffset()
    with pytest.raises(DataLossError, match=ids):
        source.partitions(start, end)
    lenient = reader(failOnDataLoss="false", **OFFSETS)
    assert values(lenient, lenient.partitions(start, end)) == [f"new-{n}" for n in range(5)]
