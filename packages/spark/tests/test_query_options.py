"""Each option of the source does what the page says; a new option needs a case here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from packages.spark.tests.option_cases import OptionCases
from packages.spark.tests.query import Query, Row, columns, plan, read, source
from packages.spark.tests.session import SPARK, since
from packages.spark.tests.simulated import Stored, append, simulated
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import FetchRequest, ListOffsetsRequest
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce

from pyspark.sql.types import StructType  # isort: skip - see session
from pyspark_tandem_kafka.options import SOURCE  # isort: skip

A, B, USERS = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("users", 0)
#: The time of the first record; the others follow it second by second.
FIRST_MS = 1_600_000_000_000

CASES: OptionCases[Simulation] = OptionCases()
case = CASES.of


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    """orders-0 has the offsets 0 to 9, orders-1 0 to 4, users-0 0 to 2."""
    with simulated("options") as simulation:
        create_topic(simulation, "orders", 2)
        create_topic(simulation, "users", 1)
        for tp, count in ((A, 10), (B, 5), (USERS, 3)):
            for number in range(count):
                value = f"{tp.topic}-{tp.partition}-{number}".encode()
                simulation.cluster.produce(tp, value, timestamp=FIRST_MS + 1_000 * number)
        yield simulation


def test_every_option_has_a_case() -> None:
    assert CASES.keys() == {option.name for option in SOURCE}


@pytest.mark.parametrize("name", CASES)
def test_an_option(simulation: Simulation, name: str) -> None:
    if name == "tandem.filterPushdown" and SPARK < (4, 1):
        pytest.skip(f"{name} needs a newer Spark")
    CASES[name](simulation)


def batch(simulation: Simulation, **options: Any) -> list[str]:
    """Return the ranges of a batch query of orders, in the order of offsets."""
    options.setdefault("subscribe", "orders")
    return sorted(plan(simulation.cluster.bootstrap(), **options))


def stream(simulation: Simulation, chosen: StructType | None = None, **options: Any) -> Query:
    """Return a query of orders from the beginning."""
    if SPARK < (4, 2):
        pytest.skip("the driver of queries is that of Spark 4.2")
    if not options.keys() & {"subscribe", "assign", "subscribePattern"}:
        options["subscribe"] = "orders"
    if not any(name.startswith("starting") for name in options):
        options["startingOffsets"] = "earliest"
    return Query(simulation.cluster.bootstrap(), chosen, **options)


def offsets(rows: list[Row], tp: TopicPartition) -> list[int]:
    return sorted(r["offset"] for r in rows if (r["topic"], r["partition"]) == tp)


def both(simulation: Simulation, **options: Any) -> list[str]:
    """Return the ranges of a batch query, which a stream reads, too."""
    ranges = plan(simulation.cluster.bootstrap(), **options)
    if SPARK < (4, 2):  # the driver of queries is that of 4.2
        return sorted(ranges)
    query = stream(simulation, **options)
    query.run(triggers=1, trigger="processingTime")
    rows = read(simulation.cluster.bootstrap(), **options)
    key = lambda row: (row["topic"], row["partition"], row["offset"])  # noqa: E731
    assert sorted(query.rows, key=key) == sorted(rows, key=key)
    return sorted(ranges)


# --- topics ------------------------------------------------------------------------------------


@case("subscribe")
def _(simulation: Simulation) -> None:
    whole = ["orders-0 [0, 10)", "orders-1 [0, 5)", "users-0 [0, 3)"]
    assert both(simulation, subscribe=" users, orders,") == whole
    assert both(simulation, subscribe="orders,orders") == whole[:2]


@case("subscribePattern")
def _(simulation: Simulation) -> None:
    """The pattern matches a part of a name, as with the connector, and no internal topics."""
    simulation.cluster.create_topic("orders-archive")
    simulation.cluster.create_topic("orders_internal", internal=True)
    for name in ("orders-archive", "orders_internal"):
        simulation.cluster.produce(TopicPartition(name, 0), b"v")
    whole = ["orders-0 [0, 10)", "orders-1 [0, 5)"]
    assert both(simulation, subscribePattern="^orders$") == whole
    for pattern in ("rders", " o.*|nothing "):
        assert both(simulation, subscribePattern=pattern) == [*whole, "orders-archive-0 [0, 1)"]
    assert both(simulation, subscribePattern="Orders") == []


@case("assign")
def _(simulation: Simulation) -> None:
    assigned = {"orders": [1], "users": [0]}
    assert both(simulation, assign=json.dumps(assigned)) == ["orders-1 [0, 5)", "users-0 [0, 3)"]


# --- where to start and to end -----------------------------------------------------------------


@case("startingOffsets")
def _(simulation: Simulation) -> None:
    assert batch(simulation) == ["orders-0 [0, 10)", "orders-1 [0, 5)"], "earliest is the default"
    each = json.dumps({"orders": {"0": 7, "1": -2}})
    for given in (each, each.replace("-2", "0")):
        assert batch(simulation, startingOffsets=given) == ["orders-0 [7, 10)", "orders-1 [0, 5)"]
    query = stream(simulation, startingOffsets=json.dumps({"orders": {"0": 7, "1": -1}}))
    query.run()
    assert (offsets(query.rows, A), offsets(query.rows, B)) == ([7, 8, 9], [])
    default = Query(simulation.cluster.bootstrap(), subscribe="orders")
    default.run()
    produce(simulation, B, 2)
    default.run()
    assert (offsets(default.rows, A), offsets(default.rows, B)) == ([], [5, 6])


@case("startingTimestamp")
def _(simulation: Simulation) -> None:
    """It overrides the other two; between two records, the later one is first."""
    others = {
        "startingOffsets": "earliest",
        "startingOffsetsByTimestamp": json.dumps({"orders": {"0": FIRST_MS, "1": FIRST_MS}}),
    }
    since_ms = FIRST_MS + 3_500
    wanted = ["orders-0 [4, 10)", "orders-1 [4, 5)"]
    assert both(simulation, subscribe="orders", startingTimestamp=since_ms, **others) == wanted
    assert batch(simulation, startingTimestamp=FIRST_MS + 3_000)[0] == "orders-0 [3, 10)"
    assert batch(simulation, startingTimestamp=0) == batch(simulation)


@case("startingOffsetsByTimestamp")
def _(simulation: Simulation) -> None:
    each = json.dumps({"orders": {"0": FIRST_MS + 8_000, "1": FIRST_MS + 1}})
    given = {"startingOffsetsByTimestamp": each, "startingOffsets": "earliest"}
    assert both(simulation, subscribe="orders", **given) == ["orders-0 [8, 10)", "orders-1 [1, 5)"]


@case("startingOffsetsByTimestampStrategy")
def _(simulation: Simulation) -> None:
    """The end of orders-1, which has no such record; error is the default."""
    since_ms = FIRST_MS + 6_000
    for given in ({}, {"startingOffsetsByTimestampStrategy": "ERROR"}):
        with pytest.raises(Exception, match="no record of orders-1 is at or after the starting"):
            batch(simulation, startingTimestamp=since_ms, **given)
    options = {"startingTimestamp": since_ms, "startingOffsetsByTimestampStrategy": "Latest"}
    assert both(simulation, subscribe="orders", **options) == ["orders-0 [6, 10)"]
    query = stream(simulation, **options)
    query.run()
    produce(simulation, B, 1)
    query.run()
    assert offsets(query.rows, B) == [5]


@case("endingOffsets")
def _(simulation: Simulation) -> None:
    each = json.dumps({"orders": {"0": 3, "1": -1}})
    assert batch(simulation, endingOffsets=each) == ["orders-0 [0, 3)", "orders-1 [0, 5)"]
    assert batch(simulation, endingOffsets="latest") == batch(simulation)
    rows = read(simulation.cluster.bootstrap(), subscribe="orders", endingOffsets=each)
    assert (offsets(rows, A), offsets(rows, B)) == ([0, 1, 2], [0, 1, 2, 3, 4])


@case("endingTimestamp")
def _(simulation: Simulation) -> None:
    """The first record at the time is left out; without one, everything is read."""
    given = {"endingTimestamp": FIRST_MS + 6_000, "endingOffsets": '{"orders": {"0": 1, "1": 1}}'}
    assert batch(simulation, **given) == ["orders-0 [0, 6)", "orders-1 [0, 5)"]


@case("endingOffsetsByTimestamp")
def _(simulation: Simulation) -> None:
    each = json.dumps({"orders": {"0": FIRST_MS + 6_000, "1": FIRST_MS + 1}})
    given = {"endingOffsetsByTimestamp": each, "endingOffsets": "latest"}
    assert batch(simulation, **given) == ["orders-0 [0, 6)", "orders-1 [0, 1)"]


@case("failOnDataLoss")
def _(simulation: Simulation) -> None:
    simulation.cluster.delete_records(A, 4)
    given = {"subscribe": "orders", "startingOffsets": '{"orders": {"0": 2, "1": 4}}'}
    for more in ({}, {"failOnDataLoss": "TRUE"}):
        with pytest.raises(Exception, match=r"offset 2 is gone: orders-0 has \[4, 10\)"):
            read(simulation.cluster.bootstrap(), **given, **more)
    rows = read(simulation.cluster.bootstrap(), **given, failOnDataLoss="false")
    assert (offsets(rows, A), offsets(rows, B)) == ([4, 5, 6, 7, 8, 9], [4])


# --- tasks and batches -------------------------------------------------------------------------


@case("minPartitions")
def _(simulation: Simulation) -> None:
    for wanted in (3, 6):
        ranges = both(simulation, subscribe="orders", minPartitions=wanted)
        assert len(ranges) == wanted
    assert len(batch(simulation, minPartitions=1)) == 2


@case("maxRecordsPerPartition")
def _(simulation: Simulation) -> None:
    """The largest ranges come first."""
    both(simulation, subscribe="orders", maxRecordsPerPartition=4)
    assert plan(simulation.cluster.bootstrap(), subscribe="orders", maxRecordsPerPartition=4) == [
        "orders-0 [6, 10)",
        "orders-0 [0, 3)",
        "orders-0 [3, 6)",
        "orders-1 [2, 5)",
        "orders-1 [0, 2)",
    ]


@case("includeHeaders")
def _(simulation: Simulation) -> None:
    append(simulation.cluster, USERS, Stored(0, headers=[("h", b"1"), ("h", None)]))
    for chosen in (None, columns("headers, offset")):
        query = stream(simulation, chosen, subscribe="users", includeHeaders=True)
        query.run()
        found = {row["offset"]: row["headers"] for row in query.rows}
        pairs = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
        assert found == {0: None, 1: None, 2: None, 3: pairs}
    assert "headers" not in read(simulation.cluster.bootstrap(), subscribe="users")[0]


@case("maxOffsetsPerTrigger")
def _(simulation: Simulation) -> None:
    """Batches are divided in proportion: 7 of 10 and 5 are 4 and 2. A share below one is one."""
    query = stream(simulation, maxOffsetsPerTrigger=7)
    query.run("processingTime", triggers=2)
    ends = [json.loads(end)["orders"] for end in query.offsets]
    assert ends == [{"0": 4, "1": 2}, {"0": 8, "1": 4}]
    query.run()
    assert query.counts == [6, 6, 3]
    once = stream(simulation, maxOffsetsPerTrigger=7)
    once.run("once")
    assert once.counts == [15], "Trigger.Once ignores it"
    small = stream(simulation, maxOffsetsPerTrigger=1)
    small.run("processingTime", triggers=1)
    assert json.loads(small.offsets[0])["orders"] == {"0": 1, "1": 1}


@case("minOffsetsPerTrigger")
def _(simulation: Simulation) -> None:
    query = stream(simulation, minOffsetsPerTrigger=16, maxTriggerDelay="1h")
    query.run("processingTime", triggers=3)
    assert query.counts == [0], "the first batch waits, too"
    produce(simulation, B, 1)
    query.run("processingTime", triggers=1)
    assert query.counts == [0, 16]
    produce(simulation, B, 1)
    query.run("processingTime", triggers=3)
    assert query.counts == [0, 16]
    query.run("availableNow")
    assert query.counts == [0, 16, 1], "Trigger.AvailableNow does not wait"
    produce(simulation, B, 1)
    query.run("once")
    assert query.counts == [0, 16, 1, 1], "nor does Trigger.Once"


@case("maxTriggerDelay")
def _(simulation: Simulation) -> None:
    """The wait begins when records could first have been read, and anew after each batch."""
    clock = simulation.clock
    query = stream(simulation, minOffsetsPerTrigger=99, maxTriggerDelay="10s")
    sizes: list[tuple[int, int]] = []

    def pass_time(step: str) -> None:
        if step == "latestOffset":
            simulation.sleep(1_000)
        elif step == "end of the batch" and len(query.rows) > sum(size for size, _ in sizes):
            sizes.append((len(query.rows) - sum(size for size, _ in sizes), clock.now_ms()))
            produce(simulation, A, 1)

    query.before = pass_time
    query.run("processingTime", triggers=40)
    assert [size for size, _ in sizes] == [15, 1, 1]
    times = [at_ms for _, at_ms in sizes]
    assert all(10_000 <= later - at < 12_000 for at, later in pairwise(times))


# --- patience, names and the rest --------------------------------------------------------------


@case("kafkaConsumer.pollTimeoutMs")
def _(simulation: Simulation) -> None:
    of = source(
        simulation.cluster.bootstrap(), subscribe="users", kafkaConsumer__pollTimeoutMs=20_000
    )
    reader = of.reader(of.schema())
    (partition,) = reader.partitions()
    assert list(reader.read(partition)), "the consumer of the task is connected, and kept"
    simulation.cluster.pause(1)
    began_ms = simulation.clock.now_ms()
    with pytest.raises(Exception, match=r"no record of users-0 \[0, 3\) arrived within 20000 ms"):
        list(reader.read(partition))
    assert 20_000 <= simulation.clock.now_ms() - began_ms < 30_000
    simulation.cluster.resume(1)


@case("fetchOffset.numRetries")
def _(simulation: Simulation) -> None:
    """Each repetition of a lookup that shows too early an end waits for the interval."""
    for retries in (0, 3):
        assert _looked_up_for_ms(simulation, fetchOffset__numRetries=retries) // 5_000 == retries


@case("fetchOffset.retryIntervalMs")
def _(simulation: Simulation) -> None:
    for interval_ms in (0, 70_000):
        took_ms = _looked_up_for_ms(simulation, fetchOffset__retryIntervalMs=interval_ms)
        assert round(took_ms / 70_000) == (3 if interval_ms else 0), "three times by default"


def _looked_up_for_ms(simulation: Simulation, **options: Any) -> int:
    given = {"fetchOffset__retryIntervalMs": 5_000, "subscribe": "users", **options}
    of = source(simulation.cluster.bootstrap(), **given)
    reader: Any = of.streamReader(of.schema())
    reader.initialOffset()
    began_ms = simulation.clock.now_ms()
    limits = (reader.getDefaultReadLimit(),) if SPARK >= (4, 2) else ()
    reader.latestOffset({"users": {"0": 99}}, *limits)
    return simulation.clock.now_ms() - began_ms


@case("groupIdPrefix")
def _(simulation: Simulation) -> None:
    seen: set[str] = set()

    def note(call: Any) -> Any:
        seen.add(call.client_id)
        return call.default()

    for api in (ListOffsetsRequest, FetchRequest):
        simulation.cluster.script(api, note)
    read(simulation.cluster.bootstrap(), subscribe="users", groupIdPrefix="job")
    assert seen == {"job-driver", "job-executor"}


@case("commitOffsetsToGroup")
def _(simulation: Simulation) -> None:
    """One batch late."""
    query = stream(simulation, commitOffsetsToGroup="lag")
    query.run("processingTime", triggers=1)
    assert simulation.cluster.committed("lag", A) is None
    produce(simulation, A, 1)
    query.run()
    assert simulation.cluster.committed("lag", A) == 10
    assert simulation.cluster.committed("lag", B) == 5


@case("tandem.batchBytes")
def _(simulation: Simulation) -> None:
    simulation.cluster.produce(USERS, *[b"x" * 100] * 2_000)

    def rows_in_batches(batch_bytes: int) -> list[int]:
        of = source(
            simulation.cluster.bootstrap(), subscribe="users", tandem__batchBytes=batch_bytes
        )
        reader = of.reader(of.schema())
        (partition,) = reader.partitions()
        return [each.num_rows for each in reader.read(partition)]

    assert max(rows_in_batches(20_000)[1:]) < 200
    assert len(rows_in_batches(10_000_000)) < 10


@case("tandem.filterPushdown")
def _(simulation: Simulation) -> None:
    """Every filter is left to Spark, too."""
    from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In, LessThan

    of = source(simulation.cluster.bootstrap(), subscribe="orders", tandem__filterPushdown=True)
    for filters, wanted in (
        ([EqualTo(("partition",), 1)], ["orders-1 [0, 5)"]),
        ([In(("partition",), (1, 2))], ["orders-1 [0, 5)"]),
        ([GreaterThanOrEqual(("offset",), 4), LessThan(("offset",), 6)], ["[4, 6)", "[4, 5)"]),
        ([EqualTo(("topic",), "users")], []),
        ([], ["orders-0 [0, 10)", "orders-1 [0, 5)"]),
    ):
        reader: Any = of.reader(of.schema())
        assert list(reader.pushFilters(filters)) == filters
        ranges = [str(each) for each in reader.partitions()]
        assert len(ranges) == len(wanted)
        assert all(found.endswith(part) for found, part in zip(ranges, wanted, strict=True))


@since(4, 2, "rate limits")
@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
def test_a_limit_needs_a_newer_spark(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("pyspark_tandem_kafka.stream.ReadMaxRows", None)
    with pytest.raises(Exception, match=r"maxOffsetsPerTrigger and .* need Spark 4\.2 or newer"):
        stream(simulation, **{name: 5}).run()
