"""The loop of `run()`: polls, hands out, and drains; and one run at a time, for all workers.

Invariant: the coroutines await only the methods of a port and a `Crew`. Those of threads block and
never suspend; those for asyncio suspend.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from tandem_kafka.errors import IllegalStateError, KafkaError
from tandem_kafka.logs import ClientNames, LinesOf
from tandem_kafka.runtime import Clock, Runtime
from tandem_kafka.workers.assignment import Portion
from tandem_kafka.workers.settings import CallSettings
from tandem_kafka.workers.work import Work

Until = Callable[[], object]

#: The longest poll, without and with a condition that must be checked.
POLL_MS = 1_000
CHECK_MS = 100
#: What is sent at the end of a run has at least this long, even if draining took all time.
COMMIT_MS = 5_000


class Crew:
    """Calls the handlers: threads, an executor, or tasks of an event loop.

    Attributes:
        next_ms: When `dispatch` must be called, for a crew that has no worker to wait for it.
    """

    next_ms: int | None = None

    def __init__(self, workload: Work, settings: CallSettings) -> None:
        self._workload = workload
        self._settings = settings

    def start(self) -> None:
        """Begin to call handlers."""

    def dispatch(self) -> None:
        """Hand ready tasks to idle workers."""
        raise NotImplementedError

    def cancel(self, parts: Collection[Portion]) -> None:
        """Take tasks of these partitions, or of this run, back whose calls have not begun."""

    async def wait(self, ready: Callable[[], bool], deadline_ms: int) -> bool:
        """Wait until `ready()` or the deadline; return `ready()`."""
        raise NotImplementedError

    async def end(self, deadline_ms: int) -> None:
        """End the workers, and wait for those that are idle until the deadline."""
        raise NotImplementedError


class Run:
    """One run of workers. `Control` and `ShareControl` know what is special to a kind of groups.

    An object serves one run. A handler that outlives its run thus finds nothing that it could
    change.
    """

    def __init__(self, workload: Work, crew: Crew, clock: Clock, drain_timeout_ms: float) -> None:
        self._workload = workload
        self._crew = crew
        self._clock = clock
        self._drain_ms = drain_timeout_ms
        self._stop_requested = self._cancelled = False

    # --- from any thread -----------------------------------------------------------------------

    def stop(self) -> None:
        """End the run."""
        self._stop_requested = True

    @property
    def done(self) -> int:
        """Number of records done."""
        return self._workload.done

    # --- the run -------------------------------------------------------------------------------

    async def run(self, until: Until | None, listener: Any = None) -> None:
        """Handle records until `stop`, `until()`, or a failure; then drain and commit."""
        deadline_ms = 0  # an end that is interrupted waits for nothing more
        try:
            failure = await self._handle(until, listener)
            # A cancelled task must end soon, so its handlers are cancelled without a drain.
            self._cancelled = isinstance(failure, CancelledError)
            end_ms = self._clock.after_ms(0 if self._cancelled else self._drain_ms)
            unsaved = await self.end(end_ms)
            deadline_ms = end_ms
        finally:
            # Invariant: behind everything that an interrupt may end.
            await self.conclude(deadline_ms)
        failure = failure or self._workload.failure or unsaved
        if failure is not None:
            raise failure

    async def _handle(self, until: Until | None, listener: Any) -> BaseException | None:
        """Handle records until the run is to end; return what has ended it, if it is an error."""
        try:
            await self.begin(listener)
            while not self._is_over(until):
                await self.step(CHECK_MS if until is not None else POLL_MS)
        except BaseException as error:  # noqa: BLE001 - raised again after the commit
            return error
        return None

    def _is_over(self, until: Until | None) -> bool:
        if self._stop_requested or self._workload.failure is not None:
            return True
        return until is not None and bool(until())

    async def end(self, deadline_ms: int) -> KafkaError | None:
        """Drain, and let the brokers know what is done; return the error if they do not."""
        with self._workload.lock:
            self._workload.stopped = True
        await self._drain_all(deadline_ms)
        return await self._save(deadline_ms)

    async def _drained(self, ready: Callable[[], bool], deadline_ms: int) -> bool:
        """Wait for handlers; return whether none is late. A cancelled run() drains nothing."""
        return await self._crew.wait(ready, deadline_ms) or self._cancelled

    def _left_ms(self, deadline_ms: int) -> int:
        return max(COMMIT_MS, deadline_ms - self._clock.now_ms())

    # --- what is special to a kind of groups ---------------------------------------------------

    async def begin(self, listener: Any) -> None:
        """Start the workers, and whatever brings records."""
        raise NotImplementedError

    async def step(self, longest_ms: int) -> None:
        """Poll once, and hand out the records."""
        raise NotImplementedError

    async def _drain_all(self, deadline_ms: int) -> None:
        """Drop the records that are queued, and wait for those that are running."""
        raise NotImplementedError

    async def _save(self, deadline_ms: int) -> KafkaError | None:
        """Let the brokers know what is done; return the error if they do not."""
        raise NotImplementedError

    async def conclude(self, deadline_ms: int) -> None:
        """Give back what is not done, and end the workers, whatever has ended the run."""
        raise NotImplementedError

    def give_back(self) -> None:
        """Give back what an interrupt has kept."""
        raise NotImplementedError


R = TypeVar("R", bound=Run)


class Runs(Generic[R]):
    """Keeps track of the runs."""

    _consumer: Any

    def __init__(self, runtime: Runtime, client: ClientNames) -> None:
        self._runtime = runtime
        self._client = client
        self._control: R | None = None
        self._in_progress = self._stop_requested = False
        #: Records done in earlier runs.
        self._done_before = 0

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Note that a run is in progress.

        Raises:
            IllegalStateError: Another one is.
        """
        if self._in_progress:
            raise IllegalStateError("run() is already in progress; call it again after it returns")
        self._in_progress = True
        try:
            if self._control is not None:
                self._control.give_back()  # if an interrupt has ended that
            self._done_before, self._control = self.done, None
            with LinesOf(self._client):
                yield
        finally:
            self._in_progress = self._stop_requested = False

    def _begin(self, control: R) -> None:
        self._control = control
        if self._stop_requested:  # before there was anything to stop
            control.stop()

    def stop(self) -> None:
        """End ``run()`` after a drain. Any thread, handler or signal handler may call this.

        Before ``run()``, this ends the next run as soon as it begins.
        """
        self._stop_requested = True
        control = self._control
        if control is not None:
            control.stop()

    @property
    def done(self) -> int:
        """Number of records done in all runs of this object, with those that were skipped.

        Those of a share group were accepted. What a commit of another run marks does not count.
        """
        control = self._control
        return self._done_before + (0 if control is None else control.done)

    def __repr__(self) -> str:
        """Show the consumer, and what has been done."""
        if not hasattr(self, "_consumer"):  # in a traceback of its constructor
            return f"<{type(self).__name__} without a consumer>"
        runs = "running" if self._in_progress else "not running"
        return f"<{type(self).__name__} of {self._consumer!r}: {runs}, records done: {self.done}>"
