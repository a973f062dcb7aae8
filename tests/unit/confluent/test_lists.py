"""Methods that take lists of partitions, some of which do not exist, are omitted or occur twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    KafkaException,
    TopicPartition,
)

from tandem_kafka.confluent import Consumer
from tandem_kafka.errors import TopicAuthorizationFailedError
from tandem_kafka.types import TopicPartition as Key
from tandem_kafka.wire.messages import MetadataRequest, OffsetFetchRequest
from tandem_kafka_testing import Call, Simulation
from tests.unit.confluent.simulated import simulated

#: A time or offset, and where it is later than all.
FIRST, LATE = 0, 1 << 42


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation() as made:
        made.cluster.create_topic("t", 2)
        for partition in (0, 1):
            made.cluster.produce(Key("t", partition), b"a", b"b", b"c")
        yield made


def shown(partitions: list[TopicPartition] | None) -> list[tuple[str, int, int, str | None]]:
    return [
        (each.topic, each.partition, each.offset, each.error and each.error.name())
        for each in partitions or []
    ]


def failing(call: Callable[[], object]) -> str:
    """Return the code with which a call fails."""
    with pytest.raises(KafkaException) as raised:
        call()
    name: str = raised.value.args[0].name()
    return name


def test_times_of_partitions_that_do_not_exist(simulation: Simulation) -> None:
    """The others are answered; the error is that of the partition."""
    consumer = simulated(simulation)
    bad = [TopicPartition("none", 0, FIRST), TopicPartition("t", 9, LATE)]
    good = [TopicPartition("t", 0, FIRST), TopicPartition("t", 1, LATE)]
    found = consumer.offsets_for_times([bad[0], *good, bad[1]])
    assert shown(found) == [
        ("none", 0, FIRST, "UNKNOWN_TOPIC_OR_PART"),
        ("t", 0, 0, None),
        ("t", 1, -1, None),
        ("t", 9, LATE, "_UNKNOWN_PARTITION"),
    ]
    assert isinstance(found[0], TopicPartition)
    for each in ([bad[0]], [bad[1]], bad):
        assert failing(lambda each=each: consumer.offsets_for_times(each)) == "_UNKNOWN_PARTITION"
    assert failing(lambda: consumer.offsets_for_times([])) == "_INVALID_ARG"


def denied(call: Call) -> Any:
    """Return a response that denies a topic of this name."""
    answer = call.default()
    for topic in answer.topics:
        if topic.name == "denied":
            topic.error_code = TopicAuthorizationFailedError.errno
    return answer


def denied_offset(call: Call) -> Any:
    answer = call.default()
    entries = answer.groups[0].topics if answer.groups else answer.topics
    for topic in entries:
        topic.partitions[0].error_code = TopicAuthorizationFailedError.errno
    return answer


def test_partitions_that_may_not_be_described(simulation: Simulation) -> None:
    consumer = simulated(simulation)
    both = [TopicPartition("t", 0, FIRST), TopicPartition("denied", 0, FIRST)]
    simulation.cluster.script(MetadataRequest, *[denied] * 20)
    assert shown(consumer.offsets_for_times(both)) == [
        ("t", 0, 0, None),
        ("denied", 0, FIRST, "TOPIC_AUTHORIZATION_FAILED"),
    ]
    simulation.cluster.script(OffsetFetchRequest, lambda call: call.default(), denied_offset)
    assert shown(consumer.committed(both)) == [
        ("t", 0, OFFSET_INVALID, None),
        ("denied", 0, OFFSET_INVALID, "TOPIC_AUTHORIZATION_FAILED"),
    ]


@pytest.mark.parametrize("time", [-3, -4, -1000, OFFSET_INVALID, -2001])
def test_a_time_that_is_none(simulation: Simulation, time: int) -> None:
    """The end was returned, without a request."""
    consumer = simulated(simulation)
    given = [TopicPartition("t", 0, time), TopicPartition("t", 1, FIRST)]
    assert failing(lambda: consumer.offsets_for_times(given)) == "UNSUPPORTED_VERSION"
    given = [TopicPartition("t", 0, OFFSET_BEGINNING), TopicPartition("t", 1, OFFSET_END)]
    assert [offset for *_, offset, _ in shown(consumer.offsets_for_times(given))] == [0, 3]


def test_a_partition_that_occurs_twice(simulation: Simulation) -> None:
    """It has two results, but cannot be assigned twice."""
    consumer, twice = simulated(simulation), [TopicPartition("t", 0, 1), TopicPartition("t", 0, 2)]
    assert shown(consumer.position(twice)) == [("t", 0, OFFSET_INVALID, None)] * 2
    assert shown(consumer.commit(offsets=twice, asynchronous=False)) == [
        ("t", 0, 1, None),
        ("t", 0, 2, None),
    ]
    assert shown(consumer.committed(twice)) == [("t", 0, 2, None)] * 2
    assert failing(lambda: consumer.assign(twice)) == "_INVALID_ARG"
    assert failing(lambda: consumer.incremental_assign(twice)) == "_INVALID_ARG"
    assert consumer.assignment() == []


def test_a_commit_returns_partitions_without_an_offset(simulation: Simulation) -> None:
    consumer = simulated(simulation)
    given = [TopicPartition("t", 1), TopicPartition("t", 0, 2)]
    assert shown(consumer.commit(offsets=given, asynchronous=False)) == sorted(shown(given))
    assert simulation.cluster.committed("g", Key("t", 1)) is None


def test_the_partitions_of_a_failed_commit_have_its_error(simulation: Simulation) -> None:
    calls: list[Any] = []
    consumer = simulated(simulation, on_commit=lambda *call: calls.append(call))
    consumer.commit(offsets=[TopicPartition("none", 0, 1)])
    while not calls:
        consumer.poll(0.1)
    [(error, partitions)] = calls
    assert error.name() == "UNKNOWN_TOPIC_OR_PART"
    assert shown(partitions) == [("none", 0, 1, "UNKNOWN_TOPIC_OR_PART")]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("chosen", [[[]], [[0]], [[1]], [[0, 1]], [[0], [1]], []])
def test_a_subset_that_on_assign_chooses(
    simulation: Simulation, protocol: str, chosen: list[list[int]]
) -> None:
    """What several calls of incremental_assign() leave out is not read; without a call, all is."""
    assigned: list[int] = []

    def begin(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        assigned.extend(each.partition for each in partitions)
        for numbers in chosen:
            consumer.incremental_assign([TopicPartition("t", number, 1) for number in numbers])

    consumer = simulated(simulation, group__protocol=protocol)
    consumer.subscribe(["t"], on_assign=begin)
    messages = consumer.consume(100, 10)
    assert sorted(assigned) == [0, 1]
    wanted = {number for numbers in chosen for number in numbers} if chosen else {0, 1}
    assert {(message.partition(), message.offset()) for message in messages} == {
        (number, offset) for number in wanted for offset in range(bool(chosen), 3)
    }
    assert [each.partition for each in consumer.assignment()] == sorted(wanted)
    # Outside of the callback, it adds.
    consumer.incremental_assign([TopicPartition("t", 0, 2)])
    assert [each.partition for each in consumer.assignment()] == sorted(wanted | {0})
