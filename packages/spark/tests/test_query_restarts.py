"""Streams that crash at any step and start again: each record once, in order, none lost.

A seed decides on the topics, the options, the faults of the network, what is written while the
query runs, and where it crashes. What a batch must contain is taken from the logs of the brokers.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import pytest

from packages.spark.tests.query import Crash, Query
from packages.spark.tests.session import since
from packages.spark.tests.simulated import Stored, append, simulated
from tandem_kafka.errors import InvalidArgumentError, KafkaTimeoutError
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing import Conditions, Simulation
from tests.tier import seeds

pytestmark = since(4, 2, "offsets of the batch start")

#: Written records by partition: offset, value, and whether the transaction was aborted.
Written = dict[TopicPartition, dict[int, tuple[bytes, bool]]]

#: More for a night: TANDEM_KAFKA_SEEDS=0-1000.
SEEDS = seeds(2, 4)
STARTS = ["earliest", "latest", "timestamp", "timestamps", "offsets"]


class World:
    """Topics that are written to in every way while a query reads them."""

    def __init__(self, simulation: Simulation, random: Random) -> None:
        self.cluster = simulation.cluster
        self.simulation = simulation
        self.random = random
        self.written: Written = defaultdict(dict)
        self._open: list[tuple[Any, list[tuple[TopicPartition, int]]]] = []
        self._topics = 0
        self.add_topic()

    def add_topic(self) -> None:
        self._topics += 1
        self.cluster.create_topic(f"orders-{self._topics}", self.random.randint(1, 3))

    def grow(self) -> None:
        """Add a topic or a partition."""
        if self.random.random() < 0.5:
            self.add_topic()
        else:
            topic = self.random.choice(self.partitions()).topic
            self.cluster.add_partitions(topic, len(self.cluster.topics[topic].partitions) + 1)

    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(p.topic, p.number) for p in self.cluster.all_partitions()]

    def ends(self, *, committed: bool) -> dict[TopicPartition, int]:
        logs = {tp: self.cluster.at(tp).log for tp in self.partitions()}
        return {
            tp: log.last_stable_offset if committed else log.end_offset for tp, log in logs.items()
        }

    def write(self) -> None:
        """Write to a partition: plainly, with gaps, or in a transaction that ends or stays open."""
        tp, count = self.random.choice(self.partitions()), self.random.randint(1, 9)
        end, kind = self.cluster.at(tp).log.end_offset, self.random.random()
        if kind < 0.4:
            values = [b"%d" % (end + n) for n in range(count)]
            self._note(tp, self.cluster.produce(tp, *values), values)
        elif (
            kind < 0.6
        ):  # as compaction leaves it: without some records, and some batches before it
            self.cluster.at(tp).log.end_offset += self.random.choice([0, 0, 5])
            end = self.cluster.at(tp).log.end_offset
            kept = sorted(self.random.sample(range(12), count))
            stored = [Stored(at, b"%d" % (end + at)) for at in kept]
            base = append(self.cluster, tp, *stored, offsets=12)
            self.written[tp] |= {base + each.offset: (each.value or b"", False) for each in stored}
        elif self._open and self.random.random() < 0.6:
            self._end(self._open.pop(0))
        else:
            transaction = self.cluster.transaction()
            values = [b"%d" % (end + n) for n in range(count)]
            base = transaction.produce(tp, *values)
            self._note(tp, base, values)
            self._open.append((transaction, [(tp, base + n) for n in range(count)]))

    def _note(self, tp: TopicPartition, base: int, values: list[bytes]) -> None:
        self.written[tp] |= {base + n: (value, False) for n, value in enumerate(values)}

    def _end(self, opened: tuple[Any, list[tuple[TopicPartition, int]]]) -> None:
        transaction, records = opened
        if self.random.random() < 0.5:
            transaction.commit()
            return
        transaction.abort()
        for tp, offset in records:
            self.written[tp][offset] = (self.written[tp][offset][0], True)

    def settle(self) -> None:
        """End the transactions."""
        while self._open:
            self._end(self._open.pop())

    def expected(
        self, starts: dict[TopicPartition, int], *, committed: bool
    ) -> dict[TopicPartition, list[tuple[int, bytes]]]:
        found = {
            tp: [
                (offset, value)
                for offset, (value, aborted) in sorted(records.items())
                if offset >= starts.get(tp, 0) and not (committed and aborted)
            ]
            for tp, records in self.written.items()
        }
        return {tp: records for tp, records in found.items() if records}


def found_in(query: Query) -> dict[TopicPartition, list[tuple[int, bytes]]]:
    """Return what the sink has of each partition, batch by batch.

    Within a batch, ranges of a partition are read in any order.
    """
    found: dict[TopicPartition, list[tuple[int, bytes]]] = defaultdict(list)
    for number in sorted(query.batches):
        for row in sorted(query.batches[number], key=lambda row: row["offset"]):
            tp = TopicPartition(row["topic"], row["partition"])
            found[tp].append((row["offset"], row["value"]))
    return dict(found)


class Starts:
    """The offsets at which the query must begin; noted whenever it asks for them."""

    def __init__(self, world: World, query: Query, *, committed: bool, at_latest: bool) -> None:
        self.offsets: dict[TopicPartition, int] = {}
        self._world, self._query = world, query
        self._committed, self._at_latest = committed, at_latest
        self._asked = False

    def note(self, step: str, trigger: str) -> None:
        """Note the ends of the logs when a run asks where they are for the first time.

        A run to the end of now has asked when it fixed its end.
        """
        asks = "prepareForTriggerAvailableNow" if trigger == "availableNow" else "initialOffset"
        if self._at_latest and not self._query.offsets and step == asks and not self._asked:
            self._asked = True
            self.offsets = self._world.ends(committed=self._committed)

    def begin(self) -> None:
        self._asked = False


def options_of(random: Random, *, committed: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"subscribePattern": "orders-[0-9]+"}
    if committed:
        options["kafka__isolation__level"] = "read_committed"
    choices: dict[str, list[Any]] = {
        "maxOffsetsPerTrigger": [None, 7, 20],
        "minOffsetsPerTrigger": [None, 5],
        "maxTriggerDelay": ["50ms", "10s"],
        "minPartitions": [None, 5],
        "maxRecordsPerPartition": [None, 4],
        "tandem__batchBytes": [None, 100],
    }
    for name, values in choices.items():
        value = random.choice(values)
        if value is not None:
            options[name] = value
    return options


def starting(
    kind: str, random: Random, world: World
) -> tuple[dict[str, Any], dict[TopicPartition, int]]:
    """Return the options of a start, and the offsets that it means."""
    by_topic: dict[str, dict[str, int]] = defaultdict(dict)
    if kind in {"earliest", "latest"}:
        return {"startingOffsets": kind}, {}
    if kind == "offsets":
        meant = {tp: random.randint(0, end) for tp, end in world.ends(committed=True).items()}
        for tp, at in meant.items():
            by_topic[tp.topic][str(tp.partition)] = at if at or random.random() < 0.5 else -2
        return {"startingOffsets": json.dumps(by_topic)}, meant
    world.settle()
    world.simulation.sleep(1_000)
    meant = world.ends(committed=True)
    since_ms = world.simulation.clock.wall_ms()
    more = {"startingOffsetsByTimestampStrategy": "latest"}
    for tp in meant:
        world.written[tp][world.cluster.produce(tp, b"first")] = (b"first", False)
        by_topic[tp.topic][str(tp.partition)] = since_ms
    if kind == "timestamp":
        return {"startingTimestamp": since_ms, **more}, meant
    return {"startingOffsetsByTimestamp": json.dumps(by_topic), **more}, meant


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("seed", SEEDS)
def test_each_record_is_read_once_and_in_order(seed: int, start: str) -> None:
    random = Random(f"{seed} {start}")  # noqa: S311 - not a secret
    conditions = random.choice([None, Conditions(loss=0.02, swallow=0.01, clog=0.005)])
    with simulated(f"{seed} {start}", brokers=2, conditions=conditions) as simulation:
        world = World(simulation, random)
        for _ in range(random.randint(0, 12)):
            world.write()
        committed = random.random() < 0.6
        options, meant = starting(start, random, world)
        options |= options_of(random, committed=committed)
        query = Query(simulation.cluster.bootstrap(), **options)
        starts = Starts(world, query, committed=committed, at_latest=start == "latest")
        starts.offsets = meant
        # A lookup or a task that the network ends is a crash, too.
        ends = (Crash,) if conditions is None else (Crash, KafkaTimeoutError)
        for _ in range(random.randint(2, 6)):
            trigger = random.choice(["availableNow", "once", "processingTime"])
            starts.begin()
            query.before = disturbing(
                world,
                partial(starts.note, trigger=trigger),
                # Where exactly to start is said of the partitions that there are.
                may_grow=lambda: bool(query.commits) or start in {"earliest", "latest"},
            )
            with suppress(*ends):
                query.run(trigger, triggers=5 if trigger == "processingTime" else 100)
            query.before = lambda _step: None
            simulation.cluster.changed()
        world.settle()
        if conditions is not None:
            conditions.calm()
        query.before = partial(starts.note, trigger="availableNow")
        starts.begin()
        query.run()
        query.run()
        assert found_in(query) == world.expected(starts.offsets, committed=committed)
        assert query.commits == len(query.offsets)


def disturbing(
    world: World, note: Callable[[str], object], *, may_grow: Callable[[], bool]
) -> Callable[[str], None]:
    """Return what happens before each step of a run: records come, leaders move, it crashes."""
    random = world.random

    def before(step: str) -> None:
        if random.random() < 0.5:
            world.write()
        if random.random() < 0.1 and may_grow():
            world.grow()
        if random.random() < 0.05:
            world.cluster.move_leader(random.choice(world.partitions()), random.randint(1, 2))
        if random.random() < 0.08:
            raise Crash(step)
        note(step)

    return before


STARTS_OF_EACH = [
    pytest.param({"startingOffsets": '{"orders": {"0": 1}}'}, id="offsets"),
    pytest.param({"startingOffsetsByTimestamp": '{"orders": {"0": 2000}}'}, id="times"),
]


@pytest.mark.parametrize("step", ["offset log", "partitions", "sink", "commit log"])
@pytest.mark.parametrize("given", STARTS_OF_EACH)
def test_a_first_batch_is_repeated_although_its_topic_has_grown(
    given: dict[str, str], step: str
) -> None:
    """The log has where it began. Without it, the start must be given for the new partition."""
    with simulated(step) as simulation:
        simulation.cluster.create_topic("orders")
        tp = TopicPartition("orders", 0)
        for number in range(4):
            simulation.cluster.produce(tp, b"v", timestamp=1_000 * (number + 1))
        query = Query(simulation.cluster.bootstrap(), subscribe="orders", **given)
        crash_at(query, step)
        simulation.cluster.add_partitions("orders", 2)
        simulation.cluster.produce(tp, b"v")
        if step == "offset log":
            with pytest.raises(InvalidArgumentError, match="exactly the partitions to read"):
                query.run()
            return
        query.run()
        assert query.counts == [3, 1]


def test_a_first_batch_is_repeated_although_nothing_is_left_since_its_time() -> None:
    with simulated() as simulation:
        simulation.cluster.create_topic("orders")
        tp = TopicPartition("orders", 0)
        simulation.cluster.produce(tp, b"v", timestamp=1_000)
        query = Query(simulation.cluster.bootstrap(), subscribe="orders", startingTimestamp=1_000)
        crash_at(query, "commit log")
        simulation.cluster.delete_records(tp, 1)
        query.options["failOnDataLoss"] = False
        query.batches.clear()
        query.run()
        assert query.counts == [0]
        simulation.cluster.produce(tp, b"v")
        query.run()
        assert query.counts == [0, 1]


def crash_at(query: Query, step: str) -> None:
    """Run a query until it crashes before a step."""

    def crash(before: str) -> None:
        if before == step:
            raise Crash

    query.before = crash
    with pytest.raises(Crash):
        query.run()
    query.before = lambda _step: None
