"""Tasks that wait: no wake-up is lost, and nothing of the system is left open."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tandem_kafka import AsyncKafkaConsumer, AsyncShareConsumer
from tandem_kafka.consumer.aio import alarms, tasks
from tandem_kafka.consumer.aio.tasks import Tasks
from tandem_kafka.errors import KafkaTimeoutError, NetworkThreadError, WakeupError
from tandem_kafka.runtime import Clock, Driver, MonotonicClock, ThreadDriver
from tandem_kafka.runtime import driver as threads
from tandem_kafka.runtime.native import native_available
from tests.open_files import open_files
from tests.threads.lockstep import Lockstep
from tests.threads.seeds import each_seed

pytestmark = pytest.mark.real_time

#: Longer than a test may take: a wait that its notification does not end never ends.
ENDLESS_MS = 3_600_000

watched = pytest.mark.skipif(
    not native_available or not hasattr(os, "fork"), reason="needs a notifier that a loop can watch"
)
#: With a file descriptor, or without.
both = pytest.mark.parametrize(
    "native_waits", [False, pytest.param(True, marks=watched)], ids=["called", "watched"]
)


class SteppedLoop:
    """The parts of an event loop that one waiting task needs; it sleeps in a `Lockstep`."""

    def __init__(self, lockstep: Lockstep) -> None:
        self._lockstep = lockstep
        self._loop = asyncio.new_event_loop()
        self._called: list[Callable[[], object]] = []
        self._watched: tuple[int, Callable[[], object]] | None = None
        self.create_future = self._loop.create_future
        self.time = self._loop.time
        self.call_at = self._loop.call_at

    def add_reader(self, descriptor: int, callback: Callable[[], object]) -> None:
        self._watched = descriptor, callback

    def remove_reader(self, descriptor: int) -> None:
        assert self._watched is not None
        assert self._watched[0] == descriptor
        self._watched = None

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:
        self._called.append(callback)

    def run(self, call: Coroutine[Any, Any, bool]) -> bool:
        """Run a coroutine; a sleep that nothing ends any more counts as expired."""
        try:
            while True:
                sleep = call.send(None)
                while not sleep.done():
                    alone = self._lockstep.alone
                    if not self._turn() and not sleep.done():
                        if alone:
                            self._lockstep.expired += 1
                            sleep.set_result(None)
                        else:
                            self._lockstep.pause()
        except StopIteration as end:
            return bool(end.value)

    def _turn(self) -> bool:
        """Run the callbacks that are due; return whether there were any."""
        due, self._called = self._called, []
        if self._watched is not None:
            descriptor, callback = self._watched
            if select.select([descriptor], [], [], 0)[0]:
                due.append(callback)
        for each in due:
            each()
        return bool(due)

    def close(self) -> None:
        self._loop.close()


class OneLoop(Tasks):
    """Tasks of a loop that does not run."""

    def check(self) -> None:
        """Any caller may wait."""

    def current(self) -> str:
        return "the task"


def never_lost(seed: int, *, native_waits: bool) -> None:
    lockstep = Lockstep(seed, threads, alarms, tasks)
    driver = ThreadDriver(MonotonicClock(), native_waits=native_waits)
    loop: Any = SteppedLoop(lockstep)
    callers = OneLoop(MonotonicClock(), driver, loop)
    assert (driver.notifier is not None) is native_waits
    news: list[int] = []
    results: list[bool] = []

    def notify() -> None:
        for number in range(3):
            news.append(number)
            driver.notify()

    def application() -> None:
        for expected in range(1, 7):
            call = callers.wait(lambda wanted=expected: len(news) >= wanted, 2**50)
            results.append(loop.run(call))

    try:
        lockstep.run(network=notify, other=notify, application=application)
        assert results == [True] * 6
        assert lockstep.expired == 0
        assert not driver.waiting
    finally:
        callers._alarm.close()
        loop.close()


@each_seed
def test_a_task_misses_no_notification(seed: int) -> None:
    never_lost(seed, native_waits=False)


@watched
@each_seed
def test_a_task_whose_loop_watches_the_notifier_misses_nothing(seed: int) -> None:
    never_lost(seed, native_waits=True)


def made(native_waits: bool) -> tuple[Tasks, Driver, Clock]:
    """Return the callers of the running event loop."""
    clock = MonotonicClock()
    driver = ThreadDriver(clock, native_waits=native_waits)
    callers = Tasks(clock, driver, asyncio.get_running_loop())
    assert (driver.notifier is not None) is native_waits
    return callers, driver, clock


@both
def test_no_task_misses_a_notification_of_a_thread(native_waits: bool) -> None:
    """Two tasks wait for one notifier, each for its own news, which come at any time."""

    async def run() -> None:
        callers, driver, clock = made(native_waits)
        asked: list[int] = [0, 0]
        given: list[int] = [0, 0]
        over = threading.Event()

        def network() -> None:
            while not over.is_set():
                if given != asked:
                    given[:] = asked
                    driver.notify()
                time.sleep(0)

        async def wait(each: int) -> None:
            for wanted in range(1, 400):
                asked[each] = wanted
                assert await callers.wait(
                    lambda: given[each] >= wanted,  # noqa: B023
                    clock.now_ms() + ENDLESS_MS,
                )

        thread = threading.Thread(target=network)
        thread.start()
        try:
            await asyncio.gather(wait(0), wait(1))
        finally:
            over.set()
            thread.join()
            callers.close()

    asyncio.run(run())


@both
def test_deadlines_and_cancellations_end_only_their_own_waits(native_waits: bool) -> None:
    async def run() -> None:
        callers, driver, clock = made(native_waits)
        news: list[int] = []
        began_ms = clock.now_ms()
        waits = [
            asyncio.create_task(callers.wait(lambda: bool(news), began_ms + left_ms))
            for left_ms in (ENDLESS_MS, 30, 10, ENDLESS_MS)
        ]
        await asyncio.sleep(0)
        waits[3].cancel()
        assert [await waits[2], await waits[1]] == [False, False]
        assert clock.now_ms() - began_ms >= 30
        assert waits[3].cancelled()
        assert not waits[0].done()
        news.append(1)
        driver.notify()
        assert await waits[0]
        callers.close()

    asyncio.run(run())


@watched
def test_a_ring_without_a_waiting_task_wakes_no_loop() -> None:
    async def run() -> None:
        callers, driver, clock = made(native_waits=True)
        assert driver.notifier is not None
        descriptor = callers._alarm._descriptor  # type: ignore[attr-defined]
        for left_ms in (0, 5):
            assert not await callers.wait(lambda: False, clock.now_ms() + left_ms)
            driver.notify()
            assert not select.select([descriptor], [], [], 0)[0]
        callers.close()

    asyncio.run(run())


@watched
def test_a_task_that_still_sleeps_is_woken_after_the_close() -> None:
    async def run() -> None:
        before = descriptors()
        callers, driver, clock = made(native_waits=True)
        news: list[int] = []
        never_ms = clock.now_ms() + ENDLESS_MS
        waits = [asyncio.create_task(callers.wait(lambda: bool(news), never_ms))]
        await asyncio.sleep(0)
        callers.close()
        waits.append(asyncio.create_task(callers.wait(lambda: bool(news), never_ms)))
        await asyncio.sleep(0.01)
        threading.Timer(0.01, lambda: (news.append(1), driver.notify())).start()
        assert await asyncio.gather(*waits) == [True, True]
        assert descriptors() == before

    asyncio.run(run())


class WithoutReaders(asyncio.SelectorEventLoop):
    """As the event loop of Windows."""

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
        raise NotImplementedError


def test_a_loop_that_watches_no_descriptors_calls_instead() -> None:
    async def run() -> None:
        clock = MonotonicClock()
        driver = ThreadDriver(clock)
        callers = Tasks(clock, driver, asyncio.get_running_loop())
        assert driver.notifier is None
        news: list[int] = []
        threading.Timer(0.01, lambda: (news.append(1), driver.notify())).start()
        assert await callers.wait(lambda: bool(news), clock.now_ms() + ENDLESS_MS)

    before = descriptors()
    with asyncio.Runner(loop_factory=WithoutReaders) as runner:
        runner.run(run())
    assert descriptors() == before


# --- descriptors and processes -----------------------------------------------------------------


def descriptors() -> int:
    """Return the number of open file descriptors, or 0 where the system does not tell."""
    gc.collect()
    return open_files()


def new(kind: Any = AsyncKafkaConsumer, **options: Any) -> Any:
    """Return a consumer of a cluster that does not exist."""
    options.setdefault("bootstrap_timeout_ms", 0)
    return kind(bootstrap_servers="127.0.0.1:1", group_id="g", **options)


async def started(kind: Any = AsyncKafkaConsumer) -> Any:
    consumer = new(kind)
    await consumer.start()
    return consumer


def joined() -> None:
    for thread in threading.enumerate():
        if "tandem-kafka" in thread.name:
            thread.join(60)


async def opened_and_closed(kind: Any) -> None:
    before = descriptors()
    for _ in range(3):
        await (await started(kind)).close()
    assert descriptors() == before


async def opened_and_failed(kind: Any) -> None:
    before = descriptors()
    for _ in range(3):
        with pytest.raises(KafkaTimeoutError):
            await new(kind, bootstrap_timeout_ms=1).start()
    assert descriptors() == before


async def opened_without_a_thread(kind: Any) -> None:
    before = descriptors()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ThreadDriver, "start", lambda *_: (_ for _ in ()).throw(RuntimeError))
        for _ in range(3):
            with pytest.raises(NetworkThreadError):
                await started(kind)
    assert descriptors() == before


async def opened_and_dropped(kind: Any) -> None:
    before = descriptors()
    for _ in range(3):
        await started(kind)
    joined()
    await asyncio.sleep(0)
    assert descriptors() == before


async def opened_and_dropped_as_the_loop_ends(kind: Any) -> None:
    for _ in range(3):
        await started(kind)


async def kept_longer_than_the_loop(kind: Any) -> list[Any]:
    return [await started(kind) for _ in range(3)]


@pytest.mark.filterwarnings("ignore:unclosed consumer")
@pytest.mark.parametrize("kind", [AsyncKafkaConsumer, AsyncShareConsumer])
@pytest.mark.parametrize(
    "use",
    [
        opened_and_closed,
        opened_and_failed,
        opened_without_a_thread,
        opened_and_dropped,
        opened_and_dropped_as_the_loop_ends,
        kept_longer_than_the_loop,
    ],
)
def test_no_descriptor_is_left_open(
    use: Callable[[Any], Coroutine[Any, Any, object]], kind: Any
) -> None:
    asyncio.run(asyncio.sleep(0))
    before = descriptors()
    kept = asyncio.run(use(kind))
    del kept
    gc.collect()
    joined()
    assert descriptors() == before


@watched
@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.skipif(sys.platform == "darwin", reason="forks are unsafe there")
def test_a_fork_that_drops_the_consumer_takes_no_wakeup_away() -> None:
    async def run() -> None:
        consumer: AsyncKafkaConsumer[Any, Any] | None = await started()
        assert consumer is not None
        await consumer.assign([])
        polling = asyncio.create_task(consumer.poll())
        await asyncio.sleep(0.01)
        child = os.fork()
        if not child:
            try:
                consumer.wakeup()
                polling._log_destroy_pending = False  # type: ignore[attr-defined]
                del polling, consumer
                gc.collect()
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0  # noqa: ASYNC222 - it ends at once
        threading.Timer(0.01, consumer.wakeup).start()
        with pytest.raises(WakeupError):
            await polling
        await consumer.close()

    asyncio.run(run())
