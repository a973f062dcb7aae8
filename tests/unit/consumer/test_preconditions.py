"""Checks before any request; the numbers are those of the behaviour list."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tandem_kafka import (
    ConsumerGroupMetadata,
    KafkaConsumer,
    OffsetAndMetadata,
    ShareConsumer,
    SubscriptionPattern,
    TopicPartition,
)
from tandem_kafka.errors import (
    ArgumentTypeError,
    ConsumerClosedError,
    IllegalStateError,
    InvalidArgumentError,
    InvalidGroupIdError,
    KafkaTimeoutError,
    NotAssignedError,
    WakeupError,
)

TP = TopicPartition("topic", 0)
OTHER = TopicPartition("topic", 1)


@pytest.mark.behaviour(9)
def test_poll_without_subscription_or_assignment_returns_nothing(
    consumer: KafkaConsumer,
) -> None:
    """As in kafka-python; the Java client raises."""
    assert consumer.poll() == {}
    assert list(consumer) == []
    consumer.subscribe(["topic"])
    consumer.unsubscribe()
    assert consumer.poll(10) == {}
    assert list(consumer) == []


CALLS: dict[str, Callable[[KafkaConsumer], object]] = {
    "subscribe": lambda c: c.subscribe(["topic"]),
    "assign": lambda c: c.assign([TP]),
    "unsubscribe": lambda c: c.unsubscribe(),
    "subscription": lambda c: c.subscription(),
    "assignment": lambda c: c.assignment(),
    "poll": lambda c: c.poll(),
    "poll_arrow": lambda c: c.poll_arrow(),
    "pause": lambda c: c.pause(TP),
    "resume": lambda c: c.resume(TP),
    "paused": lambda c: c.paused(),
    "position": lambda c: c.position(TP),
    "seek": lambda c: c.seek(TP, 0),
    "stop_at": lambda c: c.stop_at(TP, 0),
    "seek_to_beginning": lambda c: c.seek_to_beginning(TP),
    "seek_to_end": lambda c: c.seek_to_end(TP),
    "highwater": lambda c: c.highwater(TP),
    "current_lag": lambda c: c.current_lag(TP),
    "beginning_offsets": lambda c: c.beginning_offsets([TP]),
    "end_offsets": lambda c: c.end_offsets([TP]),
    "offsets_for_times": lambda c: c.offsets_for_times({TP: 0}),
    "commit": lambda c: c.commit(),
    "commit_sync": lambda c: c.commit_sync(),
    "commit_async": lambda c: c.commit_async(),
    "committed": lambda c: c.committed(TP),
    "group_metadata": lambda c: c.group_metadata(),
    "enforce_rebalance": lambda c: c.enforce_rebalance(),
    "topics": lambda c: c.topics(),
    "client_instance_id": lambda c: c.client_instance_id(),
    "cluster": lambda c: c.cluster(),
    "partitions_for_topic": lambda c: c.partitions_for_topic("topic"),
    "bootstrap": lambda c: c.bootstrap(),
    "bootstrap_connected": lambda c: c.bootstrap_connected(),
}
#: The other methods may be called at any time, or have their own tests.
FREE = {
    *("DEFAULT_CONFIG", "close", "config", "diagnose", "health", "log_names", "metrics", "wakeup"),
}


def test_every_public_method_is_in_the_table() -> None:
    public = {name for name in dir(KafkaConsumer) if not name.startswith("_")}
    assert public == CALLS.keys() | FREE


#: Methods that only read cached state work after close() too, as in kafka-python.
SNAPSHOTS: dict[str, object] = {
    "subscription": None,
    "assignment": {TP},
    "paused": {TP},
    "position": 7,
    "highwater": None,
    "group_metadata": ConsumerGroupMetadata("group", -1, "", None),
    "bootstrap_connected": False,
}


@pytest.mark.behaviour(10)
@pytest.mark.parametrize("name", [name for name in CALLS if name not in SNAPSHOTS])
def test_every_method_raises_after_close(consumer: KafkaConsumer, name: str) -> None:
    consumer.close(timeout_ms=0)
    with pytest.raises(ConsumerClosedError, match="already been closed"):
        CALLS[name](consumer)


@pytest.mark.behaviour(10)
@pytest.mark.parametrize("name", SNAPSHOTS)
def test_cached_state_can_be_read_after_close(consumer: KafkaConsumer, name: str) -> None:
    consumer.assign([TP])
    consumer.seek(TP, 7)
    consumer.pause(TP)
    consumer.close(timeout_ms=0)
    assert CALLS[name](consumer) == SNAPSHOTS[name]
    assert consumer._closed


@pytest.mark.behaviour(10)
def test_close_again_and_wakeup_after_close_are_silent(
    network_threads: Callable[[], list[str]], consumer: KafkaConsumer
) -> None:
    assert network_threads() != []
    consumer.close(timeout_ms=0)
    consumer.close()
    consumer.wakeup()
    consumer.metrics()
    assert list(consumer) == []
    assert network_threads() == []


@pytest.mark.behaviour(10)
def test_a_close_interrupted_before_it_starts_can_be_repeated(
    network_threads: Callable[[], list[str]],
    consumer: KafkaConsumer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(consumer._core, "suspend_poll", interrupt)
        with pytest.raises(KeyboardInterrupt):
            consumer.close(timeout_ms=0)
    assert network_threads() != []
    assert not consumer._closed
    consumer.close(timeout_ms=0)
    assert network_threads() == []


@pytest.mark.behaviour(12)
@pytest.mark.parametrize("topics", [None, [None], [""], ["  "], ["fine", ""]])
def test_subscribe_rejects_empty_names(consumer: KafkaConsumer, topics: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        consumer.subscribe(topics)
    assert consumer.subscription() is None


@pytest.mark.behaviour(12)
@pytest.mark.parametrize("topics", ["topic", b"topic", 7])
def test_subscribe_accepts_any_collection(consumer: KafkaConsumer, topics: Any) -> None:
    with pytest.raises(TypeError):
        consumer.subscribe(topics)


@pytest.mark.behaviour(12)
@pytest.mark.parametrize("pattern", ["", 7, "(unclosed"])
def test_subscribe_rejects_invalid_patterns(consumer: KafkaConsumer, pattern: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="pattern"):
        consumer.subscribe(pattern=pattern)


@pytest.mark.behaviour(12)
def test_subscribe_rejects_invalid_listeners(consumer: KafkaConsumer) -> None:
    with pytest.raises(ArgumentTypeError, match="on_partitions_assigned"):
        consumer.subscribe(["topic"], listener=object())
    assert consumer.subscription() is None


@pytest.mark.behaviour(12)
@pytest.mark.design("003", "Assign, Subscribe")
@pytest.mark.parametrize("topics", [[], (), None])
def test_subscribing_to_nothing_is_rejected(consumer: KafkaConsumer, topics: Any) -> None:
    """As in kafka-python; the Java client unsubscribes."""
    consumer.subscribe(["topic"])
    with pytest.raises(ValueError, match=r"unsubscribe\(\)"):
        consumer.subscribe(topics)
    assert consumer.subscription() == {"topic"}


@pytest.mark.behaviour(12)
@pytest.mark.parametrize("name", [".", "..", "a b", "ä", "a" * 250])
def test_invalid_topic_names(consumer: KafkaConsumer, name: str) -> None:
    with pytest.raises(ValueError, match=r"[Tt]opic"):
        consumer.subscribe([name])
    assert consumer.subscription() is None


@pytest.mark.behaviour(13)
@pytest.mark.parametrize(
    "partitions",
    [None, [TopicPartition("", 0)], [TopicPartition(None, 0)], [TopicPartition("topic", -1)]],
)
def test_assign_rejects_invalid_partitions(consumer: KafkaConsumer, partitions: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        consumer.assign(partitions)
    assert consumer.assignment() == set()


@pytest.mark.behaviour(13)
@pytest.mark.parametrize("partitions", [["topic"], [("topic", 0)], TP, "topic", 7, [None]])
def test_assign_accepts_any_collection_of_partitions(
    consumer: KafkaConsumer, partitions: Any
) -> None:
    with pytest.raises(TypeError):
        consumer.assign(partitions)


@pytest.mark.behaviour(13)
@pytest.mark.design("003", "Assign, Subscribe")
def test_assigning_nothing_unsubscribes(consumer: KafkaConsumer) -> None:
    consumer.assign([TP, OTHER])
    assert consumer.assignment() == {TP, OTHER}
    assert consumer.subscription() is None
    consumer.assign([])
    assert consumer.assignment() == set()
    consumer.subscribe(["topic"])  # nothing prevents it any longer
    consumer.assign([])
    assert consumer.subscription() is None


WAYS: dict[str, tuple[Callable[[KafkaConsumer], None], Callable[[KafkaConsumer], object]]] = {
    "topics": (lambda c: c.subscribe(["topic"]), lambda c: c.subscription()),
    "pattern": (lambda c: c.subscribe(pattern="top.*"), lambda c: c.subscription()),
    "partitions": (lambda c: c.assign([TP]), lambda c: c.assignment()),
}


@pytest.mark.behaviour(14)
@pytest.mark.parametrize("second", WAYS)
@pytest.mark.parametrize("first", WAYS)
def test_ways_to_subscribe_exclude_each_other(
    consumer: KafkaConsumer, first: str, second: str
) -> None:
    begin, inspect = WAYS[first]
    begin(consumer)
    before = inspect(consumer)
    if first != second:
        with pytest.raises(IllegalStateError, match="mutually exclusive"):
            WAYS[second][0](consumer)
    assert inspect(consumer) == before
    begin(consumer)  # the same kind of subscription can still be changed
    consumer.unsubscribe()
    WAYS[second][0](consumer)


@pytest.mark.behaviour(14)
def test_topics_and_a_pattern_in_one_call(consumer: KafkaConsumer) -> None:
    with pytest.raises(IllegalStateError):
        consumer.subscribe(["topic"], pattern="top.*")


ON_ASSIGNED = (
    "seek",
    "stop_at",
    "pause",
    "resume",
    "position",
    "current_lag",
    "seek_to_end",
    "seek_to_beginning",
    "highwater",
)


@pytest.mark.behaviour(15)
@pytest.mark.parametrize("name", ON_ASSIGNED)
def test_calls_that_need_an_assigned_partition(consumer: KafkaConsumer, name: str) -> None:
    consumer.assign([OTHER])
    with pytest.raises(NotAssignedError, match="No current assignment for partition topic-0"):
        CALLS[name](consumer)
    with pytest.raises(IllegalStateError):
        CALLS[name](consumer)
    with pytest.raises(KeyError):  # kafka-python's pause() and resume() raise that
        CALLS[name](consumer)


@pytest.mark.behaviour(15)
@pytest.mark.parametrize("name", ["seek_to_end", "seek_to_beginning"])
def test_all_partitions_without_an_assignment(consumer: KafkaConsumer, name: str) -> None:
    with pytest.raises(NotAssignedError):
        getattr(consumer, name)()


@pytest.mark.behaviour(15)
def test_pause_fails_as_a_whole(consumer: KafkaConsumer) -> None:
    consumer.assign([OTHER])
    with pytest.raises(NotAssignedError):
        consumer.pause(OTHER, TP)
    assert consumer.paused() == set()


@pytest.mark.behaviour(16)
def test_negative_offsets(consumer: KafkaConsumer) -> None:
    consumer.assign([TP])
    negative = OffsetAndMetadata(-1, "", -1)
    for call in (
        lambda: consumer.seek(TP, -1),
        lambda: consumer.seek(TP, negative),
        lambda: consumer.commit({TP: negative}),
        lambda: consumer.commit_async({TP: negative}),
    ):
        with pytest.raises(InvalidArgumentError, match="negative"):
            call()


@pytest.mark.behaviour(16)
@pytest.mark.parametrize("offset", ["1", 1.5, None, True])
def test_offsets_that_are_not_numbers(consumer: KafkaConsumer, offset: Any) -> None:
    consumer.assign([TP])
    with pytest.raises(TypeError):
        consumer.seek(TP, offset)
    with pytest.raises(TypeError):
        consumer.commit({TP: offset})


GROUP_ONLY = ("commit", "commit_async", "committed")


@pytest.mark.behaviour(17)
@pytest.mark.parametrize("name", [*GROUP_ONLY, "enforce_rebalance"])
def test_calls_that_need_a_group(loner: KafkaConsumer, name: str) -> None:
    with pytest.raises(InvalidGroupIdError, match="group_id"):
        CALLS[name](loner)
    with pytest.raises(IllegalStateError, match="group_id"):
        CALLS[name](loner)
    with pytest.raises(IllegalStateError, match="group_id"):
        loner.subscribe(pattern=SubscriptionPattern("top.*"))
    assert loner.group_metadata().group_id is None
    loner.assign([TP])
    assert loner.poll() == {}


@pytest.mark.behaviour(18)
def test_negative_timestamps(consumer: KafkaConsumer) -> None:
    with pytest.raises(InvalidArgumentError, match="negative"):
        consumer.offsets_for_times({TP: -1})


@pytest.mark.behaviour(19)
def test_offsets_are_copied_when_commit_async_is_called(consumer: KafkaConsumer) -> None:
    offsets = {TP: OffsetAndMetadata(5, "", -1)}
    seen: list[Any] = []
    consumer.commit_async(offsets, lambda committed, _: seen.append(committed))
    offsets[TP] = OffsetAndMetadata(6, "", -1)
    offsets[OTHER] = OffsetAndMetadata(7, "", -1)
    consumer.close(timeout_ms=0)
    assert seen == [{TP: OffsetAndMetadata(5, "", -1)}]


@pytest.mark.parametrize("timeout", [-1, -0.5])
def test_negative_timeouts(consumer: KafkaConsumer, timeout: float) -> None:
    consumer.assign([TP])
    for call in (consumer.poll, consumer.topics, consumer.commit):
        with pytest.raises(InvalidArgumentError, match="timeout_ms"):
            call(timeout_ms=timeout)  # type: ignore[operator]


def test_a_share_consumer_takes_the_same_timeouts() -> None:
    text: Any = "1000"
    options: Any = {"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 0}
    with ShareConsumer("topic", group_id="group", **options) as consumer:
        with pytest.raises(ArgumentTypeError, match="timeout_ms must be a number"):
            consumer.poll(text)
        with pytest.raises(InvalidArgumentError, match="timeout_ms must be at least 0"):
            consumer.poll(-1)
        consumer.close(timeout_ms=0)


# --- C. without a broker --------------------------------------------------------------------------


@pytest.mark.behaviour(35)
def test_zero_timeouts_return_immediately(consumer: KafkaConsumer) -> None:
    for call in (lambda: consumer.partitions_for_topic("t", 0), lambda: consumer.topics(0)):
        with pytest.raises(KafkaTimeoutError):
            call()
    assert consumer.beginning_offsets([TP], 0) == {}
    assert consumer.end_offsets([TP], 0) == {}
    assert consumer.offsets_for_times({TP: 5}, 0) == {TP: None}


@pytest.mark.behaviour(37)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("commit", "commit"),
        ("committed", "committed"),
        ("end_offsets", "no offsets of topic-0 in 200 ms"),
        ("topics", "topics"),
        ("partitions_for_topic", "partitions_for_topic"),
    ],
)
def test_a_timeout_names_the_operation_and_leaves_no_request(
    consumer: KafkaConsumer, name: str, words: str
) -> None:
    consumer.assign([TP])
    consumer.seek(TP, 3)
    with pytest.raises(KafkaTimeoutError, match=re.escape(words)):
        CALLS[name](consumer)
    assert consumer._core.engine.loop._reaper.watched() == ()


@pytest.mark.behaviour(37)
def test_a_position_not_found_in_time_is_none(consumer: KafkaConsumer) -> None:
    """With a timeout, as in kafka-python; without one, an error is raised in the end."""
    consumer.assign([TP])
    assert consumer.position(TP, timeout_ms=10) is None
    with pytest.raises(KafkaTimeoutError, match="position"):
        consumer.position(TP)
    assert consumer._core.engine.loop._reaper.watched() == ()


@pytest.mark.behaviour(29)
@pytest.mark.parametrize(
    "name", ["poll", "commit", "committed", "position", "topics", "partitions_for_topic"]
)
def test_wakeup_before_a_call_raises_once(consumer: KafkaConsumer, name: str) -> None:
    consumer.assign([TP])
    consumer.seek(TP, 3)
    consumer.wakeup()
    consumer.wakeup()
    with pytest.raises(WakeupError):
        CALLS[name](consumer)
    assert consumer.poll() == {}
