"""close() with a coordinator that cannot be reached."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import ConsumerClosedError
from tandem_kafka.events.application import CommitSync
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce

TP = TopicPartition("orders", 0)
#: The end of the network thread is noticed a few milliseconds later.
LATE_MS = 200


@contextmanager
def reader(seed: str, **options: Any) -> Iterator[tuple[Simulation, KafkaConsumer]]:
    """A consumer that has read seven records and will not commit before it is closed."""
    with Simulation(seed, trace_lines=2_000) as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 7)
        consumer = simulation.consumer(
            group_id="g",
            auto_offset_reset="earliest",
            **{"auto_commit_interval_ms": 3_600_000, **options},
        )
        yield simulation, consumer
        assert consumer._core.closed


def read(consumer: KafkaConsumer, count: int = 7) -> None:
    while count:
        count -= consumer.poll(1_000).count


def closing_took(
    simulation: Simulation, consumer: KafkaConsumer, timeout_ms: int | None = None
) -> int:
    began_ms = simulation.clock.now_ms()
    consumer.close(timeout_ms=timeout_ms)
    return simulation.clock.now_ms() - began_ms


def silenced(simulation: Simulation, how: str) -> None:
    {"gone": simulation.cluster.stop, "hung": simulation.cluster.pause}[how](1)


@pytest.mark.parametrize("how", ["gone", "hung"])
@pytest.mark.parametrize("protocol", ["classic", "consumer", "assign"])
def test_close_waits_five_seconds_for_the_coordinator_and_logs_what_is_not_committed(
    protocol: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {} if protocol == "assign" else {"group_protocol": protocol}
    with reader(f"{protocol} {how}", **options) as (simulation, consumer):
        if protocol == "assign":
            consumer.assign([TP])
        else:
            consumer.subscribe(["orders"])
        read(consumer)
        silenced(simulation, how)
        simulation.sleep(35_000)
        with caplog.at_level(logging.INFO):
            assert closing_took(simulation, consumer) <= 5_000 + LATE_MS
        assert simulation.cluster.committed("g", TP) is None
        lines = [record.getMessage() for record in caplog.records]
        assert any("not committed" in line and "orders-0 at 7" in line for line in lines), lines
        assert not any("it is retried" in line for line in lines)


@pytest.mark.parametrize(
    ("down_ms", "options"), [(10_000, {"timeout_ms": 25_000}), (0, {})], ids=["longer", "default"]
)
def test_close_waits_for_a_coordinator_that_may_return(
    down_ms: int, options: dict[str, int]
) -> None:
    """Longer with a longer timeout, or if it has just gone down."""
    with reader("more") as (simulation, consumer):
        consumer.assign([TP])
        read(consumer)
        simulation.cluster.stop(1)
        simulation.sleep(down_ms)
        simulation.after(12_000, lambda: simulation.cluster.start(1))
        assert 11_000 < closing_took(simulation, consumer, **options) < 15_000
        assert simulation.cluster.committed("g", TP) == 7


def test_commits_that_fail_in_close_are_told_and_not_announced_as_retried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with reader("interval", auto_commit_interval_ms=1_000) as (simulation, consumer):
        consumer.assign([TP])
        read(consumer)
        simulation.cluster.pause(1)
        simulation.sleep(2_000)
        told: list[type] = []
        with caplog.at_level(logging.INFO):
            consumer.poll(100)
            consumer.commit_async(callback=lambda _, error: told.append(type(error)))
            consumer.close(timeout_ms=3_000)
        lines = [record.getMessage() for record in caplog.records]
        assert any("auto-commit of orders-0 at 7 failed: " in line for line in lines), lines
        assert not any("it is retried" in line for line in lines)
        assert told == [ConsumerClosedError]


@pytest.mark.parametrize("ends", ["close", "unsubscribe"])
def test_an_interrupted_commit_is_told_in_the_log(
    ends: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Ctrl-C ended it without a trace but KeyboardInterrupt, and records came again."""
    with reader(ends) as (_, consumer):
        consumer.subscribe(["orders"])
        read(consumer)
        core = consumer._core
        ask = core.ask

        async def interrupted(event: Any, **options: Any) -> Any:
            if isinstance(event, CommitSync):
                raise KeyboardInterrupt
            return await ask(event, **options)

        core.ask = interrupted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            getattr(consumer, ends)()
        assert "KeyboardInterrupt interrupted the last commit" in caplog.text
        core.ask = ask  # type: ignore[method-assign]
        consumer.close()
