"""Where the driver lets batches begin and end, without a session or a real broker."""

from __future__ import annotations

import pytest

import packages.spark.tests.session  # noqa: F401 - skips all of this without pyspark
from packages.spark.tests.test_topics_found import SERVERS, planner, simulation
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing import Simulation

from pyspark.sql.datasource import DataSourceReader  # isort: skip - see session
from pyspark_tandem_kafka.batch import batch_reader  # isort: skip
from pyspark_tandem_kafka.cluster import Cluster, DataLossError  # isort: skip
from pyspark_tandem_kafka.schema import full_schema  # isort: skip
from pyspark_tandem_kafka.stream import ReadMaxRows, StreamReader, stream_reader  # isort: skip

__all__ = ["simulation"]

USERS = TopicPartition("users", 0)
LIMITED = pytest.mark.skipif(ReadMaxRows is None, reason="limits need Spark 4.2")


def reader(**options: str) -> StreamReader:
    given = {"kafka.bootstrap.servers": SERVERS, "subscribe": "users", **options}
    made = stream_reader(given, full_schema(headers=False))
    assert isinstance(made, StreamReader)
    return made


def test_a_run_to_the_end_of_now_keeps_an_exact_start(simulation: Simulation) -> None:
    """It is not moved to the end: what is written until then would be read by the next run."""
    simulation.cluster.produce(USERS, b"v")
    stream = reader(startingOffsets='{"users": {"0": 5}}')
    stream.prepareForTriggerAvailableNow()
    assert stream.initialOffset()["users"] == {"0": 5}


def test_a_run_to_the_end_of_now_starts_no_later_than_it_ends(simulation: Simulation) -> None:
    stream = reader(startingOffsets="latest")
    stream.prepareForTriggerAvailableNow()
    simulation.cluster.produce(USERS, b"v")
    assert stream.initialOffset()["users"] == {"0": 0}


def test_the_start_is_the_same_whenever_it_is_asked_for(simulation: Simulation) -> None:
    """Spark before 4.2 relies on it: its log does not say where the first batch began."""
    stream = reader(startingOffsets="latest")
    begin = stream.initialOffset()
    simulation.cluster.produce(USERS, b"v")
    assert stream.initialOffset() == begin
    assert begin["users"] == {"0": 0}


@pytest.mark.parametrize("missing", [True, False])
def test_an_end_before_a_known_one_is_looked_up_again(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch, missing: bool
) -> None:
    simulation.cluster.produce(USERS, b"v", b"v")
    with planner(subscribe="users") as cluster:
        consumer = cluster._connected()
        ends, stale = consumer.end_offsets, [{} if missing else {USERS: 1}]
        monkeypatch.setattr(
            consumer, "end_offsets", lambda tps: stale.pop() if stale else ends(tps)
        )
        monkeypatch.setattr(Cluster, "_pause", lambda _: None)
        assert cluster.latest([USERS], known={USERS: 2}) == {USERS: 2}


@LIMITED
def test_each_batch_waits_anew_for_the_minimum(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0]
    monkeypatch.setattr(Cluster, "now_ms", lambda _: now[0])
    stream = reader(minOffsetsPerTrigger="5", maxTriggerDelay="10s", startingOffsets="earliest")
    begin, limit = stream.initialOffset(), stream.getDefaultReadLimit()
    simulation.cluster.produce(USERS, b"v")
    assert stream.latestOffset(begin, limit) == begin
    now[0] = 11_000
    first = stream.latestOffset(begin, limit)
    assert first["users"] == {"0": 1}
    simulation.cluster.produce(USERS, b"v")
    now[0] = 12_000
    assert stream.latestOffset(first, limit) == first
    now[0] = 22_000
    assert stream.latestOffset(first, limit)["users"] == {"0": 2}


BEYOND = [
    pytest.param({"startingOffsets": '{"users": {"0": 7}}'}, "7 and ends at 3", id="the log"),
    pytest.param(
        {"startingOffsets": '{"users": {"0": 2}}', "endingOffsets": '{"users": {"0": 1}}'},
        "2 and ends at 1",
        id="the end that is given",
    ),
    pytest.param(
        {"startingTimestamp": "3000", "endingTimestamp": "1000"}, "2 and ends at 0", id="the time"
    ),
]


def batch(**options: str) -> DataSourceReader:
    given = {"kafka.bootstrap.servers": SERVERS, "subscribe": "users", **options}
    return batch_reader(given, full_schema(headers=False))


@pytest.mark.parametrize(("options", "what"), BEYOND)
def test_a_batch_that_starts_beyond_its_end_fails_unless_that_is_accepted(
    simulation: Simulation, options: dict[str, str], what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It would read nothing and say nothing: after the topic was recreated, for example."""
    for number in range(3):
        simulation.cluster.produce(USERS, b"v", timestamp=1_000 * (number + 1))
    with pytest.raises(DataLossError, match=f"users-0 starts at {what}"):
        batch(**options).partitions()
    assert batch(**options, failOnDataLoss="false").partitions() == []
    assert f"users-0 starts at {what}" in caplog.text
    same = batch(startingOffsets='{"users": {"0": 3}}')
    assert same.partitions() == []  # nothing new


#: What the cluster has, where the batch begins and ends, the loss, and the ranges without it.
LOSSES = [
    pytest.param(
        {}, {"1": 2}, "users-1 is new but begins at offset 1", ["1", "2"], id="begun late"
    ),
    pytest.param({"0": 2}, {}, "partitions are gone: users-0", [], id="gone"),
    pytest.param({"1": 2}, {"1": 1}, "users-1 went back from 2 to 1", [], id="went back"),
]


@pytest.mark.parametrize(("start", "end", "loss", "left"), LOSSES)
def test_lost_records_fail_a_batch_unless_that_is_accepted(
    simulation: Simulation,
    start: dict[str, int],
    end: dict[str, int],
    loss: str,
    left: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    second = TopicPartition("users", 1)
    simulation.cluster.add_partitions("users", 2)
    simulation.cluster.produce(second, b"v", b"v")
    simulation.cluster.delete_records(second, 1)
    with pytest.raises(DataLossError, match=loss):
        reader().partitions({"users": start}, {"users": end})
    lenient = reader(failOnDataLoss="false")
    ranges = lenient.partitions({"users": start}, {"users": end})
    assert [str(each) for each in ranges] == ([f"users-1 [{left[0]}, {left[1]})"] if left else [])
    assert loss in caplog.text
