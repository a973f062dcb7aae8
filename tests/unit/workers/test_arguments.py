"""Every argument is checked when the workers are made; the error names it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from tandem_kafka import AsyncKafkaConsumer
from tandem_kafka.errors import ArgumentTypeError, IllegalStateError, InvalidArgumentError
from tandem_kafka.runtime import Random
from tandem_kafka.types import ConsumerRecord
from tandem_kafka.workers import AsyncKeyedWorkers, DeadLetters, KeyedWorkers, Retry
from tandem_kafka_testing.simulation import simulated_consumer


@pytest.fixture
def consumer() -> Iterator[Any]:
    made = simulated_consumer(group_id="billing", enable_auto_commit=False)
    yield made
    made.close()


async def coroutine(_: Any) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"order": "keys"}, "order must be"),
        ({"order": "none", "key": len}, "key has no effect with order='none'"),
        ({"key": 1}, "key must be a function"),
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"workers": "4"}, "workers must be a number or"),
        ({"workers": True}, "workers must be a number or"),
        ({"batch": 0}, "batch must be at least 1"),
        ({"batch": 10, "max_in_flight": 9}, r"max_in_flight \(9\) must be at least batch \(10\)"),
        ({"max_in_flight": 1.5}, "max_in_flight must be an int"),
        ({"retry": 3}, "retry must be a Retry"),
        ({"exhausted": "ignore"}, "exhausted must be"),
        ({"commit_interval_ms": 0}, "commit_interval_ms must be at least 1 ms"),
        ({"commit_interval_ms": float("nan")}, "commit_interval_ms must be at least 1 ms"),
        ({"drain_timeout_ms": -1}, "drain_timeout_ms must be at least 0 ms"),
        ({"drain_timeout_ms": 300_000}, r"max_poll_interval_ms \(300000\)"),
        ({"metadata_limit_bytes": 10}, "metadata_limit_bytes must be at least 64"),
        ({"listener": object()}, "listener must have the methods"),
    ],
)
def test_an_invalid_argument_is_named(consumer: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        KeyedWorkers(consumer, print, **options)


@pytest.mark.parametrize("handle", [None, "print", coroutine])
def test_the_handler_must_be_an_ordinary_function(consumer: Any, handle: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="handle must be"):
        KeyedWorkers(consumer, handle)


def test_the_consumer_must_have_a_group_and_leave_commits_to_the_workers() -> None:
    without = simulated_consumer(enable_auto_commit=False)
    automatic = simulated_consumer(group_id="billing")
    with pytest.raises(IllegalStateError, match="group_id"):
        KeyedWorkers(without, print)
    with pytest.raises(InvalidArgumentError, match="enable_auto_commit=False"):
        KeyedWorkers(automatic, print)
    without.close()
    automatic.close()


def test_the_two_kinds_of_consumers_are_told_apart(consumer: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="use AsyncKeyedWorkers"):
        KeyedWorkers(AsyncKafkaConsumer(group_id="billing"), print)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="use KeyedWorkers"):
        AsyncKeyedWorkers(consumer, coroutine)


def test_a_handler_for_processes_must_be_picklable(consumer: Any) -> None:
    with (
        ProcessPoolExecutor(1) as executor,
        pytest.raises(InvalidArgumentError, match="use a function of a module"),
    ):
        KeyedWorkers(consumer, lambda _: None, workers=executor)


def test_a_consumer_without_topics_cannot_run(consumer: Any) -> None:
    with pytest.raises(IllegalStateError, match="the consumer has no topics"):
        KeyedWorkers(consumer, print, workers=1).run()


def test_a_record_can_be_pickled() -> None:
    record: Any = ConsumerRecord("t", 0, 1, 2, 3, 0, b"k", b"v", [("h", b"x")], None, 1, 1, 2)
    copied = pickle.loads(pickle.dumps(record))
    assert copied == record
    assert type(copied) is ConsumerRecord


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"attempts": 0}, "attempts must be at least 1"),
        ({"attempts": "5"}, "attempts must be an int or None"),
        ({"backoff_ms": 100}, "backoff_ms must be a tuple"),
        ({"backoff_ms": (100, 50)}, "1 <= first <= longest"),
        ({"backoff_ms": (0, 50)}, "1 <= first <= longest"),
    ],
)
def test_an_invalid_retry_is_named(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        Retry(**arguments)


def test_the_backoff_doubles_to_its_limit_with_jitter() -> None:
    retry, random = Retry(8, backoff_ms=(100, 1_000)), Random(1)
    delays = [retry.delay_ms(failures, random) for failures in range(1, 9)]
    assert delays[-1] is None
    for delay, plain in zip(delays, [100, 200, 400, 800, 1_000, 1_000, 1_000], strict=False):
        assert delay is not None
        assert 0.8 * plain <= delay <= min(1_000, 1.2 * plain)
    assert delays[4] != delays[5] or delays[5] != delays[6], "they vary"
    assert Retry(None).delay_ms(10_000, random) is not None


@pytest.mark.parametrize(("producer", "topic"), [(object(), "dead"), (print, "dead")])
def test_dead_letters_need_a_producer(producer: Any, topic: str) -> None:
    with pytest.raises(ArgumentTypeError, match="producer must be"):
        DeadLetters(producer, topic)
