"""Records that are gone: the query fails, or says so and reads what is left."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from packages.spark.tests.query import Crash, Query, source, tasks
from packages.spark.tests.session import since
from packages.spark.tests.simulated import simulated
from tandem_kafka.errors import KafkaError
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import MetadataRequest
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce

from pyspark_tandem_kafka.cluster import DataLossError  # isort: skip - see session

A, B = TopicPartition("orders", 0), TopicPartition("users", 0)
Act = Callable[[Simulation], object]


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    """orders-0 has the offsets 0 to 9, users-0 0 to 4, in batches of one record."""
    with simulated("losses") as simulation:
        for tp, count in ((A, 10), (B, 5)):
            create_topic(simulation, tp.topic, 1)
            for _ in range(count):
                produce(simulation, tp, 1)
        yield simulation


def truncate(simulation: Simulation) -> None:
    simulation.cluster.move_leader(A, 1, truncate_to=6)


def delete(simulation: Simulation) -> None:
    simulation.cluster.delete_topic("orders")


def expire(before: int) -> Act:
    return lambda simulation: simulation.cluster.delete_records(A, before)


def found(rows: list[dict[str, Any]], topic: str) -> list[int]:
    return sorted(row["offset"] for row in rows if row["topic"] == topic)


#: What happens between planning and reading, what is said of [0, 10), and what is left of it.
BETWEEN = [
    pytest.param(expire(4), "offset 0 is gone: orders-0 has [4, 10)", range(4, 10), id="expired"),
    pytest.param(expire(10), "offset 0 is gone: orders-0 has [10, 10)", (), id="all expired"),
    pytest.param(truncate, "orders-0 now ends at 6", range(6), id="truncated"),
    pytest.param(delete, "there is no topic orders", (), id="deleted"),
]


@pytest.mark.parametrize(("act", "said", "left"), BETWEEN)
def test_records_that_go_between_plan_and_read(
    simulation: Simulation,
    act: Act,
    said: str,
    left: range,
    caplog: pytest.LogCaptureFixture,
) -> None:
    servers = simulation.cluster.bootstrap()
    lenient = tasks(
        servers,
        before=lambda: act(simulation),
        subscribe="orders,users",
        failOnDataLoss="false",
    )
    rows = [row for each in lenient for row in each]
    assert (found(rows, "orders"), found(rows, "users")) == (list(left), [0, 1, 2, 3, 4])
    message = f"orders-0 [0, 10) cannot be read completely: {said}"
    assert message in caplog.text


def test_a_range_behind_the_end_of_a_truncated_log_has_no_records(simulation: Simulation) -> None:
    """What is before the range was read by an earlier batch."""
    at = '{"orders": {"0": 8}}'
    options = {"subscribe": "orders", "startingOffsets": at, "failOnDataLoss": "false"}
    servers, act = simulation.cluster.bootstrap(), partial(truncate, simulation)
    assert tasks(servers, before=act, **options) == [[]]


@pytest.mark.parametrize(("act", "said", "left"), BETWEEN)
def test_records_that_go_between_plan_and_read_fail_the_task(
    simulation: Simulation, act: Act, said: str, left: range
) -> None:
    del left
    message = f"orders-0 [0, 10) cannot be read completely: {said}"
    began_ms = simulation.clock.now_ms()
    with pytest.raises(DataLossError, match=re.escape(message)) as error:
        tasks(simulation.cluster.bootstrap(), before=lambda: act(simulation), subscribe="orders")
    assert str(error.value).endswith("to continue without them, set failOnDataLoss to false")
    assert simulation.clock.now_ms() - began_ms < 10_000, "long before kafkaConsumer.pollTimeoutMs"


def test_records_that_go_while_a_range_is_read(simulation: Simulation) -> None:
    """The task has yielded what was before them, and fails at the offset that is gone."""
    for _ in range(500):
        produce(simulation, A, 1)
    little = {"kafka__max__partition__fetch__bytes": 500, "kafka__fetch__buffer__max__bytes": 1_000}
    of = source(simulation.cluster.bootstrap(), subscribe="orders", **little)
    reader = of.reader(of.schema())
    (partition,) = reader.partitions()
    batches = reader.read(partition)
    read: list[int] = []

    def read_all() -> None:
        for batch in batches:
            read.extend(batch.column("offset").to_pylist())
            simulation.cluster.delete_records(A, 505)

    with pytest.raises(DataLossError, match=r"cannot be read completely: offset \d+ is gone"):
        read_all()
    assert read == list(range(len(read)))
    assert 0 < len(read) < 505


# --- streams -----------------------------------------------------------------------------------


def stream(simulation: Simulation, *, fail: bool, **options: Any) -> Query:
    given = {"subscribePattern": "orders|users", "startingOffsets": "earliest", **options}
    return Query(simulation.cluster.bootstrap(), **given, failOnDataLoss=fail)


def begin_late(simulation: Simulation) -> None:
    simulation.cluster.add_partitions("orders", 2)
    late = TopicPartition("orders", 1)
    produce(simulation, late, 4)
    simulation.cluster.delete_records(late, 3)


def expire_unread(simulation: Simulation) -> None:
    produce(simulation, A, 6)
    simulation.cluster.delete_records(A, 13)


#: What happens between two batches, what is said, and the offsets of orders that are read then.
BETWEEN_BATCHES = [
    pytest.param(delete, "partitions are gone: orders-0", [], id="deleted"),
    pytest.param(truncate, "orders-0 went back from 10 to 6", [], id="truncated"),
    pytest.param(begin_late, "orders-1 is new but begins at offset 3", [3], id="begins late"),
    pytest.param(
        expire_unread, "offset 10 is gone: orders-0 has [13, 16)", [13, 14, 15], id="expired"
    ),
]


@since(4, 2, "offsets of the batch start")
@pytest.mark.parametrize("trigger", ["availableNow", "processingTime"])
@pytest.mark.parametrize(("act", "said", "then"), BETWEEN_BATCHES)
def test_losses_between_batches(
    simulation: Simulation,
    act: Act,
    said: str,
    then: list[int],
    trigger: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What is left is read, also of the other topic, and the query continues."""
    queries = [stream(simulation, fail=fail) for fail in (True, False)]
    for query in queries:
        query.run(trigger, triggers=2)
        assert query.counts == [15]
    act(simulation)
    produce(simulation, B, 1)
    strict, lenient = queries
    with pytest.raises(DataLossError, match=re.escape(said)):
        strict.run(trigger, triggers=2)
    assert strict.counts == [15], "nothing of the batch"
    lenient.run(trigger, triggers=2)
    assert said in caplog.text
    rows = lenient.batches[1]
    assert (found(rows, "orders"), found(rows, "users")) == (then, [5])
    produce(simulation, B, 1)
    lenient.run(trigger, triggers=2)
    assert found(lenient.rows, "users") == [0, 1, 2, 3, 4, 5, 6]
    if "orders" in simulation.cluster.topics:
        produce(simulation, A, 1)
        lenient.run(trigger, triggers=2)
        assert lenient.rows[-1]["offset"] == simulation.cluster.at(A).log.end_offset - 1


