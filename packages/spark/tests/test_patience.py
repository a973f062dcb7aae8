"""Timeouts of reading, retries of offset lookups, and client names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import packages.spark.tests.session  # noqa: F401 - skips all of this without pyspark
import tandem_kafka
from tandem_kafka.errors import KafkaError, KafkaTimeoutError
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.kafka import RealKafka

import pyarrow as pa  # isort: skip

from pyspark_tandem_kafka import cluster as clusters  # isort: skip - needs pyspark, see session
from pyspark_tandem_kafka.cluster import Cluster  # isort: skip
from pyspark_tandem_kafka.columns import RowShape  # isort: skip
from pyspark_tandem_kafka.schema import full_schema  # isort: skip
from pyspark_tandem_kafka.options import SourceOptions  # isort: skip
from pyspark_tandem_kafka.ranges import OffsetRange  # isort: skip
from pyspark_tandem_kafka.reading import Reading, _Range  # isort: skip

TP = TopicPartition("a", 0)


def parsed(**options: Any) -> SourceOptions:
    given = {"subscribe": "a", "kafka.bootstrap.servers": "localhost:1"}
    named = {name.replace("__", "."): str(value) for name, value in options.items()}
    return SourceOptions.parse({**given, **named}, streaming=False)


class Clock:
    def __init__(self) -> None:
        self.at_ms = 0

    def now_ms(self) -> int:
        return self.at_ms


class StuckConsumer:
    """A consumer that receives no record; its waits advance the clock."""

    def __init__(self, clock: Clock, *, responds: bool) -> None:
        self._clock = clock
        self._responds = responds

    def assign(self, partitions: Any) -> None:
        """Do nothing."""

    def stop_at(self, tp: Any, offset: int) -> None:
        """Do nothing: the range is never complete."""

    def seek(self, tp: Any, offset: int) -> None:
        """Do nothing: the position is fixed."""

    def position(self, _tp: Any) -> int:
        return 3

    def poll_arrow(self, timeout_ms: int, _rows: int, **_more: Any) -> Any:
        self._clock.at_ms += timeout_ms
        return pa.RecordBatch.from_pydict({"offset": []})

    def cluster(self, timeout_ms: int, topics: list[str]) -> Any:
        if not self._responds:
            self._clock.at_ms += timeout_ms
            raise KafkaTimeoutError("no response")
        return SimpleNamespace(topics={name: SimpleNamespace(partitions={0}) for name in topics})

    def end_offsets(self, _partitions: Any, _timeout_ms: int) -> dict[TopicPartition, int]:
        return {TP: 10}


@pytest.mark.parametrize("responds", [True, False])
@pytest.mark.parametrize("timeout_ms", [700, 20_000])
def test_a_task_fails_after_the_poll_timeout(timeout_ms: int, responds: bool) -> None:
    options = parsed(kafkaConsumer__pollTimeoutMs=timeout_ms)
    reading = Reading.of(options, RowShape(full_schema(headers=False)))
    clock = Clock()
    consumer: Any = StuckConsumer(clock, responds=responds)
    task = _Range(reading, consumer, OffsetRange("a", 0, 3, 10))
    runtime: Any = SimpleNamespace(clock=clock)
    task._runtime = runtime
    with pytest.raises(KafkaTimeoutError, match=f"within {timeout_ms} ms .kafkaConsumer.poll"):
        list(task.batches())
    assert timeout_ms <= clock.at_ms <= timeout_ms + 6_000


class Waiting:
    """A driver that records its waits, and advances the clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.waited_ms: list[int] = []
        self.driver = SimpleNamespace(wait=self._wait)

    def _wait(self, _ready: Any, until_ms: int) -> None:
        self.waited_ms.append(until_ms - self.clock.at_ms)
        self.clock.at_ms = until_ms


@pytest.mark.parametrize(("retries", "interval_ms"), [(0, 10), (2, 10), (5, 700)])
def test_lookups_of_offsets_are_retried(
    monkeypatch: pytest.MonkeyPatch, retries: int, interval_ms: int
) -> None:
    attempts = 0

    def fail(**_options: Any) -> Any:
        nonlocal attempts
        attempts += 1
        raise KafkaError("not now")

    monkeypatch.setattr(tandem_kafka, "KafkaConsumer", fail)
    more = {"fetchOffset__numRetries": retries, "fetchOffset__retryIntervalMs": interval_ms}
    cluster = Cluster(parsed(**more))
    runtime: Any = Waiting()
    cluster._runtime = runtime
    with pytest.raises(KafkaError, match="not now"):
        cluster.latest({TP})
    assert attempts == retries + 1
    assert runtime.waited_ms == [interval_ms] * retries


def names(options: SourceOptions) -> list[Any]:
    reading = Reading.of(options, RowShape(full_schema(headers=False)))
    ours = clusters._client_options(options)
    return [ours.get("client_id"), reading.client_options().get("client_id")]


def test_the_prefix_of_client_names() -> None:
    assert names(parsed()) == [None, None]
    assert names(parsed(groupIdPrefix="job")) == ["job-driver", "job-executor"]
    assert names(parsed(groupIdPrefix="job", kafka__client__id="me")) == ["me", "me"]
    assert names(parsed(groupIdPrefix="job", kafka__group__id="group")) == [None, None]


def test_a_given_group_is_not_joined(kafka: RealKafka, topic: str) -> None:
    kafka.admin.produce(topic, [b"x"] * 10)
    servers = {"kafka__bootstrap__servers": kafka.bootstrap(), "subscribe": topic}
    options = parsed(**servers, kafka__group__id=f"group-of-{topic}")
    reading = Reading.of(options, RowShape(full_schema(headers=False)))
    assert reading.client_options()["group_id"] == f"group-of-{topic}"
    batches = list(reading.read(OffsetRange(topic, 0, 0, 10)))
    assert sum(batch.num_rows for batch in batches) == 10
    listed = kafka.admin.client.list_consumer_groups().result(30)
    assert f"group-of-{topic}" not in {each.group_id for each in listed.valid}
