"""How the application sends an event and waits for its future until a deadline."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from tandem_kafka.config import Config
from tandem_kafka.consumer.arguments import check_wait
from tandem_kafka.errors import (
    ConcurrentModificationError,
    ConsumerClosedError,
    ForkedConsumerError,
    KafkaTimeoutError,
    NoGroupError,
    WakeupError,
)
from tandem_kafka.events.application import Event, Withdraw
from tandem_kafka.events.completable import NO_DEADLINE_MS
from tandem_kafka.logs import ClientNames
from tandem_kafka.runtime import Runtime
from tandem_kafka.runtime.callers import Callers, Held, Inside, OtherHolder, let_go
from tandem_kafka.runtime.process import PROCESS

if TYPE_CHECKING:
    from tandem_kafka.engine.handle import EngineHandle

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")

#: Code of the functions that enter a core; each has it in a local variable named `core`.
_GUARDED: Final[set[CodeType]] = set()

#: Code of the methods of a core that wait to enter it.
_ENTERING: Final[set[CodeType]] = set()

#: How often a caller that waits for another one checks its condition again.
RECHECK_MS = 250

#: The network thread fails overdue events. This bound only ends a wait if that thread is stuck.
STUCK_MS = 30_000

#: How long a call that must finish still waits for brokers after its task was cancelled.
HURRIED_MS = 1_000


def guarded(function: F) -> F:
    """Mark a function that enters the core in its local variable `core`.

    A thread that cannot get the lock searches the other stacks for such functions. If there is
    none, an interrupt ended the function before it could release the lock.

    Raises:
        TypeError: The function has no such variable, so that its lock would not be found.
    """
    _require_local(function.__code__, "core")
    _GUARDED.add(function.__code__)
    return function


def _entering(method: F) -> F:
    """Mark a method of a core that waits to enter it, for the first time or again.

    It has in its local variable `outside` whether its caller holds no lock and tries to get none
    at the moment. Only the threads that search its stack read it.

    Raises:
        TypeError: The method has no such variable.
    """
    _require_local(method.__code__, "outside")
    _ENTERING.add(method.__code__)
    return method


def _require_local(code: CodeType, name: str) -> None:
    if name not in (*code.co_varnames, *code.co_cellvars):
        raise TypeError(f"{code.co_qualname} needs a local variable named {name}")


class Core:
    """The lock of the reader, the clock, and the connection to the network thread."""

    # Those that each poll() reads have slots.
    __slots__ = ("__dict__", "__weakref__", "closed", "reader")

    def __init__(
        self, config: Config, runtime: Runtime, callers: Callers, engine: EngineHandle
    ) -> None:
        self.config = config
        self.engine = engine
        self.clock = runtime.clock
        self.driver = runtime.driver
        self.callers = callers
        self.closing = False
        self.closed = False
        self._owner = callers.lock()
        #: Callers that change the subscription or close, or wait for the reader to let them in.
        self._suspending: list[Suspending] = []
        self._suspensions = 0
        self._pid = PROCESS.pid
        #: The caller that is inside poll() or iteration, if any.
        self.reader: Hashable | None = None
        # Set by the thread that calls wakeup(), reset by the caller that it wakes.
        self._woken = False

    def start_network_thread(self) -> None:
        """Start the network thread.

        Raises:
            NetworkThreadError: The system cannot start another thread.
        """
        loop = self.engine.loop
        try:
            self.driver.start(loop, f"tandem-kafka-network ({self.config.client_id})")
        except RuntimeError as error:
            loop.finish(error)
            raise loop.error() from error

    @property
    def client(self) -> ClientNames:
        """The names of this consumer, for its lines in the log."""
        return self.engine.group.client

    # --- access --------------------------------------------------------------------------------

    def check_usable(self) -> None:
        """Raise if the consumer can no longer be used. Any thread may call this.

        Raises:
            ForkedConsumerError: This process is a fork of the one that made the consumer.
            IllegalStateError: The consumer belongs to another event loop.
            ConsumerClosedError: The consumer has been closed.
            NetworkThreadError: The network thread has ended.
        """
        self.callers.check()
        if self.closed:
            self.check_process()
            self.raise_closed()
        self.check_readable()

    def check_readable(self) -> None:
        """Raise if cached state may be wrong. The state of a closed consumer can still be read.

        Raises:
            ForkedConsumerError: This process is a fork of the one that made the consumer.
            NetworkThreadError: The network thread has ended.
        """
        self.check_process()
        if self.engine.loop.failure is not None:
            raise self.engine.loop.error()

    def check_process(self) -> None:
        """Raise if this process is a fork.

        Raises:
            ForkedConsumerError: This process is a fork of the one that made the consumer.
        """
        if self._pid != PROCESS.pid:
            raise ForkedConsumerError.between(self._pid, PROCESS.pid)

    def raise_closed(self) -> NoReturn:
        """Raise the error of a closed consumer."""
        msg = "This consumer has already been closed."
        raise ConsumerClosedError(msg)

    def enter(self) -> Held | None:
        """Enter as the reader if no other caller is inside; return the lock to release afterwards.

        Each poll() does this first, so it is no coroutine.

        Raises:
            KafkaError: As `check_usable` does.
        """
        if self._pid != PROCESS.pid:
            self.check_process()
        if self.callers.cancellable:  # any thread can wait
            self.callers.check()
        held = self._owner.acquire()
        if held is not None and (self.closed or self.engine.loop.failure is not None):
            held.release()
            self.check_usable()
        return held

    async def acquire(self) -> Held:
        """Enter as the reader, for poll() or iteration; return the lock to release afterwards.

        Raises:
            ConcurrentModificationError: Another thread is reading.
            KafkaError: As `check_usable` does.
        """
        held = self.enter() or await self._acquire_contended()
        if self.closed or self.engine.loop.failure is not None:
            held.release()
            self.check_usable()
        return held

    @_entering
    async def _acquire_contended(self) -> Held:
        """Wait until callers that suspend it have left; raise if another reader is inside."""
        while True:
            suspensions, suspended, outside = self._suspensions, bool(self._suspending), False
            held = self._owner.acquire() or self._owner.take_over(self._inside)
            if not isinstance(held, OtherHolder):
                return held
            outside = True  # noqa: F841
            if self.closing:
                self.raise_closed()
            if not suspended and suspensions == self._suspensions:  # only a reader can hold it
                raise self._concurrent(f"{held.name!r}")
            recheck_ms = self.clock.now_ms() + RECHECK_MS
            await self.callers.wait(lambda: not self._suspending, recheck_ms)

    def check_no_other(self, inside: Inside) -> None:
        """Raise if another thread has a frame on its stack for which `inside` is true.

        Tasks need no search: nothing is awaited in such a frame.

        Raises:
            ConcurrentModificationError: Another thread is.
        """
        if not self.callers.cancellable and not self._owner.nobody_else(inside):
            raise self._concurrent("another thread")

    def _concurrent(self, other: str) -> ConcurrentModificationError:
        kind = self.callers.kind
        return ConcurrentModificationError(
            f"{kind} {self.callers.name()!r} called poll() while {other} is reading; "
            f"only one {kind} at a time may poll or iterate over a consumer: use one "
            f"consumer per {kind} (any {kind} may call the other methods)"
        )

    @_entering
    async def suspend_poll(self, deadline_ms: int) -> Suspension | None:
        """Enter to change what is read; the reader gives way at its next opportunity.

        Returns:
            The suspension to release afterwards, or None if the reader did not give way in time.
        """
        self.check_process()
        self.callers.check()
        caller = Suspending(self.callers.current())
        held: list[Held] = []
        outside = False

        def inside() -> bool:
            nonlocal outside
            if not held:
                outside = False
                found = self._owner.acquire() or self._owner.take_over(self._inside)
                if not isinstance(found, OtherHolder):
                    held.append(found)
            outside = not held
            return bool(held)

        suspension: Suspension | None = None
        try:
            self._suspending.append(caller)
            self._suspensions += 1
            if not inside():
                self._call_reader()
                await self.callers.wait(inside, deadline_ms)
            if held:
                suspension = Suspension(self._suspending, caller, held[0], self.callers)
        finally:
            if suspension is None:
                discard(self._suspending, caller)
                for each in held:  # an interrupt came behind it
                    each.release()
        return suspension

    @property
    def suspended(self) -> bool:
        """Whether another caller is waiting to enter."""
        if not self._suspending:
            return False
        current = self.callers.current()
        return any(each.caller != current for each in tuple(self._suspending))

    @_entering
    async def give_way(self, held: Held) -> None:
        """Let callers suspend the reader, then continue; for its outermost method only.

        If a task is cancelled meanwhile, `held` stays released.
        """
        self._owner.give_up(held, self._guarded)
        try:
            outside = True
            self.callers.notify()
            await self.callers.wait(self._alone, self.clock.now_ms() + STUCK_MS)
            outside = False
        except BaseException:
            outside = False  # noqa: F841
            if not self.callers.cancellable:
                await self._regain(held)
            raise
        await self._regain(held)

    @_entering
    async def _regain(self, held: Held) -> None:
        """Acquire the lock again. Another reader may have come first; it leaves without notice."""
        regained = outside = False

        def regain() -> bool:
            nonlocal regained, outside
            outside = False
            regained = regained or self._owner.regain(held, self._inside)
            outside = not regained
            return regained

        while not regain():
            await self.callers.wait(regain, self.clock.now_ms() + RECHECK_MS)

    @property
    def outer_reader(self) -> Hashable | None:
        """The reader whose listener calls poll() again; None if an interrupt has left it there."""
        return self.reader if self._owner.is_nested(self._guarded) else None

    def _alone(self) -> bool:
        if self.callers.cancellable:
            self._suspending.extend(let_go(self._suspending))
            return not self._suspending
        before = tuple(self._suspending)  # others may come while the stacks are searched
        if before and self._owner.nobody_else(self._guarded):
            for caller in before:  # an interrupt ended a suspension before its release
                discard(self._suspending, caller)
        return not self._suspending

    def _guarded(self, frame: FrameType) -> bool:
        """Tell whether a stack frame belongs to a method of this consumer."""
        return frame.f_code in _GUARDED and frame.f_locals.get("core") is self

    def _inside(self, frame: FrameType) -> bool | None:
        """Tell the same; None if the caller waits to enter the method, and holds no lock.

        Otherwise two that wait would each take the other one for the holder of an abandoned lock.
        """
        if frame.f_code in _ENTERING and frame.f_locals["self"] is self:
            return None if frame.f_locals.get("outside") else False
        return self._guarded(frame)

    @property
    def in_own_process(self) -> bool:
        """False after a fork."""
        return self._pid == PROCESS.pid

    # --- time ----------------------------------------------------------------------------------

    def deadline_ms(self, timeout_ms: float | None) -> int:
        """Return the deadline for a timeout; None means `default_api_timeout_ms`."""
        if timeout_ms is None:
            timeout_ms = self.config.default_api_timeout_ms
        try:
            valid = timeout_ms >= 0
        except TypeError:
            valid = False
        if not valid:
            check_wait("timeout_ms", timeout_ms)
        return self.clock.after_ms(min(timeout_ms, NO_DEADLINE_MS // 2))

    # --- events and waiting --------------------------------------------------------------------

    def ask_now(self, event: Event[R]) -> R:
        """Send an event that needs no broker, and block until the network thread has processed it.

        Event loops block as well, for well under a millisecond. Otherwise `pause()` would need
        `await`, or `paused()` would not show what it did.

        Raises:
            KafkaError: The error of the event; KafkaTimeoutError after its deadline.
        """
        self.engine.queue.add(event)
        loop = self.engine.loop
        limit_ms = self._limit_ms(event)
        self.driver.wait(lambda: event.future.done or loop.finished, limit_ms)
        return self._result(event)

    async def ask(self, event: Event[R], *, interruptible: bool = False) -> R:
        """Send an event and wait for its result.

        Invariant: what ends the wait withdraws the event. Otherwise a cancelled commit, for
        example, would be retried until its deadline, and delay the next ones.

        Raises:
            WakeupError: `wakeup()` was called and the call is interruptible.
            KafkaError: The error of the event; KafkaTimeoutError after its deadline.
        """
        if interruptible:
            self.raise_if_woken()
        try:
            self.engine.queue.add(event)
            return await self.result(event, interruptible=interruptible)
        except BaseException:
            if not event.future.done:
                self.engine.queue.add(Withdraw(event=event))
            raise

    async def result(self, event: Event[R], *, interruptible: bool = False) -> R:
        """Wait for the result of an event that was sent; what ends the wait leaves the event.

        Raises:
            WakeupError: `wakeup()` was called and the call is interruptible.
            KafkaError: The error of the event; KafkaTimeoutError after its deadline.
        """
        future, limit_ms = event.future, self._limit_ms(event)
        await self.wait(lambda: future.done, limit_ms, interruptible=interruptible)
        if not future.done and self.callers.hurried_since_ms() is not None:
            deadline_ms = self.clock.now_ms() + HURRIED_MS
            self.ask_now(Withdraw(event=event, deadline_ms=deadline_ms))
        return self._result(event)

    @staticmethod
    def _limit_ms(event: Event[Any]) -> int:
        return min(event.deadline_ms, NO_DEADLINE_MS // 2) + STUCK_MS

    def _result(self, event: Event[R]) -> R:
        if event.future.done:
            return event.future.result()
        if self.engine.loop.finished:
            raise self.engine.loop.error()
        msg = (
            f"the network thread did not process {event.operation} within "
            f"{STUCK_MS} ms of its deadline; it may be blocked"
        )
        raise KafkaTimeoutError(msg)

    async def wait(
        self, ready: Callable[[], bool], deadline_ms: int, *, interruptible: bool = True
    ) -> None:
        """Wait until `ready()` is true, the deadline passes or the network thread ends.

        Raises:
            WakeupError: `wakeup()` was called and the wait is interruptible.
            NetworkThreadError: The network thread has ended.
        """
        loop, callers = self.engine.loop, self.callers
        if not interruptible:

            def over() -> bool:
                return ready() or loop.finished

            def hurried() -> bool:
                return over() or callers.hurried_since_ms() is not None

            await callers.wait(hurried, deadline_ms)
            since_ms = callers.hurried_since_ms()
            if since_ms is not None:
                # The call must finish, but its caller waits for brokers no longer.
                await callers.wait(over, min(deadline_ms, since_ms + HURRIED_MS))
        else:
            await self.callers.wait(lambda: ready() or self.woken or loop.finished, deadline_ms)
        if ready():
            return
        if interruptible:
            self.raise_if_woken()
        if loop.finished:
            raise loop.error()

    def wakeup(self) -> None:
        """End the current or the next interruptible wait; for any thread or signal handler."""
        self._woken = True
        self._call_reader()

    def _call_reader(self) -> None:
        self.engine.polls.request_attention()
        self.callers.notify()

    @property
    def woken(self) -> bool:
        """Whether `wakeup()` was called for this caller.

        Invariant: it is for the reader, if there is one, and does not end a commit of a worker.
        """
        return self._woken and self.reader in (None, self.callers.current())

    def raise_if_woken(self) -> None:
        """Raise once for each `wakeup()`."""
        if self._woken and self.woken:
            self._woken = False
            msg = "wakeup() was called"
            raise WakeupError(msg)

    # --- the group -----------------------------------------------------------------------------

    def require_group(self) -> None:
        """Raise if the consumer has no group.

        Raises:
            NoGroupError: `group_id` was not given.
        """
        if self.config.group_id is None:
            msg = (
                "the consumer has no group_id, which commits and the calls of a group need; create "
                "it with group_id=..."
            )
            raise NoGroupError(msg)


class Suspending:
    """A caller that suspends the reader, or waits to: one object for each suspension."""

    def __init__(self, caller: Hashable) -> None:
        self.caller = caller


def discard(suspending: list[Suspending], caller: Suspending) -> None:
    """Remove a caller, if it has not been removed."""
    with suppress(ValueError):  # a reader has removed it
        suspending.remove(caller)


class Suspension:
    """Exclusive access of a caller that interrupted the reader, until it is released."""

    def __init__(
        self, suspending: list[Suspending], caller: Suspending, held: Held, callers: Callers
    ) -> None:
        self._suspending = suspending
        self._caller = caller
        self._held = held
        self._callers = callers

    def release(self) -> None:
        """Leave, and let the reader continue."""
        self._held.release()
        discard(self._suspending, self._caller)
        self._callers.notify()