@since(4, 2, "offsets of the batch start")
@pytest.mark.parametrize(
    "given", [{"subscribe": "orders,users"}, {"assign": '{"orders": [0], "users": [0]}'}]
)
def test_a_named_topic_that_is_deleted(simulation: Simulation, given: dict[str, str]) -> None:
    """The query fails, unless losses are accepted: then it reads the other one."""
    queries = [
        Query(
            simulation.cluster.bootstrap(),
            startingOffsets="earliest",
            failOnDataLoss=fail,
            **given,
        )
        for fail in (True, False)
    ]
    for query in queries:
        query.run()
    delete(simulation)
    produce(simulation, B, 1)
    strict, lenient = queries
    with pytest.raises(KafkaError, match="there is no orders-0, because there is no topic orders"):
        strict.run()
    lenient.run()
    assert found(lenient.rows, "users") == [0, 1, 2, 3, 4, 5]


@since(4, 2, "offsets of the batch start")
def test_a_broker_that_does_not_know_a_topic_for_a_moment(simulation: Simulation) -> None:
    """Nothing is lost: planning looks again."""
    query = stream(simulation, fail=True)

    def without_orders(call: Any) -> Any:
        response = call.default()
        response.topics = [topic for topic in response.topics if topic.name != "orders"]
        return response

    def forget(step: str) -> None:
        if step == "latestOffset" and query.commits == 1:
            produce(simulation, A, 2)
            simulation.cluster.script(MetadataRequest, without_orders)

    query.before = forget
    query.run("processingTime", triggers=2)
    assert found(query.rows, "orders") == list(range(12))


@since(4, 2, "offsets of the batch start")
def test_a_batch_that_lost_records_is_repeated_in_full(simulation: Simulation) -> None:
    """The loss is noticed in the repeated batch, too: its range is in the log."""
    query = stream(simulation, fail=True)

    def crash(step: str) -> None:
        if step == "sink":
            raise Crash

    query.before = crash
    with pytest.raises(Crash):
        query.run()
    query.before = lambda _step: None
    simulation.cluster.delete_records(A, 3)
    with pytest.raises(DataLossError, match=re.escape("offset 0 is gone: orders-0 has [3, 10)")):
        query.run()
