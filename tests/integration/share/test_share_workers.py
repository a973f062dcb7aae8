"""ShareWorkers, on the simulated cluster and on a real one."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tandem_kafka import AsyncShareConsumer, ShareConsumer
from tandem_kafka.errors import ArgumentTypeError, InvalidArgumentError
from tandem_kafka.workers import AsyncShareWorkers, Retry, ShareWorkers
from tests.integration.brokers import Cluster
from tests.integration.share.share_members import (
    LOCK_MS,
    Share,
    ends_when,
    places,
    produce,
    quiet,
    take,
)
from tests.simulation.simulated_workers import KINDS, Blocking

pytestmark = pytest.mark.both_clusters(everyday="simulated")


@pytest.fixture
def consumer(share: Share) -> ShareConsumer:
    return share(acknowledgement="explicit")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of the workers."""
    return str(request.param)


@pytest.fixture
def workers_of(kind: str, kafka: Cluster, topic: str, share: Share, group: str) -> Iterator[Any]:
    """Makes workers of either kind, with ordinary functions, whose run blocks."""
    if kind == "threads":
        yield lambda *given, **options: ShareWorkers(
            share(acknowledgement="explicit"), *given, **options
        )
        return

    with asyncio.Runner() as runner:
        consumer: AsyncShareConsumer = AsyncShareConsumer(
            topic,
            bootstrap_servers=kafka.bootstrap(),
            group_id=group,
            acknowledgement="explicit",
        )
        runner.run(consumer.start())

        def make(handle: Callable[[Any], object], **options: Any) -> Blocking:
            async def coroutine(record: Any) -> None:
                handle(record)

            async def made() -> AsyncShareWorkers[Any, Any]:
                return AsyncShareWorkers(consumer, coroutine, **options)

            return Blocking(runner, runner.run(made()))

        yield make
        runner.run(consumer.close())


@pytest.mark.every_version
def test_many_threads_handle_each_record_once(
    kafka: Cluster, topic: str, consumer: ShareConsumer, share: Share
) -> None:
    produce(kafka, topic, 500)
    seen: Counter[int] = Counter()
    threads = set()

    def handle(record: Any) -> None:
        time.sleep(0.002)
        seen[record.offset] += 1
        threads.add(threading.current_thread().name)

    workers = ShareWorkers(consumer, handle, workers=8)
    workers.run(ends_when(lambda: len(seen) == 500))
    assert seen == Counter(range(500))
    assert workers.done == 500
    assert len(threads) == 8
    assert quiet(share())


def test_a_record_is_tried_again_and_then_rejected(
    kafka: Cluster, topic: str, share: Share, kind: str, workers_of: Any
) -> None:
    produce(kafka, topic, 4)
    calls: Counter[int] = Counter()
    # What a coroutine awaited was cancelled.
    error = asyncio.CancelledError if kind == "asyncio" else LookupError

    def handle(record: Any) -> None:
        calls[record.offset] += 1
        assert record.delivery_count == 1
        if record.offset == 1 or (record.offset == 2 and calls[2] < 2):
            raise ValueError(record.offset)
        if record.offset == 3 and calls[3] < 2:
            raise error

    workers = workers_of(handle, retry=Retry(3, backoff_ms=(10, 50)))
    workers.run(ends_when(lambda: calls.total() == 8))
    assert calls == {0: 1, 1: 3, 2: 2, 3: 2}
    assert quiet(share())


def test_a_record_is_released_for_another_consumer(
    kafka: Cluster, topic: str, consumer: ShareConsumer, share: Share
) -> None:
    produce(kafka, topic, 2)
    counts: list[tuple[int, int]] = []

    def handle(record: Any) -> None:
        counts.append((record.offset, record.delivery_count))
        if record.offset == 1 and record.delivery_count < 3:
            raise ValueError

    ShareWorkers(consumer, handle, otherwise="release").run(ends_when(lambda: (1, 3) in counts))
    assert sorted(counts) == [(0, 1), (1, 1), (1, 2), (1, 3)]
    assert quiet(share())


@pytest.mark.parametrize(
    ("kind", "awaited"),
    [("threads", False), ("asyncio", False), ("asyncio", True)],
    indirect=["kind"],
)
def test_a_function_takes_what_cannot_be_handled(
    kafka: Cluster, topic: str, share: Share, workers_of: Any, awaited: bool
) -> None:
    produce(kafka, topic, 3)
    letters: list[tuple[int, str, int]] = []

    def function(record: Any, error: Exception, attempts: int) -> None:
        letters.append((record.offset, str(error), attempts))
        if record.offset == 2 and record.delivery_count == 1:
            raise OSError("no room for letters")

    async def coroutine(record: Any, error: Exception, attempts: int) -> None:
        function(record, error, attempts)

    def handle(record: Any) -> None:
        raise ValueError(f"no {record.offset}")

    workers = workers_of(handle, otherwise=coroutine if awaited else function)
    workers.run(ends_when(lambda: len(letters) == 4))
    assert sorted(letters) == [(0, "no 0", 1), (1, "no 1", 1), (2, "no 2", 1), (2, "no 2", 1)]
    assert quiet(share())


