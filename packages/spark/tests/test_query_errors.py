"""What the source says of each mistake, in a batch query and in a stream."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from packages.spark.tests.query import Query, columns, read, source
from packages.spark.tests.session import SPARK
from packages.spark.tests.simulated import simulated
from tandem_kafka.errors import KafkaError
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce

from pyspark.sql.types import LongType, StringType, StructField, StructType  # isort: skip - see session
from pyspark_tandem_kafka.options import SOURCE  # isort: skip

BATCH = "batch"
STREAM = "stream"
BOTH = (BATCH, STREAM)


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    """orders has two partitions with records, users one, all older than `LATE_MS`."""
    with simulated("errors") as simulation:
        for tp in (*create_topic(simulation, "orders", 2), *create_topic(simulation, "users", 1)):
            produce(simulation, tp, 3)
        yield simulation


LATE_MS = "9999999999999"
ONE = {"subscribe": "orders"}


def each(**offsets: int) -> str:
    return json.dumps({"orders": {name[1:]: offset for name, offset in offsets.items()}})


#: Options, what is said, and the kinds of queries that say so.
MISTAKES: dict[str, tuple[dict[str, str], str, tuple[str, ...]]] = {
    # --- topics
    "no topic": (
        {},
        (
            "give exactly one of subscribe, subscribePattern, assign; you gave none of them: "
            "for instance, set subscribe"
        ),
        BOTH,
    ),
    "two kinds of topics": (
        {**ONE, "assign": '{"orders": [0]}'},
        "you gave subscribe and assign: remove all but one",
        BOTH,
    ),
    "three kinds of topics": (
        {**ONE, "subscribePattern": "a", "assign": '{"orders": [0]}'},
        "you gave subscribe and subscribePattern and assign",
        BOTH,
    ),
    "an empty name": ({"subscribe": " "}, "subscribe must not be empty", BOTH),
    "an invalid pattern": (
        {"subscribePattern": "("},
        "subscribePattern is not a valid regular expression: missing )",
        BOTH,
    ),
    "partitions in another form": (
        {"assign": '{"orders": 0}'},
        (
            'assign must be a list of partitions for each topic, as JSON like {"orders": [0, '
            "1]}; got '{\"orders\": 0}'"
        ),
        BOTH,
    ),
    "no partitions": ({"assign": "{}"}, "assign must be a list of partitions", BOTH),
    "partitions that are no JSON": (
        {"assign": "orders-0"},
        "got 'orders-0', which is not JSON (",
        BOTH,
    ),
    "an unknown topic": (
        {"subscribe": "orders,ordes"},
        (
            "subscribe: there is no ordes-0, because there is no topic ordes at "
            "kafka.bootstrap.servers=10.0.0.1:9092; did you mean orders? If not, create it or "
            "correct the option"
        ),
        BOTH,
    ),
    "an unknown topic like no other": (
        {"subscribe": "zzz"},
        (
            "there is no topic zzz at kafka.bootstrap.servers=10.0.0.1:9092; create it or "
            "correct the option"
        ),
        BOTH,
    ),
    "an unknown partition": (
        {"assign": '{"orders": [1, 7]}'},
        "assign: there is no orders-7; orders has the partitions 0, 1: correct the option",
        BOTH,
    ),
    # --- options
    "no servers": (
        {**ONE, "kafka__bootstrap__servers": " "},
        (
            "the option kafka.bootstrap.servers is missing: give the addresses of one or more "
            "brokers as host:port"
        ),
        BOTH,
    ),
    "an unknown option": (
        {**ONE, "startingOffset": "earliest"},
        (
            "there is no option 'startingoffset' (did you mean startingOffsets?); there are "
            "subscribe, "
        ),
        BOTH,
    ),
    "an unknown option like no other": (
        {**ONE, "qqq": "1"},
        "there is no option 'qqq'; there are subscribe, ",
        BOTH,
    ),
    "not a number": (
        {**ONE, "minPartitions": "many"},
        "minPartitions must be a whole number of at least 1, got 'many'",
        BOTH,
    ),
    "too small a number": (
        {**ONE, "maxRecordsPerPartition": "0"},
        "maxRecordsPerPartition must be a whole number of at least 1, got '0'",
        BOTH,
    ),
    "neither true nor false": (
        {**ONE, "failOnDataLoss": "no"},
        "failOnDataLoss must be true or false, got 'no'",
        BOTH,
    ),
    "not a strategy": (
        {**ONE, "startingOffsetsByTimestampStrategy": "earliest"},
        "startingOffsetsByTimestampStrategy must be error or latest, got 'earliest'",
        BOTH,
    ),
    "not a duration": (
        {**ONE, "maxTriggerDelay": "15 weeks"},
        "maxTriggerDelay must be a duration such as 15m, got '15 weeks'",
        (STREAM,),
    ),
    "a minimum above the maximum": (
        {**ONE, "minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"},
        "minOffsetsPerTrigger (6) must not exceed maxOffsetsPerTrigger (5)",
        (STREAM,),
    ),
    # --- options of the client
    "an unknown option of the client": (
        {**ONE, "kafka__nonsense": "1"},
        "kafka.nonsense: there is no such option",
        BOTH,
    ),
    "a managed option": (
        {**ONE, "kafka__auto__offset__reset": "latest"},
        "kafka.auto.offset.reset cannot be set: use startingOffsets",
        BOTH,
    ),
    "a store of the JVM": (
        {**ONE, "kafka__ssl__truststore__location": "x.jks"},
        "use PEM files",
        BOTH,
    ),
    # --- where to start and to end
    "a batch from latest": (
        {**ONE, "startingOffsets": "latest"},
        ("startingOffsets: a batch query cannot start at latest; give earliest, -2 or an offset"),
        (BATCH,),
    ),
    "a partition from latest": (
        {**ONE, "startingOffsets": each(p0=1, p1=-1)},
        "a batch query cannot start at latest (orders-1: -1)",
        (BATCH,),
    ),
    "an end at the beginning": (
        {**ONE, "endingOffsets": "earliest"},
        "endingOffsets must be latest, or an offset for each partition",
        (BATCH,),
    ),
    "the end of a partition at its beginning": (
        {**ONE, "endingOffsets": each(p0=1, p1=-2)},
        "endingOffsets: earliest is not allowed for orders-1: give an offset, or latest",
        (BATCH,),
    ),
    "a negative offset": (
        {**ONE, "startingOffsets": each(p0=-3, p1=1)},
        (
            "startingOffsets: -3 is not a valid offset of orders-0: give 0 or more, -2 for "
            "earliest, or -1 for latest"
        ),
        BOTH,
    ),
    "offsets that are no JSON": (
        {**ONE, "startingOffsets": "newest"},
        (
            "startingOffsets must be earliest, latest, or an offset for each partition, as "
            'JSON like {"orders": {"0": 23}}; got \'newest\', which is not JSON ('
        ),
        BOTH,
    ),
    "offsets in another form": (
        {**ONE, "startingOffsets": '{"orders": [0, 1]}'},
        "startingOffsets must be earliest, latest, or an offset for each partition",
        BOTH,
    ),
    "an offset that is no number": (
        {**ONE, "startingOffsets": '{"orders": {"0": true}}'},
        "startingOffsets must be earliest, latest, or",
        BOTH,
    ),
    "offsets of some partitions": (
        {**ONE, "startingOffsets": each(p0=1)},
        (
            "offsets and times must be given for exactly the partitions to read; these differ: "
            "orders-1"
        ),
        BOTH,
    ),
    "offsets of too many partitions": (
        {**ONE, "startingOffsets": each(p0=1, p1=1, p2=0)},
        "these differ: orders-2",
        BOTH,
    ),
    "ends of some partitions": (
        {**ONE, "endingOffsets": each(p1=1)},
        "these differ: orders-0",
        (BATCH,),
    ),
    "times of some partitions": (
        {**ONE, "startingOffsetsByTimestamp": each(p1=1)},
        "these differ: orders-0",
        BOTH,
    ),
    "a negative time": (
        {**ONE, "startingOffsetsByTimestamp": each(p0=-1, p1=0)},
        "startingOffsetsByTimestamp: times are in ms since 1970 and cannot be negative",
        BOTH,
    ),
    "a negative time for all": (
        {**ONE, "startingTimestamp": "-1"},
        "startingTimestamp must be a whole number of at least 0, got '-1'",
        BOTH,
    ),
    "no record since the time": (
        {**ONE, "startingTimestamp": LATE_MS},
        (
            "no record of orders-0, orders-1 is at or after the starting time; to start at the "
            "end of these partitions, set startingOffsetsByTimestampStrategy to latest"
        ),
        BOTH,
    ),
    "a start beyond the end": (
        {**ONE, "startingOffsets": each(p0=9, p1=0)},
        (
            "orders-0 starts at 9 and ends at 3: the topic was recreated, its records were "
            "deleted, or the starting and ending offsets are mistaken. To read nothing of such "
            "partitions, set failOnDataLoss to false"
        ),
        (BATCH,),
    ),
    "a start behind the given end": (
        {**ONE, "startingOffsets": each(p0=2, p1=0), "endingOffsets": each(p0=1, p1=-1)},
        "orders-0 starts at 2 and ends at 1",
        (BATCH,),
    ),
    "a stream from beyond the end": (
        {**ONE, "startingOffsets": each(p0=9, p1=0)},
        (
            "records may have been lost: orders-0 went back from 9 to 3. To continue without "
            "them, set failOnDataLoss to false"
        ),
        (STREAM,),
    ),
}

CASES = [
    pytest.param(options, said, kind, id=f"{name}-{kind}")
    for name, (options, said, kinds) in MISTAKES.items()
    for kind in kinds
]


def wrong_kinds() -> Iterator[Any]:
    """Yield each option of one kind of query in a query of the other kind."""
    values = {"endingOffsets": "latest", "tandem.filterPushdown": "true"}
    values["endingOffsetsByTimestamp"] = each(p0=1, p1=1)
    for option in SOURCE:
        if option.streaming is not None:
            given = {**ONE, option.name: values.get(option.name, "1")}
            kind, what = (BATCH, "a batch query") if option.streaming else (STREAM, "a stream")
            said = f"{option.name} is not an option of {what}"
            yield pytest.param(given, said, kind, id=f"{option.name}-{kind}")


def run(kind: str, simulation: Simulation, schema: StructType | None, **options: Any) -> None:
    servers = simulation.cluster.bootstrap()
    if kind == BATCH:
        read(servers, schema, **options)
    elif SPARK < (4, 2):
        pytest.skip("the driver of a stream plays Spark 4.2")
    else:
        Query(servers, schema, **options).run()


@pytest.mark.parametrize(("options", "said", "kind"), [*CASES, *wrong_kinds()])
def test_a_mistake(simulation: Simulation, options: dict[str, str], said: str, kind: str) -> None:
    """The message comes before the traceback, which has no lines of ours."""
    shown = first_line(lambda: run(kind, simulation, None, **options))
    assert shown.startswith("tandem_kafka: ")
    assert said in shown


def first_line(action: Callable[[], object]) -> str:
    """Return the first line that Spark shows of an error."""
    with pytest.raises(KafkaError) as error:
        action()
    text = "".join(traceback.format_exception(error.value))
    assert "During handling" not in text
    return text.splitlines()[0]


TYPES = (
    "key binary, value binary, topic string, partition int, offset bigint, "
    "timestamp timestamp, timestampType int"
)
WRONG_COLUMNS = [
    pytest.param(
        StructType([StructField("value", StringType())]),
        f"there is no column value string; the columns are {TYPES}",
        id="type",
    ),
    pytest.param(
        StructType([StructField("id", LongType())]), "there is no column id bigint", id="name"
    ),
    pytest.param(
        StructType([StructField("Value", columns("value")[0].dataType)]),
        "there is no column Value binary",
        id="case",
    ),
    pytest.param(
        columns("value,headers"),
        "the column 'headers' needs the option includeHeaders=true",
        id="headers",
    ),
    pytest.param(
        StructType([StructField("value", columns("value")[0].dataType, nullable=False)]),
        "the column value may be null: leave out its NOT NULL",
        id="null",
    ),
]


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(("schema", "said"), WRONG_COLUMNS)
def test_a_wrong_column(simulation: Simulation, schema: StructType, said: str, kind: str) -> None:
    assert said in first_line(lambda: run(kind, simulation, schema, **ONE))


@pytest.mark.parametrize("kind", BOTH)
def test_no_broker_responds(simulation: Simulation, kind: str) -> None:
    """Planning fails after the time for it, without repetitions."""
    simulation.cluster.stop(1)
    began_ms = simulation.clock.now_ms()
    given = {**ONE, "kafka__bootstrap__timeout__ms": "2000"}
    shown = first_line(lambda: run(kind, simulation, None, **given))
    assert shown.startswith(
        "tandem_kafka: no broker of kafka.bootstrap.servers=10.0.0.1:9092 responded within 2000 ms "
        "(kafka.bootstrap.timeout.ms): check the addresses, kafka.security.protocol, and that the "
        "brokers are running and can be reached from this machine"
    )
    assert simulation.clock.now_ms() - began_ms < 4_000


#: What is wrong with the offsets in a checkpoint.
CHECKPOINTS = [
    pytest.param({"version": 99, "offsets": {}}, "has offsets of version 99, which", id="newer"),
    pytest.param([], "the checkpoint has offsets in a form that is not supported: []", id="list"),
    pytest.param({"orders": {"0": "1"}}, "in a form that is not supported", id="text"),
    pytest.param({"orders": {"x": 1}}, "in a form that is not supported", id="not a partition"),
]


@pytest.mark.parametrize(("kept", "said"), CHECKPOINTS)
def test_offsets_of_another_source(simulation: Simulation, kept: Any, said: str) -> None:
    of = source(simulation.cluster.bootstrap(), **ONE)
    reader: Any = of.streamReader(of.schema())
    begin = reader.initialOffset()
    for action in (
        lambda: reader.partitions(begin, kept),
        lambda: reader.partitions(kept, begin),
        lambda: reader.latestOffset(kept),
    ):
        shown = first_line(action)
        assert shown.startswith("tandem_kafka: ")
        assert said in shown


def test_a_first_batch_without_its_beginning_needs_the_start(simulation: Simulation) -> None:
    """Its end was logged by another source, or by a Spark before 4.2."""
    of = source(simulation.cluster.bootstrap(), **ONE, startingOffsets='{"orders": {"0": 1}}')
    reader: Any = of.streamReader(of.schema())
    begin = reader.initialOffset()
    shown = first_line(lambda: reader.partitions(begin, {"orders": {"0": 3, "1": 3}}))
    assert "exactly the partitions to read; these differ: orders-1" in shown


def test_a_reader_after_stop_connects_again(simulation: Simulation) -> None:
    of = source(simulation.cluster.bootstrap(), **ONE, startingOffsets="earliest")
    reader: Any = of.streamReader(of.schema())
    begin = reader.initialOffset()
    reader.stop()
    end = reader.latestOffset(begin)
    assert end["orders"] == {"0": 3, "1": 3}
    assert [each.tp for each in reader.partitions(begin, end)] == [
        TopicPartition("orders", number) for number in range(2)
    ]
