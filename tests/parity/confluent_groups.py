"""Programs for `confluent_kafka`'s consumer and ours: groups, callbacks, deserializers."""

from __future__ import annotations

import json
from typing import Any

from tests.parity.confluent_world import World, comparable, outcome

__all__ = ["PROGRAMS"]


def callbacks_of_rebalances(world: World) -> Any:
    """on_assign and on_revoke receive the consumer and partitions, and can read positions."""
    calls: list[Any] = []

    def note(what: str) -> Any:
        def noted(its: Any, partitions: list[Any]) -> None:
            calls.append((what, its is consumer, comparable(partitions)))

        return noted

    world.produce(b"a")
    consumer = world.consumer()
    consumer.subscribe([world.topic], on_assign=note("assign"), on_revoke=note("revoke"))
    found = comparable(world.read(consumer, 1))
    consumer.close()
    return found, calls


def offsets_chosen_in_on_assign(world: World) -> Any:
    """assign() with offsets inside on_assign sets the starting offsets."""
    world.produce(*[b"%d" % n for n in range(10)])

    def begin(consumer: Any, partitions: list[Any]) -> None:
        for each in partitions:
            each.offset = 7 if each.partition == 0 else world.api.OFFSET_END
        consumer.assign(partitions)

    consumer = world.consumer()
    consumer.subscribe([world.topic], on_assign=begin)
    return comparable(world.read(consumer, 3)), len(consumer.assignment())


def offsets_chosen_incrementally(world: World) -> Any:
    """The same with a cooperative assignor."""
    world.produce(*[b"%d" % n for n in range(10)])

    def begin(consumer: Any, partitions: list[Any]) -> None:
        for each in partitions:
            each.offset = 8 if each.partition == 0 else world.api.OFFSET_END
        consumer.incremental_assign(partitions)

    def end(consumer: Any, partitions: list[Any]) -> None:
        consumer.incremental_unassign(partitions)

    consumer = world.consumer(partition_assignment_strategy="cooperative-sticky")
    consumer.subscribe([world.topic], on_assign=begin, on_revoke=end)
    return comparable(world.read(consumer, 2)), len(consumer.assignment())


def a_subset_chosen_incrementally(world: World) -> Any:
    """The other partition of the group is not read."""
    for partition in (0, 1):
        world.produce(b"a", b"b", partition=partition)

    def begin(consumer: Any, partitions: list[Any]) -> None:
        consumer.incremental_assign([each for each in partitions if each.partition == 1])

    consumer = world.consumer(partition_assignment_strategy="cooperative-sticky")
    consumer.subscribe([world.topic], on_assign=begin)
    return comparable((world.read(consumer, 2), consumer.poll(1), consumer.assignment()))


def a_second_member(world: World) -> Any:
    """A second member takes over a partition; returned records are not read again."""
    for partition in (0, 1):
        world.produce(*[b"%d" % n for n in range(20)], partition=partition)
    one = world.consumer(world.topic)
    read = {(m.partition(), m.offset()) for m in world.read(one, 25)}
    other = world.consumer(world.topic)
    seen = []

    def both() -> bool:
        for consumer in (one, other):
            message = consumer.poll(0.02)
            if message is not None and message.error() is None:
                seen.append((message.partition(), message.offset()))
        return len(one.assignment()) == 1 and len(other.assignment()) == 1 and len(seen) >= 15

    while not both():
        pass
    return len(read), len(seen), len(set(seen) & read), len(set(seen) | read)


def a_commit_in_on_revoke(world: World) -> Any:
    """With auto-commit off, committing in on_revoke avoids loss and duplicates."""
    world.produce(*[b"%d" % n for n in range(10)])

    def revoke(consumer: Any, partitions: list[Any]) -> None:
        del partitions
        consumer.commit(asynchronous=False)

    consumer = world.consumer(enable_auto_commit=False)
    consumer.subscribe([world.topic], on_revoke=revoke)
    world.read(consumer, 3)
    consumer.close()
    other = world.consumer(world.topic)
    return comparable(world.read(other, 1))


def a_callback_that_raises(world: World) -> Any:
    """poll() raises the same exception, and the consumer continues."""

    def fail(consumer: Any, partitions: list[Any]) -> None:
        raise ValueError(consumer, len(partitions))

    consumer = world.consumer()
    consumer.subscribe([world.topic], on_assign=fail)
    raised = outcome(lambda: world.next(consumer))
    world.produce(b"a")  # confluent_kafka loses a message that comes in the same call
    return raised, comparable(world.read(consumer, 1))


def a_pattern(world: World) -> Any:
    """A topic whose name begins with ^ is a regular expression."""
    world.produce(b"a")
    consumer = world.consumer(f"^{world.topic[:-1]}.$", topic_metadata_refresh_interval_ms=500)
    return comparable(world.read(consumer, 1))


def unsubscribed(world: World) -> Any:
    """The partitions are revoked, and poll() returns nothing any more."""
    calls: list[Any] = []
    world.produce(b"a", b"b")
    consumer = world.consumer()
    consumer.subscribe([world.topic], on_revoke=lambda _, ps: calls.append(comparable(ps)))
    world.read(consumer, 1)
    consumer.unsubscribe()
    quiet = consumer.poll(0.5)
    world.poll_until(consumer, lambda: calls)
    return calls, quiet, consumer.assignment()


