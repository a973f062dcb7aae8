"""An application that always finds records: poll() never waits, and misses nothing besides them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tandem_kafka import KafkaConsumer
from tandem_kafka_testing import Simulation
from tests.simulation.readers import OPTIONS, filled

#: How long the user's code takes.
SLOW_MS = 5_000


@contextmanager
def reading(simulation: Simulation, **options: Any) -> Iterator[KafkaConsumer]:
    """Return a consumer that has records of one partition in its buffer."""
    [tp] = filled(simulation, partitions=1, count=50)
    options = {**OPTIONS, "enable_auto_commit": False, "max_poll_records": 1, **options}
    consumer = simulation.consumer(**options)
    consumer.assign([tp])
    assert consumer.poll(10_000)
    yield consumer


def test_callbacks_of_commits_run() -> None:
    with Simulation() as simulation, reading(simulation) as consumer:
        called: list[object] = []
        consumer.commit_async(callback=lambda _, error: called.append(error))
        assert consumer.poll(0)
        simulation.sleep(1_000)
        assert called == []
        assert consumer.poll(0)
        assert called == [None]


def test_the_time_of_a_deserializer_is_not_that_of_the_application() -> None:
    with Simulation() as simulation:
        slow: list[int] = []

        def deserialize(data: bytes | None) -> bytes | None:
            simulation.sleep(sum(slow))
            return data

        with reading(simulation, value_deserializer=deserialize) as consumer:
            slow.append(SLOW_MS)
            assert consumer.poll(0)
            assert consumer._core.engine.polls.polled_ms == simulation.clock.now_ms()


def test_the_time_of_a_callback_is_not_that_of_the_application() -> None:
    with Simulation() as simulation, reading(simulation) as consumer:
        consumer.commit_async(callback=lambda *_: simulation.sleep(SLOW_MS))
        simulation.sleep(1_000)
        began_ms = simulation.clock.now_ms()
        assert consumer.poll(0)
        assert simulation.clock.now_ms() >= began_ms + SLOW_MS
        assert consumer._core.engine.polls.polled_ms == simulation.clock.now_ms()
