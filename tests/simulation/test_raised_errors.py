"""A `poll()` that raises is a poll: the membership lasts, and the log says what was raised."""

from __future__ import annotations

import itertools
import logging
from contextlib import suppress
from typing import Any

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka.errors import (
    GroupMaxSizeReachedError,
    InvalidTopicError,
    NoOffsetForPartitionError,
    RecordDeserializationError,
    TopicsDeniedError,
)
from tandem_kafka.wire.messages import (
    ConsumerGroupHeartbeatResponse,
    ListOffsetsResponse,
    OffsetFetchResponse,
    OffsetForLeaderEpochResponse,
)
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.coordinator.settings import GroupSettings
from tests.scenarios.numbered_records import create_topic
from tests.scenarios.share_members import share_consumer
from tests.simulation.changing import changing
from tests.waiting import until

TP = TopicPartition("orders", 0)
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])
WAYS = pytest.mark.parametrize("way", ["poll", "iteration"])


def number(value: bytes | None) -> int:
    return int(value or b"")


def member(simulation: Simulation, protocol: str) -> Any:
    create_topic(simulation, "orders", 2)
    simulation.cluster.produce(TP, b"1", b"two", b"3")
    return simulation.consumer(
        "orders",
        group_id="readers",
        group_protocol=protocol,
        auto_offset_reset="earliest",
        max_poll_interval_ms=8_000,
        value_deserializer=number,
        **({"session_timeout_ms": 6_000} if protocol == "classic" else {}),
    )


def attempt(consumer: Any, way: str) -> None:
    if way == "iteration":
        next(consumer)
    else:
        consumer.poll(200)


def until_poison(consumer: Any, way: str) -> None:
    for _ in range(100):
        try:
            attempt(consumer, way)
        except RecordDeserializationError:
            return
    pytest.fail("no record was poison")


@PROTOCOLS
@WAYS
def test_a_loop_that_meets_a_poison_record_stays_in_the_group(
    caplog: pytest.LogCaptureFixture, protocol: str, way: str
) -> None:
    with Simulation("poison") as simulation:
        consumer = member(simulation, protocol)
        until_poison(consumer, way)
        before = consumer.group_metadata()
        caplog.clear()
        for _ in range(100):
            simulation.sleep(200)
            with pytest.raises(RecordDeserializationError):
                attempt(consumer, way)
        assert consumer.group_metadata().generation_id == before.generation_id
        assert consumer.group_metadata().member_id == before.member_id
        assert consumer.health().alive
        assert not any("poll() was not called" in text for text in caplog.messages)


@PROTOCOLS
@WAYS
def test_a_rebalance_is_completed_while_poll_raises(protocol: str, way: str) -> None:
    """Positions of other partitions are looked up, and a lost member joins again."""
    with Simulation("poison and rebalance") as simulation:
        consumer = member(simulation, protocol)
        until_poison(consumer, way)
        simulation.sleep(12_000)  # too late: the member has left the group
        for _ in range(100):
            simulation.sleep(200)
            try:
                attempt(consumer, way)
            except RecordDeserializationError:
                continue
        assert consumer.group_metadata().generation_id > 0
        assert consumer.assignment() == {TP, TopicPartition("orders", 1)}


def test_the_log_names_what_poll_raises_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "tandem_kafka.consumer.reading.poller")
    with Simulation("log") as simulation:
        consumer = member(simulation, "classic")
        until_poison(consumer, "poll")
        caplog.clear()
        for _ in range(150 * 5):
            simulation.sleep(200)
            with pytest.raises(RecordDeserializationError):
                consumer.poll(0)
        ours = [record for record in caplog.records if record.name.startswith("tandem_kafka")]
        first, second = (record.getMessage() for record in ours)
        expected = (
            "poll() raised an error (300 since the last such line): cannot deserialize the "
            "value of orders-0 at offset 1"
        )
        assert expected in first
        assert expected in second


def test_an_error_with_another_text_each_time_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    texts = itertools.count()

    def unreadable(_: bytes | None) -> int:
        raise ValueError(f"cannot identify <object at {next(texts):#x}>")

    caplog.set_level(logging.WARNING, "tandem_kafka.consumer.reading.poller")
    with Simulation("texts") as simulation:
        simulation.cluster.create_topic("orders", 1)
        simulation.cluster.produce(TP, b"1")
        consumer = simulation.consumer(value_deserializer=unreadable)
        consumer.assign([TP])
        consumer.seek(TP, 0)
        for _ in range(600):
            simulation.sleep(200)
            with suppress(RecordDeserializationError):
                consumer.poll(0)
        assert next(texts) > 500
        ours = [record for record in caplog.records if record.name.startswith("tandem_kafka")]
        assert 20 <= len(ours) <= 30


