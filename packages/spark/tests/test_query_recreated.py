"""Topics that are deleted and created again at any step of a query, by a seed.

Without failOnDataLoss, each record of the topics that are left is read once. With it, no row of a
new topic passes as one of the old.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

import pytest

from packages.spark.tests.query import Crash, Query, Row
from packages.spark.tests.session import since
from packages.spark.tests.simulated import simulated
from tandem_kafka import KafkaConsumer
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing import Simulation

from pyspark_tandem_kafka.cluster import DataLossError, UnknownTopicError  # isort: skip
from pyspark_tandem_kafka.offsets import StreamOffset  # isort: skip
from tests.tier import seeds

pytestmark = since(4, 2, "offsets of the batch start")

#: More for a night: TANDEM_KAFKA_SEEDS=0-1000.
SEEDS = seeds(2, 6)
NAMES = ("a", "a-1", "b.1")


class Sink(dict[int, list[Row]]):
    """A sink that ignores a repeated batch, of which less may be left than before."""

    def setdefault(self, number: int, rows: list[Row]) -> list[Row]:  # type: ignore[override]
        if number in self:
            known = [row["value"] for row in self[number]]
            assert all(row["value"] in known for row in rows), "a repeated batch has other records"
        else:
            self[number] = rows
        return rows


class World:
    """Topics that come and go. The value of a record says which topic it was written to."""

    def __init__(self, simulation: Simulation, random: Random) -> None:
        self.cluster = simulation.cluster
        self.random = random
        self.created: Counter[str] = Counter()
        #: The records of the topics that there are.
        self.records: dict[str, list[bytes]] = {}
        for name in NAMES:
            self.create(name)
            self.write()

    def create(self, name: str) -> None:
        self.created[name] += 1
        self.records[name] = []
        self.cluster.create_topic(name, self.random.randint(1, 3))

    def delete(self, name: str) -> None:
        del self.records[name]
        self.cluster.delete_topic(name)

    def write(self, name: str | None = None) -> None:
        if not self.records:
            return
        topic = name or self.random.choice(sorted(self.records))
        for _ in range(self.random.randint(1, 3)):
            partitions = self.cluster.topics[topic].partitions
            tp = TopicPartition(topic, self.random.randrange(len(partitions)))
            end = self.cluster.at(tp).log.end_offset
            values = [
                f"{topic} {self.created[topic]} {tp.partition} {end + n}".encode()
                for n in range(self.random.randint(1, 6))
            ]
            self.cluster.produce(tp, *values)
            self.records[topic] += values

    def change(self, *, most: int) -> None:
        """Recreate, delete or create a topic, or add partitions."""
        name, kind = self.random.choice(NAMES[:most]), self.random.random()
        if name not in self.records:
            self.create(name)
        elif kind < 0.6:
            self.delete(name)
            self.create(name)
            if self.random.random() < 0.5:
                self.write(name)
        elif kind < 0.8:
            self.delete(name)
        else:
            count = len(self.cluster.topics[name].partitions)
            self.cluster.add_partitions(name, count + 1)

    def settle(self) -> None:
        for name in NAMES:
            if name not in self.records:
                self.create(name)
            self.write(name)


def options_of(random: Random) -> dict[str, Any]:
    by_name, by_pattern = {"subscribe": ",".join(NAMES)}, {"subscribePattern": "^[ab]"}
    options: dict[str, Any] = random.choice([by_name, by_pattern])
    choices: dict[str, list[Any]] = {
        "maxOffsetsPerTrigger": [None, None, 3, 10],
        "minOffsetsPerTrigger": [None, None, 3],
        "maxTriggerDelay": ["50ms", "10s"],
        "minPartitions": [None, 5],
        "maxRecordsPerPartition": [None, 4],
    }
    for name, values in choices.items():
        value = random.choice(values)
        if value is not None:
            options[name] = value
    return options


def disturbing(world: World, changes: float, *, most: int) -> Callable[[str], None]:
    random = world.random

    def before(step: str) -> None:
        if random.random() < 0.4:
            world.write()
        while random.random() < changes:
            world.change(most=most)
        if random.random() < 0.05:
            raise Crash(step)

    return before


def run(query: Query, world: World, *ends: type[Exception]) -> None:
    """Run the query a few times; it may end with these errors."""
    random = world.random
    most = random.randint(1, len(NAMES))
    for _ in range(random.randint(2, 6)):
        trigger = random.choice(["availableNow", "once", "processingTime"])
        query.before = disturbing(world, random.choice([0.05, 0.2]), most=most)
        with suppress(*ends):
            query.run(trigger, triggers=5 if trigger == "processingTime" else 500)
    query.before = lambda _step: None


def values(query: Query) -> list[bytes]:
    return [row["value"] for row in query.rows]


def ids(query: Query) -> Mapping[str, UUID]:
    """Return the ids of the topics in the last offset of the log."""
    return StreamOffset.from_json(
        json.loads(query.offsets[-1] if query.offsets else "{}")
    ).topic_ids


@pytest.mark.parametrize("seed", SEEDS)
def test_each_record_of_the_topics_that_are_left_is_read_once(seed: int) -> None:
    random = Random(f"lenient {seed}")  # noqa: S311 - not a secret
    with simulated(seed, brokers=2) as simulation:
        world = World(simulation, random)
        options = {"startingOffsets": "earliest", "failOnDataLoss": False} | options_of(random)
        query = Query(simulation.cluster.bootstrap(), **options)
        query.batches = Sink()
        run(query, world, Crash, UnknownTopicError)
        world.settle()
        query.run(triggers=500)
        world.settle()
        query.run(triggers=500)
        query.run()
        found = Counter(values(query))
        assert [value for value, times in found.items() if times > 1] == []
        left = {value for records in world.records.values() for value in records}
        assert left <= found.keys(), sorted(left - found.keys())
        batches = query.commits
        query.run()
        assert query.commits == batches == len(query.offsets)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_row_of_a_new_topic_passes_as_one_of_the_old(seed: int) -> None:
    random = Random(f"strict {seed}")  # noqa: S311 - not a secret
    with simulated(seed, brokers=2) as simulation:
        world = World(simulation, random)
        options = {"startingOffsets": "earliest"} | options_of(random)
        query = Query(simulation.cluster.bootstrap(), **options)
        query.batches = Sink()
        run(query, world, Crash, DataLossError, UnknownTopicError)
        world.settle()
        known = ids(query)
        now = {name: topic.topic_id for name, topic in world.cluster.topics.items()}
        again = {name for name, was in known.items() if was != now[name]}
        if again:
            named = [f"its id was {known[name]}, and is {now[name]}" for name in again]
            with pytest.raises(DataLossError, match="|".join([*named, "partitions are gone"])):
                query.run()
        else:
            with suppress(DataLossError):  # for partitions that are gone from a batch of the log
                query.run()
        by_topic: dict[str, set[str]] = defaultdict(set)
        for value in values(query):
            name, number, *_ = value.decode().split()
            by_topic[name].add(number)
        assert all(len(numbers) == 1 for numbers in by_topic.values()), dict(by_topic)
        assert all(times == 1 for times in Counter(values(query)).values())


def test_a_task_whose_broker_knows_the_old_topic_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with simulated() as simulation:
        cluster, tp = simulation.cluster, TopicPartition("a", 0)
        old = cluster.create_topic("a").topic_id
        query = Query(cluster.bootstrap(), subscribe="a", failOnDataLoss=False)
        query.run()
        cluster.recreate_topic("a")
        cluster.produce(tp, b"new")
        planned: list[int] = []
        query.before = lambda step: planned.append(simulation.clock.now_ms() * (step == "read"))
        found = KafkaConsumer.cluster

        def behind(consumer: KafkaConsumer, *arguments: Any, **more: Any) -> Any:
            known = found(consumer, *arguments, **more)
            if not 0 < planned[-1] > simulation.clock.now_ms() - 1_000:
                return known
            return replace(known, topics={"a": replace(known.topics["a"], topic_id=old)})

        monkeypatch.setattr(KafkaConsumer, "cluster", behind)
        query.run()
        assert values(query) == [b"new"]
