"""Programs that read without a group, and the results and exceptions of calls."""

# ruff: noqa: C416, RUF005, RUF015, RUF017 - programs as people write them

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import kafka
from kafka import TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.structs import OffsetAndMetadata

from tests.parity.world import World, outcome
from tests.waiting import wait_until

__all__ = ["PROGRAMS"]


def the_first_snippet(world: World) -> Any:
    """The first example in kafka-python's README."""
    world.produce(b"a", b"b")
    world.produce(b"c", partition=1)
    consumer = world.consumer(world.topic, consumer_timeout_ms=3_000)
    found = sorted((m.partition, m.offset, m.value) for m in consumer)
    return found, sorted(consumer.assignment()) == parts(world), consumer.subscription()


def subscribed_by_pattern(world: World) -> Any:
    """A topic that is created later is subscribed, too."""
    consumer = world.consumer(metadata_max_age_ms=300)
    consumer.subscribe(pattern=f"^{world.topic}.*")
    world.produce(b"a")
    found = [m.value for m in world.read(consumer, 1)]
    later = world.new_topic(1, f"{world.topic}-later")
    world.poll_until(consumer, lambda: TopicPartition(later, 0) in consumer.assignment())
    world.produce(b"b", topic=later)
    found += [m.value for m in world.read(consumer, 1)]
    return found, len(consumer.assignment()), len(consumer.subscription())


def partitions_that_are_added(world: World) -> Any:
    """Partitions added later are read, too."""
    consumer = world.consumer(world.topic, metadata_max_age_ms=300)
    world.poll_until(consumer, lambda: len(consumer.assignment()) == 2)
    world.kafka.admin.add_partitions(world.topic, 3)
    world.poll_until(consumer, lambda: len(consumer.assignment()) == 3)
    world.produce(b"new", partition=2)
    return [(m.partition, m.value) for m in world.read(consumer, 1)]


def no_group(world: World) -> Any:
    """Calls that need a group."""
    consumer = world.consumer(world.topic, enable_auto_commit=True)
    tp = TopicPartition(world.topic, 0)
    metadata = consumer.group_metadata()
    return (
        outcome(consumer.commit),
        outcome(lambda: consumer.commit({tp: OffsetAndMetadata(1, "", -1)})),
        outcome(consumer.commit_async),
        outcome(lambda: consumer.committed(tp)),
        metadata.group_id,
        metadata.generation_id,
        metadata.member_id,
    )


def nothing_subscribed(world: World) -> Any:
    """Polls and iterations without a subscription."""
    consumer = world.consumer(consumer_timeout_ms=200)
    return (
        consumer.poll(),
        consumer.poll(100),
        consumer.assignment(),
        consumer.subscription(),
        consumer.paused(),
        list(consumer),
        outcome(lambda: next(consumer)),
    )


def one_poll_and_back_to_the_beginning(world: World) -> Any:
    """The beginning of many scripts."""
    world.produce(b"a", b"b")
    consumer = world.consumer(world.topic, auto_offset_reset="latest")
    world.poll_until(consumer, consumer.assignment)
    consumer.seek_to_beginning()
    return [m.value for m in world.read(consumer, 2)]


def calls_after_close(world: World) -> Any:
    """A health check may call methods of a closed consumer."""
    tp = TopicPartition(world.topic, 0)
    world.produce(b"a")
    consumer = world.consumer()
    consumer.assign([tp])
    world.read(consumer, 1)
    before = consumer._closed
    consumer.close()
    consumer.metrics()
    return (
        before,
        consumer._closed,
        sorted(consumer.assignment()) == [tp],
        consumer.subscription(),
        consumer.position(tp),
        consumer.highwater(tp),
        consumer.paused(),
        consumer.partitions_for_topic(world.topic),
        consumer.bootstrap_connected() in (True, False),
        outcome(consumer.poll),
        list(consumer),
        outcome(consumer.close),
    )


def a_topic_that_is_not_there(world: World) -> Any:
    """A lookup does not create the topic."""
    consumer = world.consumer()
    found = consumer.partitions_for_topic("parity-there-is-none")
    return found, "parity-there-is-none" in consumer.topics()


