"""What retention removed before it was read is told."""

from __future__ import annotations

import logging

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka_testing import Simulation

TP = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("policy", "first"),
    [("earliest", 60), ("latest", 100), ("by_duration:PT1H", 60), ("by_duration:PT0.001S", 100)],
)
def test_what_was_removed_is_told_once(
    policy: str, first: int, caplog: pytest.LogCaptureFixture
) -> None:
    with Simulation() as simulation:
        simulation.cluster.create_topic(TP.topic, 1)
        simulation.cluster.produce(TP, *[b"early"] * 20)
        consumer = simulation.consumer(enable_auto_commit=False, auto_offset_reset=policy)
        consumer.assign([TP])
        consumer.seek(TP, 10)
        while consumer.position(TP) < 20:
            consumer.poll(500)
        simulation.cluster.produce(TP, *[b"late"] * 80)
        consumer.pause(TP)
        simulation.sleep(1_000)
        consumer.seek(TP, 20)  # drops what was read ahead
        simulation.cluster.delete_records(TP, 60)
        consumer.resume(TP)
        while consumer.position(TP) < 100:
            consumer.poll(500)
        told = [each for each in caplog.records if each.levelno == logging.WARNING]
        (line,) = [each.getMessage() for each in told if "retention" in each.msg]
        assert line.endswith(
            "retention removed records of orders-0 before they were read: reading continues "
            f"at offset {first} instead of 20, and skips {first - 20} offsets"
        )


@pytest.mark.parametrize("moved", ["end", "beginning", "seek"])
def test_what_the_application_skips_is_not_told(
    moved: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It moves the position while the reset is under way."""
    with Simulation() as simulation:
        simulation.cluster.create_topic(TP.topic, 1)
        simulation.cluster.produce(TP, *[b"early"] * 20)
        simulation.cluster.delete_records(TP, 10)
        consumer = simulation.consumer(enable_auto_commit=False, auto_offset_reset="earliest")
        consumer.assign([TP])
        consumer.seek(TP, 0)
        state = consumer._core.engine.subscription.assigned[TP]
        while state.out_of_range_at is None:
            simulation.sleep(1)
        if moved == "end":
            consumer.seek_to_end(TP)
        elif moved == "beginning":
            consumer.seek_to_beginning(TP)
        else:
            consumer.seek(TP, 15)
        while consumer.position(TP) < 10:
            consumer.poll(100)
        consumer.poll(100)
        assert "retention" not in caplog.text


def test_an_offset_beyond_the_end_is_no_removed_record(caplog: pytest.LogCaptureFixture) -> None:
    with Simulation() as simulation:
        simulation.cluster.create_topic(TP.topic, 1)
        simulation.cluster.produce(TP, *[b"early"] * 20)
        consumer = simulation.consumer(enable_auto_commit=False, auto_offset_reset="latest")
        consumer.assign([TP])
        consumer.seek(TP, 1_000)
        while consumer.position(TP) != 20:
            consumer.poll(100)
        assert "retention" not in caplog.text
