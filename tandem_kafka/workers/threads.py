"""Threads that take tasks by themselves: the crew of `workers=N`."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import cast

from tandem_kafka.runtime import Clock, Driver
from tandem_kafka.workers.assignment import Portion, Task
from tandem_kafka.workers.run import Crew
from tandem_kafka.workers.settings import CallSettings, check_not_awaitable, report
from tandem_kafka.workers.work import Work

#: How often an idle thread checks its condition, in case nothing wakes it up.
RECHECK_S = 60.0


def new_lock() -> threading.Lock:
    """Return the lock that protects a workload which threads share."""
    return threading.Lock()


#: How many tasks a thread takes at once at most, and how long their calls may take together.
HELD = 16
QUICK_MS = 2


class Hand:
    """What one thread has taken. It has no lock: both queues have atomic operations.

    Attributes:
        held: Tasks whose calls have not begun. Another thread may take them back.
        finished: Calls that have returned, with their errors. Any thread may settle them.
        limit: How many tasks the thread may take now.
        begun: Counts the calls; `seen` is this count when `dispatch` looked last.
    """

    __slots__ = ("begun", "finished", "held", "limit", "seen")

    def __init__(self) -> None:
        self.held: deque[Task] = deque()
        self.finished: deque[tuple[Task, BaseException | None]] = deque()
        self.limit = 1
        self.begun = self.seen = 0


class ThreadCrew(Crew):
    """Daemon threads: a handler that never returns does not keep the process from ending.

    A thread reports outcomes and takes tasks in one step, with one entry into the lock. If its
    calls are quick and the queue is long, it takes several tasks. A slow call among them delays
    none of the others: an idle thread, or `dispatch`, takes them back. A thread wakes up at most
    one other thread, which does the same. Tasks that are done faster than a thread wakes up thus
    cost no wakeups.
    """

    def __init__(
        self,
        workload: Work,
        settings: CallSettings,
        clock: Clock,
        driver: Driver,
    ) -> None:
        super().__init__(workload, settings)
        self._clock = clock
        self._driver = driver
        self._lock = cast("threading.Lock", workload.lock)
        #: Released to wake up an idle thread. A condition would cost three times as much.
        self._wakeup = threading.Lock()
        self._wakeup.acquire()
        self._idle = 0
        #: Whether a thread was woken up and has not run yet.
        self._waking = False
        #: The retry for which an idle thread waits, on behalf of all; None if no thread does.
        self._timer_ms: int | None = None
        self._ended = False
        self._alive = 0
        #: Those that have taken more than one task.
        self._holders: set[Hand] = set()
        workload.on_settled = driver.notify

    def start(self) -> None:
        """Start the threads.

        Raises:
            RuntimeError: The system cannot start another thread.
        """
        count = self._settings.workers
        assert isinstance(count, int)  # noqa: S101 - executors have another crew
        for number in range(count):
            name = f"tandem-kafka-worker-{number}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._alive += 1
            try:
                thread.start()
            except BaseException:
                self._alive -= 1
                raise

    def _work(self) -> None:
        lock, call, clock = self._lock, self._call, self._clock
        hand = Hand()
        held, finished = hand.held, hand.finished
        try:
            while True:
                with lock:
                    self._holders.discard(hand)
                    self._settle(hand)
                    while (task := self._next(hand)) is None:
                        if self._ended:
                            return
                        self._wait()
                began_ms = clock.now_ms()
                while task is not None:
                    hand.begun += 1
                    error: BaseException | None = None
                    try:
                        call(task)
                    except BaseException as raised:  # noqa: BLE001 - settle() decides
                        error = raised
                    finished.append((task, error))
                    try:
                        task = held.popleft()  # another thread may take it at the same time
                    except IndexError:
                        task = None
                quick = clock.now_ms() - began_ms <= QUICK_MS
                hand.limit = min(2 * hand.limit, HELD) if quick else 1
        finally:
            with lock:
                self._settle(hand)
                self._alive -= 1
                if self._idle:
                    self._wake_one()  # so that it ends, too
            self._driver.notify()

    def _settle(self, hand: Hand) -> bool:
        """Report the calls that have returned; the caller holds the lock."""
        finished, settle = hand.finished, self._workload.settle
        found = bool(finished)
        while finished:
            settle(*finished.popleft())
        return found

    def _reclaim(self, hand: Hand) -> bool:
        """Settle what a thread has done, and take back what it has not begun."""
        found = self._settle(hand)
        while (task := _next_of(hand.held)) is not None:
            self._workload.take_back(task)
            found = True
        return found

    def _call(self, task: Task) -> None:
        settings = self._settings
        if task.error is not None:
            report(settings, task)
            return
        result = settings.handle(task.record if settings.batch == 1 else task.records)
        if result is not None:
            check_not_awaitable(settings.handle, result)

    def _next(self, hand: Hand) -> Task | None:
        """Return a task, if there is one. The caller holds the lock."""
        workload = self._workload
        while not self._ended:
            task = workload.take()
            if task is not None:
                if hand.limit > 1:
                    self._take_more(hand)
                if self._idle and (hand.held or workload.has_ready or self._needs_timer):
                    self._wake_one()
                return task
            if not sum(map(self._reclaim, tuple(self._holders))):
                break
        return None

    def _take_more(self, hand: Hand) -> None:
        """Take several tasks, and leave enough for the other threads."""
        workload = self._workload
        # An idle thread is woken up, and takes these back if it runs before they are done.
        takers = 1 if self._idle else 2 * self._alive
        share = workload.ready_count // takers
        for _ in range(min(hand.limit - 1, share)):
            task = workload.take()
            if task is None:
                return
            hand.held.append(task)
            self._holders.add(hand)

    @property
    def _needs_timer(self) -> bool:
        """Whether no thread waits for the next retry."""
        due_ms = self._workload.next_retry_ms
        return due_ms is not None and (self._timer_ms is None or due_ms < self._timer_ms)

    def _wake_one(self) -> None:
        """Wake up an idle thread, unless one is about to run; the caller holds the lock."""
        if not self._waking:
            with suppress(RuntimeError):  # after an interrupt, it may be released already
                self._wakeup.release()
            self._waking = True

    def _wait(self) -> None:
        """Wait until there may be a task. The caller holds the lock, and gets it back."""
        due_ms = self._workload.next_retry_ms if self._needs_timer else None
        timeout_s = RECHECK_S
        if due_ms is not None:
            self._timer_ms = due_ms
            timeout_s = max(0.0, min(RECHECK_S, (due_ms - self._clock.now_ms()) / 1_000))
        self._idle += 1
        self._lock.release()
        try:
            self._wakeup.acquire(timeout=timeout_s)
        finally:
            self._lock.acquire()
            self._idle -= 1
            self._waking = False
            if due_ms is not None and self._timer_ms == due_ms:
                self._timer_ms = None

    def dispatch(self) -> None:
        """Wake up a thread if a task is ready, also one that a slow call has kept back."""
        with self._lock:
            for hand in self._holders:
                if hand.begun == hand.seen and (hand.held or hand.finished):
                    self._reclaim(hand)
                hand.seen = hand.begun
            if self._idle and self._workload.has_ready:
                self._wake_one()

    def cancel(self, parts: Collection[Portion]) -> None:
        """Take back what threads have taken and not begun."""
        del parts
        with self._lock:
            for hand in self._holders:
                self._reclaim(hand)

    async def wait(self, ready: Callable[[], bool], deadline_ms: int) -> bool:
        """Block until `ready()` or the deadline."""
        return self._driver.wait(ready, deadline_ms)

    async def end(self, deadline_ms: int) -> None:
        """End the threads; those whose handler does not return in time end after it returns."""
        with self._lock:
            self._ended = True
            self._wake_one()
        self._driver.wait(lambda: self._alive == 0, deadline_ms)


def _next_of(held: deque[Task]) -> Task | None:
    """Return the next task; another thread may take it at the same time."""
    try:
        return held.popleft()
    except IndexError:
        return None
