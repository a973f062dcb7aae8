"""The assignment of a heartbeat response may have several entries of one topic."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tandem_kafka.wire.messages import ConsumerGroupHeartbeatRequest, ShareGroupHeartbeatRequest
from tandem_kafka_testing import Call, Simulation
from tests.scenarios.numbered_records import create_topic, produce
from tests.scenarios.share_members import share_consumer


def split(call: Call) -> Any:
    """Respond with an entry for each partition."""
    response = call.default()
    if response is not None and response.assignment is not None:
        entries = []
        for each in response.assignment.topic_partitions:
            for number in each.partitions:
                entries.append(copy.copy(each))
                entries[-1].partitions = [number]
        response.assignment.topic_partitions = entries
    return response


@pytest.mark.parametrize("kind", ["consumer", "share"])
def test_all_entries_of_a_topic_are_read(kind: str) -> None:
    with Simulation(f"entries of {kind}") as simulation:
        simulation.cluster.configure_group("readers", share_auto_offset_reset="earliest")
        tps = create_topic(simulation, "orders", 3)
        for tp in tps:
            produce(simulation, tp, 1)
        consumer: Any
        if kind == "share":
            simulation.cluster.script(ShareGroupHeartbeatRequest, *[split] * 100)
            consumer = share_consumer(simulation, "orders", group_id="readers")
        else:
            simulation.cluster.script(ConsumerGroupHeartbeatRequest, *[split] * 100)
            options = {"group_protocol": "consumer", "auto_offset_reset": "earliest"}
            consumer = simulation.consumer("orders", group_id="readers", **options)
        read = set()
        for _ in range(100):
            read.update(consumer.poll(200))
        consumer.close()
        assert read == set(tps)