def deny(message: Any) -> None:
    """Give each partition of a response, or the heartbeat, the error of a denied topic."""
    groups = getattr(message, "groups", None) or [message]
    topics = [each for group in groups for each in getattr(group, "topics", None) or []]
    for entry in [part for each in topics for part in each.partitions] or [message]:
        entry.error_code = 29


@pytest.mark.parametrize("release", [True, False])
@pytest.mark.parametrize(
    "response",
    [
        OffsetFetchResponse,
        ListOffsetsResponse,
        OffsetForLeaderEpochResponse,
        ConsumerGroupHeartbeatResponse,
    ],
)
def test_an_error_is_not_raised_once_other_partitions_are_assigned(
    response: Any, release: bool
) -> None:
    """Errors of positions and heartbeats had named topics that were no longer read."""
    old, new = TopicPartition("old", 0), TopicPartition("new", 0)
    in_group = response is ConsumerGroupHeartbeatResponse
    protocol = {"group_protocol": "consumer"} if in_group else {}
    with Simulation("other partitions", brokers=2) as simulation:
        for tp in (old, new):
            create_topic(simulation, tp.topic, 1)
            simulation.cluster.produce(tp, b"1")
        consumer: Any = simulation.consumer(
            group_id="g", auto_offset_reset="earliest", metadata_max_age_ms=1_000, **protocol
        )
        if in_group:
            consumer.subscribe(["old"])
        else:
            consumer.assign([old])
        if response is OffsetForLeaderEpochResponse:
            consumer.poll(2_000)
        with changing(simulation, response, lambda _: deny):
            simulation.cluster.move_leader(old, 3 - simulation.cluster.at(old).leader)
            for _ in range(2):
                with pytest.raises(TopicsDeniedError, match="'old'"):
                    consumer.poll(20_000)
            simulation.sleep(5_000)  # until another response says it again
        if release or in_group:
            consumer.unsubscribe()
        consumer.assign([new])
        batch = next(filter(None, (consumer.poll(500) for _ in range(20))))
        assert [each.value for each in batch[new]] == [b"1"]


def test_a_missing_offset_is_not_raised_once_other_partitions_are_assigned() -> None:
    old, new = TopicPartition("old", 0), TopicPartition("new", 0)
    with Simulation("no offset") as simulation:
        for tp in (old, new):
            create_topic(simulation, tp.topic, 1)
            simulation.cluster.produce(tp, b"1")
        consumer = simulation.consumer(group_id="g", auto_offset_reset="none")
        consumer.assign([old])
        with pytest.raises(NoOffsetForPartitionError):
            consumer.poll(20_000)
        consumer.poll(0)
        simulation.sleep(5_000)
        consumer.assign([new])
        consumer.seek(new, 0)
        batch = next(filter(None, (consumer.poll(500) for _ in range(20))))
        assert [each.value for each in batch[new]] == [b"1"]


def test_an_error_of_a_topic_that_is_no_longer_wanted_is_not_raised() -> None:
    with Simulation(3) as simulation:
        create_topic(simulation, "orders", 2)
        simulation.cluster.produce(TP, b"1")
        consumer = simulation.consumer(group_id="readers", auto_offset_reset="earliest")
        consumer.assign([TopicPartition("a b", 0)])
        with pytest.raises(InvalidTopicError, match="rejects the topic names"):
            consumer.poll(20_000)
        simulation.sleep(5_000)  # until another response says it again
        with pytest.raises(InvalidTopicError, match="rejects the topic names"):
            consumer.poll(0)
        simulation.sleep(5_000)
        consumer.unsubscribe()
        consumer.subscribe(["orders"])
        batch = next(filter(None, (consumer.poll(500) for _ in range(100))))
        assert [each.value for each in batch[TP]] == [b"1"]


@pytest.mark.parametrize("kind", ["classic", "consumer", "share"])
def test_no_error_of_an_earlier_subscription_is_raised(kind: str) -> None:
    """A full group rejects a member that does not poll; then it unsubscribes, and there is room."""
    with Simulation("full") as simulation:
        create_topic(simulation, "orders", 2)
        settings = GroupSettings(classic_max_size=1, consumer_max_size=1, share_max_size=1)
        simulation.cluster.coordination.settings = settings

        def join() -> Any:
            if kind == "share":
                return share_consumer(simulation, "orders", group_id="readers")
            return simulation.consumer("orders", group_id="readers", group_protocol=kind)

        def now_s() -> float:
            return simulation.clock.now_ms() / 1_000

        only, extra = join(), join()
        only.poll(5_000)
        with pytest.raises(GroupMaxSizeReachedError):
            extra.poll(5_000)
        for _ in until(lambda: len(extra._core.engine.background), now_s=now_s):
            simulation.sleep(100)
        only.close()
        extra.unsubscribe()
        extra.subscribe(["orders"])
        for _ in until(lambda: extra.poll(100), now_s=now_s):
            simulation.cluster.produce(TP, b"1")
        extra.close()
