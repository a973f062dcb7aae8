"""What ends the sleeps of tasks: news for their consumer, or the end of their time.

The network thread and the transport wake the event loop without running Python code: the loop
watches a file descriptor, which the notifier makes readable. Event loops that cannot watch one, and
consumers without a notifier, use `loop.call_soon_threadsafe`.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import TYPE_CHECKING

from tandem_kafka.runtime import Driver

if TYPE_CHECKING:
    from tandem_kafka._native import Notifier


class Alarm:
    """Wakes the tasks of one event loop that wait for one consumer; this one calls the loop.

    Invariant: a task arms it before it checks its condition, and sleeps without another `await`. A
    change therefore either precedes the check, or wakes the task.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, driver: Driver) -> None:
        self._loop = loop
        self._driver = driver
        self._armed = False
        #: The tasks that sleep, each with the time at which its sleep ends.
        self._sleeping: dict[asyncio.Future[None], float] = {}
        #: One timer for all of them. It stays if they wake up before, because most sleep again.
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf

    def arm(self) -> None:
        """Let the next notification wake the tasks. The condition must be checked afterwards."""
        self._armed = True
        if self not in self._driver.waiting:
            self._driver.waiting.append(self)

    def disarm(self) -> None:
        """End a wait: nothing is notified while no task sleeps."""
        if not self._sleeping:
            self._armed = False
            if self in self._driver.waiting:
                self._driver.waiting.remove(self)

    def locked(self) -> bool:
        """Tell whether it is armed."""
        return self._armed

    def release(self) -> None:
        """Wake the tasks; any thread or signal handler may call this."""
        self._armed = False
        with suppress(RuntimeError):  # the loop has been closed: nothing waits any more
            self._loop.call_soon_threadsafe(self._wake)

    async def sleep(self, left_ms: int) -> None:
        """Suspend until a notification, or for some milliseconds."""
        sleep = self._loop.create_future()
        now = self._loop.time()
        self._sleeping[sleep] = until = now + left_ms / 1000
        try:
            if not now < self._due <= until:  # in the past, if an interrupt has ended `_expire`
                self._set_timer(min(self._sleeping.values()))
            await sleep
        finally:
            self._sleeping.pop(sleep, None)

    def _wake(self) -> None:
        for sleep in self._sleeping:
            if not sleep.done():
                sleep.set_result(None)

    def _set_timer(self, due: float) -> None:
        self._stop_timer()
        # Invariant: the time is stored last. If an interrupt comes before, the next sleep sets it.
        self._timer = self._loop.call_at(due, self._expire)
        self._due = due

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._due = None, math.inf

    def _expire(self) -> None:
        due = self._due
        self._stop_timer()
        for sleep, until in self._sleeping.items():
            if until <= due and not sleep.done():
                sleep.set_result(None)
        if left := [until for until in self._sleeping.values() if until > due]:
            self._set_timer(min(left))

    def close(self) -> None:
        """Release what belongs to the system, once no task sleeps."""
        if not self._sleeping:
            self._stop_timer()


class WatchedAlarm(Alarm):
    """The event loop watches the file descriptor of a notifier.

    Raises:
        NotImplementedError: The event loop cannot watch file descriptors.
        OSError: There are too many of them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, driver: Driver, notifier: Notifier) -> None:
        super().__init__(loop, driver)
        self._notifier = notifier
        self._closing = False
        #: None once it is closed: the system may have given the number to another file.
        self._descriptor: int | None = notifier.open_alarm()
        try:
            loop.add_reader(self._descriptor, self._notified)
        except BaseException:
            notifier.close_alarm()
            raise

    def arm(self) -> None:
        """Let the next notification wake the tasks. The condition must be checked afterwards."""
        self._notifier.arm()

    def disarm(self) -> None:
        """End a wait. While no task sleeps, a notification needs no system call."""
        if not self._sleeping:
            self._notifier.disarm()
            if self._closing:
                self.close()

    def _notified(self) -> None:
        # Invariant: quiet before the tasks continue, so that what comes meanwhile wakes them again.
        self._notifier.quiet()
        self._wake()

    def close(self) -> None:
        """Release the file descriptor, once no task sleeps."""
        super().close()
        self._closing = True
        descriptor = self._descriptor
        if descriptor is not None and not self._sleeping:
            self._descriptor = None
            with suppress(RuntimeError):  # the loop has been closed, and watches nothing
                self._loop.remove_reader(descriptor)
            self._notifier.close_alarm()


def alarm_for(loop: asyncio.AbstractEventLoop, driver: Driver) -> Alarm:
    """Return a new alarm; the driver keeps its notifier only if the event loop can watch it."""
    if driver.notifier is not None:
        with suppress(NotImplementedError, OSError):
            return WatchedAlarm(loop, driver, driver.notifier)
        driver.notifier = None
    return Alarm(loop, driver)