def the_new_protocol(world: World) -> Any:
    """group.protocol=consumer."""
    world.produce(b"a", b"b")
    consumer = world.consumer(world.topic, group_protocol="consumer", session_timeout_ms=None)
    found = comparable(world.read(consumer, 2))
    consumer.close()
    rejected = outcome(lambda: world.consumer(group_protocol="consumer", session_timeout_ms=6000))
    return found, rejected


def who_is_in_the_group(world: World) -> Any:
    """memberid() and the bytes for transactional producers."""
    consumer = world.consumer()
    before = consumer.memberid(), consumer.consumer_group_metadata()
    consumer.subscribe([world.topic])
    world.join(consumer)
    member = consumer.memberid()
    metadata = consumer.consumer_group_metadata()
    group = world.group.encode()
    return (
        before[0],
        before[1].replace(group, b"group"),
        bool(member),
        metadata.replace(group, b"group").replace(member.encode(), b"member"),
    )


def who_it_will_be(world: World) -> Any:
    """The id of a KIP-848 member, which a client makes (KIP-1082)."""
    consumer = world.consumer(world.topic, group_protocol="consumer", session_timeout_ms=None)
    before = consumer.memberid()
    world.join(consumer)
    return bool(before), consumer.memberid() == before


def deserializers(world: World) -> Any:
    """They receive bytes and a context; their exceptions become a ConsumeError."""
    seen: list[Any] = []

    def of_json(data: bytes | None, context: Any) -> Any:
        seen.append((context.topic, str(context.field), context.headers))
        return None if data is None else json.loads(data)

    world.produce(b'{"n": 1}', b"nonsense", b"[2]")
    consumer = world.consumer(
        world.topic,
        kind=world.api.DeserializingConsumer,
        key_deserializer=of_json,
        value_deserializer=of_json,
    )
    found = [world.next(consumer).value()]
    raised = outcome(lambda: world.next(consumer))
    found.append(world.next(consumer).value())
    return found, raised, seen[:2]


def deserializers_of_confluent(world: World) -> Any:
    """The deserializers of `confluent_kafka` work with both libraries."""
    from confluent_kafka.serialization import StringDeserializer

    world.produce("\u00e4\u00f6".encode())
    consumer = world.consumer(
        world.topic,
        kind=world.api.DeserializingConsumer,
        value_deserializer=StringDeserializer("utf_8"),
    )
    return comparable(world.next(consumer))


def ends_with_deserializers(world: World) -> Any:
    """poll() raises events as exceptions."""
    consumer = world.consumer(
        world.topic, kind=world.api.DeserializingConsumer, enable_partition_eof=True
    )
    return outcome(lambda: world.next(consumer)), outcome(lambda: consumer.consume(1, 0.1))


def late_polls(world: World) -> Any:
    """An event reports that max.poll.interval.ms was exceeded."""
    import time

    consumer = world.consumer(world.topic, max_poll_interval_ms=6000, session_timeout_ms=6000)
    world.join(consumer)
    time.sleep(7.5)
    event = world.next(consumer)
    world.produce(b"a")
    return event.error().name(), comparable(world.read(consumer, 1))


def the_callback_of_a_late_poll(world: World) -> Any:
    """It comes in the call after the event."""
    import time

    gone: list[str] = []
    properties = {"max_poll_interval_ms": 6500, "session_timeout_ms": 6000}
    consumer = world.consumer(**properties)
    consumer.subscribe(
        [world.topic],
        on_revoke=lambda *_: gone.append("revoked"),
        on_lost=lambda *_: gone.append("lost"),
    )
    world.join(consumer)
    time.sleep(8)
    event = world.next(consumer)
    before = list(gone)
    world.poll_until(consumer, lambda: gone)
    return event.error().name(), before, gone


def without_its_constructor(world: World) -> Any:
    """A subclass that does not call it is closed."""

    class Silent(world.api.Consumer):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            pass

    consumer = Silent()
    calls = (consumer.poll, consumer.consume, consumer.assignment, consumer.memberid)
    return [outcome(each) for each in calls], outcome(consumer.close)


def a_short_poll_interval(world: World) -> Any:
    """max.poll.interval.ms has no lower limit with group.protocol=consumer."""
    world.produce(b"a")
    consumer = world.consumer(
        world.topic,
        group_protocol="consumer",
        session_timeout_ms=None,
        max_poll_interval_ms=6500,
    )
    return comparable(world.read(consumer, 1))


def topic_configuration(world: World) -> Any:
    """default.topic.config and old names of values."""
    world.produce(b"a")
    consumer = world.consumer(
        world.topic, auto_offset_reset=None, default_topic_config={"auto.offset.reset": "smallest"}
    )
    return comparable(world.read(consumer, 1))


PROGRAMS = (
    callbacks_of_rebalances,
    offsets_chosen_in_on_assign,
    offsets_chosen_incrementally,
    a_subset_chosen_incrementally,
    a_second_member,
    a_commit_in_on_revoke,
    a_callback_that_raises,
    a_pattern,
    unsubscribed,
    the_new_protocol,
    who_is_in_the_group,
    who_it_will_be,
    deserializers,
    deserializers_of_confluent,
    ends_with_deserializers,
    late_polls,
    the_callback_of_a_late_poll,
    without_its_constructor,
    a_short_poll_interval,
    topic_configuration,
)
