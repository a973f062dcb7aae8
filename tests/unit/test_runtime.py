"""The runtime: clock, threads and the owner lock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

import pytest

from tandem_kafka.runtime import MonotonicClock, Runtime, ThreadDriver
from tandem_kafka.runtime.callers import OtherHolder, OwnerLock
from tandem_kafka.runtime.native import native_available

T = TypeVar("T")

FAR_MS = 20_000


class Turning:
    """A loop that runs until it is stopped."""

    def __init__(self, each: Callable[[], object] = lambda: None) -> None:
        self.running = True
        self.thread = ""
        self.turns = 0
        self.finished = 0
        self.failure: BaseException | None = None
        self._each = each

    def run_once(self) -> None:
        self.thread = threading.current_thread().name
        self.turns += 1
        self._each()

    def finish(self, failure: BaseException | None = None) -> None:
        self.finished += 1
        self.failure = failure


@pytest.fixture(params=[False, True] if native_available else [False])
def driver(request: pytest.FixtureRequest) -> ThreadDriver:
    return ThreadDriver(MonotonicClock(), native_waits=request.param)


def deadline_ms() -> int:
    return MonotonicClock().now_ms() + FAR_MS


def test_the_clock_counts_in_whole_milliseconds_and_never_back() -> None:
    clock = MonotonicClock()
    first, second = clock.now_ms(), clock.now_ms()
    assert isinstance(first, int)
    assert second >= first
    assert clock.wall_ms() > 1_700_000_000_000


def test_the_loop_runs_on_its_own_thread_until_it_ends(driver: ThreadDriver) -> None:
    turned = threading.Event()
    loop = Turning(turned.set)
    driver.start(loop, "network")
    assert turned.wait(20)
    assert not driver.join(MonotonicClock().now_ms()), "it still runs"
    loop.running = False
    assert driver.join(deadline_ms())
    assert loop.thread == "network"
    assert loop.finished == 1


class PanicError(BaseException):
    """Like a panic of the extension: not an `Exception`."""


@pytest.mark.parametrize("error", [ZeroDivisionError, PanicError, SystemExit])
def test_a_failed_loop_is_finished_with_its_error(
    driver: ThreadDriver, error: type[BaseException]
) -> None:
    def fail() -> None:
        raise error

    loop = Turning(fail)
    driver.start(loop, "network")
    assert driver.join(deadline_ms())
    assert loop.finished == 1
    assert isinstance(loop.failure, error)


def test_offloaded_work_fails_without_a_thread(
    driver: ThreadDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    results: list[Any] = []
    driver.offload(lambda: 1, results.append)
    assert isinstance(results[0], RuntimeError)


def test_joining_before_the_start_returns_immediately(driver: ThreadDriver) -> None:
    assert driver.join(0)


def test_a_true_condition_needs_no_wait(driver: ThreadDriver) -> None:
    assert driver.wait(lambda: True, 0)


def test_a_deadline_ends_the_wait(driver: ThreadDriver) -> None:
    assert not driver.wait(lambda: False, MonotonicClock().now_ms())
    assert not driver.wait(lambda: False, MonotonicClock().now_ms() + 1)


def test_a_notification_ends_the_wait(driver: ThreadDriver) -> None:
    done: list[int] = []
    asleep = threading.Event()

    def ready() -> bool:
        asleep.set()
        return bool(done)

    def work() -> None:
        asleep.wait(20)
        done.append(1)
        driver.notify()

    thread = threading.Thread(target=work)
    thread.start()
    assert driver.wait(ready, deadline_ms())
    thread.join()


def test_a_deadline_beyond_the_limit_of_threads_is_no_error(driver: ThreadDriver) -> None:
    loop = Turning()
    loop.running = False
    driver.start(loop, "network")
    assert driver.join(2**62)


@pytest.mark.parametrize("fails", [True, False])
def test_offloaded_work_returns_its_outcome(driver: ThreadDriver, fails: bool) -> None:
    came: list[object] = []
    there = threading.Event()

    def work() -> str:
        if fails:
            raise OSError("no such host")
        return threading.current_thread().name

    def done(result: object) -> None:
        came.append(result)
        there.set()

    driver.offload(work, done)
    assert there.wait(20)
    assert isinstance(came[0], OSError) if fails else came[0] == "tandem-kafka-offload"


def within(lock: OwnerLock, call: Callable[[], object]) -> None:
    """Represents a method that the lock guards."""
    held = lock.acquire()
    assert held is not None
    try:
        call()
    finally:
        held.release()


def is_within(frame: FrameType) -> bool:
    return frame.f_code is within.__code__


def on_another_thread(call: Callable[[], T]) -> T:
    """Call on another thread."""
    found: list[T] = []
    thread = threading.Thread(target=lambda: found.append(call()), name="intruder")
    thread.start()
    thread.join()
    (result,) = found
    return result


@pytest.mark.behaviour(11)
def test_the_lock_is_reentrant_but_rejects_other_threads() -> None:
    lock = OwnerLock()
    seen: list[object] = []

    def intrude() -> None:
        seen.extend(on_another_thread(lambda: [lock.acquire(), lock.take_over(is_within)]))

    within(lock, lambda: within(lock, intrude))
    assert seen == [None, OtherHolder("MainThread")]
    assert on_another_thread(lock.acquire) is not None, "both have left"


def test_a_lock_that_was_given_up_may_be_released() -> None:
    """Its caller does that in any case, also if an interrupt has prevented `regain`."""
    lock = OwnerLock()
    held = lock.acquire()
    assert held is not None
    lock.give_up(held, is_within)
    held.release()
    assert lock.regain(held, is_within)
    assert on_another_thread(lock.acquire) is None
    held.release()
    assert on_another_thread(lock.acquire) is not None


def test_a_lock_abandoned_by_an_interrupt_is_taken_over() -> None:
    lock = OwnerLock()
    assert lock.acquire() is not None  # and the method ended without releasing it

    def enter() -> tuple[object, object]:
        refused, held = lock.acquire(), lock.take_over(is_within)
        assert not isinstance(held, OtherHolder)
        within(lock, lambda: None)
        held.release()
        return refused, held

    refused, held = on_another_thread(enter)
    assert refused is None
    assert held is not None
    within(lock, lambda: None)  # on the thread that had abandoned it


def test_an_owner_that_returns_keeps_its_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """It returns between the check of its stack and the replacement of its lock."""
    lock = OwnerLock()
    left_behind, come_back = threading.Event(), threading.Event()
    owner_is_inside, may_leave = threading.Event(), threading.Event()

    def own() -> None:
        lock.acquire()
        left_behind.set()
        come_back.wait(20)
        within(lock, lambda: (owner_is_inside.set(), may_leave.wait(20)))

    owner = threading.Thread(target=own, name="owner")
    owner.start()
    assert left_behind.wait(20)
    new_lock = threading.RLock

    def meanwhile() -> Any:
        come_back.set()
        assert owner_is_inside.wait(20)
        return new_lock()

    monkeypatch.setattr(threading, "RLock", meanwhile)
    assert lock.take_over(is_within) == OtherHolder("owner")
    monkeypatch.undo()
    may_leave.set()
    owner.join()
    held = lock.take_over(is_within)
    assert not isinstance(held, OtherHolder)


def test_the_runtime_of_production() -> None:
    runtime = Runtime.threaded()
    assert isinstance(runtime.clock, MonotonicClock)
    assert isinstance(runtime.driver, ThreadDriver)
    assert runtime.random.random() != Runtime.threaded().random.random()
