"""Pauses of the application and of the workers: neither ends the other."""

from __future__ import annotations

from typing import Any

from tandem_kafka import KafkaConsumer
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.simulation import Simulation
from tests.simulation.simulated_workers import simulated_workers
from tests.simulation.test_workers import TP, filled, reader


def slow_workers(
    simulation: Simulation, consumer: KafkaConsumer[Any, Any], handled: list[int], duration_ms: int
) -> Any:
    """Return workers that handle one record at a time, and have no room for more than 50."""
    return simulated_workers(
        simulation,
        consumer,
        lambda record: handled.append(record.offset),
        order="none",
        at_once=1,
        duration_ms=lambda: duration_ms,
        max_in_flight=50,
    )


def test_what_the_application_has_paused_stays_paused() -> None:
    """The workers pause partitions themselves, and resume only those."""
    other = TopicPartition("orders", 1)
    with Simulation() as simulation:
        filled(simulation, 0, partitions=2)
        consumer = reader(simulation, max_poll_records=40)
        while not consumer.assignment():
            consumer.poll(100)
        consumer.pause(other)
        for tp in (TP, other):
            simulation.cluster.produce(tp, *[b"%d" % number for number in range(200)])
        handled: list[TopicPartition] = []

        def handle(record: Any) -> None:
            handled.append(TopicPartition(record.topic, record.partition))

        workers = simulated_workers(
            simulation, consumer, handle, order="none", at_once=1, max_in_flight=50
        )
        workers.run(until=lambda: handled.count(TP) == 200)
        assert other not in handled
        assert consumer.paused() == {other}


def test_a_pause_of_the_application_outlasts_that_of_the_workers() -> None:
    """It comes while the workers have paused the partition themselves."""
    with Simulation() as simulation:
        filled(simulation, 200)
        consumer = reader(simulation, max_poll_records=40)
        handled: list[int] = []
        workers = slow_workers(simulation, consumer, handled, 50)

        def pause() -> bool:
            progress = workers.progress().get(TP)
            if progress is None or not handled:
                return False
            if progress.paused and progress.in_work:
                consumer.pause(TP)
            return simulation.clock.now_ms() > 10_000

        workers.run(until=pause)
        assert 0 < len(handled) < 100, "all that was with the workers"
        assert consumer.paused() == {TP}
        assert consumer.health().partitions[TP].paused
        consumer.resume(TP)
        workers.run(until=lambda: len(handled) == 200)
        assert handled == list(range(200))


def test_the_application_does_not_resume_what_the_workers_have_paused() -> None:
    with Simulation() as simulation:
        filled(simulation, 300)
        consumer = reader(simulation, max_poll_records=40)
        handled: list[int] = []
        most, stuck = [0], set()

        def resume() -> bool:
            progress = workers.progress().get(TP)
            if progress is not None:
                most[0] = max(most[0], progress.in_work)
                if progress.paused:
                    assert consumer.paused() == set()
                    consumer.resume(TP)
                    stuck.add(consumer.health().partitions[TP].stuck)
            return len(handled) == 300

        workers = slow_workers(simulation, consumer, handled, 300)
        workers.run(until=resume)
        assert 40 < most[0] <= 50
        assert "its workers take no more records of it at present" in stuck


def test_a_rebalance_after_the_run_leaves_nothing_paused() -> None:
    """The listener of the workers is still there."""
    with Simulation() as simulation:
        filled(simulation, 10)
        consumer = reader(simulation)
        workers = simulated_workers(simulation, consumer, lambda _: None)
        workers.run(until=lambda: workers.done == 10)
        generation = consumer.group_metadata().generation_id
        consumer.enforce_rebalance()
        simulation.cluster.produce(TP, b"10")
        records = [r for _ in range(40) for each in consumer.poll(500).values() for r in each]
        assert consumer.group_metadata().generation_id > generation
        assert [record.offset for record in records] == [10]
