"""Programs for `confluent_kafka`'s consumer and ours: reading, positions, commits, errors."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from tests.parity.confluent_world import World, comparable, outcome

__all__ = ["PROGRAMS"]


def the_loop_of_its_readme(world: World) -> Any:
    """Poll, look at error(), take the value."""
    world.produce(b"a", b"b", b"c")
    consumer = world.consumer(world.topic)
    found = world.read(consumer, 3)
    return comparable(found), [m.value().decode() for m in found]


def what_a_message_says(world: World) -> Any:
    """Every method of a message."""
    world.produce(b"some", None)
    consumer = world.consumer(world.topic)
    first, second = world.read(consumer, 2)
    kind, at_ms = first.timestamp()
    first.set_value("other")
    return (
        comparable([first, second]),
        (kind, at_ms > 1_600_000_000_000, first.headers(), first.latency(), first.leader_epoch()),
        (len(first), len(second), bool(second), first.value(), second.value(), first.error()),
    )


def ends_of_partitions(world: World) -> Any:
    """Each end is reported once each time that it is reached."""
    world.produce(b"a", b"b")
    consumer = world.consumer(world.topic, enable_partition_eof=True)
    found = [world.next(consumer) for _ in range(4)]
    quiet = consumer.poll(1.0)
    world.produce(b"c")
    found += [world.next(consumer) for _ in range(2)]
    return sorted(map(str, comparable(found))), quiet, consumer.poll(0.5)


def lists_of_messages(world: World) -> Any:
    """consume() returns the messages that arrive within the timeout."""
    world.produce(*[b"%d" % n for n in range(7)])
    consumer = world.consumer()
    consumer.assign([world.tp(0, 0)])
    first = world.read(consumer, 1)
    return (
        comparable(first + consumer.consume(4, 10) + consumer.consume(5, 2)),
        consumer.consume(0, 0.1),
        consumer.consume(3, 0.1),
        outcome(lambda: consumer.consume(-1)),
        outcome(lambda: consumer.consume(1_000_001)),
    )


def commits_and_what_they_return(world: World) -> Any:
    """commit() without arguments, with a message, with offsets."""
    world.produce(b"a", b"b", b"c")
    consumer = world.consumer(world.topic, enable_auto_commit=False)
    nothing = outcome(lambda: consumer.commit(asynchronous=False))
    first, second = world.read(consumer, 2)
    everything = consumer.commit(asynchronous=False)
    again = outcome(lambda: consumer.commit(asynchronous=False))
    of_message = consumer.commit(message=first, asynchronous=False)
    committed = consumer.committed([world.tp()], timeout=10)
    of_offsets = consumer.commit(offsets=[world.tp(0, 3)], asynchronous=False)
    return comparable(
        (
            nothing,
            everything,
            again,
            of_message,
            committed,
            of_offsets,
            consumer.committed([world.tp(), world.tp(1)], timeout=10),
            consumer.commit(message=second),
            outcome(lambda: consumer.commit(message=first, offsets=[world.tp(0, 1)])),
            outcome(lambda: consumer.commit("message")),
        )
    )


def seeks_without_an_offset(world: World) -> Any:
    """OFFSET_INVALID resets, OFFSET_STORED is not allowed."""
    world.produce(b"a", b"b", b"c")
    consumer = world.consumer()
    consumer.assign([world.tp(0, 1)])
    found = world.read(consumer, 2)
    consumer.seek(world.tp())
    found += world.read(consumer, 1)
    return comparable(found), outcome(lambda: consumer.seek(world.tp(0, world.api.OFFSET_STORED)))


def callbacks_of_commits(world: World) -> Any:
    """on_commit is called inside poll(), even without offsets."""
    calls: list[Any] = []
    world.produce(b"a", b"b")
    consumer = world.consumer(
        world.topic,
        enable_auto_commit=False,
        on_commit=lambda error, partitions: calls.append(
            (comparable(error), [each for each in comparable(partitions) if each[2] >= 0])
        ),
    )
    world.read(consumer, 2)
    consumer.commit()
    before = list(calls)
    world.poll_until(consumer, lambda: len(calls) == 1)
    consumer.commit()
    world.poll_until(consumer, lambda: len(calls) == 2)
    return before, calls


def a_commit_by_the_interval(world: World) -> Any:
    """Only offsets of returned messages are committed."""
    world.produce(*[b"%d" % n for n in range(10)])
    consumer = world.consumer(world.topic, auto_commit_interval_ms=200)
    world.read(consumer, 4)
    consumer.pause(consumer.assignment())
    tp = world.tp()
    world.poll_until(consumer, lambda: consumer.committed([tp], timeout=10)[0].offset == 4)
    consumer.close()
    other = world.consumer(world.topic)
    return comparable(world.read(other, 1))


def a_commit_by_close(world: World) -> Any:
    """The next consumer continues after the last message."""
    world.produce(*[b"%d" % n for n in range(10)])
    consumer = world.consumer(world.topic)
    world.read(consumer, 6)
    consumer.close()
    other = world.consumer(world.topic)
    return comparable(world.read(other, 1))


def offsets_that_are_stored(world: World) -> Any:
    """Only stored offsets are committed."""
    world.produce(*[b"%d" % n for n in range(10)])
    consumer = world.consumer(world.topic, enable_auto_offset_store=False)
    unassigned = outcome(lambda: consumer.store_offsets(offsets=[world.tp(0, 1, "parity-no")]))
    messages = world.read(consumer, 6)
    nothing = outcome(lambda: consumer.commit(asynchronous=False))
    consumer.store_offsets(message=messages[1])
    stored = consumer.commit(asynchronous=False)
    consumer.store_offsets(offsets=[world.tp(0, 4)])
    consumer.close()
    other = world.consumer(world.topic, enable_auto_commit=False)
    return (
        comparable((unassigned, nothing, stored, world.read(other, 1))),
        outcome(lambda: other.store_offsets(offsets=[world.tp(0, 1)])),
        outcome(other.store_offsets),
    )


def nothing_stored_nothing_committed(world: World) -> Any:
    """Without store_offsets(), no offset is committed."""
    world.produce(b"a", b"b")
    consumer = world.consumer(
        world.topic, enable_auto_offset_store="false", auto_commit_interval_ms="100"
    )
    world.read(consumer, 2)
    consumer.poll(0.5)
    consumer.close()
    other = world.consumer()
    return comparable(other.committed([world.tp()], timeout=10))


def positions(world: World) -> Any:
    """position() before and after a message, after a seek, and of an unassigned partition."""
    world.produce(b"a", b"b", b"c")
    consumer = world.consumer(world.topic)
    tp = world.tp()
    found = [consumer.position([tp])]
    world.read(consumer, 2)
    found += [consumer.position([tp]), consumer.position([world.tp(7)])]
    consumer.seek(world.tp(0, 1))
    found.append(consumer.position([tp]))
    again = world.read(consumer, 1)
    return comparable((found, again, consumer.position([tp])))


def seeks(world: World) -> Any:
    """seek() to an offset, the beginning, the end; and of an unassigned partition."""
    world.produce(*[b"%d" % n for n in range(10)])
    api, consumer = world.api, world.consumer(enable_partition_eof=True)
    consumer.assign([world.tp(0, 2)])
    found = world.read(consumer, 3)
    consumer.seek(world.tp(0, 7))
    found += world.read(consumer, 1)
    consumer.seek(world.tp(0, api.OFFSET_BEGINNING))
    found += world.read(consumer, 1)
    consumer.seek(world.tp(0, api.OFFSET_END))
    found.append(world.next(consumer))
    return (
        comparable(found),
        outcome(lambda: consumer.seek(world.tp(9, 1))),
        outcome(lambda: consumer.seek(world.tp(0, 1, "parity-never-seen"))),
    )


def a_commit_after_a_seek(world: World) -> Any:
    """Messages read before the seek are not committed."""
    world.produce(b"a", b"b", b"c")
    consumer = world.consumer(world.topic, enable_auto_commit=False)
    world.read(consumer, 3)
    consumer.seek(world.tp(0, 0))
    return comparable(outcome(lambda: consumer.commit(asynchronous=False)))


def pauses(world: World) -> Any:
    """A paused partition returns nothing, and everything after resume()."""
    world.produce(*[b"%d" % n for n in range(5)])
    consumer = world.consumer(world.topic)
    found = world.read(consumer, 2)
    consumer.pause([world.tp(0), world.tp(9)])
    quiet = consumer.poll(0.5)
    consumer.resume([world.tp(0)])
    return comparable((found, quiet, world.read(consumer, 3)))


def assigned_by_hand(world: World) -> Any:
    """assign() with offsets of all kinds, and with the committed offset."""
    world.produce(*[b"%d" % n for n in range(10)])
    consumer, api = world.consumer(enable_auto_commit=False), world.api
    found = []
    for offset in (8, api.OFFSET_BEGINNING, -2003):
        consumer.assign([world.tp(0, offset)])
        found += [consumer.assignment(), world.read(consumer, 1)]
    consumer.commit(offsets=[world.tp(0, 5)], asynchronous=False)
    consumer.assign([world.tp(0, api.OFFSET_STORED)])
    found += [consumer.assignment(), world.read(consumer, 1)]
    consumer.unassign()
    return comparable((found, consumer.assignment(), consumer.poll(0.3)))


def one_partition_more_and_less(world: World) -> Any:
    """incremental_assign() and incremental_unassign() by hand."""
    world.produce(b"a")
    world.produce(b"b", partition=1)
    consumer = world.consumer()
    consumer.incremental_assign([world.tp(0, 0)])
    found = world.read(consumer, 1)
    consumer.incremental_assign([world.tp(1, 0)])
    found += world.read(consumer, 1)
    both = len(consumer.assignment())
    twice = outcome(lambda: consumer.incremental_assign([world.tp(1, 0)]))
    consumer.incremental_unassign([world.tp(0)])
    stranger = outcome(lambda: consumer.incremental_unassign([world.tp(8)]))
    return comparable(
        (found, both, twice, [each.partition for each in consumer.assignment()], stranger)
    )


def offsets_out_of_range(world: World) -> Any:
    """The reset policy is applied, or an event reports the error."""
    world.produce(b"a", b"b")
    lenient = world.consumer()
    lenient.assign([world.tp(0, 100)])
    strict = world.consumer(auto_offset_reset="error")
    strict.assign([world.tp(0, 100)])
    event = world.next(strict)
    quiet = strict.poll(0.5)
    strict.assign([world.tp(0, 1)])
    return (
        comparable(world.read(lenient, 1)),
        (event.error().name(), event.topic(), event.partition()),
        comparable((quiet, world.read(strict, 1))),
    )


def no_offset_to_begin_at(world: World) -> Any:
    """auto.offset.reset=error without a committed offset."""
    world.produce(b"a")
    consumer = world.consumer(auto_offset_reset="error")
    consumer.assign([world.tp()])
    event = world.next(consumer)
    return event.error().name(), event.topic(), event.partition(), consumer.poll(0.5)


def a_topic_that_is_not_there(world: World) -> Any:
    """An event reports it, and the other topic is read."""
    world.produce(b"a")
    consumer = world.consumer(world.topic, "parity-unknown")
    events, values = set(), []
    while not (events and values):
        message = world.next(consumer)
        if message.error() is None:
            values.append(message.value())
        else:
            events.add((message.error().name(), message.topic()))
    return sorted(events), values


def watermarks_and_times(world: World) -> Any:
    """The lookups in the cluster."""
    world.produce(b"a", b"b", b"c")
    consumer = world.consumer()
    far = 2**42
    unknown = world.tp(0, 1, "parity-unknown")
    consumer.assign([world.tp(0, 0)])
    before = consumer.get_watermark_offsets(world.tp(1), cached=True)
    at_ms = world.read(consumer, 1)[0].timestamp()[1]
    return comparable(
        (
            consumer.get_watermark_offsets(world.tp(), timeout=10),
            consumer.get_watermark_offsets(world.tp(1), timeout=10),
            consumer.get_watermark_offsets(world.tp(), cached=True),
            before,
            consumer.offsets_for_times([world.tp(0, at_ms), world.tp(1, at_ms)], timeout=10),
            consumer.offsets_for_times([world.tp(0, far)], timeout=10),
            outcome(lambda: consumer.get_watermark_offsets(unknown, timeout=3)),
            outcome(lambda: consumer.offsets_for_times([unknown], timeout=3)),
        )
    )


def lists_with_partitions_that_do_not_exist(world: World) -> Any:
    """The others are answered, and those have an error if there is one."""
    world.produce(b"a")
    consumer = world.consumer(enable_auto_commit=False)
    good, bad, strange = world.tp(0, 0), world.tp(99, 0), world.tp(0, 0, "parity-unknown")
    found: list[Any] = []
    for each in ([good, strange], [good, bad], [bad], [strange], [strange, good, bad], []):
        found += [
            outcome(lambda each=each: consumer.offsets_for_times(each, timeout=10)),
            outcome(lambda each=each: consumer.committed(each, timeout=10)),
            consumer.position(each),
            consumer.pause(each),
            consumer.resume(each),
        ]
    found.append(outcome(lambda: consumer.offsets_for_times([world.tp()], timeout=10)))
    return comparable(found)


def partitions_that_occur_twice(world: World) -> Any:
    """Each has a result, but no place in an assignment."""
    world.produce(b"a")
    consumer = world.consumer(enable_auto_commit=False)
    twice = [world.tp(0, 1), world.tp(0, 2)]
    return comparable(
        (
            consumer.commit(offsets=twice, asynchronous=False),
            consumer.commit(offsets=[world.tp(1), world.tp(0, 1)], asynchronous=False),
            consumer.committed(twice, timeout=10),
            consumer.position(twice),
            outcome(lambda: consumer.assign(twice)),
            outcome(lambda: consumer.incremental_assign(twice)),
        )
    )


def a_commit_of_a_topic_that_does_not_exist(world: World) -> Any:
    """on_commit receives the partition with the error."""
    calls: list[Any] = []
    consumer = world.consumer(
        enable_auto_commit=False, on_commit=lambda *call: calls.append(comparable(call))
    )
    consumer.commit(offsets=[world.tp(0, 1, "parity-unknown")])
    world.poll_until(consumer, lambda: calls)
    return calls


def topics_of_the_cluster(world: World) -> Any:
    """list_topics() for all topics and for one."""
    consumer = world.consumer()
    cluster = consumer.list_topics(timeout=10)
    topic = cluster.topics[world.topic]
    missing = consumer.list_topics("parity-unknown", timeout=10)
    partition = topic.partitions[0]
    return (
        sorted(cluster.brokers),
        [each.port for each in cluster.brokers.values()],
        (str(topic), sorted(topic.partitions), topic.error),
        (partition.id, partition.leader, partition.replicas, partition.isrs, partition.error),
        [(name, comparable(each.error)) for name, each in missing.topics.items()],
        cluster.cluster_id == consumer.cluster_id(timeout=10),
    )


def calls_after_close(world: World) -> Any:
    """Each call raises RuntimeError; close() may be repeated."""
    consumer = world.consumer(world.topic)
    consumer.close()
    tp = world.tp(0, 0)
    calls = {
        "poll": (),
        "consume": (),
        "assignment": (),
        "assign": ([tp],),
        "subscribe": ([world.topic],),
        "unsubscribe": (),
        "unassign": (),
        "commit": (),
        "committed": ([tp],),
        "position": ([tp],),
        "seek": (tp,),
        "pause": ([tp],),
        "memberid": (),
        "consumer_group_metadata": (),
        "list_topics": (),
        "close": (),
    }
    return {name: outcome(partial(getattr(consumer, name), *a)) for name, a in calls.items()}


def arguments_of_another_type(world: World) -> Any:
    """TypeError and KafkaException."""
    consumer = world.consumer()
    return (
        outcome(lambda: consumer.subscribe(world.topic)),
        outcome(lambda: consumer.subscribe([])),
        outcome(lambda: consumer.subscribe([world.topic], on_assign=4)),
        outcome(lambda: consumer.assign("x")),
        outcome(lambda: consumer.assign([1])),
        outcome(lambda: consumer.pause(["x"])),
        outcome(lambda: consumer.poll("x")),
        outcome(lambda: consumer.committed("x")),
        outcome(lambda: world.api.TopicPartition(5)),
    )


def statistics(world: World) -> Any:
    """The structure of the document, and the lag."""
    calls: list[Any] = []
    world.produce(b"a", b"b", b"c")
    consumer = world.consumer(
        world.topic,
        stats_cb=lambda text: calls.append(json.loads(text)),
        statistics_interval_ms=200,
    )
    world.read(consumer, 3)

    def partition() -> Any:
        topics = calls[-1]["topics"] if calls else {}
        return topics.get(world.topic, {"partitions": {}})["partitions"].get("0", {})

    world.poll_until(consumer, lambda: partition().get("consumer_lag") == 0)
    names = ("partition", "app_offset", "stored_offset", "hi_offset", "consumer_lag")
    last = calls[-1]
    return (
        {name: partition()[name] for name in names},
        (last["type"], last["client_id"], last["cgrp"]["state"], last["cgrp"]["join_state"]),
        (last["cgrp"]["assignment_size"], {type(last[n]) for n in ("ts", "time", "age")}),
    )


def a_context(world: World) -> Any:
    """`with` closes."""
    with world.consumer(world.topic) as consumer:
        inside = consumer.assignment()
    return inside, outcome(consumer.poll)


PROGRAMS = (
    the_loop_of_its_readme,
    what_a_message_says,
    ends_of_partitions,
    lists_of_messages,
    commits_and_what_they_return,
    seeks_without_an_offset,
    callbacks_of_commits,
    a_commit_by_the_interval,
    a_commit_by_close,
    offsets_that_are_stored,
    nothing_stored_nothing_committed,
    positions,
    seeks,
    a_commit_after_a_seek,
    pauses,
    assigned_by_hand,
    one_partition_more_and_less,
    offsets_out_of_range,
    no_offset_to_begin_at,
    a_topic_that_is_not_there,
    watermarks_and_times,
    lists_with_partitions_that_do_not_exist,
    partitions_that_occur_twice,
    a_commit_of_a_topic_that_does_not_exist,
    topics_of_the_cluster,
    calls_after_close,
    arguments_of_another_type,
    statistics,
    a_context,
)