@pytest.mark.full("takes long on a real broker")
def test_a_handler_may_take_longer_than_a_lock(
    kafka: Cluster, topic: str, consumer: ShareConsumer, share: Share
) -> None:
    produce(kafka, topic, 1)
    done: list[int] = []
    other = share()

    def handle(record: Any) -> None:
        deadline = time.monotonic() + 1.5 * LOCK_MS / 1_000
        while time.monotonic() < deadline:
            assert quiet(other)
        done.append(record.delivery_count)

    ShareWorkers(consumer, handle, workers=1).run(ends_when(lambda: bool(done), 60))
    assert done == [1]
    assert quiet(other)


def test_a_signal_ends_a_run_and_releases_what_waits(
    kafka: Cluster, topic: str, group: str, share: Share, workers_of: Any
) -> None:
    # Longer than a slow machine may stall, which would deliver the record once more.
    kafka.admin.configure_group(group, {"share.record.lock.duration.ms": "30000"})
    produce(kafka, topic, 2)

    def handle(record: Any) -> None:
        if record.offset == 1:
            os.kill(os.getpid(), signal.SIGTERM)
            raise ValueError

    retry = Retry(5, backoff_ms=(60_000, 60_000))
    workers = workers_of(handle, retry=retry)
    workers.run(ends_when(lambda: False), signals=[signal.SIGTERM])
    assert workers.done == 1
    assert places(take(share(), 1)) == [(1, 2)]


def test_a_handler_that_does_not_return_in_time(
    kafka: Cluster, topic: str, consumer: ShareConsumer, share: Share
) -> None:
    produce(kafka, topic, 1)
    begun, end = threading.Event(), threading.Event()

    def handle(_: Any) -> None:
        begun.set()
        end.wait(60)

    ShareWorkers(consumer, handle, drain_timeout_ms=100).run(ends_when(begun.is_set))
    assert places(take(share(), 1)) == [(0, 2)]
    end.set()


def test_a_handler_that_ends_the_program(
    kafka: Cluster, topic: str, consumer: ShareConsumer, share: Share
) -> None:
    produce(kafka, topic, 1)

    def handle(_: Any) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        ShareWorkers(consumer, handle).run(ends_when(lambda: False))
    assert places(take(share(), 1)) == [(0, 2)]


def test_a_coroutine_cannot_take_what_cannot_be_handled(
    kafka: Cluster, topic: str, consumer: ShareConsumer, share: Share
) -> None:
    """Nobody awaited it, and the record was accepted."""
    produce(kafka, topic, 1)

    def handle(_: Any) -> None:
        raise ValueError

    async def otherwise(*_: Any) -> None: ...

    workers = ShareWorkers(consumer, handle, otherwise=otherwise)
    with pytest.raises(ArgumentTypeError, match="otherwise must be an ordinary function"):
        workers.run(ends_when(lambda: workers.done == 1))
    assert places(take(share(), 1)) == [(0, 2)]


def test_arguments_are_checked(consumer: ShareConsumer, share: Share) -> None:
    async def coroutine(_: Any) -> None: ...

    with pytest.raises(InvalidArgumentError, match='create it with acknowledgement="explicit"'):
        ShareWorkers(share(), print)
    for wrong in (
        {"workers": 0},
        {"otherwise": "stop"},
        {"drain_timeout_ms": -1},
        {"drain_timeout_ms": math.inf},
        {"max_processing_ms": math.nan},
    ):
        with pytest.raises(InvalidArgumentError, match=f"{next(iter(wrong))} must be"):
            ShareWorkers(consumer, print, **wrong)  # type: ignore[arg-type]
    for wrong in ({"workers": "8"}, {"retry": 3}, {"drain_timeout_ms": None}):
        with pytest.raises(ArgumentTypeError, match=f"{next(iter(wrong))} must be"):
            ShareWorkers(consumer, print, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="handle must be an ordinary function"):
        ShareWorkers(consumer, coroutine)
    other = AsyncShareConsumer(group_id="g", acknowledgement="explicit")
    with pytest.raises(ArgumentTypeError, match="use AsyncShareWorkers for an AsyncShareConsumer"):
        ShareWorkers(other, print)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="use ShareWorkers for a ShareConsumer"):
        AsyncShareWorkers(consumer, coroutine)  # type: ignore[arg-type]
    ShareWorkers(consumer, print, max_processing_ms=math.inf)
