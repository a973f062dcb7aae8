"""AsyncKafkaConsumer without a broker: when it can be used, and by whom."""

from __future__ import annotations

import asyncio
import gc
import re
import signal
import threading
import warnings
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tandem_kafka import AsyncKafkaConsumer, TopicPartition
from tandem_kafka.errors import (
    ArgumentTypeError,
    ConcurrentModificationError,
    ConsumerClosedError,
    IllegalStateError,
    InvalidArgumentError,
    KafkaConfigurationError,
    KafkaTimeoutError,
    WakeupError,
)

pytestmark = pytest.mark.real_time

Consumer = AsyncKafkaConsumer[Any, Any]
TP = TopicPartition("orders", 0)

NOT_STARTED = re.escape(
    "the consumer has not been started; use `async with consumer:` or `await consumer.start()`"
)
NO_LOOP = "needs a running asyncio event loop; use it inside a coroutine"
OTHER_LOOP = "the consumer belongs to the event loop in which it was started"

AWAITABLE: list[Callable[[Consumer], Coroutine[Any, Any, Any]]] = [
    lambda consumer: consumer.poll(),
    lambda consumer: consumer.__anext__(),
    lambda consumer: consumer.subscribe(["orders"]),
    lambda consumer: consumer.assign([TP]),
    lambda consumer: consumer.unsubscribe(),
    lambda consumer: consumer.commit(),
    lambda consumer: consumer.committed(TP),
    lambda consumer: consumer.seek_to_beginning(TP),
    lambda consumer: consumer.seek_to_end(TP),
    lambda consumer: consumer.beginning_offsets([TP]),
    lambda consumer: consumer.end_offsets([TP]),
    lambda consumer: consumer.offsets_for_times({TP: 0}),
    lambda consumer: consumer.topics(),
    lambda consumer: consumer.cluster(),
    lambda consumer: consumer.client_instance_id(),
    lambda consumer: consumer.partitions_for_topic("orders"),
    lambda consumer: consumer.enforce_rebalance(),
]
PLAIN: list[Callable[[Consumer], Any]] = [
    lambda consumer: consumer.seek(TP, 0),
    lambda consumer: consumer.pause(TP),
    lambda consumer: consumer.resume(TP),
    lambda consumer: consumer.paused(),
    lambda consumer: consumer.assignment(),
    lambda consumer: consumer.subscription(),
    lambda consumer: consumer.metrics(),
    lambda consumer: consumer.wakeup(),
    lambda consumer: consumer.batches(),
    lambda consumer: consumer.arrow_batches(),
]


