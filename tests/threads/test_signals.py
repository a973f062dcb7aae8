"""Waiting threads and signal handlers: no wake-up is lost, wherever the handler runs."""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import pytest

from tandem_kafka.runtime import MonotonicClock, ThreadDriver
from tandem_kafka.runtime import driver as threads
from tandem_kafka.runtime.native import native_available
from tests.alarms import alarms
from tests.tier import bytecodes
from tests.unit.interrupts import Interrupter

pytestmark = pytest.mark.real_time

Handler = Callable[[int, FrameType | None], None]

#: When somebody else ends a wait that the handler should have ended. A slow machine may be late, so
#: the next one comes later; only a wake-up that was lost needs the last of them.
RESCUES_S = [0.1, 0.5, 2.5, 30.0]
#: After this one, the wait began before the handler could run.
ASLEEP_S = 2.5


def in_a_minute() -> int:
    return MonotonicClock().now_ms() + 60_000


#: Threads wait with locks, or in native code.
both = pytest.mark.parametrize("native_waits", [False, True] if native_available else [False])


def wait(driver: ThreadDriver, news: Sequence[object], interrupter: Interrupter) -> None:
    assert interrupter.call(driver.wait, lambda: bool(news), in_a_minute())


def ended_by(driver: ThreadDriver, at: int) -> list[str]:
    """Return who had notified when a wait ended: the handler at a bytecode, or the rescue."""
    news: list[str] = []

    def notify(source: str) -> None:
        news.append(source)
        driver.notify()

    for rescue_s in RESCUES_S:
        news.clear()
        rescue = threading.Timer(rescue_s, notify, ("rescue",))
        rescue.start()
        wait(driver, news, Interrupter(at, lambda: notify("handler")))
        sources = [*news]
        rescue.cancel()
        rescue.join()
        assert driver.waiting == []
        if sources == ["handler"] or (sources[0] == "rescue" and rescue_s >= ASLEEP_S):
            break
    return sources


@both
def test_a_handler_at_any_bytecode_ends_the_wait(
    monkeypatch: pytest.MonkeyPatch, native_waits: bool
) -> None:
    """Also between the look and the wait; without the second look that is only a safety net."""
    monkeypatch.setattr(threads, "_RECHECK_S", 60.0)
    driver = ThreadDriver(MonotonicClock(), native_waits=native_waits)
    for at in bytecodes():
        sources = ended_by(driver, at)
        if sources[0] == "rescue":
            break  # it slept before it reached that bytecode
        assert sources == ["handler"], f"the wake-up at bytecode {at} was lost"
    assert at > (20 if native_waits else 30)


@both
def test_an_interrupt_at_any_bytecode_ends_the_wait_and_leaves_no_lock(native_waits: bool) -> None:
    driver = ThreadDriver(MonotonicClock(), native_waits=native_waits)
    for at in bytecodes():
        interrupter = Interrupter(at)
        news: list[int] = []

        def notify(news: list[int] = news) -> None:
            news.append(1)
            driver.notify()

        rescue = threading.Timer(0.02, notify)
        rescue.start()
        with suppress(KeyboardInterrupt):
            wait(driver, news, interrupter)
        rescue.cancel()
        rescue.join()
        if interrupter.frame is None:
            break
        # A lock may stay registered. It is released once, and then costs only a check.
        driver.notify()
        assert not any(lock.locked() for lock in driver.waiting)
    assert at > (20 if native_waits else 30)


@contextmanager
def timer(handle: Handler) -> Iterator[Callable[[float], None]]:
    """Signals of a timer of the system's."""
    with alarms(handle):
        yield lambda delay_s: signal.setitimer(signal.ITIMER_REAL, delay_s) and None


@contextmanager
def thread(handle: Handler) -> Iterator[Callable[[float], None]]:
    """Signals that a thread sends to the main thread."""
    before = signal.signal(signal.SIGUSR1, handle)
    delays: queue.SimpleQueue[float | None] = queue.SimpleQueue()

    def send() -> None:
        while (delay_s := delays.get()) is not None:
            time.sleep(delay_s)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield delays.put
    finally:
        delays.put(None)
        sender.join()
        signal.signal(signal.SIGUSR1, before)


@both
@pytest.mark.parametrize("source", [timer, thread])
def test_waiting_threads_miss_no_signal(source: Any, native_waits: bool) -> None:
    """Signals at any time around the start of a wait, while another thread waits too."""
    driver = ThreadDriver(MonotonicClock(), native_waits=native_waits)
    news: list[int] = []
    over = threading.Event()
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        news.append(number)
        driver.notify()

    def watch() -> None:
        while not over.is_set():
            known = len(news)
            driver.wait(lambda known=known: len(news) > known or over.is_set(), in_a_minute())
            seen.append(len(news))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with source(handle) as send_after:
            for turn in range(1, 300):
                end_ms = in_a_minute()
                send_after(turn * 1e-6)
                assert driver.wait(lambda turn=turn: len(news) >= turn, end_ms)
                assert MonotonicClock().now_ms() < end_ms, "the signal did not end the wait"
    finally:
        over.set()
        driver.notify()
        watcher.join(60)
    assert not watcher.is_alive()
    assert seen
    assert len(news) == 299
