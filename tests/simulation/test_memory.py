"""What a consumer holds does not grow with what has been: rebalances, seeks, topics."""

from __future__ import annotations

import gc
from collections import Counter
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka.metrics import registry
from tandem_kafka.state import metadata
from tandem_kafka_testing import Call, Simulation
from tests import tier
from tests.scenarios.numbered_records import create_topic, produce
from tests.scenarios.share_members import share_consumer

KINDS = ["classic", "cooperative", "consumer", "assign", "subscribe", "share"]

#: Turns until what has a fixed size is full.
WARM = 10
#: Topics that exist at a time. Each turn brings a new one.
ALIVE = 3
#: How long what is known of a topic outlasts it; minutes where nobody waits for the end.
KEEP_MS = 20_000
#: Objects more at the end than before: a request more in flight, or names of former topics.
SLACK = 300
#: Those of two topics: when one is forgotten depends on when the last response came.
METRICS_SLACK = 14

_AROUND = ("tandem_kafka_testing", "tests.", "logging", "asyncio")


def held(root: object) -> Counter[str]:
    """Count what is reachable from a consumer, without the simulation around it, by type."""
    seen: set[int] = set()
    found: Counter[str] = Counter()
    left = [root]
    while left:
        each = left.pop()
        kind = type(each)
        if id(each) in seen or isinstance(each, (type, ModuleType, BuiltinFunctionType)):
            continue
        if kind.__module__.startswith(_AROUND):
            continue
        seen.add(id(each))
        found[f"{kind.__module__}.{kind.__qualname__}"] += 1
        more = (
            (each.__closure__ or ()) if isinstance(each, FunctionType) else gc.get_referents(each)
        )
        left.extend(more)
    return found


class Life:
    """A consumer, and in each turn a new topic, one that goes, and a member that comes and goes."""

    def __init__(self, simulation: Simulation, kind: str) -> None:
        self.simulation = simulation
        self.kind = kind
        self.turns = 0
        self.consumer = self._member()

    def _member(self) -> Any:
        if self.kind == "share":
            return share_consumer(self.simulation, group_id="g")
        options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest"}
        if self.kind == "cooperative":
            options["partition_assignment_strategy"] = ["cooperative-sticky"]
        if self.kind == "consumer":
            options["group_protocol"] = "consumer"
        return self.simulation.consumer(**options, metadata_max_age_ms=1_000)

    def topics(self) -> list[str]:
        return [f"topic-{n}" for n in range(max(1, self.turns - ALIVE + 1), self.turns + 1)]

    def turn(self) -> None:
        self.turns += 1
        create_topic(self.simulation, f"topic-{self.turns}", 2)
        if self.turns > ALIVE:
            self.simulation.cluster.delete_topic(f"topic-{self.turns - ALIVE}")
        for name in self.topics():
            for number in range(2):
                produce(self.simulation, TopicPartition(name, number), 3)
        self._choose(self.consumer)
        self._read(self.consumer)
        if self.kind not in ("assign", "subscribe"):
            other = self._member()
            self._choose(other)
            for _ in range(3):
                self._read(other)
                self._read(self.consumer)
            other.close()
            self._read(self.consumer)
        if self.kind != "share":
            for tp in self.consumer.assignment():
                self.consumer.seek_to_beginning(tp)
            self._read(self.consumer)
        self.simulation.sleep(KEEP_MS // 5)

    def _choose(self, consumer: Any) -> None:
        if self.kind == "assign":
            consumer.assign([TopicPartition(name, n) for name in self.topics() for n in range(2)])
        elif self.kind in ("subscribe", "share"):
            consumer.subscribe(self.topics())
        else:
            consumer.subscribe(pattern="topic-.*")

    def _read(self, consumer: Any) -> None:
        for _ in range(2):
            consumer.poll(1_500)
        if self.kind == "share":
            consumer.commit()
        else:
            consumer.commit_async()  # is refused for a topic that goes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("turns", tier.sample([15, 190], 1))
def test_what_has_been_leaves_nothing(
    kind: str, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """25 rebalances of 12 partitions left 318 partitions; 240 topics left 1,680 metrics."""
    monkeypatch.setattr(registry, "FORGET_MS", KEEP_MS)
    monkeypatch.setattr(metadata, "_KEEP_MS", KEEP_MS)
    with Simulation(f"memory {kind}", brokers=2, trace_lines=100) as simulation:
        life = Life(simulation, kind)
        for _ in range(WARM):
            life.turn()
        before, metrics = held(life.consumer), _metrics(life.consumer)
        for _ in range(turns):
            life.turn()
        after = held(life.consumer)
        grown = {
            name: count - before[name] for name, count in after.items() if count > before[name]
        }
        assert after.total() <= before.total() + SLACK, grown
        assert _metrics(life.consumer) <= metrics + METRICS_SLACK
        if kind == "share":
            life.consumer.close()


@pytest.mark.parametrize("kind", ["assign", "share"])
def test_the_cluster_forgets_the_fetches_that_found_nothing(kind: str) -> None:
    """It kept each until the next record."""
    with Simulation(f"idle {kind}") as simulation:
        create_topic(simulation, "topic-1", 1)
        life = Life(simulation, kind)
        life.turns = 1
        life._choose(life.consumer)
        before = _calls()
        for _ in range(20):
            life.consumer.poll(2_000)
        kept = _calls() - before
        life.consumer.close()
        assert sum(simulation.cluster.brokers[1].requests.values()) > 60
        assert kept < 10


def _calls() -> int:
    """Return the number of requests that exist, also those of other tests."""
    gc.collect()
    return sum(type(each) is Call for each in gc.get_objects())


def _metrics(consumer: Any) -> int:
    return sum(map(len, consumer.metrics().values()))
