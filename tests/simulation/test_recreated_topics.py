"""A topic that is deleted and created again while it is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import CommitFailedError, NoOffsetForPartitionError, OffsetOutOfRangeError
from tandem_kafka.tables import Landing
from tandem_kafka.types import NO_TOPIC_ID
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce

TP = TopicPartition("orders", 0)


@contextmanager
def reader(**options: Any) -> Iterator[tuple[Simulation, KafkaConsumer]]:
    """A consumer that has read five records."""
    with Simulation("made anew") as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 5)
        options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **options}
        consumer = simulation.consumer(group_id="readers", **options)
        consumer.assign([TP])
        if options["auto_offset_reset"] == "none":
            consumer.seek(TP, 0)
        while consumer.position(TP) < 5:
            consumer.poll(100)
        yield simulation, consumer


def recreate_topic(simulation: Simulation, records: int = 8) -> list[bytes]:
    """Recreate the topic with a number of records; returns their values."""
    simulation.cluster.recreate_topic("orders")
    values = [b"new %d" % number for number in range(records)]
    simulation.cluster.produce(TP, *values)
    return values


def read(consumer: KafkaConsumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    for _ in range(50):
        values += [record.value for record in consumer.poll(500).get(TP, ())]
        if len(values) >= count:
            return values
    raise AssertionError(f"only {values}")


@pytest.mark.parametrize("records", [3, 5, 8])
@pytest.mark.parametrize("paused", [False, True])
def test_a_recreated_topic_is_read_from_its_first_record(records: int, paused: bool) -> None:
    with reader() as (simulation, consumer):
        if paused:
            consumer.pause(TP)
        values = recreate_topic(simulation, records)
        if paused:
            simulation.sleep(1_000)
            consumer.resume(TP)
        assert read(consumer, records) == values


def test_commits_of_the_deleted_topic_are_dropped() -> None:
    with reader() as (simulation, consumer):
        consumer.commit()
        assert simulation.cluster.committed("readers", TP) == 5
        recreate_topic(simulation)
        assert simulation.cluster.committed("readers", TP) is None


def test_a_position_in_the_deleted_topic_is_not_committed() -> None:
    with reader() as (simulation, consumer):
        recreate_topic(simulation)
        with pytest.raises(CommitFailedError, match="recreated"):
            consumer.commit()
        assert simulation.cluster.committed("readers", TP) is None
        read(consumer, 8)
        consumer.commit()
        assert simulation.cluster.committed("readers", TP) == 8


def test_without_a_policy_the_application_must_seek() -> None:
    with reader(auto_offset_reset="none") as (simulation, consumer):
        values = recreate_topic(simulation)
        for _ in range(2):
            with pytest.raises(OffsetOutOfRangeError):
                read(consumer, 1)
        consumer.seek(TP, 3)
        assert read(consumer, 5) == values[3:]


@pytest.mark.parametrize("recreated", [False, True])
def test_without_a_policy_a_seek_may_come_later_than_the_assignment(recreated: bool) -> None:
    """A consumer that has looked for positions before looks at once, and finds none."""
    other = TopicPartition("users", 0)
    with reader(auto_offset_reset="none") as (simulation, consumer):
        create_topic(simulation, "users", 1)
        produce(simulation, other, 5)
        if recreated:
            recreate_topic(simulation)
            with pytest.raises(OffsetOutOfRangeError):
                read(consumer, 1)
        else:
            consumer.assign([other])
            with pytest.raises(NoOffsetForPartitionError):
                consumer.poll(500)
        then = other if recreated else TP
        consumer.assign([then])
        simulation.sleep(500)
        consumer.seek(then, 2)
        assert consumer.poll(500)[then][0].offset == 2


@pytest.mark.parametrize("doubted", [True, False])
def test_a_landing_goes_back_to_no_offset_of_a_deleted_topic(doubted: bool) -> None:
    """The sink fails while only one metadata response has told of the new topic."""
    tp = TopicPartition("orders", 0)
    with Simulation() as simulation:
        simulation.cluster.create_topic("orders", 1)
        simulation.cluster.produce(tp, *[b"old"] * 30)
        consumer = simulation.consumer(
            "orders",
            group_id="landing",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            metadata_max_age_ms=500,
        )
        read = 0
        while read < 30:
            read += consumer.poll(200).count
        landing = Landing(consumer, Mock())
        landing._landed = {tp: 30}
        landing._topics = landing._present_topics([tp])
        old = consumer._topic_id(tp)
        simulation.cluster.recreate_topic("orders")
        simulation.cluster.produce(tp, *[b"new"] * 50)
        while doubted and consumer._topic_id_now("orders") in {old, NO_TOPIC_ID}:
            simulation.sleep(1)
        assert consumer._topic_id(tp) == old
        landing._seek_back()
        found = [
            record.offset for _ in range(60) for record in consumer.poll(200).records("orders")
        ]
        assert found == list(range(50))
