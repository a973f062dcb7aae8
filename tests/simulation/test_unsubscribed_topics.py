"""A coordinator assigns a topic that the application has not subscribed to."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka import ShareConsumer
from tandem_kafka.wire.messages import ConsumerGroupHeartbeatRequest, ShareGroupHeartbeatRequest
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.cluster.call import Call
from tests.scenarios.numbered_records import create_topic, produce
from tests.scenarios.share_members import share_consumer

_HEARTBEATS = {"consumer": ConsumerGroupHeartbeatRequest, "share": ShareGroupHeartbeatRequest}


def topics_read(consumer: Any, simulation: Simulation) -> set[str]:
    """Return the topics of the records of ten seconds."""
    end_ms, found = simulation.clock.now_ms() + 10_000, set()
    while simulation.clock.now_ms() < end_ms:
        found |= {tp.topic for tp in consumer.poll(500)}
        if isinstance(consumer, ShareConsumer):
            consumer.commit()
    return found


@pytest.mark.parametrize("protocol", _HEARTBEATS)
def test_it_is_not_read_before_the_application_subscribes(protocol: str) -> None:
    with Simulation(protocol) as simulation:
        for topic in ("orders", "others"):
            [tp] = create_topic(simulation, topic, 1)
            produce(simulation, tp, 1)
        simulation.cluster.configure_group("g", share_auto_offset_reset="earliest")

        def assign_both(call: Call) -> Any:
            response = call.default()
            if response is not None and response.assignment is not None:
                entry = type(response.assignment).TopicPartitions
                response.assignment.topic_partitions = [
                    entry(topic_id=topic.topic_id, partitions=[0])
                    for _, topic in sorted(simulation.cluster.topics.items())
                ]
            return response

        simulation.cluster.script(_HEARTBEATS[protocol], *[assign_both] * 1_000)
        if protocol == "share":
            consumer: Any = share_consumer(simulation, group_id="g")
        else:
            consumer = simulation.consumer(
                group_id="g", group_protocol="consumer", auto_offset_reset="earliest"
            )
        consumer.subscribe(["orders"])
        assert topics_read(consumer, simulation) == {"orders"}
        if protocol == "consumer":
            assert {tp.topic for tp in consumer.assignment()} == {"orders"}
        consumer.subscribe(["orders", "others"])
        assert topics_read(consumer, simulation) == {"others"}
        consumer.close()
