"""Errors that last for hours: what `poll()` returns, and what is kept of them."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest

from tandem_kafka.confluent import Consumer
from tandem_kafka.wire.messages import ConsumerGroupHeartbeatResponse, MetadataResponse
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic
from tests.simulation.changing import changing
from tests.simulation.test_mixed_answers import FIRST, produce, set_codes
from tests.unit.confluent.simulated import simulated


def read(simulation: Simulation, consumer: Consumer, seconds: int) -> Counter[int]:
    """Poll on; return how many events there were of each code, and of 0 for records."""
    found: Counter[int] = Counter()
    end_ms = simulation.clock.now_ms() + seconds * 1_000
    while simulation.clock.now_ms() < end_ms:
        message = consumer.poll(1.0)
        if message is not None:
            error = message.error()
            found[0 if error is None else error.code()] += 1
    return found


@pytest.mark.parametrize("code", [-1, 17, 29, 9_999])
def test_an_error_of_a_subscribed_topic_is_an_event(code: int) -> None:
    """`poll()` had raised some, as an exception that confluent_kafka does not have."""
    with Simulation("topic", brokers=2) as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, FIRST)
        consumer = simulated(simulation)
        consumer.subscribe(["orders"])
        refused = set_codes("topics", code)
        with changing(simulation, MetadataResponse, lambda _: refused):
            events = read(simulation, consumer, 60)
        assert 1 <= events[code] <= 7
        assert read(simulation, consumer, 3)[0] > 50
        consumer.close()


def test_errors_with_new_texts_are_not_all_returned_and_kept() -> None:
    """One was returned with each retry, and kept for ever."""
    with Simulation("texts", brokers=2) as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, FIRST)
        consumer = simulated(
            simulation,
            group__protocol="consumer",
            retry__backoff__ms=10,
            retry__backoff__max__ms=10,
        )
        consumer.subscribe(["orders"])
        count = itertools.count()

        def refuse(message: Any) -> None:
            message.error_code, message.error_message = 24, f"number {next(count)}"

        with changing(simulation, ConsumerGroupHeartbeatResponse, lambda _: refuse):
            events = read(simulation, consumer, 60)
        assert next(count) > 200
        assert events[24] <= 70
        assert len(consumer._events._reported_ms) <= 10
        assert read(simulation, consumer, 3)[0] > 50
        consumer.close()
