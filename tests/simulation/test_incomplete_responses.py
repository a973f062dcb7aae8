"""A response that lacks a partition: the others go on, and the partition is asked for again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka.wire.messages import (
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)
from tandem_kafka_testing import Call, Simulation
from tests.scenarios.numbered_records import create_topic, produce
from tests.simulation.sharing import counted

LACKING = TopicPartition("orders", 1)


def _without(call: Call) -> Any:
    """Return the broker's response without `LACKING`."""
    response = call.default()
    groups = getattr(response, "groups", None)
    for each in (groups[0] if groups else response).topics:
        each.partitions = [
            part
            for part in each.partitions
            if getattr(part, "partition_index", None) != LACKING.partition
            and getattr(part, "partition", None) != LACKING.partition
        ]
    return response


def _read(simulation: Simulation, consumer: KafkaConsumer, seconds: int) -> set[int]:
    """Poll on; return the partitions whose records were returned."""
    found = set()
    end_ms = simulation.clock.now_ms() + seconds * 1_000
    while simulation.clock.now_ms() < end_ms:
        found |= {tp.partition for tp in consumer.poll(500)}
    return found


def _looks_up_the_end(simulation: Simulation, tps: list[TopicPartition]) -> KafkaConsumer:
    consumer = simulation.consumer(auto_offset_reset="earliest")
    consumer.assign(tps)
    return consumer


def _has_committed(simulation: Simulation, tps: list[TopicPartition]) -> KafkaConsumer:
    consumer = simulation.consumer(group_id="readers", auto_offset_reset="earliest")
    consumer.assign(tps)
    return consumer


def _follows_an_election(simulation: Simulation, tps: list[TopicPartition]) -> KafkaConsumer:
    consumer = simulation.consumer(auto_offset_reset="earliest")
    consumer.assign(tps)
    while _read(simulation, consumer, 1):
        pass
    for tp in tps:
        simulation.cluster.move_leader(tp, 2)
        produce(simulation, tp, 5)
    return consumer


@pytest.mark.parametrize(
    ("request_class", "begin"),
    [
        (ListOffsetsRequest, _looks_up_the_end),
        (OffsetFetchRequest, _has_committed),
        (OffsetForLeaderEpochRequest, _follows_an_election),
    ],
)
def test_a_partition_that_a_response_lacks_does_not_hold_up_the_others(
    request_class: Any, begin: Callable[[Simulation, list[TopicPartition]], KafkaConsumer]
) -> None:
    with Simulation(f"lacking {request_class.__name__}", brokers=2) as simulation:
        tps = create_topic(simulation, "orders", 3)
        for tp in tps:
            simulation.cluster.move_leader(tp, 1)
            produce(simulation, tp, 5)
        simulation.cluster.script(request_class, *[_without] * 60)
        consumer = begin(simulation, tps)
        assert _read(simulation, consumer, 20) == {0, 2}
        assert 10 <= counted(simulation, request_class) <= 40
        (reason,) = consumer.health().not_ready
        assert "orders-1" in reason
        simulation.cluster._scripts._handlers.clear()
        assert _read(simulation, consumer, 2) == {1}
        assert consumer.health().ready


def test_a_commit_whose_response_lacks_a_partition_names_it() -> None:
    with Simulation("lacking commits") as simulation:
        tps = create_topic(simulation, "orders", 3)
        consumer = simulation.consumer(group_id="readers")
        consumer.assign(tps)
        simulation.cluster.script(OffsetCommitRequest, *[_without] * 60)
        with pytest.raises(KafkaTimeoutError, match=r"orders-1.*lacks") as raised:
            consumer.commit(dict.fromkeys(tps, OffsetAndMetadata(3)), timeout_ms=3_000)
        assert "orders-0" not in str(raised.value)
        simulation.cluster._scripts._handlers.clear()
        consumer.commit({LACKING: OffsetAndMetadata(3)})
