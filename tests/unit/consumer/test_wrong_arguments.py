"""What a call with wrong arguments is told: the name that was called, not the part that has it."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tandem_kafka import (
    AsyncKafkaConsumer,
    AsyncShareConsumer,
    KafkaConsumer,
    ShareConsumer,
    TopicPartition,
)
from tandem_kafka_testing.laboratory import SimulatedKafka


@pytest.mark.parametrize(
    "kind", [KafkaConsumer, AsyncKafkaConsumer, ShareConsumer, AsyncShareConsumer]
)
def test_no_method_is_named_after_a_part_of_the_consumer(kind: type) -> None:
    methods = {
        name: inspect.unwrap(method).__qualname__
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }
    assert "subscribe" in methods
    assert {
        name: shown
        for name, shown in methods.items()
        if shown not in {name, f"{kind.__name__}.{name}"}
    } == {}


def test_a_wrong_keyword(kafka_cluster: SimulatedKafka) -> None:
    consumer: Any = kafka_cluster.consumer(group_id="g")
    with pytest.raises(
        TypeError, match=r"^subscribe\(\) has no argument 'on_assign'; it takes top"
    ):
        consumer.subscribe(["orders"], on_assign=print)
    with pytest.raises(TypeError, match=r"^seek\(\) missing 1 required positional argument: 'off"):
        consumer.seek(TopicPartition("orders", 0))
