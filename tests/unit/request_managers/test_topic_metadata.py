"""partitions_for_topic() and topics()."""

from __future__ import annotations

import pytest
from kafka import errors

from tandem_kafka.errors import KafkaConnectionError
from tandem_kafka.events.application import ListTopics, PartitionsForTopic
from tests.unit.request_managers.test_metadata_refresh import described_topic, metadata_response
from tests.unit.request_managers.world import World


@pytest.fixture
def world() -> World:
    return World(leaders=(), allow_auto_create_topics=False)


def test_one_topic(world: World) -> None:
    event = PartitionsForTopic(topic="orders")
    world.managers.topic_metadata.look_up(event)
    unsent = world.sent(world.managers.topic_metadata)
    assert [topic.name for topic in unsent.message.topics] == ["orders"]
    assert not unsent.message.allow_auto_topic_creation
    assert not world.poll(world.managers.topic_metadata, after_ms=9_000).unsent
    world.respond(unsent, metadata_response(described_topic()))
    assert set(event.future.result().partitions) == {0, 1, 2}
    assert not world.poll(world.managers.topic_metadata).unsent


def test_a_missing_topic_is_none(world: World) -> None:
    event = PartitionsForTopic(topic="orders")
    world.managers.topic_metadata.look_up(event)
    missing = described_topic(error=errors.UnknownTopicOrPartitionError)
    world.respond(world.sent(world.managers.topic_metadata), metadata_response(missing))
    assert event.future.done
    assert event.future.result() is None


def test_all_topics(world: World) -> None:
    event = ListTopics()
    world.managers.topic_metadata.look_up(event)
    unsent = world.sent(world.managers.topic_metadata)
    assert unsent.message.topics is None
    world.respond(
        unsent, metadata_response(described_topic(), described_topic("__offsets", internal=True))
    )
    assert set(event.future.result().topics) == {"orders", "__offsets"}
    assert event.future.result().nodes


@pytest.mark.parametrize("error", [errors.TopicAuthorizationFailedError, errors.InvalidTopicError])
def test_an_error_fails_the_call(world: World, error: type[Exception]) -> None:
    event = PartitionsForTopic(topic="orders")
    world.managers.topic_metadata.look_up(event)
    world.respond(
        world.sent(world.managers.topic_metadata), metadata_response(described_topic(error=error))
    )
    assert isinstance(event.future.error, error)


def test_transient_errors_are_retried_with_growing_backoff(world: World) -> None:
    event = PartitionsForTopic(topic="orders")
    world.managers.topic_metadata.look_up(event)
    pauses = []
    for number in range(1_000):
        waited_ms, unsent = world.wait_and_send(world.managers.topic_metadata)
        pauses.append(waited_ms)
        if number % 2:
            unsent.future.fail(KafkaConnectionError("cut"))
        else:
            world.respond(
                unsent, metadata_response(described_topic(error=errors.LeaderNotAvailableError))
            )
    assert pauses[1] < pauses[3]
    assert min(pauses[6:]) >= 800
    event.future.fail(TimeoutError())
    assert not world.poll(world.managers.topic_metadata, after_ms=10_000).unsent
