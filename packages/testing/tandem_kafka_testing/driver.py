"""A driver without threads: waiting calls run the network loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tandem_kafka.runtime import Loop, Random, Waiter
from tandem_kafka_testing.network import SimTransport
from tandem_kafka_testing.scheduler import ParkableLoop, ParkedLoop, Scheduler

if TYPE_CHECKING:
    from tandem_kafka._native import Notifier


T = TypeVar("T")

#: How late the application thread may notice: the switch interval of the interpreter.
LATE_MS = 5


class SteppedDriver:
    """Parks the loop where a real thread sleeps, and steps it while the application waits.

    The work of a network thread during the application's own work happens when `wait` begins.
    After `wait`, up to two more steps, drawn from the seed, stand for a network thread that is
    faster than the application thread.

    Attributes:
        offloaded_ms: Shortest and longest duration of offloaded work.
    """

    def __init__(self, scheduler: Scheduler, transport: SimTransport, random: Random) -> None:
        self._scheduler = scheduler
        self._transport = transport
        self._random = random
        self.parked: ParkedLoop | None = None
        self.waiting: list[Waiter] = []
        # A simulation has one thread, which runs the network while the application waits.
        self.notifier: Notifier | None = None
        self.blocks_on: Notifier | None = None
        self.offloaded_ms = (0, 20)

    @property
    def iterations(self) -> int:
        """Number of iterations of the loop."""
        return self.parked.iterations if self.parked is not None else 0

    def start(self, loop: Loop, name: str) -> None:
        """Park the loop for the first time.

        Raises:
            TypeError: The loop cannot be parked: it has no `prepare` and `complete`.
        """
        if not isinstance(loop, ParkableLoop):
            msg = f"{loop!r} has no prepare() and complete()"
            raise TypeError(msg)
        self.parked = self._scheduler.park(name, loop, self._transport)
        self.parked.when_finished = self.notify

    @property
    def ended(self) -> bool:
        """Whether the loop has finished, or never started."""
        return self.parked is None or self.parked.finished

    def notify(self, *, first: bool = False) -> None:
        """Wake the waiting tasks. `wait` checks its condition after every step anyway."""
        del first
        for waiter in tuple(self.waiting):
            if waiter.locked():
                waiter.release()

    def wait(self, ready: Callable[[], bool], deadline_ms: int) -> bool:
        """Step until `ready()` or the deadline, then up to two steps more."""
        clock = self._scheduler.clock
        while not ready() and clock.now_ms() < deadline_ms:
            self._scheduler.step(deadline_ms)
        for _ in range(self._random.randrange(3)):
            self._scheduler.step(clock.now_ms() + self._random.randrange(LATE_MS))
        return ready()

    def offload(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Do the work later, on none of the simulated threads."""

        def run() -> None:
            try:
                result: T | BaseException = self._scheduler.run_outside(work)
            except Exception as error:  # noqa: BLE001 - handed to the caller
                result = error
            done(result)

        self._scheduler.after(self._random.randint(*self.offloaded_ms), run)

    def is_current(self) -> bool:
        """Return False: there is no network thread."""
        return False

    def join(self, deadline_ms: int) -> bool:
        """Step until the loop has ended."""
        parked, clock = self.parked, self._scheduler.clock
        if parked is None:
            return True
        while not parked.finished and clock.now_ms() < deadline_ms:
            self._scheduler.step(deadline_ms)
        return parked.finished