def made(**options: Any) -> Consumer:
    """Return a consumer of a cluster that does not exist."""
    defaults = {"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 0, "group_id": "group"}
    return AsyncKafkaConsumer(**{**defaults, "default_api_timeout_ms": 200, **options})


async def closed(consumer: Consumer) -> None:
    """Close a consumer that never reached a cluster."""
    await consumer.close(autocommit=False, timeout_ms=0)


# --- when it can be used -----------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(AWAITABLE)))
def test_an_awaitable_method_before_the_start_says_so(number: int) -> None:
    with pytest.raises(IllegalStateError, match=NOT_STARTED):
        asyncio.run(AWAITABLE[number](made()))


@pytest.mark.parametrize("number", range(len(PLAIN)))
def test_a_plain_method_before_the_start_says_so(number: int) -> None:
    with pytest.raises(IllegalStateError, match=NOT_STARTED):
        PLAIN[number](made())


def test_a_misspelt_method_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'AsyncKafkaConsumer' object has no attribute 'pol'"):
        made().pol()  # type: ignore[attr-defined]


def test_the_constructor_checks_options_without_a_thread(
    network_threads: Callable[[], list[str]],
) -> None:
    with pytest.raises(KafkaConfigurationError):
        AsyncKafkaConsumer(auto_offset_reset="erliest")
    made()
    assert not network_threads()


def test_the_start_needs_a_running_event_loop() -> None:
    start = made().start()
    with pytest.raises(IllegalStateError, match=NO_LOOP):
        start.send(None)


@pytest.mark.parametrize("before", ["started", "closed", "failed"])
def test_a_consumer_starts_once(before: str) -> None:
    async def run() -> None:
        consumer = made()
        if before == "failed":
            consumer = made(bootstrap_timeout_ms=1)
            with pytest.raises(KafkaTimeoutError):
                await consumer.start()
        elif before == "started":
            await consumer.start()
        else:
            await consumer.close()
        with pytest.raises(IllegalStateError, match="was started or closed before; create another"):
            await consumer.start()
        await closed(consumer)

    asyncio.run(run())


def test_a_consumer_whose_start_failed_early_can_be_closed() -> None:
    class Fails:
        def init(self, _: object) -> None:
            raise ValueError("no configuration")

        def metric_change(self, metric: object) -> None: ...

        def metric_removal(self, metric: object) -> None: ...

        def close(self) -> None: ...

    async def run() -> None:
        consumer = made(metric_reporters=[Fails])
        with pytest.raises(ValueError, match="no configuration"):
            await consumer.start()
        await consumer.close()
        with pytest.raises(IllegalStateError, match="failed to start or was closed before"):
            await consumer.poll()

    asyncio.run(run())


def test_a_failed_start_leaves_no_thread(network_threads: Callable[[], list[str]]) -> None:
    async def run() -> None:
        with pytest.raises(KafkaTimeoutError, match="no broker responded within 50 ms"):
            async with made(bootstrap_timeout_ms=50):
                pass

    asyncio.run(run())
    assert not network_threads()


@pytest.mark.parametrize("number", range(len(AWAITABLE)))
def test_a_call_after_close_says_so(number: int) -> None:
    async def run() -> None:
        consumer = made()
        await consumer.start()
        await closed(consumer)
        await closed(consumer)  # closing again does nothing
        await AWAITABLE[number](consumer)

    # Iteration ends, and the other methods raise.
    expected = StopAsyncIteration if number == 1 else ConsumerClosedError
    with pytest.raises(expected):
        asyncio.run(run())


@pytest.mark.parametrize("number", range(len(AWAITABLE)))
def test_a_call_in_another_event_loop_says_so(number: int) -> None:
    consumer = made()
    with asyncio.Runner() as first:
        first.run(consumer.start())
        with asyncio.Runner() as second, pytest.raises(IllegalStateError, match=OTHER_LOOP):
            second.run(AWAITABLE[number](consumer))
        first.run(closed(consumer))


def test_close_in_another_event_loop_or_in_none_says_so() -> None:
    consumer = made()
    with asyncio.Runner() as first:
        first.run(consumer.start())
        with asyncio.Runner() as second, pytest.raises(IllegalStateError, match=OTHER_LOOP):
            second.run(consumer.close())
        with pytest.raises(IllegalStateError, match=NO_LOOP):
            consumer.seek(TP, 0)
        first.run(closed(consumer))


# --- who may use it ----------------------------------------------------------------------------


def test_a_second_poll_at_the_same_time_is_rejected() -> None:
    async def run() -> None:
        consumer = made()
        await consumer.start()
        await consumer.assign([TP])
        first = asyncio.create_task(consumer.poll(), name="first")
        await asyncio.sleep(0.01)
        message = (
            "task 'second' called poll() while 'first' is reading; only one task at a time may "
            "poll or iterate over a consumer: use one consumer per task (any task may call the "
            "other methods)"
        )
        for call in (consumer.poll, consumer.__anext__, consumer.batches().__anext__):
            second = asyncio.create_task(call(), name="second")  # type: ignore[operator]
            with pytest.raises(ConcurrentModificationError) as raised:
                await second
            assert message in str(raised.value)
        first.cancel()
        await asyncio.wait([first])
        assert not await consumer.poll(0)
        await closed(consumer)

    asyncio.run(run())


def test_wakeup_from_another_thread_ends_a_poll() -> None:
    async def run() -> None:
        consumer = made()
        await consumer.start()
        await consumer.assign([TP])
        threading.Timer(0.05, consumer.wakeup).start()
        with pytest.raises(WakeupError):
            await consumer.poll()
        consumer.wakeup()
        with pytest.raises(WakeupError):
            await consumer.poll()
        assert not await consumer.poll(0)
        await closed(consumer)

    asyncio.run(run())


def test_a_signal_handler_may_wake_it_up() -> None:
    async def run() -> None:
        consumer = made()
        await consumer.start()
        await consumer.assign([TP])
        before = signal.signal(signal.SIGUSR1, lambda *_: consumer.wakeup())
        try:
            asyncio.get_running_loop().call_later(0.05, signal.raise_signal, signal.SIGUSR1)
            with pytest.raises(WakeupError):
                await consumer.poll()
        finally:
            signal.signal(signal.SIGUSR1, before)
        await closed(consumer)

    asyncio.run(run())


def test_there_is_no_task_and_one_thread(network_threads: Callable[[], list[str]]) -> None:
    async def run() -> None:
        async with made(consumer_timeout_ms=20, client_id="only") as consumer:
            await consumer.assign([TP])
            for iterator in (consumer, consumer.batches(), consumer.arrow_batches()):
                async for _ in iterator:
                    break
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await consumer.poll()
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert network_threads() == ["tandem-kafka-network (only)"]
            await closed(consumer)

    asyncio.run(run())
    assert not network_threads()


# --- the end -----------------------------------------------------------------------------------


def test_an_unclosed_consumer_warns_and_its_thread_ends(
    network_threads: Callable[[], list[str]],
) -> None:
    async def run() -> None:
        await made(client_id="forgotten").start()
        gc.collect()

    with pytest.warns(
        ResourceWarning, match="unclosed consumer <AsyncKafkaConsumer 'forgotten', group 'group'>"
    ):
        asyncio.run(run())
    for thread in threading.enumerate():
        if "tandem-kafka" in thread.name:
            thread.join(60)
    assert not network_threads()


def test_a_consumer_that_was_not_started_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made()
        gc.collect()


def test_a_loop_that_is_closed_first_leaves_no_thread_behind(
    network_threads: Callable[[], list[str]],
) -> None:
    """As after `loop.run_until_complete()` with Ctrl-C: no coroutine can run any more."""
    loop = asyncio.new_event_loop()
    consumer = made(client_id="orphan")
    loop.run_until_complete(consumer.start())
    loop.run_until_complete(consumer.assign([TP]))
    polling = consumer.poll()
    task = loop.create_task(polling)
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    consumer.wakeup()  # the loop is closed: this must not raise
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    polling.close()
    assert not consumer._core.driver.waiting
    with pytest.raises(IllegalStateError, match=OTHER_LOOP):
        asyncio.run(consumer.close())
    del task, polling
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        del consumer
        gc.collect()
    (warning,) = [each for each in found if "unclosed consumer" in str(each.message)]
    assert warning.category is ResourceWarning
    for thread in threading.enumerate():
        if "tandem-kafka" in thread.name:
            thread.join(60)
    assert not network_threads()


# --- arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"max_records": 0}, InvalidArgumentError, "max_records must be at least 1, got 0"),
        ({"max_records": "9"}, ArgumentTypeError, "max_records must be an int, got '9'"),
        ({"max_wait_ms": -1}, InvalidArgumentError, "max_wait_ms must be at least 0, got -1"),
        ({"max_wait_ms": "1"}, ArgumentTypeError, "max_wait_ms must be a number of milliseconds"),
        ({"max_wait_ms": float("nan")}, InvalidArgumentError, "max_wait_ms must be at least 0"),
    ],
)
def test_batches_checks_its_arguments(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    async def run() -> None:
        consumer = made()
        await consumer.start()
        try:
            consumer.batches(**arguments)
        finally:
            await closed(consumer)

    with pytest.raises(error, match=message):
        asyncio.run(run())


def test_a_for_loop_is_rejected() -> None:
    async def run() -> None:
        async with made(consumer_timeout_ms=0) as consumer:
            with pytest.raises(TypeError, match="use `async for`, not `for`"):
                for _ in consumer.batches():  # type: ignore[attr-defined]
                    pass
            await closed(consumer)

    asyncio.run(run())