def partitions_that_are_not_assigned(world: World) -> Any:
    """Each method has its own error."""
    tp, other = parts(world)
    consumer = world.consumer()
    nothing = (
        outcome(consumer.seek_to_beginning),
        outcome(consumer.seek_to_end),
    )
    consumer.assign([tp])
    return nothing, [
        outcome(lambda call=call: call(other))
        for call in (
            consumer.pause,
            consumer.resume,
            consumer.position,
            consumer.highwater,
            consumer.seek_to_beginning,
            consumer.seek_to_end,
            lambda it: consumer.seek(it, 1),
        )
    ]


def arguments_that_cannot_be(world: World) -> Any:
    """The call itself rejects each of them."""
    tp = parts(world)[0]
    consumer = world.consumer(group_id=world.group)
    rejected = [
        outcome(call)
        for call in (
            lambda: consumer.subscribe([]),
            lambda: consumer.subscribe(None),
            lambda: consumer.subscribe(world.topic),
            lambda: consumer.subscribe([None]),
            lambda: consumer.subscribe([1]),
            lambda: consumer.subscribe([""]),
            lambda: consumer.subscribe(["a b"]),
            lambda: consumer.subscribe(["."]),
            lambda: consumer.subscribe([world.topic], pattern="a"),
            lambda: consumer.subscribe(pattern=""),
            lambda: consumer.subscribe([world.topic], listener=object()),
        )
    ]
    consumer.unsubscribe()
    consumer.assign([tp])
    rejected += [
        outcome(call)
        for call in (
            lambda: consumer.subscribe([world.topic]),
            lambda: consumer.poll(-1),
            lambda: consumer.poll(max_records=0),
            lambda: consumer.poll(max_records=-1),
            lambda: consumer.poll(max_records="1"),
            lambda: consumer.seek(tp, -1),
            lambda: consumer.seek(tp, "1"),
            lambda: consumer.seek(tp, 1.5),
            lambda: consumer.seek("a", 1),
            lambda: consumer.pause("a"),
            lambda: consumer.resume("a"),
            lambda: consumer.position("a"),
            lambda: consumer.highwater("a"),
            lambda: consumer.committed("a"),
            lambda: consumer.beginning_offsets(None),
            lambda: consumer.end_offsets(None),
            lambda: consumer.offsets_for_times({tp: -1}),
            lambda: consumer.offsets_for_times({tp: None}),
            lambda: consumer.commit({tp: 5}),
        )
    ]
    consumer.unsubscribe()
    consumer.subscribe([world.topic])
    rejected.append(outcome(lambda: consumer.assign([tp])))
    rejected.append(outcome(lambda: consumer.assign([])))
    return rejected


def positions(world: World) -> Any:
    """Known and unknown positions, with and without a timeout."""
    tp = parts(world)[0]
    world.produce(b"a", b"b")
    consumer = world.consumer()
    consumer.assign([tp])
    first = consumer.position(tp)
    world.read(consumer, 2)
    there = consumer.position(tp), consumer.position(tp, timeout_ms=0), consumer.highwater(tp)
    return first, there


def offsets_that_are_not_updated(world: World) -> Any:
    """poll(update_offsets=False) returns the same records again."""
    tp = parts(world)[0]
    world.produce(b"a", b"b")
    consumer = world.consumer()
    consumer.assign([tp])
    consumer.position(tp)
    found: list[Any] = []
    wait_until(lambda: found.extend(consumer.poll(500, None, False).get(tp, ())) or found)
    return [m.value for m in found], consumer.position(tp)


def iteration_stops_and_goes_on(world: World) -> Any:
    """A loop ends after consumer_timeout_ms; the next loop continues."""
    world.produce(b"a")
    consumer = world.consumer(world.topic, consumer_timeout_ms=1_500)
    first = [m.value for m in consumer]
    world.produce(b"b")
    return first, [m.value for m in consumer], iter(consumer) is consumer


def no_broker(world: World) -> Any:
    """No broker responds."""
    options = {"bootstrap_servers": "127.0.0.1:9", "bootstrap_timeout_ms": 500}
    return outcome(lambda: world.consumer(**options))


def options_that_cannot_be(world: World) -> Any:
    """The constructor rejects each of them."""
    return [
        outcome(lambda options=options: world.consumer(**options))
        for options in (
            {"there_is_no_such_option": 1},
            {"fetch_max_wait_ms": 50_000, "request_timeout_ms": 40_000},
            {"request_timeout_ms": 50_000, "connections_max_idle_ms": 40_000},
            {"group_instance_id": "a"},
        )
    ]


