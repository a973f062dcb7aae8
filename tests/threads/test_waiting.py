"""Queues and wakeups between the threads: none is lost, whichever thread is faster."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import count

import pytest

from tandem_kafka.events import completable, queues
from tandem_kafka.events.application import Poll
from tandem_kafka.events.background import ErrorEvent
from tandem_kafka.events.completable import Completion
from tandem_kafka.events.queues import ApplicationEventQueue, BackgroundEventQueue
from tandem_kafka.runtime import ThreadDriver
from tandem_kafka.runtime import driver as threads
from tandem_kafka.runtime.native import native
from tests.threads.lockstep import Lockstep
from tests.threads.seeds import each_seed

#: Longer than any wakeup takes; only a thread that sleeps on waits as long.
LONG_S = 3_600.0


class Ticking:
    """Time passes with each reading of the clock, so every wait ends."""

    def __init__(self) -> None:
        self._ticks: Iterator[int] = count()

    def now_ms(self) -> int:
        return next(self._ticks)

    def after_ms(self, duration_ms: float) -> int:
        return self.now_ms() + int(duration_ms)

    def wall_ms(self) -> int:
        return self.now_ms()


def driven(lockstep: Lockstep) -> ThreadDriver:
    driver = ThreadDriver(Ticking(), native_waits=False)
    driver._new_lock = lockstep.lock  # type: ignore[assignment]
    return driver


@pytest.mark.behaviour(30)
@each_seed
def test_a_notification_is_never_missed(seed: int) -> None:
    lockstep = Lockstep(seed, threads)
    driver = driven(lockstep)
    news: list[int] = []
    results: list[bool] = []

    def network() -> None:
        for number in range(3):
            news.append(number)
            driver.notify()

    def application() -> None:
        for expected in range(1, 4):
            came = driver.wait(lambda wanted=expected: len(news) >= wanted, 10_000)
            results.append(came)

    lockstep.run(network=network, application=application)
    assert results == [True] * 3
    assert lockstep.expired == 0


@each_seed
def test_a_wakeup_from_a_third_thread_is_not_missed(seed: int) -> None:
    lockstep = Lockstep(seed, threads)
    driver = driven(lockstep)
    news: list[str] = []

    def notify(name: str) -> None:
        news.append(name)
        driver.notify()

    lockstep.run(
        network=lambda: notify("network"),
        other=lambda: notify("other"),
        application=lambda: assert_both(driver, news),
    )
    assert lockstep.expired == 0


def assert_both(driver: ThreadDriver, news: list[str]) -> None:
    assert driver.wait(lambda: len(news) == 2, 10_000)


@each_seed
def test_several_threads_can_wait_at_the_same_time(seed: int) -> None:
    lockstep = Lockstep(seed, threads)
    driver = driven(lockstep)
    news: list[int] = []

    def network() -> None:
        for number in range(2):
            news.append(number)
            driver.notify()

    lockstep.run(
        network=network,
        first=lambda: assert_news(driver, news, 1),
        second=lambda: assert_news(driver, news, 2),
    )
    assert lockstep.expired == 0
    assert driver.waiting == []


def assert_news(driver: ThreadDriver, news: list[int], count: int) -> None:
    assert driver.wait(lambda: len(news) >= count, 10_000)


@each_seed
def test_a_result_is_complete_when_it_is_done(seed: int) -> None:
    lockstep = Lockstep(seed, threads, completable)
    driver = driven(lockstep)
    future: Completion[int] = Completion()
    results: list[int] = []

    def network() -> None:
        future.complete(7)
        driver.notify()

    def application() -> None:
        assert driver.wait(lambda: future.done, 10_000)
        results.append(future.result())

    lockstep.run(network=network, application=application)
    assert results == [7]
    assert lockstep.expired == 0


@each_seed
def test_events_keep_their_order_and_each_wakes_the_network_thread(seed: int) -> None:
    lockstep = Lockstep(seed, queues)
    flag: list[bool] = []
    queue = ApplicationEventQueue(lambda: flag.append(True))
    sent = [Poll() for _ in range(5)]
    taken: list[object] = []

    def application() -> None:
        for event in sent:
            queue.add(event)

    def network() -> None:
        while len(taken) < 5:
            # As the transport's poll: asleep until woken, then everything there is.
            while not flag:
                lockstep.pause()
            flag.clear()
            while (event := queue.take()) is not None:
                taken.append(event)

    lockstep.run(network=network, application=application)
    assert taken == sent


@each_seed
def test_each_background_error_is_raised_once(seed: int) -> None:
    lockstep = Lockstep(seed, queues)
    queue = BackgroundEventQueue()
    raised: list[str] = []
    over: list[bool] = []

    def network() -> None:
        for name in ("a", "b", "a", "c"):
            queue.add_error(ErrorEvent(ValueError(name)))
        over.append(True)

    def application() -> None:
        while not over or len(queue):
            event = queue.take()
            if event is None:
                lockstep.pause()
            else:
                assert isinstance(event, ErrorEvent)
                raised.append(str(event.error))

    lockstep.run(network=network, application=application)
    assert [name for name in raised if name != "a"] == ["b", "c"]
    assert 1 <= raised.count("a") <= 2


@pytest.mark.skipif(native is None, reason="the notifier is native")
@pytest.mark.parametrize("threads", [2, 5])
def test_the_notifier_wakes_every_thread(threads: int) -> None:
    """One thread may wait in `poll()`, another one in `commit()`; either may be meant."""
    assert native is not None
    for _ in range(20):
        notifier = native.Notifier()
        seen = notifier.count
        waiting = [
            threading.Thread(target=notifier.wait, args=(seen, LONG_S), daemon=True)
            for _ in range(threads)
        ]
        for thread in waiting:
            thread.start()
        while notifier.waiting < threads:
            pass
        time.sleep(0.001)  # they may still be on their way to sleep
        assert notifier.notify()
        for thread in waiting:
            thread.join(30)
        assert not any(thread.is_alive() for thread in waiting)
