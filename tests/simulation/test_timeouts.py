"""The errors of calls that time out say what is wrong, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.errors import UnknownTopicIdError, UnknownTopicOrPartitionError

from tandem_kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic

A, GONE = TopicPartition("orders", 0), TopicPartition("elsewhere", 0)
MISSING = "elsewhere-0: UNKNOWN_TOPIC_OR_PARTITION (the partition does not exist"


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation("timeouts") as made:
        create_topic(made, "orders", 1)
        yield made


@pytest.fixture
def consumer(simulation: Simulation) -> KafkaConsumer:
    """A member of a group that has read."""
    consumer = simulation.consumer("orders", group_id="readers", auto_offset_reset="earliest")
    while not consumer.assignment():
        consumer.poll(100)
    return consumer


CALLS: dict[str, Callable[[KafkaConsumer, TopicPartition, int], Any]] = {
    "commit": lambda its, tp, ms: its.commit({tp: OffsetAndMetadata(1)}, ms),
    "end_offsets": lambda its, tp, ms: its.end_offsets([tp], ms),
    "beginning_offsets": lambda its, tp, ms: its.beginning_offsets([tp], ms),
    "offsets_for_times": lambda its, tp, ms: its.offsets_for_times({tp: 1}, ms),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_missing_topic_is_named(consumer: KafkaConsumer, name: str) -> None:
    with pytest.raises(KafkaTimeoutError) as raised:
        CALLS[name](consumer, GONE, 4_000)
    assert MISSING in str(raised.value)
    assert "allow more time" not in str(raised.value)


def test_a_deleted_topic_is_named(simulation: Simulation) -> None:
    create_topic(simulation, "elsewhere", 1)
    names = ["orders", "elsewhere"]
    consumer = simulation.consumer(*names, group_id="readers", group_protocol="consumer")
    while len(consumer.assignment()) < 2:
        consumer.poll(100)
    simulation.cluster.delete_topic("elsewhere")
    with pytest.raises(KafkaTimeoutError) as raised:
        consumer.commit({A: OffsetAndMetadata(1), GONE: OffsetAndMetadata(1)}, 2_000)
    assert isinstance(raised.value.__cause__, UnknownTopicIdError | UnknownTopicOrPartitionError)
    assert "elsewhere-0: UNKNOWN_TOPIC_" in str(raised.value)
    assert "orders-0" not in str(raised.value), "it is committed"
    assert simulation.cluster.committed("readers", A) == 1


def test_position_names_a_missing_topic(simulation: Simulation) -> None:
    consumer = simulation.consumer(auto_offset_reset="earliest", default_api_timeout_ms=3_000)
    consumer.assign([GONE])
    with pytest.raises(KafkaTimeoutError) as raised:
        consumer.position(GONE)
    assert MISSING in str(raised.value)


@pytest.mark.parametrize("timeout_ms", [300, 1_000, 2_500])
@pytest.mark.parametrize("name", CALLS)
def test_a_broker_that_does_not_respond_is_named(
    simulation: Simulation, consumer: KafkaConsumer, name: str, timeout_ms: int
) -> None:
    consumer.poll(0)
    for broker in simulation.cluster.brokers:
        simulation.cluster.pause(broker)
    with pytest.raises(KafkaTimeoutError) as raised:
        CALLS[name](consumer, A, timeout_ms)
    assert "has not responded" in str(raised.value)
    assert "allow more time" not in str(raised.value)