def the_config_of_a_consumer(world: World) -> Any:
    """Frameworks read it; it is a dict."""
    servers = [world.kafka.bootstrap()]
    consumer = world.consumer(bootstrap_servers=servers, group_id=world.group, client_id="me")
    config = consumer.config
    config.setdefault("of-mine", 1)
    names = ("bootstrap_servers", "group_id", "client_id", "api_version", "enable_auto_commit")
    return (
        isinstance(config, dict),
        [config[name] for name in names if name != "bootstrap_servers"],
        config["bootstrap_servers"] is servers,
        consumer.config["of-mine"],
    )


def all_defaults_of_kafka_python(world: World) -> Any:
    """A program passes all of them, with some changed."""
    world.produce(b"a")
    options = {**kafka.KafkaConsumer.DEFAULT_CONFIG, "auto_offset_reset": "earliest"}
    options["bootstrap_servers"] = world.kafka.bootstrap()
    consumer = world.consumer(world.topic, **options)
    return [m.value for m in world.read(consumer, 1)]


def records_that_are_sent_on(world: World) -> Any:
    """Operations of programs on records and their lists."""
    world.produce(b'{"a": 1}', b'{"a": 2}')
    world.produce(b'{"a": 3}', partition=1)
    consumer = world.consumer(
        world.topic, value_deserializer=json.loads, key_deserializer=lambda k: k and k.decode()
    )
    batches: list[Any] = []
    wait_until(lambda: batches.append(consumer.poll(200)) or count(batches) == 3)
    lists = [records for batch in batches for records in batch.values()]
    everything = sorted(sum(lists, []), key=lambda r: (r.partition, r.offset))
    first = everything[0]
    first.headers.append(("seen", b"1"))
    topic, partition, *_ = first
    return (
        all(isinstance(batch, dict) for batch in batches),
        isinstance(first, ConsumerRecord),
        isinstance(first, tuple),
        topic == first.topic == world.topic,
        partition,
        json.loads(json.dumps([record.value for record in everything])),
        [
            part
            for part in json.loads(json.dumps(first._replace(topic="t", timestamp=0, headers=[])))
        ],
        first._asdict()["value"],
        first.headers,
        pickle.loads(pickle.dumps(everything)) == everything,
        copy.deepcopy(first) == first,
        [list(reversed(records))[0].offset >= 0 for records in lists],
        [records[0:1] + [None] == [records[0], None] for records in lists],
    )


def count(batches: list[Any]) -> int:
    """Count the records in all batches."""
    return sum(len(records) for batch in batches for records in batch.values())


def deserializers_that_fail(world: World) -> Any:
    """The error is the deserializer's."""
    world.produce(b"1", b"x", b"3")
    tp = parts(world)[0]
    consumer = world.consumer(value_deserializer=json.loads)
    consumer.assign([tp])
    values: list[Any] = []
    error: Any = None
    while error is None:
        try:
            values += [m.value for records in consumer.poll(200).values() for m in records]
        except ValueError as caught:
            error = caught
    return values, isinstance(error, json.JSONDecodeError) and error.pos, consumer.position(tp)


def looked_up_offsets(world: World) -> Any:
    """Lookups for partitions that are not assigned."""
    tp, empty = parts(world)
    world.produce(b"a", b"b")
    consumer = world.consumer()
    found = consumer.offsets_for_times({tp: 0, empty: 0})
    return (
        consumer.beginning_offsets([tp, empty]),
        consumer.end_offsets([tp, empty]),
        found[tp].offset,
        found[empty],
    )


def parts(world: World) -> list[TopicPartition]:
    """The partitions of the topic."""
    return [TopicPartition(world.topic, number) for number in range(2)]


PROGRAMS = (
    the_first_snippet,
    subscribed_by_pattern,
    partitions_that_are_added,
    no_group,
    nothing_subscribed,
    one_poll_and_back_to_the_beginning,
    calls_after_close,
    a_topic_that_is_not_there,
    partitions_that_are_not_assigned,
    arguments_that_cannot_be,
    positions,
    offsets_that_are_not_updated,
    iteration_stops_and_goes_on,
    looked_up_offsets,
    no_broker,
    options_that_cannot_be,
    the_config_of_a_consumer,
    all_defaults_of_kafka_python,
    records_that_are_sent_on,
    deserializers_that_fail,
)
