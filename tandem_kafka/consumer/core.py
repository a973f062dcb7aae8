"""How the application thread asks and waits: one event, one future, one deadline."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final, NoReturn, TypeVar

from tandem_kafka.config import Config
from tandem_kafka.engine.handle import EngineHandle
from tandem_kafka.errors import (
    ConcurrentModificationError,
    ConsumerClosedError,
    ForkedConsumerError,
    InvalidArgumentError,
    InvalidGroupIdError,
    KafkaTimeoutError,
    WakeupError,
)
from tandem_kafka.events.application import ApplicationEvent
from tandem_kafka.events.completable import NO_DEADLINE_MS
from tandem_kafka.runtime import Held, OwnerLock, Runtime, thread_name

__all__ = ["Core", "guarded"]

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

#: The functions that enter a core; each calls it `core`.
_GUARDED: Final[set[CodeType]] = set()

#: The network thread fails what is overdue; only if it is stuck does this end the wait.
STUCK_MS = 30_000


class _Process:
    """This process. Asking the system for its number would be a system call for each record."""

    def __init__(self) -> None:
        self.look()
        if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
            os.register_at_fork(after_in_child=self.look)

    def look(self) -> None:
        """Note the number of the process."""
        self.pid = os.getpid()


_process: Final = _Process()


def guarded(function: F) -> F:
    """Mark a function that enters a core, which its local variable `core` names.

    By this a thread that is turned away finds out whether another one is inside, or has only
    left the lock behind because an interrupt ended the function.
    """
    _GUARDED.add(function.__code__)
    return function


class Core:
    """Owner, clock and the way to the network thread."""

    def __init__(self, config: Config, runtime: Runtime, engine: EngineHandle) -> None:
        self.config = config
        self.engine = engine
        self.clock = runtime.clock
        self.driver = runtime.driver
        self.closing = False
        self.closed = False
        self._owner = OwnerLock()
        self._pid = _process.pid
        # Writer: whoever calls wakeup(); taken back by the application thread.
        self._woken = False

    def start_network_thread(self) -> None:
        """Start the network thread.

        Raises:
            NetworkThreadError: The system has no thread to spare.
        """
        loop = self.engine.loop
        try:
            self.driver.start(loop, f"tandem-kafka-network ({self.config.client_id})")
        except RuntimeError as error:
            loop.finish(error)
            raise loop.error() from error

    # --- one owner at a time -------------------------------------------------------------------

    def acquire(self) -> Held:
        """Enter a method of the consumer; returns what to release at its end.

        Raises:
            ForkedConsumerError: This process is a fork of the one that made the consumer.
            ConcurrentModificationError: Another thread is inside a method.
            ConsumerClosedError: The consumer has been closed.
            NetworkThreadError: The network thread has ended.
        """
        held = self.acquire_for_close()
        if self.closed:
            held.release()
            self.raise_closed()
        if self.engine.loop.failure is not None:
            held.release()
            raise self.engine.loop.error()
        return held

    def raise_closed(self) -> NoReturn:
        """Say that the consumer is closed."""
        msg = "This consumer has already been closed."
        raise ConsumerClosedError(msg)

    def acquire_for_close(self) -> Held:
        """Enter, also when closed."""
        if self._pid != _process.pid:
            msg = (
                f"this consumer was made in process {self._pid} and cannot be used in its fork "
                f"{_process.pid}: its network thread and connections stayed behind; make a new one"
            )
            raise ForkedConsumerError(msg)
        return self._owner.acquire() or self._take_over()

    def _take_over(self) -> Held:
        held = self._owner.take_over(self._inside)
        if isinstance(held, str):
            msg = (
                "KafkaConsumer is not safe for multi-threaded access: thread "
                f"{thread_name()!r} called while {held!r} is inside; wakeup() is the one method "
                "for other threads"
            )
            raise ConcurrentModificationError(msg)
        return held

    def _inside(self, frame: FrameType) -> bool:
        """Tell whether a stack frame is one of a method of this consumer."""
        return frame.f_code in _GUARDED and frame.f_locals.get("core") is self

    @property
    def in_own_process(self) -> bool:
        """False after a fork."""
        return self._pid == _process.pid

    # --- time ----------------------------------------------------------------------------------

    def deadline_ms(self, timeout_ms: float | None) -> int:
        """Return when a call with this timeout must end; None takes `default_api_timeout_ms`."""
        if timeout_ms is None:
            timeout_ms = self.config.default_api_timeout_ms
        if timeout_ms < 0:
            msg = f"timeout_ms must not be negative, got {timeout_ms!r}"
            raise InvalidArgumentError(msg)
        return self.clock.now_ms() + int(min(timeout_ms, NO_DEADLINE_MS // 2))

    # --- asking and waiting --------------------------------------------------------------------

    def ask(self, event: ApplicationEvent, *, interruptible: bool = False) -> Any:
        """Send an event and wait for its result.

        Raises:
            WakeupError: `wakeup()` was called and this call may be ended by it.
            KafkaError: Whatever the event ended with; KafkaTimeoutError past its deadline.
        """
        if interruptible:
            self.raise_if_woken()
        self.engine.queue.add(event)
        future = event.future
        limit_ms = min(event.deadline_ms, NO_DEADLINE_MS // 2) + STUCK_MS
        self.wait(lambda: future.done, limit_ms, interruptible=interruptible)
        if not future.done:
            msg = f"the network thread did not answer {event.operation}"
            raise KafkaTimeoutError(msg)
        return future.result()

    def wait(
        self, ready: Callable[[], bool], deadline_ms: int, *, interruptible: bool = True
    ) -> None:
        """Block until `ready()`, the deadline, or the end of the network thread.

        Raises:
            WakeupError: `wakeup()` was called and this wait may be ended by it.
            NetworkThreadError: The network thread has ended.
        """
        loop = self.engine.loop
        if not interruptible:
            self.driver.wait(lambda: ready() or loop.finished, deadline_ms)
        else:
            self.driver.wait(lambda: ready() or self._woken or loop.finished, deadline_ms)
        if ready():
            return
        if interruptible:
            self.raise_if_woken()
        if loop.finished:
            raise loop.error()

    def wakeup(self) -> None:
        """End the running or the next interruptible wait. Any thread, any signal handler."""
        self._woken = True
        self.driver.notify()

    def raise_if_woken(self) -> None:
        """Raise if `wakeup()` was called; once."""
        if self._woken:
            self._woken = False
            msg = "wakeup() was called"
            raise WakeupError(msg)

    # --- the group -----------------------------------------------------------------------------

    def require_group(self) -> None:
        """Raise if there is no group.

        Raises:
            InvalidGroupIdError: `group_id` was not given.
        """
        if self.config.group_id is None:
            msg = (
                "To use the group management or offset commit APIs, "
                "you must provide group_id in the consumer configuration"
            )
            raise InvalidGroupIdError(msg)
