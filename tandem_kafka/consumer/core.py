"""How the application thread asks and waits: one event, one future, one deadline."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any, NoReturn

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
from tandem_kafka.runtime import OwnerLock, Runtime

__all__ = ["Core"]

log = logging.getLogger(__name__)

#: The network thread fails what is overdue; only if it is stuck does this end the wait.
STUCK_MS = 30_000


class Core:
    """Owner, clock and the way to the network thread."""

    def __init__(self, config: Config, runtime: Runtime, link: EngineHandle) -> None:
        self.config = config
        self.link = link
        self.clock = runtime.clock
        self.driver = runtime.driver
        self.closing = False
        self.closed = False
        self._owner = OwnerLock()
        self._pid = os.getpid()
        # Writer: whoever calls wakeup(); taken back by the application thread.
        self._woken = False

    def start_network_thread(self) -> None:
        """Start the network thread.

        Raises:
            NetworkThreadError: The system has no thread to spare.
        """
        loop = self.link.loop
        try:
            self.driver.start(loop, f"tandem-kafka-network ({self.config.client_id})")
        except RuntimeError as error:
            loop.finish(error)
            raise loop.error() from error

    # --- one owner at a time -------------------------------------------------------------------

    def acquire(self) -> None:
        """Enter a method of the consumer.

        Raises:
            ForkedConsumerError: This process is a fork of the one that made the consumer.
            ConcurrentModificationError: Another thread is inside a method.
            ConsumerClosedError: The consumer has been closed.
            NetworkThreadError: The network thread has ended.
        """
        self.acquire_for_close()
        if self.closed:
            self.release()
            self.raise_closed()
        if self.link.loop.failure is not None:
            self.release()
            raise self.link.loop.error()

    def raise_closed(self) -> NoReturn:
        """Say that the consumer is closed."""
        msg = "This consumer has already been closed."
        raise ConsumerClosedError(msg)

    def acquire_for_close(self) -> None:
        """Enter, also when closed."""
        if os.getpid() != self._pid:
            msg = (
                f"this consumer was made in process {self._pid} and cannot be used in its fork "
                f"{os.getpid()}: its network thread and connections stayed behind; make a new one"
            )
            raise ForkedConsumerError(msg)
        if not self._owner.acquire():
            msg = (
                "KafkaConsumer is not safe for multi-threaded access: "
                f"{self._owner.describe()}; wakeup() is the one method for other threads"
            )
            raise ConcurrentModificationError(msg)

    def release(self) -> None:
        """Leave a method."""
        self._owner.release()

    @property
    def in_own_process(self) -> bool:
        """False after a fork."""
        return os.getpid() == self._pid

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
        self.link.queue.add(event)
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
        loop = self.link.loop
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
