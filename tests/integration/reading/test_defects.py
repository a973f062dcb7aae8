"""Errors on the network thread, ours too, reach poll() and never end that thread."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import KafkaError
from tandem_kafka.events.background import ErrorEvent, PartitionsLost
from tandem_kafka_testing.kafka import RealKafka
from tests.integration.polling import Consume, Listener, assigned, partitions_of, read_all


@pytest.fixture
def member(topic: str, consume: Consume) -> KafkaConsumer:
    """Owns the topic's partition; `listener` is a `Listener`."""
    consumer = consume(group_id=f"group-of-{topic}")
    consumer.subscribe([topic], listener=Listener())
    assigned(consumer, partitions_of(topic, 1))
    return consumer


def works_on(kafka: RealKafka, consumer: KafkaConsumer, topic: str) -> None:
    kafka.admin.produce(topic, [b"later"])
    assert [record.value for record in read_all(consumer, 1)] == [b"later"]
    consumer.commit()
    assert consumer.committed(TopicPartition(topic, 0)) == 1


class Once:
    """Fails in place of a function, once; afterwards it is the function again."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self.failed = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.failed:
            self.failed = True
            raise ZeroDivisionError("a defect")
        return self._function(*args, **kwargs)


@pytest.mark.behaviour(40)
def test_an_error_between_two_polls_is_raised_by_the_next_one_once(
    kafka: RealKafka, topic: str, member: KafkaConsumer
) -> None:
    member._core.engine.background.add_error(ErrorEvent(KafkaError("in between")))
    with pytest.raises(KafkaError, match="in between"):
        member.poll(0)
    assert member.poll(0) == {}
    works_on(kafka, member, topic)


@pytest.mark.behaviour(41)
def test_each_of_two_errors_is_raised_and_other_events_are_processed(
    topic: str, member: KafkaConsumer
) -> None:
    background = member._core.engine.background
    background.add_error(ErrorEvent(KafkaError("number one")))
    background.add_error(ErrorEvent(KafkaError("number two")))
    background.add(PartitionsLost(frozenset(partitions_of(topic, 1))))
    for number in ("one", "two"):
        with pytest.raises(KafkaError, match=f"number {number}"):
            member.poll(0)
    assert member._parts.listener.listener.calls[-1] == ("lost", set(partitions_of(topic, 1)))
    assert member.poll(0) == {}


@pytest.mark.behaviour(42)
@pytest.mark.parametrize("manager", ["metadata", "fetch", "positions", "list_offsets"])
def test_an_exception_in_a_manager_does_not_stop_the_consumer(
    kafka: RealKafka,
    topic: str,
    member: KafkaConsumer,
    monkeypatch: pytest.MonkeyPatch,
    manager: str,
) -> None:
    broken = getattr(member._core.engine.loop._managers, manager)
    monkeypatch.setattr(broken, "poll", Once(broken.poll))
    with pytest.raises(KafkaError, match="a defect"):
        member.poll(20_000)
    works_on(kafka, member, topic)


@pytest.mark.behaviour(42)
def test_an_exception_in_an_event_does_not_stop_the_consumer(
    kafka: RealKafka, topic: str, member: KafkaConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = member._core.engine.loop._managers.positions
    monkeypatch.setattr(positions, "seek", Once(positions.seek))
    with pytest.raises(KafkaError, match="a defect"):
        member.seek(TopicPartition(topic, 0), 0)
    works_on(kafka, member, topic)


@pytest.mark.behaviour(42)
def test_an_unusable_response_does_not_stop_the_consumer(
    kafka: RealKafka, topic: str, member: KafkaConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = member._core.engine.loop._managers.metadata
    broken = Once(metadata._apply)
    monkeypatch.setattr(metadata, "_apply", broken)
    metadata.request_update()
    with pytest.raises(KafkaError, match="a defect"):
        member.poll(20_000)
    assert broken.failed
    works_on(kafka, member, topic)
